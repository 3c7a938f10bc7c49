//! The computation of answers: scans, record sums and sealed searches.

pub mod database;
pub(crate) mod sealed;
