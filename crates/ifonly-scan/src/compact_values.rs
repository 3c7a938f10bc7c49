//! Form values in as few whole bytes as they need.
//!
//! Kernels work on words of 32 bits, one or two for a value. What is kept or sent for all rows is
//! shorter: a value below a q of b bits takes ⌈b/8⌉ bytes, little-endian, so five instead of eight
//! at 40 bits.

use crate::dot::limbs16::Width;
use ifonly_algebra::field::Field;

/// The values of a row: how many, and how long each is in words and in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowValues {
    count: usize,
    width: Width,
    bytes: usize,
}

/// Calls a function of a constant with a number from 1 to 8.
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
    /// `count` values below q.
    pub(crate) fn reduced(field: &Field, count: usize) -> RowValues {
        RowValues { count, width: Width::of(field), bytes: field.bits().div_ceil(8) as usize }
    }

    /// `count` values as kernels leave them: wide ones are below q, narrow ones may be any word.
    pub(crate) fn scanned(field: &Field, count: usize) -> RowValues {
        let reduced = RowValues::reduced(field, count);
        let bytes = if reduced.width == Width::Narrow { 4 } else { reduced.bytes };
        RowValues { bytes, ..reduced }
    }

    /// Words of a row.
    pub(crate) fn words(self) -> usize {
        self.count * self.width.planes()
    }

    /// Bytes of a row.
    pub(crate) fn bytes(self) -> usize {
        self.count * self.bytes
    }

    /// Words of whole rows as bytes.
    pub(crate) fn shorten(self, words: &[u32], out: &mut [u8]) {
        match self.width {
            Width::Narrow => with_bytes!(self.bytes, shorten(words.iter().map(|&word| word.into()), out)),
            Width::Wide => with_bytes!(self.bytes, shorten(words.as_chunks().0.iter().map(whole), out)),
        }
    }

    /// Bytes of whole rows as words.
    pub(crate) fn widen(self, bytes: &[u8], out: &mut [u32]) {
        match self.width {
            Width::Narrow => with_bytes!(self.bytes, widen_narrow(bytes, out)),
            Width::Wide => with_bytes!(self.bytes, widen_wide(bytes, out)),
        }
    }
}

/// The number that two words are.
pub(crate) fn whole(&[low, high]: &[u32; 2]) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

fn shorten<const B: usize>(values: impl Iterator<Item = u64>, out: &mut [u8]) {
    for (value, out) in values.zip(out.as_chunks_mut::<B>().0) {
        out.copy_from_slice(&value.to_le_bytes()[..B]);
    }
}

fn long<const B: usize>(bytes: &[u8; B]) -> u64 {
    let mut long = [0; 8];
    long[..B].copy_from_slice(bytes);
    u64::from_le_bytes(long)
}

fn widen_narrow<const B: usize>(bytes: &[u8], out: &mut [u32]) {
    out.iter_mut().zip(bytes.as_chunks::<B>().0).for_each(|(out, bytes)| *out = long(bytes) as u32);
}

fn widen_wide<const B: usize>(bytes: &[u8], out: &mut [u32]) {
    for (out, bytes) in out.as_chunks_mut().0.iter_mut().zip(bytes.as_chunks::<B>().0) {
        let value = long(bytes);
        *out = [value as u32, (value >> 32) as u32];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_up_to_the_last_one_below_q_and_take_no_byte_more() {
        // The largest primes of 8, 9, 16, 18, 31, 32, 40, 56 and 61 bits, and the even one.
        let primes = [2, 251, 509, 65_521, 262_139, (1 << 31) - 1, (1 << 32) - 5, (1 << 40) - 87, (1 << 56) - 5];
        for q in primes.into_iter().chain([(1 << 61) - 1]) {
            let field = Field::new(q).unwrap();
            let bytes = (1..=8).find(|&bytes| bytes == 8 || q <= 1 << (8 * bytes)).unwrap();
            for count in [1, 2, 3, 4] {
                let row = RowValues::reduced(&field, count);
                assert_eq!(row.bytes(), count * bytes, "q = {q}");
                let values: Vec<u64> = (0..5 * count as u64).map(|place| (q - 1) - place.min(q - 1)).collect();
                let planes = Width::of(&field).planes();
                let words: Vec<u32> = values
                    .iter()
                    .flat_map(|&value| [value as u32, (value >> 32) as u32].into_iter().take(planes))
                    .collect();
                assert_eq!(words.len(), 5 * row.words());
                for row in [row, RowValues::scanned(&field, count)] {
                    let (mut short, mut back) = (vec![0; 5 * row.bytes()], vec![7; words.len()]);
                    row.shorten(&words, &mut short);
                    row.widen(&short, &mut back);
                    assert_eq!(back, words, "q = {q}, {count} values");
                }
            }
        }
        // Narrow sums that are not reduced keep all their bits.
        let row = RowValues::scanned(&Field::new(251).unwrap(), 1);
        let (mut short, mut back) = ([0; 4], [0]);
        row.shorten(&[u32::MAX], &mut short);
        row.widen(&short, &mut back);
        assert_eq!(back, [u32::MAX]);
    }
}
