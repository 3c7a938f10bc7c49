//! Computing answers: scans, record sums, sealed searches.

pub mod database;
pub(crate) mod sealed;
pub(crate) mod shared_scan;
