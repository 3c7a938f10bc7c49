//! Schemes of the paper, with its errata corrected (docs/paper.md).

pub(crate) mod norms;
pub(crate) mod pcr;
pub(crate) mod pcr_plus;
pub(crate) mod single_phase;
pub(crate) mod two_phase;
