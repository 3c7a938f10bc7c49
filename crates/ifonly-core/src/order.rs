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
    let mut ends = vec![0usize; buckets];
    for &digit in digits {
        ends[usize::from(digit)] += 1;
    }
    let mut total = 0;
    let mut next: Vec<usize> = ends
        .iter_mut()
        .map(|end| {
            let start = total;
            total += *end;
            *end = total;
            start
        })
        .collect();
    let starts = next.clone();
    let mut order = vec![0; digits.len()];
    for (row, &digit) in digits.iter().enumerate() {
        let place = &mut next[usize::from(digit)];
        order[*place] = row as u32;
        *place += 1;
    }
    for bucket in 0..buckets {
        inner(bucket, &mut order[starts[bucket]..ends[bucket]]);
    }
    order
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
    buffer: Vec<u8>,
    used: usize,
    offset: u64,
}

impl Words {
    const BUFFER: usize = 4096;

    fn new(stream: KeyStream) -> Words {
        Words { stream, buffer: vec![0; Self::BUFFER], used: Self::BUFFER, offset: 0 }
    }

    fn word(&mut self) -> u32 {
        if self.used == Self::BUFFER {
            self.stream.fill(self.offset, &mut self.buffer);
            self.offset += Self::BUFFER as u64;
            self.used = 0;
        }
        let mut word = [0; 4];
        word.copy_from_slice(&self.buffer[self.used..self.used + 4]);
        self.used += 4;
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
