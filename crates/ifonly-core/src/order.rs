//! The order in which a shuffled answer lists the rows: a uniform permutation from the transcript's keys.
//!
//! Up to 2^16 rows: Fisher–Yates. Above, each row first draws one of 256 buckets and each bucket is then shuffled on its
//! own (Rao 1961, Sandelius 1962): as uniform, but every bucket fits into the cache.

use crate::keys::{KeyStream, Purpose, TranscriptKeys};

/// Above this many rows the permutation goes through buckets.
const DIRECT: usize = 1 << 16;
const BUCKETS: usize = 256;

/// `order[p]` is the stored row at position p.
///
/// # Panics
/// If there are 2^32 rows or more; a manifest cannot say so.
pub fn permutation(keys: &TranscriptKeys, rows: usize) -> Vec<u32> {
    let count = u32::try_from(rows).expect("a database has fewer than 2^32 rows");
    let words = |part: usize| Words::new(keys.stream(Purpose::Order { part: part as u16 }));
    if rows <= DIRECT {
        let mut order: Vec<u32> = (0..count).collect();
        let mut words = words(0);
        shuffle(&mut order, |n| words.below(n));
        return order;
    }
    let mut digits = vec![0; rows];
    keys.stream(Purpose::Order { part: 0 }).fill(0, &mut digits);
    through_buckets(&digits, BUCKETS, |bucket, rows| {
        let mut words = words(bucket + 1);
        shuffle(rows, |n| words.below(n));
    })
}

/// Sorts the rows by their digit, in stored order within a bucket, then lets `inner` shuffle each bucket.
fn through_buckets(digits: &[u8], buckets: usize, mut inner: impl FnMut(usize, &mut [u32])) -> Vec<u32> {
    let counts = count(digits);
    let mut starts = vec![0; buckets + 1];
    for bucket in 0..buckets {
        starts[bucket + 1] = starts[bucket] + counts[bucket];
    }
    let mut order = vec![0; digits.len()];
    let mut next = starts.clone();
    // Rows wait for a full cache line of their bucket: one far write for sixteen rows.
    const LINE: usize = 16;
    let mut waiting = vec![[0u32; LINE]; buckets];
    let mut held = vec![0usize; buckets];
    for (row, &digit) in (0u32..).zip(digits) {
        let bucket = usize::from(digit);
        let place = held[bucket];
        waiting[bucket][place % LINE] = row;
        held[bucket] = place + 1;
        if (place + 1).is_multiple_of(LINE) {
            order[next[bucket]..next[bucket] + LINE].copy_from_slice(&waiting[bucket]);
            next[bucket] += LINE;
        }
    }
    for bucket in 0..buckets {
        let rest = held[bucket] % LINE;
        order[next[bucket]..next[bucket] + rest].copy_from_slice(&waiting[bucket][..rest]);
        inner(bucket, &mut order[starts[bucket]..starts[bucket + 1]]);
    }
    order
}

/// How often each digit occurs. Four counters each, so that equal neighbours do not wait for each other.
fn count(digits: &[u8]) -> [usize; 256] {
    let mut counters = [[0u32; 256]; 4];
    let (fours, rest) = digits.as_chunks::<4>();
    for four in fours {
        for (counter, &digit) in counters.iter_mut().zip(four) {
            counter[usize::from(digit)] += 1;
        }
    }
    for &digit in rest {
        counters[0][usize::from(digit)] += 1;
    }
    std::array::from_fn(|digit| counters.iter().map(|counter| counter[digit] as usize).sum())
}

/// Fisher–Yates; `below(n)` must be uniform on `0..n`.
fn shuffle(items: &mut [u32], mut below: impl FnMut(u32) -> u32) {
    for last in (1..items.len()).rev() {
        items.swap(last, below(last as u32 + 1) as usize);
    }
}

/// Little-endian 32-bit words of a key stream, one after another.
struct Words {
    stream: KeyStream,
    buffer: Vec<[u8; 16]>,
    used: usize,
    next_block: u128,
}

impl Words {
    /// Blocks read at a time: a multiple of the batches of 8 and of 30 in which the cipher is fast.
    const BLOCKS: usize = 240;

    fn new(stream: KeyStream) -> Words {
        Words { stream, buffer: vec![], used: 0, next_block: 0 }
    }

    fn word(&mut self) -> u32 {
        if self.used == self.buffer.len() * 4 {
            self.buffer.resize(Self::BLOCKS, [0; 16]);
            self.stream.blocks(self.next_block, &mut self.buffer);
            self.next_block += Self::BLOCKS as u128;
            self.used = 0;
        }
        let word = self.buffer.as_flattened().as_chunks::<4>().0[self.used];
        self.used += 1;
        u32::from_le_bytes(word)
    }

    /// Uniform on `0..n` (Lemire 2019): the high half of `word·n`, redrawn when the low half falls below `2^32 mod n`.
    fn below(&mut self, n: u32) -> u32 {
        loop {
            let product = u64::from(self.word()) * u64::from(n);
            let low = product as u32;
            if low >= n || low >= n.wrapping_neg() % n {
                return (product >> 32) as u32;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::RootKey;
    use crate::random::{Exhaustive, Random};
    use std::collections::BTreeMap;

    #[test]
    fn fisher_yates_gives_every_order_once() {
        let mut counts = BTreeMap::new();
        let mut all = Exhaustive::default();
        while all.turn() {
            let mut items = [0, 1, 2, 3];
            shuffle(&mut items, |n| all.below(u64::from(n)) as u32);
            *counts.entry(items).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 24);
        assert!(counts.values().all(|&count| count == 1));
    }

    #[test]
    fn buckets_give_every_order_with_the_same_weight() {
        // Four rows, two buckets: a path weighs 4!/(product of its bases inside the buckets).
        let mut weights: BTreeMap<Vec<u32>, u64> = BTreeMap::new();
        let mut all = Exhaustive::default();
        while all.turn() {
            let digits: Vec<u8> = (0..4).map(|_| all.below(2) as u8).collect();
            let mut inside = 1;
            let order = through_buckets(&digits, 2, |_, rows| {
                shuffle(rows, |n| {
                    inside *= u64::from(n);
                    all.below(u64::from(n)) as u32
                });
            });
            *weights.entry(order).or_default() += 24 / inside;
        }
        assert_eq!(weights.len(), 24);
        assert!(weights.values().all(|&weight| weight == 16));
    }

    #[test]
    fn every_row_stands_once_on_both_sides_of_the_bucket_limit() {
        let keys = RootKey::new(0, [7; 32]).transcript(&[9; 32]);
        for rows in [0, 1, 2, 1000, DIRECT, DIRECT + 1, 200_000] {
            let mut order = permutation(&keys, rows);
            if rows > 100 {
                assert!(order.windows(2).filter(|pair| pair[0] < pair[1]).count() < rows * 6 / 10);
            }
            order.sort_unstable();
            assert!(order.iter().enumerate().all(|(row, &stored)| row == stored as usize));
        }
    }
}
