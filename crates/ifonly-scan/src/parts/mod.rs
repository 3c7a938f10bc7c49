//! A database in parts: form values of rows [a, b), from a store here or from elsewhere, before
//! order, pads and packing.
//!
//! A form value depends on its row alone, so whoever holds rows [a, b) can compute theirs and needs
//! to know nothing else. All that goes by the position in the whole answer (the order, pads, ρ, σ,
//! μ, row shares, packing) is done where the parts meet, in [`Scanner::answer_parts`]. The answer
//! has the same bits for every cut into parts.
//!
//! ```text
//! Part [0, a) ── values ──┐
//! Part [a, b) ── values ──┼──▶ order ──▶ pads ──▶ packing
//! Part [b, M) ── values ──┘
//! ```
//! One store with all rows is the usual case and keeps its fast way, in which values never leave
//! the cache.
//!
//! For a shuffled answer parts give their values bucket by bucket (see
//! [`ifonly_algebra::shuffle`]), so that whoever puts the parts together holds a few buckets and
//! not all rows.
//!
//! Records are the same with less: the sum over all rows is the sum of the parts' sums
//! ([`RecordPart`]).

mod local;
mod records;

use crate::compact_values::{RowValues, whole};
use crate::dot::limbs16::Width;
use crate::row_store::{RowStore, RowStoreBuilder, StoreError};
use crate::scan::plan::Placement;
use crate::scan::scanner::{ScanError, ScanQuery, Scanner, check};
use crate::tile::used_forms;
use ifonly_algebra::field::Field;
use ifonly_algebra::row_function::{OutputExpr, RowFunction, RowProgram, ScanJob};
use ifonly_algebra::shuffle::BucketIndices;
pub use local::LocalPart;
pub use records::{LocalRecords, RecordPart, RecordParts, Selection};
use std::ops::{ControlFlow, Range};
use std::sync::{Arc, Mutex, PoisonError};
use zeroize::Zeroize;

/// Why parts do not make a database, or do not give what they hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PartError {
    /// No part at all.
    #[error("a database in parts has at least one part")]
    None,
    /// Rows are missing, or there twice.
    #[error("the part from row {have} on does not follow the one that ends at row {need}")]
    Gap {
        /// Where a part begins.
        have: usize,
        /// Where it should.
        need: usize,
    },
    /// The parts are of different databases.
    #[error("the part from row {0} on has other ranges than the one before, or records of another length")]
    Shape(usize),
    /// The ranges are not those of rows.
    #[error("{0}")]
    Ranges(String),
    /// Somebody asked a part for rows that it does not hold.
    #[error("rows {} to {} are not in the part from row {} to {}", wanted.start, wanted.end, held.start, held.end)]
    Elsewhere {
        /// What was asked for.
        wanted: Range<usize>,
        /// What is there.
        held: Range<usize>,
    },
    /// A selection of records is for another number of rows.
    #[error("a selection of {have} bytes; {need} are needed")]
    Selection {
        /// Bytes found.
        have: usize,
        /// Bytes needed.
        need: usize,
    },
    /// The part cannot be reached, or cannot answer.
    #[error("rows {} to {} cannot be had: {reason}", rows.start, rows.end)]
    Unavailable {
        /// Which.
        rows: Range<usize>,
        /// Why.
        reason: String,
    },
    /// A part has fewer rows than it said.
    #[error("a part has no more rows to give")]
    TooFew,
    /// A part gave a number that is no value of the field.
    #[error("the part with rows {} to {} gave a number that is not below q", .0.start, .0.end)]
    NoSymbol(Range<usize>),
}

/// Forms whose values are wanted, without anything that says what becomes of them. They are shares:
/// wiped on drop, never printed.
pub struct RowFunctions {
    field: Field,
    /// Each form as an output, so that a scan of them is a scan like any other.
    program: RowProgram,
}

impl std::fmt::Debug for RowFunctions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Forms({}, ..)", self.program.functions.len())
    }
}

impl Drop for RowFunctions {
    fn drop(&mut self) {
        self.program.zeroize();
    }
}

impl RowFunctions {
    /// These forms over a field.
    pub fn new(field: &Field, functions: impl Into<Vec<RowFunction>>) -> RowFunctions {
        let functions = functions.into();
        let outputs: Vec<OutputExpr> = (0..functions.len()).map(OutputExpr::Plain).collect();
        RowFunctions { field: field.clone(), program: RowProgram::new(functions, outputs) }
    }

    /// The forms that a job's outputs use, in the order in which a scan gathers them.
    fn of(job: &ScanJob<'_>) -> RowFunctions {
        let used = used_forms(job).into_iter().map(|function| job.program.functions[function].clone());
        RowFunctions::new(job.field, used.collect::<Vec<_>>())
    }

    /// The field.
    pub fn field(&self) -> &Field {
        &self.field
    }

    /// The forms.
    pub fn row_functions(&self) -> &[RowFunction] {
        &self.program.functions
    }

    /// Bytes of one row: the values of all forms, one after another, each little-endian in as many
    /// whole bytes as q has.
    pub fn bytes_per_row(&self) -> usize {
        self.row().bytes()
    }

    pub(crate) fn row(&self) -> RowValues {
        RowValues::reduced(&self.field, self.program.functions.len())
    }

    pub(crate) fn words_per_row(&self) -> usize {
        self.row().words()
    }

    fn job(&self) -> ScanJob<'_> {
        use ifonly_algebra::field::FieldElement;
        ScanJob { field: &self.field, alpha: FieldElement::ONE, kappa: 0, program: &self.program, order: None }
    }

    fn are_reduced(&self, words: &[u32]) -> bool {
        let q = self.field.q();
        match Width::of(&self.field) {
            // Without a branch for every value.
            Width::Narrow => words.iter().fold(true, |fits, &word| fits & (u64::from(word) < q)),
            Width::Wide => words.as_chunks().0.iter().all(|halves| whole(halves) < q),
        }
    }
}

/// Some rows of a database, here or elsewhere. Rows are numbered as in the whole database.
pub trait RowPart: Send + Sync {
    /// Which rows.
    fn rows(&self) -> Range<usize>;

    /// The largest level of each feature.
    fn ranges(&self) -> &[u32];

    /// Begins to compute these forms at all rows of the part: in stored order, or with `digits`
    /// bucket by bucket, and in stored order inside a bucket. A store compiles them, somebody
    /// elsewhere is sent them.
    fn evaluate<'a>(
        &'a self,
        functions: &'a RowFunctions,
        digits: Option<&BucketIndices>,
    ) -> Result<Box<dyn ValueStream + 'a>, PartError>;

    /// `Σ_k tables[k][y_ik] mod 2^64` for every row of the part, with which a sealed search begins.
    fn table_sums(&self, tables: &[&[u64]], sums: &mut [u64]) -> Result<(), PartError>;
}

/// The values of some forms at the rows of a part, one after another.
pub trait ValueStream: Send {
    /// Values of the next rows: [`Forms::bytes_per_row`] bytes per row, every value below q. Only
    /// whole rows are asked for.
    fn read(&mut self, out: &mut [u8]) -> Result<(), PartError>;
}

/// All rows of a database, as one store or in parts that follow each other.
#[derive(Clone)]
pub struct RowParts {
    held: Held,
    rows: usize,
}

#[derive(Clone)]
enum Held {
    Whole(Arc<RowStore>),
    Parts {
        parts: Vec<Arc<dyn RowPart>>,
        /// A store of these ranges without rows.
        layout: Arc<RowStore>,
    },
}

impl std::fmt::Debug for RowParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts = match &self.held {
            Held::Whole(_) => 1,
            Held::Parts { parts, .. } => parts.len(),
        };
        write!(f, "RowParts({} rows in {parts})", self.rows)
    }
}

impl From<Arc<RowStore>> for RowParts {
    fn from(store: Arc<RowStore>) -> RowParts {
        RowParts { rows: store.rows(), held: Held::Whole(store) }
    }
}

impl RowParts {
    /// Parts that follow each other from row 0 on.
    pub fn new(parts: Vec<Arc<dyn RowPart>>) -> Result<RowParts, PartError> {
        let ranges = parts.first().ok_or(PartError::None)?.ranges().to_vec();
        let rows = follow_each_other(parts.iter().map(|part| part.rows()))?;
        if let Some(other) = parts.iter().find(|part| part.ranges() != ranges) {
            return Err(PartError::Shape(other.rows().start));
        }
        let layout =
            RowStoreBuilder::new(&ranges, 0).map_err(|error: StoreError| PartError::Ranges(error.to_string()))?;
        Ok(RowParts { held: Held::Parts { parts, layout: Arc::new(layout.finish()) }, rows })
    }

    /// All rows together.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// `Σ_k tables[k][y_ik] mod 2^64` for every row.
    pub fn table_sums(&self, tables: &[&[u64]]) -> Result<Vec<u64>, PartError> {
        let mut sums = vec![0; self.rows];
        match &self.held {
            Held::Whole(store) => store.table_sums_into(tables, &mut sums),
            Held::Parts { parts, .. } => {
                // All at once: most of them only wait for somebody else.
                let mut rest = &mut sums[..];
                let summed: Result<(), PartError> = std::thread::scope(|scope| {
                    let summing: Vec<_> = parts
                        .iter()
                        .map(|part| {
                            let (here, behind) = std::mem::take(&mut rest).split_at_mut(part.rows().len());
                            rest = behind;
                            (part.rows(), scope.spawn(move || part.table_sums(tables, here)))
                        })
                        .collect();
                    let failed = |rows| PartError::Unavailable { rows, reason: "its thread failed".into() };
                    summing.into_iter().try_for_each(|(rows, sum)| sum.join().unwrap_or(Err(failed(rows))))
                });
                summed?;
            }
        }
        Ok(sums)
    }

    /// The store, if there is one with all rows.
    pub fn whole(&self) -> Option<&Arc<RowStore>> {
        match &self.held {
            Held::Whole(store) => Some(store),
            Held::Parts { .. } => None,
        }
    }
}

/// Where the last of these ends, if each begins where the one before ends and the first at 0.
fn follow_each_other(parts: impl Iterator<Item = Range<usize>>) -> Result<usize, PartError> {
    parts.into_iter().try_fold(0, |need, rows| match rows.start == need && rows.end >= need {
        true => Ok(rows.end),
        false => Err(PartError::Gap { have: rows.start, need }),
    })
}

/// The values of all parts.
pub(crate) struct PartValues<'a> {
    functions: &'a RowFunctions,
    parts: Vec<Range<usize>>,
    reading: Mutex<Reading<'a>>,
}

/// How far the parts have been read.
struct Reading<'a> {
    values: Vec<Box<dyn ValueStream + 'a>>,
    /// In stored order.
    next_row: usize,
    bytes: Vec<u8>,
}

impl<'a> PartValues<'a> {
    /// All parts begin before anything is read.
    fn of(
        parts: &'a [Arc<dyn RowPart>],
        functions: &'a RowFunctions,
        digits: Option<&BucketIndices>,
    ) -> Result<PartValues<'a>, PartError> {
        let values = parts.iter().map(|part| part.evaluate(functions, digits)).collect::<Result<_, _>>()?;
        let parts = parts.iter().map(|part| part.rows()).collect();
        Ok(PartValues { functions, parts, reading: Mutex::new(Reading { values, next_row: 0, bytes: vec![] }) })
    }

    pub(crate) fn words_per_row(&self) -> usize {
        self.functions.words_per_row()
    }

    /// Which rows each part has.
    pub(crate) fn parts(&self) -> &[Range<usize>] {
        &self.parts
    }

    /// The next values of one part, bucket by bucket.
    pub(crate) fn read_part(&self, part: usize, out: &mut [u32]) -> Result<(), PartError> {
        let mut reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        self.checked(&mut reading, part, out)
    }

    /// The values of the rows from `start` on, in stored order. Rows that are left out cannot be
    /// read later.
    pub(crate) fn read_rows(&self, start: usize, out: &mut [u32]) -> Result<(), PartError> {
        const SKIPPED: usize = 1 << 12;
        let words = self.words_per_row();
        let mut reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let mut skipped = vec![];
        while reading.next_row < start {
            skipped.resize((start - reading.next_row).min(SKIPPED) * words, 0);
            self.read_next(&mut reading, &mut skipped)?;
        }
        self.read_next(&mut reading, out)
    }

    fn read_next(&self, reading: &mut Reading<'a>, out: &mut [u32]) -> Result<(), PartError> {
        let words = self.words_per_row();
        let start = reading.next_row;
        let wanted = start..start + out.len().checked_div(words).unwrap_or(0);
        for (part, held) in self.parts.iter().enumerate() {
            let here = wanted.start.max(held.start)..wanted.end.min(held.end);
            if !here.is_empty() {
                self.checked(reading, part, &mut out[(here.start - start) * words..(here.end - start) * words])?;
            }
        }
        reading.next_row = wanted.end;
        Ok(())
    }

    /// Whatever a part says is checked: kernels rely on it.
    fn checked(&self, reading: &mut Reading<'a>, part: usize, out: &mut [u32]) -> Result<(), PartError> {
        /// So many at a time stay in the cache.
        const ROWS: usize = 1 << 12;
        let row = self.functions.row();
        let Reading { values, bytes, .. } = reading;
        for out in out.chunks_mut((ROWS * row.words()).max(1)) {
            bytes.resize(out.len() / row.words() * row.bytes(), 0);
            values[part].read(bytes)?;
            row.widen(bytes, out);
            if !self.functions.are_reduced(out) {
                return Err(PartError::NoSymbol(self.parts[part].clone()));
            }
        }
        Ok(())
    }
}

impl Scanner {
    /// The packed answer of one query over a database in parts, span by span, without its first
    /// `bytes_done` bytes (see [`Scanner::answer_rest`]). One store with all rows is scanned in one
    /// pass; parts give their values first.
    pub fn answer_parts(
        &self,
        rows: &RowParts,
        query: &ScanQuery<'_>,
        bytes_done: usize,
        sink: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), ScanError> {
        match &rows.held {
            Held::Whole(store) => self.answer_rest(store, query, bytes_done, sink),
            Held::Parts { parts, layout } => {
                check(layout.features(), rows.rows, query)?;
                let functions = RowFunctions::of(query.job);
                let placement = Placement::of(query, rows.rows, functions.words_per_row()).unwrap_or(Placement::Stored);
                let values = PartValues::of(parts, &functions, placement.digits())?;
                self.answer_values(layout, rows.rows, (values, placement), query, bytes_done, sink)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_reduced_up_to_the_last_number_below_q() {
        for q in [2, 262_139, (1 << 31) - 1, 4_294_967_291, (1 << 61) - 1] {
            let functions = RowFunctions::new(&Field::new(q).unwrap(), vec![]);
            let planes = Width::of(functions.field()).planes();
            let words = |value: u64| [value as u32, (value >> 32) as u32][..planes].to_vec();
            for (value, reduced) in [(0, true), (q - 1, true), (q, false)] {
                assert_eq!(
                    functions.are_reduced(&[words(1), words(value), words(0)].concat()),
                    reduced,
                    "{value} of {q}"
                );
            }
        }
    }
}
