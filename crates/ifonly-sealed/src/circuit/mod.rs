//! The circuit of a sealed search: gates, their rounds, and the program that evaluates them.

pub(crate) mod build;
pub(crate) mod gates;
pub(crate) mod program;
