//! A query compiled for a row store: its tile program, and the first pass of an answer in two
//! passes.

use crate::backend::Kernels;
use crate::parts::PartValues;
use crate::row_store::RowStore;
use crate::scan::scanner::{ScanError, ScanQuery};
use crate::tile::TileProgram;
use ifonly_algebra::field::Field;
use ifonly_algebra::shuffle::Shuffle;

/// A compiled query.
pub(crate) struct ScanPlan<'a> {
    pub(crate) rows: usize,
    pub(crate) field: &'a Field,
    pub(crate) program: TileProgram<'a>,
    /// For an answer in two passes: the source of the row function values. `None` if a single pass
    /// computes the answer.
    pub(crate) first_pass: Option<FirstPass<'a>>,
}

/// The source of row function values.
pub(crate) enum FirstPass<'a> {
    /// The program computes them from the store, for a shuffled answer.
    Store { program: TileProgram<'a>, shuffle: Box<Shuffle<'a>> },
    /// The parts of the database deliver them, in stored order or for a shuffled answer.
    Parts { values: PartValues<'a>, shuffle: Option<Box<Shuffle<'a>>> },
}

/// The bucket shuffle of a query, for rows of `words_per_row` words; `None` for an answer in stored
/// order.
pub(crate) fn shuffle_of<'a>(
    query: &ScanQuery<'a>,
    rows: usize,
    words_per_row: usize,
) -> Result<Option<Box<Shuffle<'a>>>, ScanError> {
    let shuffle = query.order_keys.map(|keys| Box::new(Shuffle::new(keys, rows)));
    if shuffle.is_some() && !fits_buckets(words_per_row) {
        return Err(ScanError::RowWidth(words_per_row));
    }
    Ok(shuffle)
}

/// Whether the bucket shuffle supports rows of this many words: one or two row functions, or two
/// pairs in a verified answer.
pub(crate) fn fits_buckets(words_per_row: usize) -> bool {
    matches!(words_per_row, 1 | 2 | 4 | 8)
}

impl<'a> ScanPlan<'a> {
    pub(crate) fn new(
        kernels: &'static dyn Kernels,
        store: &'a RowStore,
        query: &ScanQuery<'a>,
    ) -> Result<ScanPlan<'a>, ScanError> {
        let ScanQuery { job, keys, order_keys } = *query;
        let mut first_pass = None;
        if order_keys.is_some() {
            let program = TileProgram::values(kernels, store, job);
            let shuffle = shuffle_of(query, store.rows(), program.words_per_row())?;
            first_pass = shuffle.map(|shuffle| FirstPass::Store { program, shuffle });
        }
        let program = TileProgram::answer(kernels, store, job, keys, first_pass.is_some());
        Ok(ScanPlan { rows: job.program.answered_rows(store.rows()), field: job.field, program, first_pass })
    }

    /// The plan for a database of `rows` rows whose parts deliver the values. `empty` is a store
    /// with the same max levels and without rows.
    pub(crate) fn of_parts(
        kernels: &'static dyn Kernels,
        empty: &'a RowStore,
        rows: usize,
        query: &ScanQuery<'a>,
        first_pass: FirstPass<'a>,
    ) -> ScanPlan<'a> {
        let ScanQuery { job, keys, .. } = *query;
        let program = TileProgram::answer(kernels, empty, job, keys, true);
        ScanPlan { rows: job.program.answered_rows(rows), field: job.field, program, first_pass: Some(first_pass) }
    }
}
