//! Records in parts: every part sums its own records, and the sums are added.

use super::{PartError, check_consecutive};
use crate::records::RecordScanner;
use std::ops::Range;
use std::sync::Arc;
use zeroize::Zeroizing;

/// The records to sum. Selections are shares of a query; their owner wipes them.
#[derive(Clone, Copy)]
pub enum Selection<'a> {
    /// The records whose bit is set, as in [`RecordScanner::xor`].
    Subset(&'a [u8]),
    /// Stripes times factors, in GF(2^8). The last stripe may be shorter; it is padded with zeros.
    Factors {
        /// Stripes per record.
        stripes: usize,
        /// One factor per stripe of each record.
        factors: &'a [u8],
    },
}

impl std::fmt::Debug for Selection<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Selection(..)")
    }
}

impl Selection<'_> {
    /// Checks that this is a selection among `rows` rows.
    fn check(&self, rows: usize) -> Result<(), PartError> {
        let (have, need) = match self {
            Selection::Subset(bits) => (bits.len(), rows.div_ceil(8)),
            Selection::Factors { stripes, factors } => (factors.len(), rows.saturating_mul(*stripes)),
        };
        if have == need { Ok(()) } else { Err(PartError::Selection { have, need }) }
    }
}

/// The selection bits of a range of rows, the first of them at bit 0.
fn bits_of(subset: &[u8], rows: Range<usize>) -> Zeroizing<Vec<u8>> {
    let (first, shift) = (rows.start / 8, rows.start % 8);
    let byte = |index: usize| subset.get(index).copied().map_or(0, u16::from);
    let pair = |index: usize| (byte(index) | byte(index + 1) << 8) >> shift;
    let mut bits: Vec<u8> = (first..first + rows.len().div_ceil(8)).map(|index| pair(index) as u8).collect();
    // Clears the bits of the next part.
    if let Some(last) = bits.last_mut().filter(|_| !rows.len().is_multiple_of(8)) {
        *last &= (1 << (rows.len() % 8)) - 1;
    }
    Zeroizing::new(bits)
}

/// The encoded records of some rows, in this process or in a shard. Rows are numbered as in the
/// whole database.
pub trait RecordPart: Send + Sync {
    /// The range of rows.
    fn rows(&self) -> Range<usize>;

    /// Bytes of one record.
    fn record_length(&self) -> usize;

    /// The sum over the rows of this part. The selection is for these rows alone.
    fn sum(&self, selection: &Selection<'_>) -> Result<Vec<u8>, PartError>;
}

/// Consecutive encoded records in this process.
pub struct LocalRecords {
    first_row: usize,
    length: usize,
    bytes: Vec<u8>,
}

impl std::fmt::Debug for LocalRecords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LocalRecords({} bytes each, ..)", self.length)
    }
}

impl LocalRecords {
    /// Records of `length` bytes; the first belongs to row `first_row`. Bytes after the last whole
    /// record are ignored.
    pub fn new(first_row: usize, length: usize, bytes: Vec<u8>) -> LocalRecords {
        LocalRecords { first_row, length, bytes }
    }
}

impl RecordPart for LocalRecords {
    fn rows(&self) -> Range<usize> {
        self.first_row..self.first_row + self.bytes.len().checked_div(self.length).unwrap_or(0)
    }

    fn record_length(&self) -> usize {
        self.length
    }

    fn sum(&self, selection: &Selection<'_>) -> Result<Vec<u8>, PartError> {
        let scanner = RecordScanner::new();
        let sum = match *selection {
            Selection::Subset(bits) => scanner.xor(&self.bytes, self.length, bits),
            Selection::Factors { stripes, factors } => {
                scanner.gf256_striped(&self.bytes, self.length, stripes, factors)
            }
        };
        sum.map_err(|error| PartError::Unavailable { rows: self.rows(), reason: error.to_string() })
    }
}

/// The records of all rows, in consecutive parts.
#[derive(Clone)]
pub struct RecordParts {
    parts: Vec<Arc<dyn RecordPart>>,
    rows: usize,
}

impl std::fmt::Debug for RecordParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RecordParts({})", self.parts.len())
    }
}

impl From<LocalRecords> for RecordParts {
    fn from(records: LocalRecords) -> RecordParts {
        RecordParts { rows: records.rows().end, parts: vec![Arc::new(records)] }
    }
}

impl RecordParts {
    /// Consecutive parts that start at row 0.
    pub fn new(parts: Vec<Arc<dyn RecordPart>>) -> Result<RecordParts, PartError> {
        let length = parts.first().ok_or(PartError::NoParts)?.record_length();
        let rows = check_consecutive(parts.iter().map(|part| part.rows()))?;
        match parts.iter().find(|part| part.record_length() != length) {
            Some(other) => Err(PartError::Mismatch(other.rows().start)),
            None => Ok(RecordParts { parts, rows }),
        }
    }

    /// The sum over all rows.
    pub fn sum(&self, selection: &Selection<'_>) -> Result<Vec<u8>, PartError> {
        selection.check(self.rows)?;
        if let [single] = &self.parts[..] {
            return single.sum(selection);
        }
        // In parallel, because remote parts mostly wait for the network.
        let sums: Vec<Result<Vec<u8>, PartError>> = std::thread::scope(|scope| {
            let summing: Vec<_> = self.parts.iter().map(|part| scope.spawn(|| part_sum(&**part, selection))).collect();
            let failed =
                || PartError::Unavailable { rows: 0..self.rows, reason: "a thread that sums records failed".into() };
            summing.into_iter().map(|sum| sum.join().unwrap_or_else(|_| Err(failed()))).collect()
        });
        let mut total: Vec<u8> = vec![];
        for (part, sum) in self.parts.iter().zip(sums) {
            let sum = sum?;
            if total.is_empty() {
                total = vec![0; sum.len()];
            }
            if sum.len() != total.len() {
                return Err(PartError::Mismatch(part.rows().start));
            }
            total.iter_mut().zip(sum).for_each(|(total, byte)| *total ^= byte);
        }
        Ok(total)
    }
}

/// The sum over one part, for a selection of all rows.
fn part_sum(part: &dyn RecordPart, selection: &Selection<'_>) -> Result<Vec<u8>, PartError> {
    let rows = part.rows();
    match *selection {
        Selection::Subset(bits) => part.sum(&Selection::Subset(&bits_of(bits, rows))),
        Selection::Factors { stripes, factors } => {
            let factors = &factors[rows.start * stripes..rows.end * stripes];
            part.sum(&Selection::Factors { stripes, factors })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ifonly_algebra::random::{RandomSource, SeededRandom};

    #[test]
    fn the_sum_of_all_parts_does_not_depend_on_the_division() {
        let mut random = SeededRandom::new(3);
        let (rows, length) = (150, 13);
        let mut bytes = vec![0; rows * length];
        random.fill(&mut bytes);
        let whole = RecordParts::from(LocalRecords::new(0, length, bytes.clone()));
        for stripes in [1, 2, 3] {
            let (mut bits, mut factors) = (vec![0; rows.div_ceil(8)], vec![0; rows * stripes]);
            random.fill(&mut bits);
            random.fill(&mut factors);
            // Bits beyond the last row are zero in every query.
            bits[rows / 8] &= (1 << (rows % 8)) - 1;
            for cuts in [vec![], vec![64], vec![1, 9, 9, 70], vec![0, 8, 77, 149], vec![150]] {
                let ends: Vec<usize> = [0].into_iter().chain(cuts.iter().copied()).chain([rows]).collect();
                let part = |pair: &[usize]| -> Arc<dyn RecordPart> {
                    let bytes = bytes[pair[0] * length..pair[1] * length].to_vec();
                    Arc::new(LocalRecords::new(pair[0], length, bytes))
                };
                let parts = RecordParts::new(ends.windows(2).map(part).collect()).unwrap();
                let scanner = RecordScanner::new();
                for (selection, sum) in [
                    (Selection::Subset(&bits), scanner.xor(&bytes, length, &bits)),
                    (
                        Selection::Factors { stripes, factors: &factors },
                        scanner.gf256_striped(&bytes, length, stripes, &factors),
                    ),
                ] {
                    assert_eq!(whole.sum(&selection), Ok(sum.unwrap()), "{stripes} stripes");
                    assert_eq!(parts.sum(&selection), whole.sum(&selection), "{cuts:?}, {stripes} stripes");
                }
            }
        }
    }

    #[test]
    fn gaps_other_record_lengths_and_wrong_selections_are_rejected() {
        let part = |first, length, count: usize| -> Arc<dyn RecordPart> {
            Arc::new(LocalRecords::new(first, length, vec![0; length * count]))
        };
        assert_eq!(RecordParts::new(vec![]).unwrap_err(), PartError::NoParts);
        let gap = RecordParts::new(vec![part(0, 4, 10), part(11, 4, 10)]).unwrap_err();
        assert_eq!(gap, PartError::Gap { have: 11, need: 10 });
        assert_eq!(RecordParts::new(vec![part(0, 4, 10), part(10, 5, 10)]).unwrap_err(), PartError::Mismatch(10));
        let parts = RecordParts::new(vec![part(0, 4, 10), part(10, 4, 10)]).unwrap();
        assert_eq!(parts.sum(&Selection::Subset(&[0; 2])), Err(PartError::Selection { have: 2, need: 3 }));
        let factors = Selection::Factors { stripes: 2, factors: &[0; 39] };
        assert_eq!(parts.sum(&factors), Err(PartError::Selection { have: 39, need: 40 }));
    }
}
