//! A query compiled for the rows: its tile program, and how the values of a shuffled answer get to their positions.

use crate::answer::Query;
use crate::backend::Kernels;
use crate::store::RowStore;
use crate::tile::TileProgram;
use ifonly_core::field::Field;
use ifonly_core::order::{self, Shuffle};
use std::borrow::Cow;

/// A compiled query.
pub(crate) struct Plan<'a> {
    pub(crate) rows: usize,
    pub(crate) field: &'a Field,
    pub(crate) program: TileProgram<'a>,
    /// The first pass of a shuffled answer, and what becomes of its values.
    pub(crate) shuffle: Option<(TileProgram<'a>, Placement<'a>)>,
}

/// How form values get to their positions.
pub(crate) enum Placement<'a> {
    /// Picked by the row of each position.
    Picked(Cow<'a, [u32]>),
    /// Moved through buckets.
    Moved(Box<Shuffle<'a>>),
}

impl<'a> Placement<'a> {
    fn of(query: &Query<'a>, rows: usize, words_per_row: usize) -> Option<Placement<'a>> {
        match (query.job.order, query.order_keys) {
            (Some(order), _) => Some(Placement::Picked(Cow::Borrowed(order))),
            (None, Some(keys)) if matches!(words_per_row, 1 | 2 | 4) => {
                Some(Placement::Moved(Box::new(Shuffle::new(keys, rows))))
            }
            (None, Some(keys)) => Some(Placement::Picked(Cow::Owned(order::permutation(keys, rows)))),
            (None, None) => None,
        }
    }
}

impl<'a> Plan<'a> {
    pub(crate) fn new(kernels: &'static dyn Kernels, store: &'a RowStore, query: &Query<'a>) -> Plan<'a> {
        let Query { job, keys, order_keys } = *query;
        let gathers = job.order.is_some() || order_keys.is_some();
        let shuffle = gathers.then(|| TileProgram::values(kernels, store, job)).and_then(|values| {
            let placement = Placement::of(query, store.rows(), values.words_per_row())?;
            Some((values, placement))
        });
        let program = TileProgram::answer(kernels, store, job, keys, gathers);
        Plan { rows: job.program.answered_rows(store.rows()), field: job.field, program, shuffle }
    }

    /// The program, if it can be run together with another such one.
    pub(crate) fn pairs(&self) -> Option<&TileProgram<'a>> {
        (self.shuffle.is_none() && self.program.pairs()).then_some(&self.program)
    }
}
