//! Measurements of private counterfactual retrieval. Not published.
//!
//! * [`kernels`] measures every part of a query in one thread, as ratios to reading the same rows.
//! * [`end_to_end`] measures whole searches over HTTPS on loopback, and the same searches without a
//!   network.
//! * [`sealed`] does the same for sealed searches.
//! * [`timing`] measures the timing side channel between an answer and the next request.
//! * [`command`] has the options and the output of the program `ifonly-bench`, which `ifonly bench`
//!   starts.
//!
//! [`dataset`] makes random rows and a random query, [`servers`] starts servers for them. The other
//! programs in `src/bin/` measure single parts; the scripts in `bench/` and `checks/` start them.
#![forbid(unsafe_code)]

pub mod command;
pub mod dataset;
pub mod end_to_end;
pub mod error;
pub mod kernels;
pub mod part_times;
pub mod sealed;
pub mod servers;
pub mod timing;

pub use error::BenchError;
