//! The form values of a shuffled answer, and how they get to their positions.
//!
//! A first pass over the rows keeps the values of all rows. With the keys of the order it sends each to its bucket of
//! [`Shuffle`], in parts of the rows that threads do on their own. A bucket is put together and brought into its final order only
//! when the answer reaches it, in a window of few positions, so that its values are in the cache for that and for
//! what follows. With a finished order ([`Placement::Picked`]) the values stay where they are and are picked one by one.

use super::Scanner;
use crate::memory::{self, AlignedBytes};
use crate::parts::PartError;
use crate::plan::{Placement, Plan, ValueSource};
use crate::tile::{Gathered, Scratch};
use ifonly_algebra::order::Shuffle;
use rayon::prelude::*;
use std::ops::Range;

/// Rows of a part. Its 256 buckets fill at the same pace, so they must not begin at multiples of 4096 bytes of each other, where
/// all would want the same few lines of the cache: 0.38·2^18 and 1.38·2^18 rows of 4, 8 or 16 bytes keep them apart.
const PART_ROWS: [usize; 2] = [99_584, 361_728];

/// The form values of one query; none if it is not shuffled.
pub(super) struct FormValues {
    /// Of all rows: in stored order if they will be picked, else part by part in their buckets.
    pub(super) all: AlignedBytes,
    part_rows: usize,
    /// The places of each bucket in each part.
    parts: Vec<Vec<Range<usize>>>,
    /// In final order from position `first` on, as far as `buckets` buckets go, which end at position `end`.
    window: Vec<u32>,
    first: usize,
    buckets: usize,
    end: usize,
}

impl FormValues {
    /// What a tile inside the window reads.
    pub(super) fn gathered<'v>(&'v self, plan: &'v Plan<'_>) -> Option<Gathered<'v>> {
        plan.values.as_ref().map(|(_, placement)| match placement {
            Placement::Picked(order) => Gathered::Picked { values: self.all.words(), order },
            Placement::Moved(_) | Placement::Stored => Gathered::Moved { values: &self.window, first: self.first },
        })
    }
}

impl Scanner {
    /// The first pass of a query.
    pub(super) fn values(&self, rows: usize, plan: &Plan<'_>) -> Result<FormValues, PartError> {
        let words = match &plan.values {
            None | Some((_, Placement::Stored)) => 0,
            Some((source, _)) => source.words_per_row(),
        };
        // In huge pages: where values are picked or placed at random, every small page would cost a translation.
        let mut all = self.spare.take(rows * words * 4);
        let out = &mut all.words_mut()[..rows * words];
        let [short, long] = PART_ROWS;
        let part_rows = if rows < 4 * self.threads * long { short } else { long };
        let parts = match &plan.values {
            None | Some((_, Placement::Stored)) => vec![],
            Some((source, Placement::Picked(_))) => {
                let written = self.map_chunks(out, self.span_rows * words, |span, out, scratch| {
                    source.write_rows(span * self.span_rows, out, scratch)
                });
                written.into_iter().collect::<Result<(), _>>()?;
                vec![]
            }
            Some((source, Placement::Moved(shuffle))) => {
                let scattered = self.map_chunks(out, part_rows * words, |part, out, scratch| match words {
                    1 => self.scatter::<1>(source, shuffle, part * part_rows, out, scratch),
                    2 => self.scatter::<2>(source, shuffle, part * part_rows, out, scratch),
                    _ => self.scatter::<4>(source, shuffle, part * part_rows, out, scratch),
                });
                scattered.into_iter().collect::<Result<_, _>>()?
            }
        };
        Ok(FormValues { all, part_rows, parts, window: vec![], first: 0, buckets: 0, end: 0 })
    }

    /// FormValues of W words per row into the buckets of a part, whose places it returns.
    fn scatter<const W: usize>(
        &self,
        source: &ValueSource<'_>,
        shuffle: &Shuffle<'_>,
        start: usize,
        out: &mut [u32],
        scratch: &mut Scratch,
    ) -> Result<Vec<Range<usize>>, PartError> {
        let out = out.as_chunks_mut::<W>().0;
        let mut scatter = shuffle.scatter(start..start + out.len());
        let tile = source.rows_at_a_time(self.kernels.tile_rows());
        let (mut places, mut values) = (vec![0; tile], vec![0; tile * W]);
        for first in (0..out.len()).step_by(tile) {
            let rows = tile.min(out.len() - first);
            let (places, values) = (&mut places[..rows], &mut values[..rows * W]);
            source.write_rows(start + first, values, scratch)?;
            scatter.places(places);
            memory::scatter(places, values.as_chunks::<W>().0, out);
        }
        Ok(scatter.buckets())
    }

    /// Moves the window on to these positions.
    pub(super) fn advance(
        &self,
        plan: &Plan<'_>,
        rows: usize,
        values: &mut FormValues,
        positions: Range<usize>,
    ) -> Result<(), PartError> {
        match &plan.values {
            Some((source, Placement::Stored)) => {
                return self.read_stored(source, values, positions.start..positions.end.min(rows));
            }
            Some((source, Placement::Moved(shuffle))) => match source.words_per_row() {
                1 => self.place_buckets::<1>(shuffle, values, positions),
                2 => self.place_buckets::<2>(shuffle, values, positions),
                _ => self.place_buckets::<4>(shuffle, values, positions),
            },
            None | Some((_, Placement::Picked(_))) => {}
        }
        Ok(())
    }

    /// Values that stay in stored order, as far as the window does not have them yet.
    fn read_stored(
        &self,
        source: &ValueSource<'_>,
        values: &mut FormValues,
        positions: Range<usize>,
    ) -> Result<(), PartError> {
        let FormValues { window, first, .. } = values;
        let words = source.words_per_row();
        window.drain(..window.len().min((positions.start - *first) * words));
        *first = positions.start;
        let kept = window.len() / words;
        window.resize(positions.len().max(kept) * words, 0);
        let start = positions.start + kept;
        let read = self.map_chunks(&mut window[kept * words..], self.span_rows * words, |span, out, scratch| {
            source.write_rows(start + span * self.span_rows, out, scratch)
        });
        read.into_iter().collect()
    }

    fn place_buckets<const W: usize>(&self, shuffle: &Shuffle<'_>, values: &mut FormValues, positions: Range<usize>) {
        let FormValues { all, part_rows, parts, window, first, buckets, end } = values;
        let passed = (positions.start - *first) * W;
        window.drain(..passed.min(window.len()));
        *first = positions.start;
        let kept = window.len();
        let all_buckets = parts.first().map_or(0, Vec::len);
        let mut lengths = vec![];
        while *end < positions.end && *buckets + lengths.len() < all_buckets {
            let length = parts.iter().map(|part| part[*buckets + lengths.len()].len()).sum();
            *end += length;
            lengths.push(length);
        }
        window.resize(kept + lengths.iter().sum::<usize>() * W, 0);
        let (mut rest, _) = window[kept..].as_chunks_mut::<W>();
        let mut work = vec![];
        for length in lengths {
            let (bucket, tail) = rest.split_at_mut(length);
            work.push((*buckets + work.len(), bucket));
            rest = tail;
        }
        *buckets += work.len();
        let all = all.words().as_chunks::<W>().0;
        let place = |(number, bucket): (usize, &mut [[u32; W]])| {
            let mut rest = &mut *bucket;
            for (part, places) in parts.iter().enumerate().map(|(part, buckets)| (part, &buckets[number])) {
                let (here, behind) = rest.split_at_mut(places.len());
                here.copy_from_slice(&all[part * *part_rows..][places.clone()]);
                rest = behind;
            }
            shuffle.shuffle_bucket(number, bucket);
        };
        match &self.pool {
            Some(pool) => pool.install(|| work.into_par_iter().for_each(place)),
            None => work.into_iter().for_each(place),
        }
    }
}
