//! The order in which a shuffled answer lists the rows: a uniform permutation from the transcript's keys.
//!
//! Up to 2^16 rows: Fisher–Yates. Above, each row first draws one of 256 buckets and each bucket is then shuffled on its
//! own (Rao 1961, Sandelius 1962): as uniform, but every bucket fits into the cache.

use crate::keys::{KeyStream, Purpose, TranscriptKeys};
use std::ops::Range;

/// Above this many rows the permutation goes through buckets.
const DIRECT: usize = 1 << 16;
const BUCKETS: usize = 256;

/// `order[p]` is the stored row at position p.
///
/// # Panics
/// If there are 2^32 rows or more; a manifest cannot say so.
pub fn permutation(keys: &TranscriptKeys, rows: usize) -> Vec<u32> {
    let count = u32::try_from(rows).expect("a database has fewer than 2^32 rows");
    let shuffle = Shuffle::new(keys, rows);
    let mut order = vec![0; rows];
    let mut scatter = shuffle.scatter(0);
    scatter.put(0..count, &mut order);
    scatter.finish(&mut order);
    for (bucket, range) in shuffle.buckets().into_iter().enumerate() {
        shuffle.shuffle_bucket(bucket, &mut order[range]);
    }
    order
}

/// The steps of the permutation, for whoever has something else than row numbers to bring into its order: one item per
/// row through [`Shuffle::scatter`] in stored order, then every bucket through [`Shuffle::shuffle_bucket`]. The item of
/// stored row `order[p]` then stands at p. This moves memory in order, where picking by `order` jumps for every row.
#[derive(Debug)]
pub struct Shuffle<'a> {
    keys: &'a TranscriptKeys,
    /// One per row; empty where there is a single bucket.
    digits: Vec<u8>,
    /// Where each bucket begins, and the end.
    starts: Vec<usize>,
}

impl<'a> Shuffle<'a> {
    /// The shuffle of `rows` rows.
    pub fn new(keys: &'a TranscriptKeys, rows: usize) -> Shuffle<'a> {
        if rows <= DIRECT {
            return Shuffle { keys, digits: vec![], starts: vec![0, rows] };
        }
        let mut digits = vec![0; rows];
        keys.stream(Purpose::Order { part: 0 }).fill(0, &mut digits);
        let starts = starts_of(&digits, BUCKETS);
        Shuffle { keys, digits, starts }
    }

    /// The positions of each bucket.
    pub fn buckets(&self) -> Vec<Range<usize>> {
        self.starts.windows(2).map(|pair| pair[0]..pair[1]).collect()
    }

    /// Puts items into their buckets; `any` item fills places that are not used yet.
    pub fn scatter<T: Copy>(&self, any: T) -> Scatter<'_, T> {
        Scatter::new(&self.digits, &self.starts, any)
    }

    /// Brings the items of one bucket into their final order.
    pub fn shuffle_bucket<T: Copy>(&self, bucket: usize, items: &mut [T]) {
        let part = if self.digits.is_empty() { 0 } else { bucket + 1 };
        Words::new(self.keys.stream(Purpose::Order { part: part as u16 })).shuffle(items);
    }
}

/// Items wait for a full line of their bucket: one far write for sixteen of them.
const LINE: usize = 16;

/// Sorts items by the digit of their row, in stored order within a bucket.
#[derive(Debug)]
pub struct Scatter<'a, T> {
    digits: &'a [u8],
    next_row: usize,
    next: Vec<usize>,
    waiting: Vec<[T; LINE]>,
    held: Vec<u8>,
}

impl<'a, T: Copy> Scatter<'a, T> {
    fn new(digits: &'a [u8], starts: &[usize], any: T) -> Self {
        let buckets = starts.len() - 1;
        Scatter {
            digits,
            next_row: 0,
            next: starts[..buckets].to_vec(),
            waiting: vec![[any; LINE]; buckets],
            held: vec![0; buckets],
        }
    }

    /// The items of the next rows; `out` has a place for every row.
    pub fn put(&mut self, items: impl ExactSizeIterator<Item = T>, out: &mut [T]) {
        let first = self.next_row;
        self.next_row += items.len();
        if self.digits.is_empty() {
            out[first..self.next_row].iter_mut().zip(items).for_each(|(out, item)| *out = item);
            return;
        }
        for (&digit, item) in self.digits[first..self.next_row].iter().zip(items) {
            let bucket = usize::from(digit);
            let place = usize::from(self.held[bucket]) % LINE;
            self.waiting[bucket][place] = item;
            if place + 1 == LINE {
                let next = self.next[bucket];
                out[next..next + LINE].copy_from_slice(&self.waiting[bucket]);
                self.next[bucket] = next + LINE;
                self.held[bucket] = 0;
            } else {
                self.held[bucket] = place as u8 + 1;
            }
        }
    }

    /// Writes what still waits.
    pub fn finish(self, out: &mut [T]) {
        for ((waiting, held), next) in self.waiting.iter().zip(self.held).zip(self.next) {
            out[next..next + usize::from(held)].copy_from_slice(&waiting[..usize::from(held)]);
        }
    }
}

fn starts_of(digits: &[u8], buckets: usize) -> Vec<usize> {
    let counts = count(digits);
    let mut starts = vec![0; buckets + 1];
    for bucket in 0..buckets {
        starts[bucket + 1] = starts[bucket] + counts[bucket];
    }
    starts
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

/// Fisher–Yates; `below(n)` must be uniform on `0..n`. The definition; [`Words::shuffle`] does the same faster.
#[cfg(test)]
fn shuffle<T: Copy>(items: &mut [T], mut below: impl FnMut(u32) -> u32) {
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

    /// The words that have been read and not used, at least one.
    fn ready(&mut self) -> &[[u8; 4]] {
        if self.used == self.buffer.len() * 4 {
            self.buffer.resize(Self::BLOCKS, [0; 16]);
            self.stream.blocks(self.next_block, &mut self.buffer);
            self.next_block += Self::BLOCKS as u128;
            self.used = 0;
        }
        &self.buffer.as_flattened().as_chunks().0[self.used..]
    }

    /// Uniform on `0..n` (Lemire 2019): the high half of `word·n`, redrawn when the low half falls below `2^32 mod n`.
    fn below(&mut self, n: u32) -> u32 {
        loop {
            let word = u32::from_le_bytes(self.ready()[0]);
            self.used += 1;
            let product = u64::from(word) * u64::from(n);
            let low = product as u32;
            if low >= n || low >= n.wrapping_neg() % n {
                return (product >> 32) as u32;
            }
        }
    }

    /// Fisher–Yates with one [`Words::below`] per step. Choices are computed ahead of the swaps as long as no word could
    /// be one to draw again.
    fn shuffle<T: Copy>(&mut self, items: &mut [T]) {
        const AHEAD: usize = 64;
        let mut left = items.len();
        while left > 1 {
            let ahead = self.ready().first_chunk::<AHEAD>().filter(|_| left > AHEAD);
            let choices = ahead.and_then(|words| {
                let mut choices = [0u32; AHEAD];
                let mut surely = true;
                for (k, choice) in choices.iter_mut().enumerate() {
                    let n = (left - k) as u32;
                    let product = u64::from(u32::from_le_bytes(words[k])) * u64::from(n);
                    surely &= product as u32 >= n;
                    *choice = (product >> 32) as u32;
                }
                surely.then_some(choices)
            });
            match choices {
                Some(choices) => {
                    self.used += AHEAD;
                    for choice in choices {
                        left -= 1;
                        items.swap(left, choice as usize);
                    }
                }
                None => {
                    let choice = self.below(left as u32) as usize;
                    left -= 1;
                    items.swap(left, choice);
                }
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
    fn shuffling_ahead_equals_fisher_yates_even_where_words_are_drawn_again() {
        let stream = RootKey::new(0, [7; 32]).transcript(&[9; 32]).stream(Purpose::Order { part: 3 });
        for length in [0, 1, 2, 3, 63, 64, 65, 1000, 5000] {
            let mut words = Words::new(stream.clone());
            // Words of zeros: below 2^32 mod n unless n is a power of two.
            words.ready();
            for block in words.buffer.iter_mut().skip(1).step_by(7) {
                *block = [0; 16];
            }
            let mut again = Words { buffer: words.buffer.clone(), ..Words::new(stream.clone()) };
            again.next_block = words.next_block;
            let mut expected: Vec<u32> = (0..length).collect();
            let mut items = expected.clone();
            shuffle(&mut expected, |n| again.below(n));
            words.shuffle(&mut items);
            assert_eq!(items, expected);
            assert_eq!((words.used, words.next_block), (again.used, again.next_block));
        }
    }

    #[test]
    fn buckets_give_every_order_with_the_same_weight() {
        // Four rows, two buckets: a path weighs 4!/(product of its bases inside the buckets).
        let mut weights: BTreeMap<Vec<u32>, u64> = BTreeMap::new();
        let mut all = Exhaustive::default();
        while all.turn() {
            let digits: Vec<u8> = (0..4).map(|_| all.below(2) as u8).collect();
            let mut inside = 1;
            let starts = starts_of(&digits, 2);
            let mut order = vec![0; 4];
            let mut scatter = Scatter::new(&digits, &starts, 0);
            scatter.put(0..4, &mut order);
            scatter.finish(&mut order);
            for range in starts.windows(2).map(|pair| pair[0]..pair[1]) {
                shuffle(&mut order[range], |n| {
                    inside *= u64::from(n);
                    all.below(u64::from(n)) as u32
                });
            }
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
