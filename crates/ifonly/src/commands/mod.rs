//! One file per command.

pub(crate) mod ask;
pub(crate) mod bench;
pub(crate) mod build;
pub(crate) mod demo;
pub(crate) mod inspect;
pub(crate) mod keygen;
pub(crate) mod leakage;
pub(crate) mod serve;
