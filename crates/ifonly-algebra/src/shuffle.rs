//! The row order of a shuffled answer: a uniform permutation derived from the transcript keys.
//!
//! Up to 2^16 rows, one Fisher–Yates shuffle orders all rows. Above that, each row first draws one
//! of 256 buckets, and then each bucket is shuffled by itself (Rao 1961, Sandelius 1962). The
//! permutation is still uniform, and every bucket fits into the cache.

use crate::keys::{KeyStream, Purpose, TranscriptKeys};
use std::ops::Range;
use zeroize::Zeroizing;

/// With more rows than this, the permutation uses buckets.
const MAX_UNBUCKETED: usize = 1 << 16;
/// The number of buckets.
pub const BUCKETS: usize = 256;

/// The row order: `order[p]` is the stored row at position p.
///
/// # Panics
/// If there are 2^32 rows or more. Manifests refuse so large databases.
pub fn permutation(keys: &TranscriptKeys, rows: usize) -> Vec<u32> {
    let count = u32::try_from(rows).expect("a database has fewer than 2^32 rows");
    let shuffle = Shuffle::new(keys, rows);
    let mut scatter = shuffle.scatter(0..rows);
    let mut order: Vec<u32> = (0..count).collect();
    if shuffle.bucket_indices.is_some() {
        let mut positions = [0; READ];
        for first in (0..count).step_by(READ) {
            let positions = &mut positions[..READ.min(rows - first as usize)];
            scatter.positions(positions);
            for (row, &position) in (first..).zip(&*positions) {
                order[position as usize] = row;
            }
        }
    }
    for (bucket, range) in scatter.buckets().into_iter().enumerate() {
        shuffle.shuffle_bucket(bucket, &mut order[range]);
    }
    order
}

/// The two steps of [`permutation`], for code that orders other items than row numbers.
///
/// 1. Move the item of each row to its position from [`Shuffle::scatter`].
/// 2. Call [`Shuffle::shuffle_bucket`] for every bucket.
///
/// Then the item of stored row `order[p]` is at position p. This accesses memory mostly in
/// sequence; picking items by `order` would jump for every row.
///
/// Several threads may scatter parts of the rows. A bucket is then the concatenation of its pieces
/// from all parts, in the order of the parts.
#[derive(Debug)]
pub struct Shuffle<'a> {
    keys: &'a TranscriptKeys,
    /// `None` if there is only one bucket.
    bucket_indices: Option<BucketIndices>,
}

/// The bucket of every row, one byte per row. A shard needs no other secret to move its rows into
/// the buckets, and learns nothing about the order within a bucket.
///
/// The bytes are generated twice, to count and to scatter. That is cheaper than storing them.
#[derive(Clone)]
pub struct BucketIndices {
    key: Zeroizing<[u8; 16]>,
    stream: KeyStream,
}

impl std::fmt::Debug for BucketIndices {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BucketIndices(..)")
    }
}

impl BucketIndices {
    /// The bucket indices of this [key](BucketIndices::key).
    pub fn from_key(key: [u8; 16]) -> BucketIndices {
        let key = Zeroizing::new(key);
        BucketIndices { stream: KeyStream::new(&key), key }
    }

    /// The key that determines all bucket indices. It is secret.
    pub fn key(&self) -> &[u8; 16] {
        &self.key
    }

    /// The number of these rows in each bucket.
    pub fn count(&self, rows: Range<usize>) -> [usize; BUCKETS] {
        count(rows.len(), |row, part| self.stream.fill((rows.start + row) as u64, part))
    }

    /// The positions of these rows, grouped by bucket.
    pub fn scatter(&self, rows: Range<usize>) -> BucketScatter<'_> {
        let starts = starts_of(&self.count(rows.clone()));
        // A database has fewer than 2^32 rows.
        let first = std::array::from_fn(|bucket| starts[bucket] as u32);
        BucketScatter { grouped: Some(self.positions(rows.start, first)), next: 0, starts }
    }

    /// The positions of the rows from `first_row` on, if the first row of each bucket gets the
    /// position in `starts`.
    pub fn positions(&self, first_row: usize, starts: [u32; BUCKETS]) -> BucketPositions<'_> {
        BucketPositions { stream: &self.stream, next_row: first_row, next: starts }
    }
}

impl<'a> Shuffle<'a> {
    /// The shuffle of `rows` rows.
    pub fn new(keys: &'a TranscriptKeys, rows: usize) -> Shuffle<'a> {
        let bucket_indices = || BucketIndices::from_key(*keys.stream_key(Purpose::Order { part: 0 }));
        Shuffle { keys, bucket_indices: (rows > MAX_UNBUCKETED).then(bucket_indices) }
    }

    /// The bucket of every row; `None` if there is only one bucket.
    pub fn bucket_indices(&self) -> Option<&BucketIndices> {
        self.bucket_indices.as_ref()
    }

    /// The positions of these rows, grouped by bucket.
    pub fn scatter(&self, rows: Range<usize>) -> BucketScatter<'_> {
        match &self.bucket_indices {
            Some(indices) => indices.scatter(rows),
            None => BucketScatter { grouped: None, next: 0, starts: vec![0, rows.len()] },
        }
    }

    /// Brings the items of one bucket into their final order.
    pub fn shuffle_bucket<T: Copy>(&self, bucket: usize, items: &mut [T]) {
        let part = if self.bucket_indices.is_none() { 0 } else { bucket + 1 };
        Words::new(self.keys.stream(Purpose::Order { part: part as u16 })).shuffle(items);
    }
}

/// Rows whose bucket indices are generated at a time: 60 blocks, because the cipher is fastest in
/// batches of 30 blocks.
const READ: usize = 960;

/// Computes the position of each row after grouping by bucket, row by row in stored order.
#[derive(Debug)]
pub struct BucketScatter<'a> {
    /// `None` if there is only one bucket.
    grouped: Option<BucketPositions<'a>>,
    /// The next position if there is only one bucket.
    next: u32,
    /// The first position of each bucket, and the end.
    starts: Vec<usize>,
}

/// The next position of each bucket, row by row in stored order. The positions of a bucket are
/// consecutive; the caller chose the first.
#[derive(Debug)]
pub struct BucketPositions<'a> {
    stream: &'a KeyStream,
    next_row: usize,
    next: [u32; BUCKETS],
}

impl BucketPositions<'_> {
    /// The position that the next row of each bucket will get.
    pub fn next(&self) -> &[u32; BUCKETS] {
        &self.next
    }

    /// Writes the positions of the next rows. Items are moved in a separate step: the lookups are
    /// faster if they do not wait for moves, and the caller can prefetch the memory of the moves.
    pub fn advance(&mut self, positions: &mut [u32]) {
        let mut indices = [0; READ];
        for positions in positions.chunks_mut(READ) {
            let indices = &mut indices[..positions.len()];
            self.stream.fill(self.next_row as u64, indices);
            next_positions(&mut self.next, indices, positions);
            self.next_row += positions.len();
        }
    }
}

impl BucketScatter<'_> {
    /// The positions of each bucket, counted from the first of these rows.
    pub fn buckets(&self) -> Vec<Range<usize>> {
        self.starts.windows(2).map(|pair| pair[0]..pair[1]).collect()
    }

    /// Writes the positions of the next rows (see [`BucketPositions::advance`]).
    pub fn positions(&mut self, positions: &mut [u32]) {
        match &mut self.grouped {
            Some(grouped) => grouped.advance(positions),
            None => {
                (self.next..).zip(&mut *positions).for_each(|(next, position)| *position = next);
                self.next += positions.len() as u32;
            }
        }
    }
}

/// Writes the next position of the bucket of each row. Each step reads what the previous one wrote,
/// so two rows per step halve the number of waits.
fn next_positions(next: &mut [u32; BUCKETS], indices: &[u8], positions: &mut [u32]) {
    let (pairs, rest) = indices.as_chunks::<2>();
    let (position_pairs, position_rest) = positions.as_chunks_mut::<2>();
    for (positions, &[a, b]) in position_pairs.iter_mut().zip(pairs) {
        let (first, second) = (next[usize::from(a)], next[usize::from(b)] + u32::from(a == b));
        next[usize::from(a)] = first + 1;
        next[usize::from(b)] = second + 1;
        *positions = [first, second];
    }
    for (position, &bucket) in position_rest.iter_mut().zip(rest) {
        *position = next[usize::from(bucket)];
        next[usize::from(bucket)] += 1;
    }
}

/// The first position of each bucket, and the end.
fn starts_of(counts: &[usize; BUCKETS]) -> Vec<usize> {
    let mut end = 0;
    let ends = counts.iter().map(|count| {
        end += count;
        end
    });
    [0].into_iter().chain(ends).collect()
}

/// The number of rows in each bucket. `fill` writes the bucket indices from a given row on. Each
/// bucket has four counters, so that equal neighbours do not wait for each other.
fn count(rows: usize, fill: impl Fn(usize, &mut [u8])) -> [usize; BUCKETS] {
    let mut counters = [[0u32; BUCKETS]; 4];
    let mut indices = [0; READ];
    for first in (0..rows).step_by(READ) {
        let indices = &mut indices[..READ.min(rows - first)];
        fill(first, indices);
        let (fours, rest) = indices.as_chunks::<4>();
        for four in fours {
            for (counter, &bucket) in counters.iter_mut().zip(four) {
                counter[usize::from(bucket)] += 1;
            }
        }
        for &bucket in rest {
            counters[0][usize::from(bucket)] += 1;
        }
    }
    std::array::from_fn(|bucket| counters.iter().map(|counter| counter[bucket] as usize).sum())
}

/// Fisher–Yates shuffle; `below(n)` must be uniform on `0..n`. This is the definition that
/// [`Words::shuffle`] must equal.
#[cfg(test)]
fn shuffle<T: Copy>(items: &mut [T], mut below: impl FnMut(u32) -> u32) {
    for last in (1..items.len()).rev() {
        items.swap(last, below(last as u32 + 1) as usize);
    }
}

/// The little-endian 32-bit words of a key stream, in sequence.
struct Words {
    stream: KeyStream,
    buffer: Vec<[u8; 16]>,
    used: usize,
    next_block: u128,
}

impl Words {
    /// Blocks generated at a time: a multiple of 8 and of 30, the batches in which the cipher is
    /// fast.
    const BLOCKS: usize = 240;

    fn new(stream: KeyStream) -> Words {
        Words { stream, buffer: vec![], used: 0, next_block: 0 }
    }

    /// The generated words that are not used yet, at least one.
    fn unused(&mut self) -> &[[u8; 4]] {
        if self.used == self.buffer.len() * 4 {
            self.buffer.resize(Self::BLOCKS, [0; 16]);
            self.stream.blocks(self.next_block, &mut self.buffer);
            self.next_block += Self::BLOCKS as u128;
            self.used = 0;
        }
        &self.buffer.as_flattened().as_chunks().0[self.used..]
    }

    /// Uniform on `0..n` (Lemire 2019): the high half of `word·n`, redrawn when the low half falls
    /// below `2^32 mod n`.
    fn below(&mut self, n: u32) -> u32 {
        loop {
            let word = u32::from_le_bytes(self.unused()[0]);
            self.used += 1;
            let product = u64::from(word) * u64::from(n);
            let low = product as u32;
            if low >= n || low >= n.wrapping_neg() % n {
                return (product >> 32) as u32;
            }
        }
    }

    /// Fisher–Yates shuffle with one [`Words::below`] per step. The choices of several steps are
    /// computed together, before their swaps, if none of their words may need a redraw.
    fn shuffle<T: Copy>(&mut self, items: &mut [T]) {
        let mut choices = [0; BATCH];
        let mut left = items.len();
        while left > 1 {
            match self.unused().first_chunk() {
                Some(words) if left > BATCH && choices_without_redraw(left as u32, words, &mut choices) => {
                    self.used += BATCH;
                    let items = &mut items[..left];
                    for (last, &choice) in (0..left).rev().zip(&choices) {
                        items.swap(last, choice as usize);
                    }
                    left -= BATCH;
                }
                _ => {
                    let choice = self.below(left as u32) as usize;
                    left -= 1;
                    items.swap(left, choice);
                }
            }
        }
    }
}

/// Number of swaps whose choices are computed together.
const BATCH: usize = 64;

/// The results of [`Words::below`] for `n`, `n − 1` and so on. Returns false, with unusable
/// choices, if one of the words may need a redraw.
fn choices_without_redraw(n: u32, words: &[[u8; 4]; BATCH], choices: &mut [u32; BATCH]) -> bool {
    let mut may_redraw = 0;
    for ((choice, word), less) in choices.iter_mut().zip(words).zip(0..) {
        let product = u64::from(u32::from_le_bytes(*word)) * u64::from(n - less);
        may_redraw |= u32::from((product as u32) < n);
        *choice = (product >> 32) as u32;
    }
    may_redraw == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::RootKey;
    use crate::random::{ExhaustiveRandom, RandomSource};
    use std::collections::BTreeMap;

    #[test]
    fn fisher_yates_produces_every_order_once() {
        let mut counts = BTreeMap::new();
        let mut all = ExhaustiveRandom::default();
        while all.next_run() {
            let mut items = [0, 1, 2, 3];
            shuffle(&mut items, |n| all.below(u64::from(n)) as u32);
            *counts.entry(items).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 24);
        assert!(counts.values().all(|&count| count == 1));
    }

    #[test]
    fn batched_shuffling_equals_fisher_yates_even_with_redraws() {
        let stream = RootKey::new(0, [7; 32]).transcript(&[9; 32]).stream(Purpose::Order { part: 3 });
        for length in [0, 1, 2, 3, 63, 64, 65, 1000, 5000] {
            let mut words = Words::new(stream.clone());
            // Zero words need a redraw unless n is a power of two.
            words.unused();
            for block in words.buffer.iter_mut().skip(1).step_by(7) {
                *block = [0; 16];
            }
            let mut reference = Words { buffer: words.buffer.clone(), ..Words::new(stream.clone()) };
            reference.next_block = words.next_block;
            let mut expected: Vec<u32> = (0..length).collect();
            let mut items = expected.clone();
            shuffle(&mut expected, |n| reference.below(n));
            words.shuffle(&mut items);
            assert_eq!(items, expected);
            assert_eq!((words.used, words.next_block), (reference.used, reference.next_block));
        }
    }

    /// A stream that begins with these words.
    fn words_beginning_with(words: &[u32]) -> Words {
        let stream = RootKey::new(0, [7; 32]).transcript(&[9; 32]).stream(Purpose::Order { part: 3 });
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.resize(bytes.len().next_multiple_of(16), 0xff);
        Words { buffer: bytes.as_chunks().0.to_vec(), ..Words::new(stream) }
    }

    #[test]
    fn every_number_below_n_comes_from_equally_many_words() {
        const WORDS: u128 = 1 << 32;
        for n in [1 << 20, (1 << 20) + 1, 3 << 20, 0x7fff_ffff, 0x8000_0000, 0x8000_0001, 0xaaaa_aaab, u32::MAX] {
            let wide = u128::from(n);
            for number in [0, 1, 2, n / 3, n / 2, n - 2, n - 1] {
                // All words whose product with n has this high half.
                let begin = |number: u32| (u128::from(number) * WORDS).div_ceil(wide);
                let mut accepted = 0;
                for word in begin(number)..begin(number) + WORDS.div_ceil(wide) {
                    if word * wide / WORDS != u128::from(number) || word >= WORDS {
                        continue;
                    }
                    // The word u32::MAX never needs a redraw.
                    let mut words = words_beginning_with(&[word as u32, u32::MAX]);
                    let number_drawn = words.below(n);
                    let redrawn = word * wide % WORDS < WORDS % wide;
                    assert_eq!(words.used, if redrawn { 2 } else { 1 }, "{word} below {n}");
                    assert_eq!(number_drawn, if redrawn { n - 1 } else { number }, "{word} below {n}");
                    accepted += u128::from(!redrawn);
                }
                assert_eq!(accepted, WORDS / wide, "{number} below {n}");
            }
        }
    }

    #[test]
    fn batched_choices_equal_exact_products_or_are_refused() {
        for n in [65, 1000, 0x8000_0001, u32::MAX] {
            // Words whose low halves are 0, near n, and arbitrary.
            for word in [0, 1, n.wrapping_neg() / 2, 0x1234_5678, u32::MAX] {
                let (words, mut choices) = ([word.to_le_bytes(); BATCH], [0; BATCH]);
                let products: Vec<u64> = (0..BATCH as u32).map(|less| u64::from(word) * u64::from(n - less)).collect();
                let certain = products.iter().all(|product| product % (1 << 32) >= u64::from(n));
                assert_eq!(choices_without_redraw(n, &words, &mut choices), certain);
                assert!(
                    !certain
                        || products.iter().zip(choices).all(|(product, choice)| product >> 32 == u64::from(choice))
                );
            }
        }
    }

    #[test]
    fn words_are_those_of_the_key_stream_in_sequence() {
        let stream = RootKey::new(0, [7; 32]).transcript(&[9; 32]).stream(Purpose::Order { part: 3 });
        let mut expected = vec![0; 3 * Words::BLOCKS * 16];
        stream.fill(0, &mut expected);
        let mut words = Words::new(stream);
        for (number, bytes) in expected.as_chunks::<4>().0.iter().enumerate() {
            assert_eq!(words.unused()[0], *bytes, "word {number}");
            words.used += 1;
        }
    }

    #[test]
    fn bucketed_shuffles_produce_every_order_with_equal_weight() {
        // Four rows, two buckets: a run has the weight 4!/(product of its ranges within the
        // buckets).
        let mut weights: BTreeMap<Vec<u32>, u64> = BTreeMap::new();
        let mut all = ExhaustiveRandom::default();
        while all.next_run() {
            let indices: Vec<u8> = (0..4).map(|_| all.below(2) as u8).collect();
            let mut ranges = 1;
            let starts = starts_of(&count(4, |first, part| part.copy_from_slice(&indices[first..][..part.len()])));
            let mut order = vec![0; 4];
            let mut positions = [0; 4];
            let mut next = std::array::from_fn(|bucket| starts[bucket] as u32);
            next_positions(&mut next, &indices, &mut positions);
            (0..).zip(positions).for_each(|(row, position)| order[position as usize] = row);
            for range in starts.windows(2).map(|pair| pair[0]..pair[1]) {
                shuffle(&mut order[range], |n| {
                    ranges *= u64::from(n);
                    all.below(u64::from(n)) as u32
                });
            }
            *weights.entry(order).or_default() += 24 / ranges;
        }
        assert_eq!(weights.len(), 24);
        assert!(weights.values().all(|&weight| weight == 16));
    }

    #[test]
    fn positions_do_not_depend_on_the_length_of_pieces() {
        let keys = RootKey::new(0, [7; 32]).transcript(&[9; 32]);
        for (rows, count) in [(1000, 1000), (MAX_UNBUCKETED + 1, 5000)] {
            let shuffle = Shuffle::new(&keys, rows);
            let mut expected = vec![0; count];
            shuffle.scatter(0..rows).positions(&mut expected);
            assert_eq!(expected.iter().collect::<std::collections::BTreeSet<_>>().len(), count);
            for piece in [1, 3, 7, 961] {
                let (mut scatter, mut parts) = (shuffle.scatter(0..rows), vec![0; count]);
                parts.chunks_mut(piece).for_each(|part| scatter.positions(part));
                assert_eq!(parts, expected, "{rows} rows in pieces of {piece}");
            }
        }
    }

    #[test]
    fn every_row_occurs_once_with_and_without_buckets() {
        let keys = RootKey::new(0, [7; 32]).transcript(&[9; 32]);
        for rows in [0, 1, 2, 1000, MAX_UNBUCKETED, MAX_UNBUCKETED + 1, 200_000] {
            let mut order = permutation(&keys, rows);
            if rows > 100 {
                assert!(order.windows(2).filter(|pair| pair[0] < pair[1]).count() < rows * 6 / 10);
            }
            order.sort_unstable();
            assert!(order.iter().enumerate().all(|(row, &stored)| row == stored as usize));
        }
    }
}
