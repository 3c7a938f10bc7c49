//! This project's own schemes.

pub(crate) mod gated;
pub(crate) mod linear;
pub(crate) mod table;
