//! Row function values in as few whole bytes as possible.
//!
//! Kernels work on words of 32 bits, one or two for each value. Values that are stored or sent for
//! all rows use a shorter form: if q has b bits, a value takes ⌈b/8⌉ bytes, little-endian. At 40
//! bits this is five bytes instead of eight.

use crate::dot::limbs16::Width;
use ifonly_algebra::field::Field;

/// The format of a row's values: their number, and the length of each in words and in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowValues {
    count: usize,
    width: Width,
    bytes: usize,
}

/// Calls a function whose const parameter is a number from 1 to 8.
macro_rules! with_bytes {
    ($bytes:expr, $function:ident $arguments:tt) => {
        match $bytes {
            1 => $function::<1>$arguments,
            2 => $function::<2>$arguments,
            3 => $function::<3>$arguments,
            4 => $function::<4>$arguments,
            5 => $function::<5>$arguments,
            6 => $function::<6>$arguments,
            7 => $function::<7>$arguments,
            _ => $function::<8>$arguments,
        }
    };
}

impl RowValues {
    /// The format of `count` values below q.
    pub(crate) fn reduced(field: &Field, count: usize) -> RowValues {
        RowValues { count, width: Width::of(field), bytes: field.bits().div_ceil(8) as usize }
    }

    /// The format of `count` values as kernels compute them: wide values are below q, narrow values
    /// may be any word.
    pub(crate) fn scanned(field: &Field, count: usize) -> RowValues {
        let reduced = RowValues::reduced(field, count);
        let bytes = if reduced.width == Width::Narrow { 4 } else { reduced.bytes };
        RowValues { bytes, ..reduced }
    }

    /// Words per row.
    pub(crate) fn words(self) -> usize {
        self.count * self.width.planes()
    }

    /// Bytes per row.
    pub(crate) fn bytes(self) -> usize {
        self.count * self.bytes
    }

    /// Converts the words of whole rows to bytes.
    pub(crate) fn words_to_bytes(self, words: &[u32], out: &mut [u8]) {
        match self.width {
            Width::Narrow => with_bytes!(self.bytes, words_to_bytes(words.iter().map(|&word| word.into()), out)),
            Width::Wide => with_bytes!(self.bytes, words_to_bytes(words.as_chunks().0.iter().map(join_words), out)),
        }
    }

    /// Converts the bytes of whole rows to words.
    pub(crate) fn bytes_to_words(self, bytes: &[u8], out: &mut [u32]) {
        match self.width {
            Width::Narrow => with_bytes!(self.bytes, bytes_to_narrow(bytes, out)),
            Width::Wide => with_bytes!(self.bytes, bytes_to_wide(bytes, out)),
        }
    }
}

/// The 64-bit number with this low and this high word.
pub(crate) fn join_words(&[low, high]: &[u32; 2]) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

fn words_to_bytes<const B: usize>(values: impl Iterator<Item = u64>, out: &mut [u8]) {
    for (value, out) in values.zip(out.as_chunks_mut::<B>().0) {
        out.copy_from_slice(&value.to_le_bytes()[..B]);
    }
}

fn to_u64<const B: usize>(bytes: &[u8; B]) -> u64 {
    let mut word = [0; 8];
    word[..B].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

fn bytes_to_narrow<const B: usize>(bytes: &[u8], out: &mut [u32]) {
    out.iter_mut().zip(bytes.as_chunks::<B>().0).for_each(|(out, bytes)| *out = to_u64(bytes) as u32);
}

fn bytes_to_wide<const B: usize>(bytes: &[u8], out: &mut [u32]) {
    for (out, bytes) in out.as_chunks_mut().0.iter_mut().zip(bytes.as_chunks::<B>().0) {
        let value = to_u64(bytes);
        *out = [value as u32, (value >> 32) as u32];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_below_q_survive_the_round_trip_in_the_fewest_bytes() {
        // 2, and the largest primes of 8, 9, 16, 18, 31, 32, 40, 56 and 61 bits.
        let primes = [2, 251, 509, 65_521, 262_139, (1 << 31) - 1, (1 << 32) - 5, (1 << 40) - 87, (1 << 56) - 5];
        for q in primes.into_iter().chain([(1 << 61) - 1]) {
            let field = Field::new(q).unwrap();
            let bytes = (1..=8).find(|&bytes| bytes == 8 || q <= 1 << (8 * bytes)).unwrap();
            for count in [1, 2, 3, 4] {
                let row = RowValues::reduced(&field, count);
                assert_eq!(row.bytes(), count * bytes, "q = {q}");
                let values: Vec<u64> = (0..5 * count as u64).map(|i| (q - 1) - i.min(q - 1)).collect();
                let planes = Width::of(&field).planes();
                let words: Vec<u32> = values
                    .iter()
                    .flat_map(|&value| [value as u32, (value >> 32) as u32].into_iter().take(planes))
                    .collect();
                assert_eq!(words.len(), 5 * row.words());
                for row in [row, RowValues::scanned(&field, count)] {
                    let (mut short, mut back) = (vec![0; 5 * row.bytes()], vec![7; words.len()]);
                    row.words_to_bytes(&words, &mut short);
                    row.bytes_to_words(&short, &mut back);
                    assert_eq!(back, words, "q = {q}, {count} values");
                }
            }
        }
        // Narrow sums that are not reduced keep all their bits.
        let row = RowValues::scanned(&Field::new(251).unwrap(), 1);
        let (mut short, mut back) = ([0; 4], [0]);
        row.words_to_bytes(&[u32::MAX], &mut short);
        row.bytes_to_words(&short, &mut back);
        assert_eq!(back, [u32::MAX]);
    }
}
