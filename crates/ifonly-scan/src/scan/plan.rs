//! A query compiled for a row store: its tile program, and how the row function values of a
//! shuffled answer reach their positions.

use crate::backend::Kernels;
use crate::parts::PartValues;
use crate::row_store::RowStore;
use crate::scan::scanner::ScanQuery;
use crate::tile::TileProgram;
use ifonly_algebra::field::Field;
use ifonly_algebra::shuffle;
use ifonly_algebra::shuffle::{BucketIndices, Shuffle};
use std::borrow::Cow;

/// A compiled query.
pub(crate) struct ScanPlan<'a> {
    pub(crate) rows: usize,
    pub(crate) field: &'a Field,
    pub(crate) program: TileProgram<'a>,
    /// For an answer in two passes: the source of the row function values, and how they reach their
    /// positions. `None` if a single pass computes the answer.
    pub(crate) values: Option<(ValueSource<'a>, Placement<'a>)>,
}

/// The source of row function values.
pub(crate) enum ValueSource<'a> {
    /// This program computes them from the store.
    Rows(TileProgram<'a>),
    /// The parts of the database deliver them.
    Parts(PartValues<'a>),
}

impl ValueSource<'_> {
    pub(crate) fn words_per_row(&self) -> usize {
        match self {
            ValueSource::Rows(program) => program.words_per_row(),
            ValueSource::Parts(values) => values.words_per_row(),
        }
    }
}

/// How row function values reach their positions.
pub(crate) enum Placement<'a> {
    /// The answer is in stored order: position i is row i.
    Stored,
    /// For each position, the index of its row.
    Indexed(Cow<'a, [u32]>),
    /// The bucket shuffle moves them.
    Bucketed(Box<Shuffle<'a>>),
}

impl<'a> Placement<'a> {
    /// The buckets in which parts deliver their values; `None` for stored order.
    pub(crate) fn buckets(&self) -> Option<&BucketIndices> {
        match self {
            Placement::Bucketed(shuffle) => shuffle.bucket_indices(),
            Placement::Stored | Placement::Indexed(_) => None,
        }
    }

    /// Whether the bucket shuffle supports rows of this many words: one or two row functions, or
    /// two in a verified answer.
    pub(crate) fn fits_buckets(words_per_row: usize) -> bool {
        matches!(words_per_row, 1 | 2 | 4 | 8)
    }

    pub(crate) fn of(query: &ScanQuery<'a>, rows: usize, words_per_row: usize) -> Option<Placement<'a>> {
        match (query.job.order, query.order_keys) {
            (Some(order), _) => Some(Placement::Indexed(Cow::Borrowed(order))),
            (None, Some(keys)) if Placement::fits_buckets(words_per_row) => {
                Some(Placement::Bucketed(Box::new(Shuffle::new(keys, rows))))
            }
            (None, Some(keys)) => Some(Placement::Indexed(Cow::Owned(shuffle::permutation(keys, rows)))),
            (None, None) => None,
        }
    }
}

impl<'a> ScanPlan<'a> {
    pub(crate) fn new(kernels: &'static dyn Kernels, store: &'a RowStore, query: &ScanQuery<'a>) -> ScanPlan<'a> {
        let ScanQuery { job, keys, order_keys } = *query;
        let is_shuffled = job.order.is_some() || order_keys.is_some();
        let values = is_shuffled.then(|| TileProgram::values(kernels, store, job)).and_then(|values| {
            let placement = Placement::of(query, store.rows(), values.words_per_row())?;
            Some((ValueSource::Rows(values), placement))
        });
        let program = TileProgram::answer(kernels, store, job, keys, is_shuffled);
        ScanPlan { rows: job.program.answered_rows(store.rows()), field: job.field, program, values }
    }

    /// The plan for a database of `rows` rows whose parts deliver the values. `layout` is an empty
    /// store with the same max levels.
    pub(crate) fn of_parts(
        kernels: &'static dyn Kernels,
        layout: &'a RowStore,
        rows: usize,
        query: &ScanQuery<'a>,
        (values, placement): (PartValues<'a>, Placement<'a>),
    ) -> ScanPlan<'a> {
        let ScanQuery { job, keys, .. } = *query;
        let program = TileProgram::answer(kernels, layout, job, keys, true);
        let values = Some((ValueSource::Parts(values), placement));
        ScanPlan { rows: job.program.answered_rows(rows), field: job.field, program, values }
    }

    /// The program, if a kernel can run it together with the program of another query.
    pub(crate) fn pairable_program(&self) -> Option<&TileProgram<'a>> {
        (self.values.is_none() && self.program.is_pairable()).then_some(&self.program)
    }
}
