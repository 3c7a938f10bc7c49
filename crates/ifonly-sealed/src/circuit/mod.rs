//! The circuit of a sealed search: its gates, their circuit rounds, and the program that evaluates
//! them. It depends on public parameters only.

pub(crate) mod build;
pub(crate) mod gates;
pub(crate) mod program;
