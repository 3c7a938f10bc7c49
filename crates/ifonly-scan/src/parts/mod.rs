//! A database in parts: row function values of the rows [a, b), from a store in this process or
//! from a shard, before the order, pads and packing are applied.
//!
//! A row function value depends only on its row. A process with the rows [a, b) can therefore
//! compute their values without any other input. Everything that depends on the position in the
//! whole answer (the order, pads, ρ, σ, μ, row shares, packing) is done in
//! [`Scanner::answer_parts`]. The answer has the same bits for every division into parts.
//!
//! ```text
//! Part [0, a) ── values ──┐
//! Part [a, b) ── values ──┼──▶ order ──▶ pads ──▶ packing
//! Part [b, M) ── values ──┘
//! ```
//!
//! One store with all rows is the usual case. It is scanned directly, so that values never leave
//! the cache.
//!
//! For a shuffled answer, parts deliver their values bucket by bucket (see
//! [`ifonly_algebra::shuffle`]). The frontend then holds a few buckets instead of all rows.
//!
//! Records work in the same way: the sum over all rows is the sum of the sums of the parts
//! ([`RecordPart`]).

mod lifted;
mod local;
mod records;

use crate::backend::Backend;
use crate::compact_values::{RowValues, join_words};
use crate::dot::limbs16::Width;
use crate::row_store::{RowStore, RowStoreBuilder, StoreError};
use crate::scan::plan::{FirstPass, shuffle_of};
use crate::scan::scanner::{ScanError, ScanQuery, Scanner, check};
use crate::tile::used_functions;
use ifonly_algebra::field::Field;
use ifonly_algebra::lifted::{LiftedDraws, LiftedTables};
use ifonly_algebra::row_function::{OutputExpr, RowFunction, RowProgram, ScanJob};
use ifonly_algebra::shuffle::BucketIndices;
pub use local::LocalPart;
pub use records::{LocalRecords, RecordPart, RecordParts, Selection};
use std::ops::{ControlFlow, Range};
use std::sync::{Arc, Mutex, PoisonError};
use zeroize::Zeroize;

/// Why parts are not a database, or did not deliver their values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PartError {
    /// There is no part.
    #[error("a database needs at least one part")]
    NoParts,
    /// Rows are missing or duplicated.
    #[error("a part starts at row {have}, but the parts before it end at row {need}")]
    Gap {
        /// First row of the part.
        have: usize,
        /// First row that is not covered yet.
        need: usize,
    },
    /// The parts belong to different databases.
    #[error("the part from row {0} on has other max levels or another record length than the first part")]
    Mismatch(usize),
    /// The max levels are not valid for rows.
    #[error("{0}")]
    MaxLevels(String),
    /// A part was asked for rows that it does not have.
    #[error("the rows {}..{} are not in the part with the rows {}..{}", wanted.start, wanted.end, held.start, held.end)]
    OutOfRange {
        /// Requested rows.
        wanted: Range<usize>,
        /// Rows of the part.
        held: Range<usize>,
    },
    /// A selection of records is for another number of rows.
    #[error("the selection has length {have} instead of {need} bytes")]
    Selection {
        /// Bytes found.
        have: usize,
        /// Bytes needed.
        need: usize,
    },
    /// The part cannot be reached, or cannot answer.
    #[error("the rows {}..{} are not available: {reason}", rows.start, rows.end)]
    Unavailable {
        /// Rows of the part.
        rows: Range<usize>,
        /// Reason.
        reason: String,
    },
    /// A part delivered fewer rows than it announced.
    #[error("a part delivered fewer rows than it announced")]
    TooFew,
    /// A part delivered a number that is not below q.
    #[error("the part with the rows {}..{} delivered a number that is not a field element", .0.start, .0.end)]
    NotReduced(Range<usize>),
}

/// Row functions to evaluate, without the outputs that use them. They contain shares, so they are
/// wiped on drop and never printed.
pub struct RowFunctions {
    field: Field,
    /// Each row function is an output, so that evaluating them is an ordinary scan.
    program: RowProgram,
}

impl std::fmt::Debug for RowFunctions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RowFunctions({}, ..)", self.program.functions.len())
    }
}

impl Drop for RowFunctions {
    fn drop(&mut self) {
        self.program.zeroize();
    }
}

impl RowFunctions {
    /// Row functions over a field.
    pub fn new(field: &Field, functions: impl Into<Vec<RowFunction>>) -> RowFunctions {
        let functions = functions.into();
        let outputs: Vec<OutputExpr> = (0..functions.len()).map(OutputExpr::Plain).collect();
        RowFunctions { field: field.clone(), program: RowProgram::new(functions, outputs) }
    }

    /// The row functions that the outputs of a job use, in the order in which a scan gathers them.
    fn of(job: &ScanJob<'_>) -> RowFunctions {
        let used = used_functions(job).into_iter().map(|function| job.program.functions[function].clone());
        RowFunctions::new(job.field, used.collect::<Vec<_>>())
    }

    /// The field.
    pub fn field(&self) -> &Field {
        &self.field
    }

    /// The row functions.
    pub fn row_functions(&self) -> &[RowFunction] {
        &self.program.functions
    }

    /// Bytes of one row: the values of all row functions in order, each little-endian in ⌈b/8⌉
    /// bytes if q has b bits.
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
        ScanJob { field: &self.field, alpha: FieldElement::ONE, kappa: 0, program: &self.program }
    }

    fn are_reduced(&self, words: &[u32]) -> bool {
        let q = self.field.q();
        match Width::of(&self.field) {
            // Without a branch per value.
            Width::Narrow => words.iter().fold(true, |fits, &word| fits & (u64::from(word) < q)),
            Width::Wide => words.as_chunks().0.iter().all(|halves| join_words(halves) < q),
        }
    }
}

/// Some rows of a database, in this process or in a shard. Rows are numbered as in the whole
/// database.
pub trait RowPart: Send + Sync {
    /// The range of rows.
    fn rows(&self) -> Range<usize>;

    /// The max level of each feature.
    fn max_levels(&self) -> &[u32];

    /// Starts to evaluate row functions on all rows of the part. The values come in stored order,
    /// or bucket by bucket if `buckets` is present, in stored order within a bucket. A local store
    /// compiles the row functions; a remote part sends them to its shard.
    fn evaluate<'a>(
        &'a self,
        functions: &'a RowFunctions,
        buckets: Option<&BucketIndices>,
    ) -> Result<Box<dyn ValueStream + 'a>, PartError>;

    /// Starts to compute the lifted words of all rows of the part, each of four little-endian
    /// bytes: in stored order, or bucket by bucket if `buckets` is present.
    fn lifted_words<'a>(
        &'a self,
        tables: &'a LiftedTables,
        draws: &'a LiftedDraws,
        buckets: Option<&BucketIndices>,
    ) -> Result<Box<dyn ValueStream + 'a>, PartError>;

    /// `Σ_k tables[k][y_ik] mod 2^64` for every row of the part: the input of a sealed search.
    fn table_sums(&self, tables: &[&[u64]], sums: &mut [u64]) -> Result<(), PartError>;
}

/// The row function values, or the lifted words, of the rows of a part, in order.
pub trait ValueStream: Send {
    /// Reads the values of the next rows: [`RowFunctions::bytes_per_row`] bytes per row, every
    /// value below q; or one word per row. `out` must have space for whole rows.
    fn read(&mut self, out: &mut [u8]) -> Result<(), PartError>;
}

/// All rows of a database, as one store or in consecutive parts.
#[derive(Clone)]
pub struct RowParts {
    source: RowSource,
    rows: usize,
}

#[derive(Clone)]
enum RowSource {
    Single(Arc<RowStore>),
    Parts {
        parts: Vec<Arc<dyn RowPart>>,
        /// A store with the same max levels and without rows.
        empty: Arc<RowStore>,
    },
}

impl std::fmt::Debug for RowParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts = match &self.source {
            RowSource::Single(_) => 1,
            RowSource::Parts { parts, .. } => parts.len(),
        };
        write!(f, "RowParts({} rows in {parts})", self.rows)
    }
}

impl From<Arc<RowStore>> for RowParts {
    fn from(store: Arc<RowStore>) -> RowParts {
        RowParts { rows: store.rows(), source: RowSource::Single(store) }
    }
}

impl RowParts {
    /// A database of consecutive parts that start at row 0.
    pub fn new(parts: Vec<Arc<dyn RowPart>>) -> Result<RowParts, PartError> {
        let max_levels = parts.first().ok_or(PartError::NoParts)?.max_levels().to_vec();
        let rows = check_consecutive(parts.iter().map(|part| part.rows()))?;
        if let Some(other) = parts.iter().find(|part| part.max_levels() != max_levels) {
            return Err(PartError::Mismatch(other.rows().start));
        }
        let empty = RowStoreBuilder::new(&max_levels, 0)
            .map_err(|error: StoreError| PartError::MaxLevels(error.to_string()))?;
        Ok(RowParts { source: RowSource::Parts { parts, empty: Arc::new(empty.finish()) }, rows })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// `Σ_k tables[k][y_ik] mod 2^64` for every row.
    pub fn table_sums(&self, tables: &[&[u64]]) -> Result<Vec<u64>, PartError> {
        let mut sums = vec![0; self.rows];
        match &self.source {
            RowSource::Single(store) => store.table_sums_into(Backend::best().kernels(), tables, &mut sums),
            RowSource::Parts { parts, .. } => {
                // In parallel, because remote parts mostly wait for the network.
                let mut rest = &mut sums[..];
                let summed: Result<(), PartError> = std::thread::scope(|scope| {
                    let summing: Vec<_> = parts
                        .iter()
                        .map(|part| {
                            let (here, remaining) = std::mem::take(&mut rest).split_at_mut(part.rows().len());
                            rest = remaining;
                            (part.rows(), scope.spawn(move || part.table_sums(tables, here)))
                        })
                        .collect();
                    let failed =
                        |rows| PartError::Unavailable { rows, reason: "the thread that sums them failed".into() };
                    summing.into_iter().try_for_each(|(rows, sum)| sum.join().unwrap_or(Err(failed(rows))))
                });
                summed?;
            }
        }
        Ok(sums)
    }

    /// The store, if one store has all rows.
    pub fn single_store(&self) -> Option<&Arc<RowStore>> {
        match &self.source {
            RowSource::Single(store) => Some(store),
            RowSource::Parts { .. } => None,
        }
    }
}

/// The end of the last range, if the ranges are consecutive and start at 0.
fn check_consecutive(parts: impl Iterator<Item = Range<usize>>) -> Result<usize, PartError> {
    parts.into_iter().try_fold(0, |need, rows| {
        if rows.start == need && rows.end >= need {
            Ok(rows.end)
        } else {
            Err(PartError::Gap { have: rows.start, need })
        }
    })
}

/// The value streams of all parts.
pub(crate) struct PartValues<'a> {
    functions: &'a RowFunctions,
    parts: Vec<Range<usize>>,
    state: Mutex<ReadState<'a>>,
}

/// Read state of the parts.
struct ReadState<'a> {
    values: Vec<Box<dyn ValueStream + 'a>>,
    /// Next row, for streams in stored order.
    next_row: usize,
    bytes: Vec<u8>,
}

impl<'a> PartValues<'a> {
    /// All parts start before the first read.
    fn of(
        parts: &'a [Arc<dyn RowPart>],
        functions: &'a RowFunctions,
        buckets: Option<&BucketIndices>,
    ) -> Result<PartValues<'a>, PartError> {
        let values = parts.iter().map(|part| part.evaluate(functions, buckets)).collect::<Result<_, _>>()?;
        let parts = parts.iter().map(|part| part.rows()).collect();
        Ok(PartValues { functions, parts, state: Mutex::new(ReadState { values, next_row: 0, bytes: vec![] }) })
    }

    pub(crate) fn words_per_row(&self) -> usize {
        self.functions.words_per_row()
    }

    /// The rows of each part.
    pub(crate) fn parts(&self) -> &[Range<usize>] {
        &self.parts
    }

    /// Reads the next values of one part, bucket by bucket.
    pub(crate) fn read_part(&self, part: usize, out: &mut [u32]) -> Result<(), PartError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.read_checked(&mut state, part, out)
    }

    /// Reads the values of the next rows, in stored order.
    pub(crate) fn read_next(&self, out: &mut [u32]) -> Result<(), PartError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let words = self.words_per_row();
        let start = state.next_row;
        let wanted = start..start + out.len().checked_div(words).unwrap_or(0);
        for (part, rows) in self.parts.iter().enumerate() {
            let here = wanted.start.max(rows.start)..wanted.end.min(rows.end);
            if !here.is_empty() {
                self.read_checked(
                    &mut state,
                    part,
                    &mut out[(here.start - start) * words..(here.end - start) * words],
                )?;
            }
        }
        state.next_row = wanted.end;
        Ok(())
    }

    /// Reads values of a part and checks that they are reduced, because the kernels rely on it.
    fn read_checked(&self, state: &mut ReadState<'a>, part: usize, out: &mut [u32]) -> Result<(), PartError> {
        /// Rows at a time, so that they stay in the cache.
        const ROWS: usize = 1 << 12;
        let row = self.functions.row();
        let ReadState { values, bytes, .. } = state;
        for out in out.chunks_mut((ROWS * row.words()).max(1)) {
            bytes.resize(out.len() / row.words() * row.bytes(), 0);
            values[part].read(bytes)?;
            row.bytes_to_words(bytes, out);
            if !self.functions.are_reduced(out) {
                return Err(PartError::NotReduced(self.parts[part].clone()));
            }
        }
        Ok(())
    }
}

impl Scanner {
    /// Delivers the packed answer of one query over a database in parts, span by span. One store
    /// with all rows is scanned directly. Otherwise the parts deliver their row function values.
    pub fn answer_parts(
        &self,
        rows: &RowParts,
        query: &ScanQuery<'_>,
        sink: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), ScanError> {
        match &rows.source {
            RowSource::Single(store) => self.answer_query(store, query, sink),
            RowSource::Parts { parts, empty } => {
                check(empty.features(), rows.rows, query)?;
                let functions = RowFunctions::of(query.job);
                let shuffle = shuffle_of(query, rows.rows, functions.words_per_row())?;
                let values = PartValues::of(parts, &functions, shuffle.as_ref().and_then(|s| s.bucket_indices()))?;
                self.answer_values(empty, rows.rows, FirstPass::Parts { values, shuffle }, query, sink)
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
