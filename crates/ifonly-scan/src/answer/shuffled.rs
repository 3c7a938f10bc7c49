//! The form values of a shuffled answer, and how they get to their positions.
//!
//! A first pass over the rows keeps the values of all rows. With the keys of the order it sends each to its bucket of
//! [`Shuffle`]; a bucket is brought into its final order only when the answer reaches it, so that its values go on to pads
//! and packing from the cache. With a finished order the values stay where they are and are picked one by one.

use super::Scanner;
use crate::memory::AlignedBytes;
use crate::plan::{AnyProgram, Order, Plan};
use crate::store::RowStore;
use ifonly_core::order::Shuffle;
use rayon::prelude::*;

/// The form values of one query; none if it is not shuffled.
pub(super) struct Values {
    pub(super) bytes: AlignedBytes,
    /// Buckets whose values stand in their final order.
    ready: usize,
}

impl Scanner {
    /// The first pass of a query.
    pub(super) fn values(&self, store: &RowStore, plan: &Plan<'_>) -> Values {
        let Some((program, order)) = &plan.shuffle else { return Values { bytes: AlignedBytes::zeroed(0), ready: 0 } };
        let words = program.words_per_row();
        // In huge pages: where values are picked at random, every small page would cost a translation.
        let mut bytes = self.spare.take(store.rows() * words * 4);
        let out = &mut bytes.words_mut()[..store.rows() * words];
        match (order, words) {
            (Order::Picked(_), _) => self.each_chunk(out, self.span_rows * words, |span, out, scratch| {
                program.write_rows(self.kernels, span * self.span_rows, out, scratch);
            }),
            (Order::Moved(shuffle), 1) => self.scatter::<1>(store.rows(), program, shuffle, out),
            (Order::Moved(shuffle), 2) => self.scatter::<2>(store.rows(), program, shuffle, out),
            (Order::Moved(shuffle), _) => self.scatter::<4>(store.rows(), program, shuffle, out),
        }
        Values { bytes, ready: 0 }
    }

    /// Values of W words per row into their buckets.
    fn scatter<const W: usize>(&self, rows: usize, program: &AnyProgram<'_>, shuffle: &Shuffle<'_>, out: &mut [u32]) {
        let out = out.as_chunks_mut::<W>().0;
        let mut scatter = shuffle.scatter();
        for wave in self.waves(rows.div_ceil(self.span_rows)) {
            let computed = self.map_spans(wave, |span, scratch| {
                let start = span * self.span_rows;
                let mut words = vec![0; self.span_rows.min(rows - start) * W];
                program.write_rows(self.kernels, start, &mut words, scratch);
                words
            });
            for words in computed {
                scatter.put(words.as_chunks::<W>().0, out);
            }
        }
    }

    /// Brings all buckets that begin before position `end` into their final order.
    pub(super) fn order_until(&self, plan: &Plan<'_>, values: &mut Values, end: usize) {
        let Some((program, Order::Moved(shuffle))) = &plan.shuffle else { return };
        match program.words_per_row() {
            1 => self.order_buckets::<1>(shuffle, values, end),
            2 => self.order_buckets::<2>(shuffle, values, end),
            _ => self.order_buckets::<4>(shuffle, values, end),
        }
    }

    fn order_buckets<const W: usize>(&self, shuffle: &Shuffle<'_>, values: &mut Values, end: usize) {
        let mut rest = values.bytes.words_mut().as_chunks_mut::<W>().0;
        let mut buckets = vec![];
        let mut passed = 0;
        for (number, range) in shuffle.buckets().into_iter().enumerate().skip(values.ready) {
            if range.start >= end {
                break;
            }
            let (bucket, tail) = rest[range.start - passed..].split_at_mut(range.len());
            buckets.push((number, bucket));
            (passed, rest) = (range.end, tail);
        }
        values.ready += buckets.len();
        let order = |(number, bucket): (usize, &mut [[u32; W]])| shuffle.shuffle_bucket(number, bucket);
        match &self.pool {
            Some(pool) => pool.install(|| buckets.into_par_iter().for_each(order)),
            None => buckets.into_iter().for_each(order),
        }
    }
}
