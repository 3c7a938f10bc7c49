//! The second pass of a build: encode the accepted rows, sign the records, write the bundle.

#[cfg(feature = "build")]
pub(crate) mod accept;
#[cfg(feature = "build")]
pub(crate) mod assemble;
#[cfg(feature = "build")]
pub(crate) mod deployment;
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
