//! Analysis of private counterfactual retrieval: leakage, attacks and the experiments of the paper.
//!
//! * [`leakage`] computes how many bits one search reveals to the user, exactly or by sampling.
//! * [`attack`] simulates users and cheating clients that combine several searches.
//! * [`engine`] runs the real protocol in one process.
//! * [`reproduce`] repeats the experiments of the paper.
//! * [`report`] writes report items (tables and figures), [`figure`] and [`plot`] draw the
//!   figures.
//! * [`cli`] has the commands `leakage`, `attack` and `reproduce`.
//! * [`data`] prepares the data sets of the paper.
//! * [`random`] has repeatable randomness, [`progress`] reports the progress of long computations.
//!
//! Servers and clients do not link this crate.

#![forbid(unsafe_code)]

pub mod attack;
pub mod cli;
pub mod data;
pub mod engine;
mod error;
pub mod figure;
pub mod leakage;
pub mod plot;
pub mod progress;
pub mod random;
mod raster;
pub mod report;
pub mod reproduce;

pub use error::LabError;
