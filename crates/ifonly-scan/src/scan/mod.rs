//! The scan: evaluates row programs on all rows and packs the results into an answer.

pub(crate) mod ordered_spans;
pub(crate) mod plan;
pub mod scanner;
pub(crate) mod shuffled;
mod stored_order;
