//! The fast [`LiftedDecoder`]: both servers' words of a row in 32-bit arithmetic that compilers
//! vectorise.
//!
//! No branch and no amount of work depends on a word. Each block of rows is read twice: once for
//! its values and their minimum, once for the first position with the minimum. For the k nearest
//! rows with k > 1, the values of all rows are kept. Then, k times, the block with the smallest key
//! is found and read again for its next key. A key is a value above its position, so that of equal
//! values the lower position is first.

use crate::backend::{Backend, Kernels};
use ifonly_algebra::interpolate::MalformedAnswer;
use ifonly_algebra::lifted::{LiftedDecoder, LiftedPlan, LiftedResult};
use ifonly_algebra::wipe::wipe;

/// Rows of a block.
pub(crate) const BLOCK: usize = 1024;
/// The value of a row that does not match.
const NONE: u32 = u32::MAX;
/// The key of no row.
const NO_KEY: u64 = u64::MAX;
/// Bytes of a word.
const WORD: usize = 4;

/// The numbers that all rows share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DecodeConstants {
    q: u32,
    p: u32,
    gate_shift: u32,
    offset: u32,
    bound: u32,
}

/// What one block of rows contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BlockSummary {
    /// The smallest value and its first index.
    minimum: u32,
    index: u32,
    /// The number of matching rows up to the bound.
    matching: u32,
    /// The first index of a matching row whose cost is above the bound, or [`NONE`].
    impossible: u32,
    /// Whether a word is malformed.
    malformed: bool,
}

impl DecodeConstants {
    /// Decodes one block: `values` gets the costs of matching rows up to the bound, and
    /// [`NONE`] for all others.
    #[inline(always)]
    pub(crate) fn decode_block(
        &self,
        first: &[[u8; WORD]],
        second: &[[u8; WORD]],
        values: &mut [u32; BLOCK],
    ) -> BlockSummary {
        let DecodeConstants { q, p, gate_shift, offset, bound } = *self;
        let (mask, half) = ((1 << gate_shift) - 1, q.div_ceil(2));
        let (mut refused, mut matching, mut minimum, mut impossible) = (0, 0, NONE, NONE);
        for (i, ((first, second), value)) in (0..).zip(first.iter().zip(second).zip(values.iter_mut())) {
            let (first, second) = (u32::from_le_bytes(*first), u32::from_le_bytes(*second));
            let (a, b) = (first & mask, second & mask);
            let (gate_a, gate_b) = (first >> gate_shift, second >> gate_shift);
            // Sign bits of differences below 2^31.
            refused |= (q - 1).wrapping_sub(a) | (q - 1).wrapping_sub(b);
            refused |= (p - 1).wrapping_sub(gate_a) | (p - 1).wrapping_sub(gate_b);
            let doubled = a.wrapping_sub(b);
            let doubled = doubled.min(doubled.wrapping_add(q));
            let cost = (doubled >> 1).wrapping_add((doubled & 1).wrapping_mul(half)).wrapping_add(offset);
            let cost = cost.min(cost.wrapping_sub(q));
            // All ones unless the gates are equal; all ones unless the cost is above the bound.
            let closed = u32::from(gate_a != gate_b).wrapping_neg();
            let possible = u32::from(cost <= bound).wrapping_neg();
            impossible = impossible.min(i | closed | possible);
            *value = cost | closed | !possible;
            matching += 1 & !closed & possible;
            minimum = minimum.min(*value);
        }
        let mut index = NONE;
        for (i, &value) in (0..).zip(&*values).take(first.len()) {
            index = index.min(i | u32::from(value != minimum).wrapping_neg());
        }
        BlockSummary { minimum, index, matching, impossible, malformed: refused >> 31 == 1 }
    }
}

/// The decoder of one search.
pub(crate) struct LiftedStream {
    kernels: &'static dyn Kernels,
    constants: DecodeConstants,
    rows: usize,
    top: usize,
    next_row: usize,
    /// The values of all rows if k > 1, otherwise of the last block.
    values: Vec<[u32; BLOCK]>,
    /// The smallest key of each block if k > 1, otherwise of all rows.
    keys: Vec<u64>,
    matching: u64,
    impossible: u64,
}

impl Drop for LiftedStream {
    fn drop(&mut self) {
        // The values are as secret as the profile.
        wipe(self.values.as_flattened_mut());
        wipe(&mut self.keys);
    }
}

impl LiftedStream {
    pub(crate) fn new(plan: &LiftedPlan, backend: Backend) -> LiftedStream {
        let (q, p) = (plan.format.cost_field().q() as u32, plan.format.gate_field().q() as u32);
        // Costs are below q < 2^31, so a larger bound has no effect.
        let bound = u32::try_from(plan.bound).unwrap_or(u32::MAX).min(q);
        let offset = plan.offset.value() as u32;
        let constants = DecodeConstants { q, p, gate_shift: plan.format.gate_shift(), offset, bound };
        // Allocated with the final size, because growing would leave unwiped copies.
        let blocks = if plan.top > 1 { plan.rows.div_ceil(BLOCK) } else { 1 };
        LiftedStream {
            kernels: backend.kernels(),
            constants,
            rows: plan.rows,
            top: plan.top,
            next_row: 0,
            values: vec![[NONE; BLOCK]; blocks],
            keys: vec![NO_KEY; blocks],
            matching: 0,
            impossible: NO_KEY,
        }
    }

    fn decode_next(&mut self, first: &[u8], second: &[u8]) -> Result<(), MalformedAnswer> {
        let block = if self.top > 1 { self.next_row / BLOCK } else { 0 };
        let (first, second) = (first.as_chunks().0, second.as_chunks().0);
        let summary = self.kernels.decode_lifted(&self.constants, first, second, &mut self.values[block]);
        if summary.malformed {
            return Err(MalformedAnswer);
        }
        let position = |index: u32| self.next_row as u64 + u64::from(index);
        // Without matching rows the key is that of no row: the upper half is all ones.
        let none = u64::from(u32::from(summary.minimum == NONE).wrapping_neg());
        let smallest = key(summary.minimum, position(summary.index)) | none;
        self.keys[block] = self.keys[block].min(smallest);
        let possible = u64::from(summary.impossible == NONE).wrapping_neg();
        self.impossible = self.impossible.min(position(summary.impossible) | possible);
        self.matching += u64::from(summary.matching);
        self.next_row += first.len();
        Ok(())
    }

    /// The smallest key of a block above `last`.
    fn next_key(&self, block: usize, last: u64) -> u64 {
        let keys = (block as u64 * BLOCK as u64..).zip(&self.values[block]).map(|(position, &value)| {
            let key = key(value, position) | u64::from(u32::from(value == NONE).wrapping_neg());
            key | u64::from(key <= last).wrapping_neg()
        });
        keys.fold(NO_KEY, u64::min)
    }
}

/// A key, for fewer than 2^32 rows. Keys compare like values, then positions.
fn key(value: u32, position: u64) -> u64 {
    u64::from(value) << 32 | position & u64::from(u32::MAX)
}

impl LiftedDecoder for LiftedStream {
    fn advance(&mut self, answers: [&[u8]; 2]) -> Result<(), MalformedAnswer> {
        let received = answers[0].len().min(answers[1].len()) / WORD;
        while self.next_row < self.rows {
            let end = self.rows.min(self.next_row + BLOCK);
            if received < end {
                break;
            }
            let [first, second] = answers.map(|answer| &answer[self.next_row * WORD..end * WORD]);
            self.decode_next(first, second)?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> LiftedResult {
        let mut nearest = Vec::with_capacity(self.top);
        for _ in 0..self.top {
            // The first block with the smallest key.
            let (mut smallest, mut found) = (NO_KEY, 0);
            for (block, &key) in self.keys.iter().enumerate() {
                let is_smaller = usize::from(key < smallest).wrapping_neg();
                found = found & !is_smaller | block & is_smaller;
                smallest = smallest.min(key);
            }
            let no_row = u64::from(smallest == NO_KEY).wrapping_neg();
            nearest.push((smallest >> 32 | no_row, smallest & u64::from(u32::MAX) | no_row));
            if self.top > 1 {
                let next = self.next_key(found, smallest);
                self.keys[found] = next;
            }
        }
        let rescans = if self.top > 1 { self.top * (self.keys.len() + BLOCK) } else { 0 };
        let work = (2 * self.rows + rescans) as u64;
        LiftedResult { nearest, matching_rows: self.matching, impossible: self.impossible, work }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ifonly_algebra::field::FieldElement;
    use ifonly_algebra::lifted::{LiftedFormat, decode_word};
    use ifonly_algebra::random::{RandomSource, SeededRandom};

    /// The result by definition.
    fn expected(plan: &LiftedPlan, words: &[[u32; 2]]) -> LiftedResult {
        let mut found: Vec<(u64, u64)> = vec![];
        for (position, &[first, second]) in (0..).zip(words) {
            let value = decode_word(&plan.format, first, second).unwrap();
            if value.gate.is_zero() {
                found.push((plan.format.cost_field().add(value.cost, plan.offset).value(), position));
            }
        }
        let impossible = found.iter().find(|(cost, _)| *cost > plan.bound).map_or(u64::MAX, |(_, position)| *position);
        found.retain(|(cost, _)| *cost <= plan.bound);
        let matching_rows = found.len() as u64;
        found.sort_unstable();
        found.resize(plan.top.max(found.len()), (u64::MAX, u64::MAX));
        found.truncate(plan.top);
        LiftedResult { nearest: found, matching_rows, impossible, work: 0 }
    }

    fn decoded(plan: &LiftedPlan, backend: Backend, words: &[[u32; 2]], pieces: usize) -> Option<LiftedResult> {
        let bytes = |server: usize| -> Vec<u8> { words.iter().flat_map(|words| words[server].to_le_bytes()).collect() };
        let [first, second] = [bytes(0), bytes(1)];
        let mut decoder = Box::new(LiftedStream::new(plan, backend));
        for piece in 1..=pieces {
            // The servers are not equally fast.
            let slower = second.len() * piece / pieces;
            decoder.advance([&first[..first.len().min(slower + 777)], &second[..slower]]).ok()?;
        }
        Some(decoder.finish())
    }

    #[test]
    fn every_backend_finds_what_the_definition_finds() {
        let mut random = SeededRandom::new(4);
        for (q, p) in [(268_435_399, 13), (16_777_213, 251), (16_381, 13), (7, 5), (5, 3)] {
            let format = LiftedFormat::new(q, p).unwrap();
            for (rows, top, gates, bound) in [
                (1, 1, 2, q),
                (5000, 1, 4, q),
                (5000, 7, 4, q / 2),
                (3000, 40, p, q),
                (9, 20, 1, q - 2),
                (2500, 3, 0, q),
            ] {
                let mut element = |below: u64| random.below(below);
                let words: Vec<[u32; 2]> = (0..rows)
                    .map(|_| {
                        // Few different costs, so that there are ties; gates that are never equal,
                        // or all equal.
                        let cost = format.cost_field().reduce(element(6.min(q)));
                        let other = format.cost_field().reduce(element(6.min(q)));
                        let gate = format.gate_field().reduce(element(gates.clamp(1, p)));
                        let unequal = format.gate_field().add(gate, format.gate_field().reduce(u64::from(gates == 0)));
                        let second = if element(2) == 0 && gates > 1 { FieldElement::ZERO } else { unequal };
                        [format.word(cost, gate), format.word(other, second)]
                    })
                    .collect();
                let offset = format.cost_field().reduce(element(q));
                let plan = LiftedPlan { format: format.clone(), offset, bound, rows, top };
                let expected = expected(&plan, &words);
                for backend in Backend::available() {
                    for pieces in [1, 3] {
                        let found = decoded(&plan, backend, &words, pieces).unwrap();
                        assert_eq!(found.nearest, expected.nearest, "{backend}, q = {q}, {rows} rows, top {top}");
                        assert_eq!(
                            (found.matching_rows, found.impossible),
                            (expected.matching_rows, expected.impossible)
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn the_work_does_not_depend_on_the_words_and_malformed_words_are_refused() {
        let format = LiftedFormat::new(268_435_399, 13).unwrap();
        for top in [1, 5] {
            let plan = LiftedPlan { format: format.clone(), offset: FieldElement::ZERO, bound: 9, rows: 3000, top };
            for backend in Backend::available() {
                let work = |word: u32| decoded(&plan, backend, &vec![[word, 0]; 3000], 2).map(|result| result.work);
                assert!(work(0).is_some() && work(0) == work(1) && work(0) == work(5 | 7 << 28));
                for malformed in [268_435_399, 13 << 28, u32::MAX] {
                    for server in [0, 1] {
                        let mut words = vec![[0, 0]; 3000];
                        words[2999][server] = malformed;
                        assert!(decoded(&plan, backend, &words, 2).is_none(), "{malformed}, {backend}");
                    }
                }
            }
        }
    }
}
