//! One file per command.

pub(crate) mod ask;
pub(crate) mod demo;
pub(crate) mod keygen;
