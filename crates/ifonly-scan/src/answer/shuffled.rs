//! The form values of a shuffled answer, and how they get to their positions.
//!
//! A first pass over the rows keeps the values of all rows. With the keys of the order it sends each to its bucket of
//! [`Shuffle`]. A bucket is brought into its final order only when the answer reaches it, in a window of few positions, so
//! that its values are in the cache for that and for what follows. With a finished order ([`Order::Picked`]) the values
//! stay where they are and are picked one by one.

use super::Scanner;
use crate::memory::{self, AlignedBytes};
use crate::plan::{AnyProgram, Order, Plan};
use crate::store::RowStore;
use crate::tile::{Gathered, Scratch};
use ifonly_core::order::Shuffle;
use rayon::prelude::*;
use std::ops::Range;

/// The form values of one query; none if it is not shuffled.
pub(super) struct Values {
    /// Of all rows: in stored order if they will be picked, else in their buckets.
    pub(super) all: AlignedBytes,
    /// In final order from position `first` on, as far as `buckets` buckets go.
    window: Vec<u32>,
    first: usize,
    buckets: usize,
}

impl Values {
    /// What a tile inside the window reads.
    pub(super) fn gathered<'v>(&'v self, plan: &'v Plan<'_>) -> Option<Gathered<'v>> {
        plan.shuffle.as_ref().map(|(_, order)| match order {
            Order::Picked(order) => Gathered::Picked { values: self.all.words(), order },
            Order::Moved(_) => Gathered::Moved { values: &self.window, first: self.first },
        })
    }
}

impl Scanner {
    /// The first pass of a query.
    pub(super) fn values(&self, store: &RowStore, plan: &Plan<'_>) -> Values {
        let words = plan.shuffle.as_ref().map_or(0, |(program, _)| program.words_per_row());
        // In huge pages: where values are picked or placed at random, every small page would cost a translation.
        let mut all = self.spare.take(store.rows() * words * 4);
        let out = &mut all.words_mut()[..store.rows() * words];
        match &plan.shuffle {
            None => {}
            Some((program, Order::Picked(_))) => {
                self.each_chunk(out, self.span_rows * words, |span, out, scratch| {
                    program.write_rows(self.kernels, span * self.span_rows, out, scratch);
                });
            }
            Some((program, Order::Moved(shuffle))) => match words {
                1 => self.scatter::<1>(program, shuffle, out),
                2 => self.scatter::<2>(program, shuffle, out),
                _ => self.scatter::<4>(program, shuffle, out),
            },
        }
        Values { all, window: vec![], first: 0, buckets: 0 }
    }

    /// Values of W words per row into their buckets.
    fn scatter<const W: usize>(&self, program: &AnyProgram<'_>, shuffle: &Shuffle<'_>, out: &mut [u32]) {
        let out = out.as_chunks_mut::<W>().0;
        let rows = out.len();
        let mut scatter = shuffle.scatter();
        let (mut places, mut scratch) = (vec![0; self.kernels.tile_rows()], Scratch::default());
        for wave in self.waves(rows.div_ceil(self.span_rows)) {
            let computed = self.map_spans(wave, &mut scratch, |span, scratch| {
                let start = span * self.span_rows;
                let mut words = vec![0; self.span_rows.min(rows - start) * W];
                program.write_rows(self.kernels, start, &mut words, scratch);
                words
            });
            for items in computed.iter().flat_map(|words| words.as_chunks::<W>().0.chunks(self.kernels.tile_rows())) {
                let places = &mut places[..items.len()];
                scatter.places(places);
                memory::scatter(places, items, out);
            }
        }
    }

    /// Moves the window on to these positions.
    pub(super) fn order_values(&self, plan: &Plan<'_>, values: &mut Values, positions: Range<usize>) {
        let Some((program, Order::Moved(shuffle))) = &plan.shuffle else { return };
        match program.words_per_row() {
            1 => self.order_buckets::<1>(shuffle, values, positions),
            2 => self.order_buckets::<2>(shuffle, values, positions),
            _ => self.order_buckets::<4>(shuffle, values, positions),
        }
    }

    fn order_buckets<const W: usize>(&self, shuffle: &Shuffle<'_>, values: &mut Values, positions: Range<usize>) {
        let Values { all, window, first, buckets } = values;
        let passed = (positions.start - *first) * W;
        window.drain(..passed.min(window.len()));
        *first = positions.start;
        let new: Vec<(usize, Range<usize>)> = shuffle
            .buckets()
            .into_iter()
            .enumerate()
            .skip(*buckets)
            .take_while(|b| b.1.start < positions.end)
            .collect();
        *buckets += new.len();
        let kept = window.len();
        let moved = new.first().map_or(0, |b| b.1.start)..new.last().map_or(0, |b| b.1.end);
        window.extend_from_slice(&all.words()[moved.start * W..moved.end * W]);
        let (mut rest, _) = window[kept..].as_chunks_mut::<W>();
        let mut work = vec![];
        for (number, range) in new {
            let (bucket, tail) = rest.split_at_mut(range.len());
            work.push((number, bucket));
            rest = tail;
        }
        let order = |(number, bucket): (usize, &mut [[u32; W]])| shuffle.shuffle_bucket(number, bucket);
        match &self.pool {
            Some(pool) => pool.install(|| work.into_par_iter().for_each(order)),
            None => work.into_iter().for_each(order),
        }
    }
}
