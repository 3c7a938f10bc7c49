//! A query compiled for the rows: its tile program, and how the values of a shuffled answer get to
//! their positions.

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
    /// Where the values of a first pass come from, and how they get to their positions; `None`
    /// where one pass does it all.
    pub(crate) values: Option<(ValueSource<'a>, Placement<'a>)>,
}

/// Where form values come from.
pub(crate) enum ValueSource<'a> {
    /// The store, by this program.
    Rows(TileProgram<'a>),
    /// Parts of the database.
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

/// How form values get to their positions.
pub(crate) enum Placement<'a> {
    /// As they are: positions are rows.
    Stored,
    /// Picked by the row of each position.
    Picked(Cow<'a, [u32]>),
    /// Moved through buckets.
    Moved(Box<Shuffle<'a>>),
}

impl<'a> Placement<'a> {
    /// What tells parts in which order to give their values; none for stored order.
    pub(crate) fn digits(&self) -> Option<&BucketIndices> {
        match self {
            Placement::Moved(shuffle) => shuffle.digits(),
            Placement::Stored | Placement::Picked(_) => None,
        }
    }

    /// Whether so many words per row go through buckets: those of one form, of two, and of two in
    /// verified answers.
    pub(crate) fn moves(words_per_row: usize) -> bool {
        matches!(words_per_row, 1 | 2 | 4 | 8)
    }

    pub(crate) fn of(query: &ScanQuery<'a>, rows: usize, words_per_row: usize) -> Option<Placement<'a>> {
        match (query.job.order, query.order_keys) {
            (Some(order), _) => Some(Placement::Picked(Cow::Borrowed(order))),
            (None, Some(keys)) if Placement::moves(words_per_row) => {
                Some(Placement::Moved(Box::new(Shuffle::new(keys, rows))))
            }
            (None, Some(keys)) => Some(Placement::Picked(Cow::Owned(shuffle::permutation(keys, rows)))),
            (None, None) => None,
        }
    }
}

impl<'a> ScanPlan<'a> {
    pub(crate) fn new(kernels: &'static dyn Kernels, store: &'a RowStore, query: &ScanQuery<'a>) -> ScanPlan<'a> {
        let ScanQuery { job, keys, order_keys } = *query;
        let gathers = job.order.is_some() || order_keys.is_some();
        let values = gathers.then(|| TileProgram::values(kernels, store, job)).and_then(|values| {
            let placement = Placement::of(query, store.rows(), values.words_per_row())?;
            Some((ValueSource::Rows(values), placement))
        });
        let program = TileProgram::answer(kernels, store, job, keys, gathers);
        ScanPlan { rows: job.program.answered_rows(store.rows()), field: job.field, program, values }
    }

    /// For a database of `rows` rows whose values come in parts; `layout` has its ranges.
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

    /// The program, if it can be run together with another such one.
    pub(crate) fn pairs(&self) -> Option<&TileProgram<'a>> {
        (self.values.is_none() && self.program.pairs()).then_some(&self.program)
    }
}
