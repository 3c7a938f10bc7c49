//! Schemes of this project, which are not in the paper.

pub(crate) mod gated;
pub(crate) mod linear;
pub(crate) mod table;
