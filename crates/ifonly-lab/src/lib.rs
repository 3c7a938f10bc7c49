//! The lab of ifonly: how much a user learns about the database, what a determined user can do
//! about it, and the paper's experiments, run again.
//!
//! * [`leakage`] computes what one search tells the user, exactly or by sampling.
//! * [`attack`] plays users who want more than that.
//! * [`engine`] runs the real protocol in one process.
//! * [`reproduce`] runs the paper's experiments again, [`report`] writes them down, [`cli`] is the
//!   commands.
//! * [`data`] prepares the paper's data sets, [`plot`] draws; [`random`] and [`progress`] serve all
//!   of them.
//!
//! Nothing of this crate is linked into a server or a client.

#![forbid(unsafe_code)]

pub mod attack;
pub mod cli;
pub mod data;
pub mod engine;
mod error;
pub mod leakage;
pub mod plot;
pub mod progress;
pub mod random;
pub mod report;
pub mod reproduce;

pub use error::LabError;
