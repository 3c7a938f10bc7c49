//! The scan: from rows and shares to the packed answer.

pub(crate) mod ordered_spans;
pub(crate) mod plan;
pub mod scanner;
pub(crate) mod shuffled;
