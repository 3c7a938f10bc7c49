//! Sums of fixed-length records: what a server computes when a record is fetched.
//!
//! Two servers: the XOR of the records that a subset names. More: `Σ_i c_i·record_i` byte by byte in GF(2^8), the field
//! modulo x^8 + x^4 + x^3 + x + 1. Both read the chosen records once, in order.

use crate::backend::{Backend, Kernels};
use rayon::prelude::*;

/// Why records and a selection do not fit together. A fault of the caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The records are not whole.
    #[error("{bytes} bytes are not whole records of {length}")]
    Length {
        /// Bytes of all records.
        bytes: usize,
        /// Bytes of one.
        length: usize,
    },
    /// The selection is for another number of records.
    #[error("a selection of {have} bytes; {need} are needed")]
    Selection {
        /// Bytes found.
        have: usize,
        /// Bytes needed.
        need: usize,
    },
}

/// Sums records on a backend, with threads of the current rayon pool if more than one is there.
#[derive(Clone, Copy, Debug)]
pub struct RecordScanner {
    kernels: Kernels,
}

/// Records per task.
const SPAN: usize = 1 << 13;

impl RecordScanner {
    /// On the fastest backend.
    pub fn new() -> RecordScanner {
        RecordScanner { kernels: Kernels::best() }
    }

    /// On another backend, or `None` if this machine cannot run it.
    pub fn with_backend(backend: Backend) -> Option<RecordScanner> {
        Some(RecordScanner { kernels: Kernels::new(backend)? })
    }

    /// The XOR of the records whose bit is set: bit `i mod 8` of byte `⌊i/8⌋` stands for record i.
    pub fn xor(&self, records: &[u8], length: usize, subset: &[u8]) -> Result<Vec<u8>, RecordError> {
        let count = count(records, length)?;
        check_selection(subset.len(), count.div_ceil(8))?;
        Ok(self.sum(records, length, SPAN / 8, subset, |records, subset, sum| {
            self.kernels.xor_selected(records, length, subset, sum);
        }))
    }

    /// `Σ_i coefficient_i·record_i` in GF(2^8).
    pub fn gf256(&self, records: &[u8], length: usize, coefficients: &[u8]) -> Result<Vec<u8>, RecordError> {
        let count = count(records, length)?;
        check_selection(coefficients.len(), count)?;
        let tables = nibble_tables();
        Ok(self.sum(records, length, SPAN, coefficients, |records, coefficients, sum| {
            self.kernels.gf256_sum(&tables, records, length, coefficients, sum);
        }))
    }

    fn sum(
        &self,
        records: &[u8],
        length: usize,
        selection_bytes: usize,
        selection: &[u8],
        add: impl Fn(&[u8], &[u8], &mut [u8]) + Sync,
    ) -> Vec<u8> {
        let part = |(records, selection): (&[u8], &[u8])| {
            let mut sum = vec![0; length];
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
            .par_chunks(SPAN * length)
            .zip(selection.par_chunks(selection_bytes))
            .map(part)
            .reduce(|| vec![0; length], merge)
    }
}

impl Default for RecordScanner {
    fn default() -> Self {
        RecordScanner::new()
    }
}

/// [`RecordScanner::xor`] on the fastest backend.
pub fn xor_records(records: &[u8], length: usize, subset: &[u8]) -> Result<Vec<u8>, RecordError> {
    RecordScanner::new().xor(records, length, subset)
}

/// [`RecordScanner::gf256`] on the fastest backend.
pub fn gf256_records(records: &[u8], length: usize, coefficients: &[u8]) -> Result<Vec<u8>, RecordError> {
    RecordScanner::new().gf256(records, length, coefficients)
}

fn count(records: &[u8], length: usize) -> Result<usize, RecordError> {
    if length == 0 || !records.len().is_multiple_of(length) {
        return Err(RecordError::Length { bytes: records.len(), length });
    }
    Ok(records.len() / length)
}

fn check_selection(have: usize, need: usize) -> Result<(), RecordError> {
    if have == need { Ok(()) } else { Err(RecordError::Selection { have, need }) }
}

/// The product modulo x^8 + x^4 + x^3 + x + 1, bit by bit.
fn gf256_product(mut a: u8, b: u8) -> u8 {
    let mut product = 0;
    for bit in 0..8 {
        product ^= if b >> bit & 1 == 1 { a } else { 0 };
        let carry = a >> 7;
        a = (a << 1) ^ (carry * 0x1B);
    }
    product
}

/// For each factor, its products with 0..16 and with 16·(0..16).
fn nibble_tables() -> Box<[[u8; 32]; 256]> {
    let mut tables = Box::new([[0; 32]; 256]);
    for (factor, table) in tables.iter_mut().enumerate() {
        for nibble in 0..16 {
            table[usize::from(nibble)] = gf256_product(factor as u8, nibble);
            table[16 + usize::from(nibble)] = gf256_product(factor as u8, nibble << 4);
        }
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;
    use ifonly_core::random::{Random, SeededRandom};

    #[test]
    fn sums_of_records_are_their_definition_for_every_length() {
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
                    sum[k] ^= gf256_product(coefficients[i], record[k]);
                }
            }
            let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
            for backend in Backend::available() {
                let scanner = RecordScanner::with_backend(backend).unwrap();
                let run = || (scanner.xor(&records, length, &subset), scanner.gf256(&records, length, &coefficients));
                let wanted = (Ok(xor.clone()), Ok(sum.clone()));
                assert_eq!(run(), wanted, "{backend}, {count} records of {length}");
                assert_eq!(pool.install(run), wanted, "{backend}, two threads, {count} records of {length}");
            }
        }
    }

    #[test]
    fn selections_of_another_length_are_refused() {
        let need = |have, need| Err(RecordError::Selection { have, need });
        assert_eq!(xor_records(&[0; 18], 2, &[0]), need(1, 2));
        assert_eq!(gf256_records(&[0; 18], 2, &[0; 8]), need(8, 9));
        assert_eq!(xor_records(&[0; 17], 2, &[0; 2]), Err(RecordError::Length { bytes: 17, length: 2 }));
        assert_eq!(xor_records(&[], 0, &[]), Err(RecordError::Length { bytes: 0, length: 0 }));
    }

    #[test]
    fn the_field_of_256_elements_has_inverses() {
        for a in 1..=255 {
            assert_eq!((1..=255).filter(|&b| gf256_product(a, b) == 1).count(), 1);
        }
    }
}
