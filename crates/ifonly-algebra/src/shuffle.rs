//! The order in which a shuffled answer lists the rows: a uniform permutation from the transcript's
//! keys.
//!
//! Up to 2^16 rows: Fisher–Yates. Above, each row first draws one of 256 buckets and each bucket is
//! then shuffled on its own (Rao 1961, Sandelius 1962): as uniform, but every bucket fits into the
//! cache.

use crate::keys::{KeyStream, Purpose, TranscriptKeys};
use std::ops::Range;
use zeroize::Zeroizing;

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
    let mut scatter = shuffle.scatter(0..rows);
    let mut order: Vec<u32> = (0..count).collect();
    if shuffle.digits.is_some() {
        let mut places = [0; READ];
        for first in (0..count).step_by(READ) {
            let places = &mut places[..READ.min(rows - first as usize)];
            scatter.places(places);
            for (row, &place) in (first..).zip(&*places) {
                order[place as usize] = row;
            }
        }
    }
    for (bucket, range) in scatter.buckets().into_iter().enumerate() {
        shuffle.shuffle_bucket(bucket, &mut order[range]);
    }
    order
}

/// The steps of the permutation, for whoever has something else than row numbers to bring into its
/// order: one item per row to its place of [`Shuffle::scatter`], then every bucket through
/// [`Shuffle::shuffle_bucket`]. The item of stored row `order[p]` then stands at p. This moves
/// memory in order, where picking by `order` jumps for every row.
///
/// The rows may be scattered in parts, by several threads: a bucket is then what the parts have for
/// it, one after the other.
#[derive(Debug)]
pub struct Shuffle<'a> {
    keys: &'a TranscriptKeys,
    /// `None` where there is a single bucket.
    digits: Option<BucketIndices>,
}

/// The bucket of every row, one byte each. Whoever holds some of the rows needs no more to bring
/// theirs into the buckets, and learns from it nothing about the order inside a bucket.
///
/// Read twice, to count and to scatter: making the bytes again costs less than keeping them.
#[derive(Clone)]
pub struct BucketIndices {
    key: Zeroizing<[u8; 16]>,
    stream: KeyStream,
}

impl std::fmt::Debug for BucketIndices {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Digits(..)")
    }
}

impl BucketIndices {
    /// Those with this [key](Digits::key).
    pub fn from_key(key: [u8; 16]) -> BucketIndices {
        let key = Zeroizing::new(key);
        BucketIndices { stream: KeyStream::new(&key), key }
    }

    /// What tells them to somebody else.
    pub fn key(&self) -> &[u8; 16] {
        &self.key
    }

    /// The way of some rows into the buckets.
    pub fn scatter(&self, rows: Range<usize>) -> BucketScatter<'_> {
        let fill = |row: usize, part: &mut [u8]| self.stream.fill((rows.start + row) as u64, part);
        let starts = starts_of(&count(rows.len(), fill));
        BucketScatter { digits: Some(&self.stream), next_row: rows.start, next: next_of(&starts), starts }
    }
}

impl<'a> Shuffle<'a> {
    /// The shuffle of `rows` rows.
    pub fn new(keys: &'a TranscriptKeys, rows: usize) -> Shuffle<'a> {
        let digits = || BucketIndices::from_key(*keys.stream_key(Purpose::Order { part: 0 }));
        Shuffle { keys, digits: (rows > DIRECT).then(digits) }
    }

    /// Which bucket each row goes to; `None` where there is a single one.
    pub fn digits(&self) -> Option<&BucketIndices> {
        self.digits.as_ref()
    }

    /// The way of some rows into the buckets.
    pub fn scatter(&self, rows: Range<usize>) -> BucketScatter<'_> {
        match &self.digits {
            Some(digits) => digits.scatter(rows),
            None => {
                let starts = vec![0, rows.len()];
                BucketScatter { digits: None, next_row: rows.start, next: next_of(&starts), starts }
            }
        }
    }

    /// Brings the items of one bucket into their final order.
    pub fn shuffle_bucket<T: Copy>(&self, bucket: usize, items: &mut [T]) {
        let part = if self.digits.is_none() { 0 } else { bucket + 1 };
        Words::new(self.keys.stream(Purpose::Order { part: part as u16 })).shuffle(items);
    }
}

/// Rows whose digits are read at a time: whole batches of 30 blocks, in which the cipher is fast.
const READ: usize = 960;

/// Tells, row by row in stored order, where items go on their way into the buckets.
#[derive(Debug)]
pub struct BucketScatter<'a> {
    digits: Option<&'a KeyStream>,
    next_row: usize,
    /// Where the next item of each bucket goes.
    next: [u32; BUCKETS],
    /// Where each bucket begins, and the end.
    starts: Vec<usize>,
}

impl BucketScatter<'_> {
    /// The places of each bucket, counted from the first of these rows.
    pub fn buckets(&self) -> Vec<Range<usize>> {
        self.starts.windows(2).map(|pair| pair[0]..pair[1]).collect()
    }

    /// The places of the next rows. They stand apart from the moves: look-ups that need not wait
    /// for moves are faster, and whoever moves knows far ahead which memory he will touch.
    pub fn places(&mut self, places: &mut [u32]) {
        let mut digits = [0; READ];
        for places in places.chunks_mut(READ) {
            match self.digits {
                Some(stream) => {
                    let digits = &mut digits[..places.len()];
                    stream.fill(self.next_row as u64, digits);
                    next_places(&mut self.next, digits, places);
                }
                None => {
                    (self.next[0]..).zip(&mut *places).for_each(|(next, place)| *place = next);
                    self.next[0] += places.len() as u32;
                }
            }
            self.next_row += places.len();
        }
    }
}

/// For each digit the next place of its bucket. Two at a time: each step reads what the one before
/// wrote, so half as many steps wait half as long.
fn next_places(next: &mut [u32; BUCKETS], digits: &[u8], places: &mut [u32]) {
    let (pairs, rest) = digits.as_chunks::<2>();
    let (place_pairs, place_rest) = places.as_chunks_mut::<2>();
    for (places, &[a, b]) in place_pairs.iter_mut().zip(pairs) {
        let (first, second) = (next[usize::from(a)], next[usize::from(b)] + u32::from(a == b));
        next[usize::from(a)] = first + 1;
        next[usize::from(b)] = second + 1;
        *places = [first, second];
    }
    for (place, &digit) in place_rest.iter_mut().zip(rest) {
        *place = next[usize::from(digit)];
        next[usize::from(digit)] += 1;
    }
}

/// Where each bucket begins, and the end.
fn starts_of(counts: &[usize; BUCKETS]) -> Vec<usize> {
    let mut end = 0;
    let ends = counts.iter().map(|count| {
        end += count;
        end
    });
    [0].into_iter().chain(ends).collect()
}

/// The places of the first items; a database has fewer than 2^32 rows.
fn next_of(starts: &[usize]) -> [u32; BUCKETS] {
    std::array::from_fn(|bucket| starts.get(bucket).map_or(0, |&start| start as u32))
}

/// How often each digit occurs in `rows` digits, which `fill` gives from any of them on. Four
/// counters each, so that equal neighbours do not wait for each other.
fn count(rows: usize, fill: impl Fn(usize, &mut [u8])) -> [usize; BUCKETS] {
    let mut counters = [[0u32; BUCKETS]; 4];
    let mut digits = [0; READ];
    for first in (0..rows).step_by(READ) {
        let digits = &mut digits[..READ.min(rows - first)];
        fill(first, digits);
        let (fours, rest) = digits.as_chunks::<4>();
        for four in fours {
            for (counter, &digit) in counters.iter_mut().zip(four) {
                counter[usize::from(digit)] += 1;
            }
        }
        for &digit in rest {
            counters[0][usize::from(digit)] += 1;
        }
    }
    std::array::from_fn(|digit| counters.iter().map(|counter| counter[digit] as usize).sum())
}

/// Fisher–Yates; `below(n)` must be uniform on `0..n`. The definition; [`Words::shuffle`] does the
/// same faster.
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

    /// Uniform on `0..n` (Lemire 2019): the high half of `word·n`, redrawn when the low half falls
    /// below `2^32 mod n`.
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

    /// Fisher–Yates with one [`Words::below`] per step. Choices are computed ahead of the swaps as
    /// long as no word could be one to draw again.
    fn shuffle<T: Copy>(&mut self, items: &mut [T]) {
        let mut choices = [0; AHEAD];
        let mut left = items.len();
        while left > 1 {
            match self.ready().first_chunk() {
                Some(words) if left > AHEAD && surely_below(left as u32, words, &mut choices) => {
                    self.used += AHEAD;
                    let items = &mut items[..left];
                    for (last, &choice) in (0..left).rev().zip(&choices) {
                        items.swap(last, choice as usize);
                    }
                    left -= AHEAD;
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

/// Swaps whose choices are computed together.
const AHEAD: usize = 64;

/// What [`Words::below`] makes of the words for `n`, `n − 1`, and so on; false if one of them might
/// have to be drawn again.
fn surely_below(n: u32, words: &[[u8; 4]; AHEAD], choices: &mut [u32; AHEAD]) -> bool {
    let mut doubtful = 0;
    for ((choice, word), less) in choices.iter_mut().zip(words).zip(0..) {
        let product = u64::from(u32::from_le_bytes(*word)) * u64::from(n - less);
        doubtful |= u32::from((product as u32) < n);
        *choice = (product >> 32) as u32;
    }
    doubtful == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::RootKey;
    use crate::random::{ExhaustiveRandom, RandomSource};
    use std::collections::BTreeMap;

    #[test]
    fn fisher_yates_gives_every_order_once() {
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

    /// Words that are read before any of the stream.
    fn planted(words: &[u32]) -> Words {
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
                // The words whose product with n has this high half, all of them.
                let begin = |number: u32| (u128::from(number) * WORDS).div_ceil(wide);
                let mut kept = 0;
                for word in begin(number)..begin(number) + WORDS.div_ceil(wide) {
                    if word * wide / WORDS != u128::from(number) || word >= WORDS {
                        continue;
                    }
                    // All ones are never drawn again: they end every redraw.
                    let mut words = planted(&[word as u32, u32::MAX]);
                    let drawn = words.below(n);
                    let again = word * wide % WORDS < WORDS % wide;
                    assert_eq!(words.used, if again { 2 } else { 1 }, "{word} below {n}");
                    assert_eq!(drawn, if again { n - 1 } else { number }, "{word} below {n}");
                    kept += u128::from(!again);
                }
                assert_eq!(kept, WORDS / wide, "{number} below {n}");
            }
        }
    }

    #[test]
    fn the_choices_ahead_are_those_of_wide_integers_or_refused() {
        for n in [65, 1000, 0x8000_0001, u32::MAX] {
            // Low halves of 0, just below n, n, and anything.
            for word in [0, 1, n.wrapping_neg() / 2, 0x1234_5678, u32::MAX] {
                let (words, mut choices) = ([word.to_le_bytes(); AHEAD], [0; AHEAD]);
                let products: Vec<u64> = (0..AHEAD as u32).map(|less| u64::from(word) * u64::from(n - less)).collect();
                let sure = products.iter().all(|product| product % (1 << 32) >= u64::from(n));
                assert_eq!(surely_below(n, &words, &mut choices), sure);
                assert!(
                    !sure || products.iter().zip(choices).all(|(product, choice)| product >> 32 == u64::from(choice))
                );
            }
        }
    }

    #[test]
    fn an_order_reads_its_whole_key_stream_once() {
        let stream = RootKey::new(0, [7; 32]).transcript(&[9; 32]).stream(Purpose::Order { part: 3 });
        let mut expected = vec![0; 3 * Words::BLOCKS * 16];
        stream.fill(0, &mut expected);
        let mut words = Words::new(stream);
        for (number, bytes) in expected.as_chunks::<4>().0.iter().enumerate() {
            assert_eq!(words.ready()[0], *bytes, "word {number}");
            words.used += 1;
        }
    }

    #[test]
    fn buckets_give_every_order_with_the_same_weight() {
        // Four rows, two buckets: a path weighs 4!/(product of its bases inside the buckets).
        let mut weights: BTreeMap<Vec<u32>, u64> = BTreeMap::new();
        let mut all = ExhaustiveRandom::default();
        while all.next_run() {
            let digits: Vec<u8> = (0..4).map(|_| all.below(2) as u8).collect();
            let mut inside = 1;
            let starts = starts_of(&count(4, |first, part| part.copy_from_slice(&digits[first..][..part.len()])));
            let mut order = vec![0; 4];
            let mut places = [0; 4];
            next_places(&mut next_of(&starts), &digits, &mut places);
            (0..).zip(places).for_each(|(row, place)| order[place as usize] = row);
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
    fn places_are_the_same_in_pieces_of_any_length() {
        let keys = RootKey::new(0, [7; 32]).transcript(&[9; 32]);
        for (rows, asked) in [(1000, 1000), (DIRECT + 1, 5000)] {
            let shuffle = Shuffle::new(&keys, rows);
            let mut whole = vec![0; asked];
            shuffle.scatter(0..rows).places(&mut whole);
            assert_eq!(whole.iter().collect::<std::collections::BTreeSet<_>>().len(), asked);
            for piece in [1, 3, 7, 961] {
                let (mut scatter, mut parts) = (shuffle.scatter(0..rows), vec![0; asked]);
                parts.chunks_mut(piece).for_each(|part| scatter.places(part));
                assert_eq!(parts, whole, "{rows} rows in pieces of {piece}");
            }
        }
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
