//! Sums of fixed-length records: a server's computation for a record fetch.
//!
//! For two servers, a sum is the XOR of the records of a subset. For more servers it is `Σ_i
//! c_i·record_i`, byte by byte in GF(2^8), the field modulo x^8 + x^4 + x^3 + x + 1. Both read the
//! selected records once, in order.

use crate::backend::{Backend, Kernels, NibbleTables};
use ifonly_algebra::decode::FieldArithmetic;
use ifonly_algebra::gf256::Gf256;
use rayon::prelude::*;

/// Why records and a selection do not match. This is an error of the caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordSumError {
    /// The bytes are not a whole number of records.
    #[error("the records have {bytes} bytes in total, which is not a multiple of the record length {length}")]
    Length {
        /// Bytes of all records.
        bytes: usize,
        /// Bytes of one record.
        length: usize,
    },
    /// The selection is for another number of records.
    #[error("the selection has length {have} instead of {need} bytes")]
    Selection {
        /// Bytes found.
        have: usize,
        /// Bytes needed.
        need: usize,
    },
}

/// Sums records on a backend. Inside a rayon pool with more than one thread, it uses all threads of
/// the pool.
#[derive(Clone, Copy, Debug)]
pub struct RecordScanner {
    kernels: &'static dyn Kernels,
}

/// Records per task.
const SPAN: usize = 1 << 13;
/// Records that are copied at a time if their stripes have different lengths.
const TILE: usize = 64;

/// Bytes of one record, of the selection for one task, and of the sum.
#[derive(Clone, Copy)]
struct Sizes {
    record: usize,
    selection: usize,
    sum: usize,
}

impl RecordScanner {
    /// A scanner on the fastest backend.
    pub fn new() -> RecordScanner {
        RecordScanner::with_backend(Backend::best())
    }

    /// A scanner on another backend.
    pub fn with_backend(backend: Backend) -> RecordScanner {
        RecordScanner { kernels: backend.kernels() }
    }

    /// The XOR of the records whose bit is set. Bit `i mod 8` of byte `⌊i/8⌋` selects record i.
    pub fn xor(&self, records: &[u8], length: usize, subset: &[u8]) -> Result<Vec<u8>, RecordSumError> {
        let count = count(records, length)?;
        check_selection(subset.len(), count.div_ceil(8))?;
        let sizes = Sizes { record: length, selection: SPAN / 8, sum: length };
        Ok(self.sum(records, sizes, subset, |records, subset, sum| {
            self.kernels.xor_selected(records, length, subset, sum);
        }))
    }

    /// `Σ_i coefficient_i·record_i` in GF(2^8).
    pub fn gf256(&self, records: &[u8], length: usize, coefficients: &[u8]) -> Result<Vec<u8>, RecordSumError> {
        let count = count(records, length)?;
        check_selection(coefficients.len(), count)?;
        let tables = nibble_tables();
        let sizes = Sizes { record: length, selection: SPAN, sum: length };
        Ok(self.sum(records, sizes, coefficients, |records, coefficients, sum| {
            self.kernels.gf256_sum(&tables, records, length, coefficients, sum);
        }))
    }

    /// `Σ_{i,s} coefficient_{i·stripes+s}·stripe_s(record_i)` in GF(2^8), for records that are
    /// divided into `stripes` equal stripes. The last stripe may be shorter; it is padded with
    /// zeros.
    pub(crate) fn gf256_striped(
        &self,
        records: &[u8],
        length: usize,
        stripes: usize,
        coefficients: &[u8],
    ) -> Result<Vec<u8>, RecordSumError> {
        let count = count(records, length)?;
        if stripes == 0 || length.is_multiple_of(stripes) {
            return self.gf256(records, length / stripes.max(1), coefficients);
        }
        check_selection(coefficients.len(), count.saturating_mul(stripes))?;
        let stripe = length.div_ceil(stripes);
        if count == 0 {
            return Ok(vec![0; stripe]);
        }
        let tables = nibble_tables();
        // No more records than there are: a few records may have many stripes. The copy is then at
        // most as long as the records and coefficients together.
        let tile = TILE.min(count);
        let sizes = Sizes { record: length, selection: SPAN * stripes, sum: stripe };
        Ok(self.sum(records, sizes, coefficients, |records, coefficients, sum| {
            // Copies a few records at a time to memory with full stripes. They stay in the cache
            // until they are summed.
            let mut padded = vec![0; tile * stripe * stripes];
            for (records, coefficients) in records.chunks(tile * length).zip(coefficients.chunks(tile * stripes)) {
                for (padded, record) in padded.chunks_exact_mut(stripe * stripes).zip(records.chunks_exact(length)) {
                    padded[..length].copy_from_slice(record);
                }
                self.kernels.gf256_sum(&tables, &padded[..coefficients.len() * stripe], stripe, coefficients, sum);
            }
        }))
    }

    fn sum(
        &self,
        records: &[u8],
        sizes: Sizes,
        selection: &[u8],
        add: impl Fn(&[u8], &[u8], &mut [u8]) + Sync,
    ) -> Vec<u8> {
        let part = |(records, selection): (&[u8], &[u8])| {
            let mut sum = vec![0; sizes.sum];
            add(records, selection, &mut sum);
            sum
        };
        let merge = |mut a: Vec<u8>, b: Vec<u8>| {
            a.iter_mut().zip(b).for_each(|(a, b)| *a ^= b);
            a
        };
        if rayon::current_num_threads() == 1 || rayon::current_thread_index().is_none() {
            return part((records, selection));
        }
        records
            .par_chunks(SPAN * sizes.record)
            .zip(selection.par_chunks(sizes.selection))
            .map(part)
            .reduce(|| vec![0; sizes.sum], merge)
    }
}

impl Default for RecordScanner {
    fn default() -> Self {
        RecordScanner::new()
    }
}

fn count(records: &[u8], length: usize) -> Result<usize, RecordSumError> {
    if length == 0 || !records.len().is_multiple_of(length) {
        return Err(RecordSumError::Length { bytes: records.len(), length });
    }
    Ok(records.len() / length)
}

fn check_selection(have: usize, need: usize) -> Result<(), RecordSumError> {
    if have == need { Ok(()) } else { Err(RecordSumError::Selection { have, need }) }
}

fn nibble_tables() -> Box<NibbleTables> {
    let mut tables = Box::new([[0; 32]; 256]);
    for (factor, table) in tables.iter_mut().enumerate() {
        for nibble in 0..16 {
            table[usize::from(nibble)] = Gf256.mul(factor as u8, nibble);
            table[16 + usize::from(nibble)] = Gf256.mul(factor as u8, nibble << 4);
        }
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;
    use ifonly_algebra::random::{RandomSource, SeededRandom};

    #[test]
    fn sums_of_records_equal_their_definition_for_every_length() {
        let mut random = SeededRandom::new(9);
        for (count, length) in [(1, 1), (7, 3), (64, 32), (65, 64), (1000, 33), (129, 200), (20_000, 5), (0, 8)] {
            let mut records = vec![0; count * length];
            random.fill(&mut records);
            let mut subset = vec![0; usize::div_ceil(count, 8)];
            random.fill(&mut subset);
            let mut coefficients = vec![0; count];
            random.fill(&mut coefficients);
            let mut xor = vec![0; length];
            let mut sum = vec![0; length];
            for (i, record) in records.chunks_exact(length).enumerate() {
                for k in 0..length {
                    xor[k] ^= if subset[i / 8] >> (i % 8) & 1 == 1 { record[k] } else { 0 };
                    sum[k] ^= Gf256.mul(coefficients[i], record[k]);
                }
            }
            let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
            for backend in Backend::available() {
                let scanner = RecordScanner::with_backend(backend);
                let run = || (scanner.xor(&records, length, &subset), scanner.gf256(&records, length, &coefficients));
                let expected = (Ok(xor.clone()), Ok(sum.clone()));
                assert_eq!(run(), expected, "{backend}, {count} records of {length}");
                assert_eq!(pool.install(run), expected, "{backend}, two threads, {count} records of {length}");
            }
        }
    }

    #[test]
    fn stripes_are_summed_as_if_they_were_records() {
        let mut random = SeededRandom::new(10);
        for (count, length, stripes) in
            [(1, 1, 1), (3, 7, 2), (100, 12, 3), (200, 65, 3), (9000, 10, 4), (70, 3, 5), (0, 8, 3)]
        {
            let (mut records, mut coefficients) = (vec![0; count * length], vec![0; count * stripes]);
            random.fill(&mut records);
            random.fill(&mut coefficients);
            let stripe = usize::div_ceil(length, stripes);
            let mut sum = vec![0; stripe];
            for (record, coefficients) in records.chunks_exact(length).zip(coefficients.chunks_exact(stripes)) {
                for (part, &coefficient) in record.chunks(stripe).zip(coefficients) {
                    sum.iter_mut().zip(part).for_each(|(sum, &byte)| *sum ^= Gf256.mul(coefficient, byte));
                }
            }
            let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
            for backend in Backend::available() {
                let scanner = RecordScanner::with_backend(backend);
                let run = || scanner.gf256_striped(&records, length, stripes, &coefficients);
                assert_eq!(run(), Ok(sum.clone()), "{backend}, {count} records of {length} in {stripes}");
                assert_eq!(pool.install(run), Ok(sum.clone()), "{backend}, two threads");
            }
        }
    }

    #[test]
    fn memory_for_stripes_is_bounded_by_the_input() {
        let scanner = RecordScanner::new();
        // 64 bytes per stripe would exceed the memory of any machine.
        assert_eq!(scanner.gf256_striped(&[], 3, 1 << 44, &[]), Ok(vec![0]));
        // As many stripes as bytes, followed by many empty ones.
        let mut coefficients = vec![7; 5000];
        coefficients[..3].copy_from_slice(&[1, 0, 2]);
        let sum = Gf256.mul(2, 9) ^ 4;
        assert_eq!(scanner.gf256_striped(&[4, 5, 9], 3, 5000, &coefficients), Ok(vec![sum]));
    }

    #[test]
    fn selections_of_another_length_are_rejected() {
        let scanner = RecordScanner::new();
        let need = |have, need| Err(RecordSumError::Selection { have, need });
        assert_eq!(scanner.xor(&[0; 18], 2, &[0]), need(1, 2));
        assert_eq!(scanner.gf256(&[0; 18], 2, &[0; 8]), need(8, 9));
        assert_eq!(scanner.gf256_striped(&[0; 18], 3, 2, &[0; 6]), need(6, 12));
        // Zero stripes count as one.
        assert_eq!(scanner.gf256_striped(&[0; 18], 3, 0, &[0; 12]), need(12, 6));
        assert_eq!(scanner.gf256_striped(&[5; 18], 3, 0, &[1, 0, 0, 0, 0, 0]), Ok(vec![5; 3]));
        assert_eq!(scanner.xor(&[0; 17], 2, &[0; 2]), Err(RecordSumError::Length { bytes: 17, length: 2 }));
        assert_eq!(scanner.xor(&[], 0, &[]), Err(RecordSumError::Length { bytes: 0, length: 0 }));
    }
}
