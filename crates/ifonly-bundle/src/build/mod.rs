//! The steps of a build: decide which rows are accepted, plan the encoding, encode the accepted
//! rows (second pass), sign the records, and write the bundle with its manifest.
//!
//! `run` has the entry points, `task` the two passes over the data.

#[cfg(feature = "build")]
pub(crate) mod accept;
#[cfg(feature = "build")]
pub(crate) mod assemble;
#[cfg(feature = "build")]
pub(crate) mod deployment;
pub(crate) mod group_report;
#[cfg(feature = "build")]
pub(crate) mod parts;
#[cfg(feature = "build")]
pub(crate) mod plan;
pub(crate) mod report;
#[cfg(feature = "build")]
pub(crate) mod run;
pub(crate) mod sign;
#[cfg(feature = "build")]
pub(crate) mod signing_key;
#[cfg(feature = "build")]
pub(crate) mod task;
