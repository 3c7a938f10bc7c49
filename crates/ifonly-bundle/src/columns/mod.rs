//! Columns: the statistics of the first pass, the schema file, and the schema inferred from both.

pub(crate) mod deviation;
#[cfg(feature = "build")]
pub(crate) mod distinct;
#[cfg(feature = "build")]
pub(crate) mod float_bits;
#[cfg(feature = "build")]
pub(crate) mod infer;
#[cfg(feature = "build")]
pub(crate) mod notation;
#[cfg(feature = "build")]
pub(crate) mod ordinal;
#[cfg(feature = "build")]
pub(crate) mod quantile_sketch;
#[cfg(feature = "build")]
pub(crate) mod schema_file;
#[cfg(feature = "build")]
pub(crate) mod stats;
#[cfg(feature = "build")]
pub(crate) mod table_stats;
#[cfg(feature = "build")]
pub(crate) mod text_map;
