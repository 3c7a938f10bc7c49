//! Reading tables: CSV, Parquet and Arrow, one file or several, and rows in memory.

#[cfg(feature = "arrow")]
pub(crate) mod arrow;
#[cfg(feature = "build")]
pub(crate) mod csv;
#[cfg(feature = "build")]
pub(crate) mod file;
pub(crate) mod in_memory;
#[cfg(feature = "build")]
pub(crate) mod parquet;
#[cfg(feature = "build")]
pub(crate) mod source;
#[cfg(feature = "build")]
pub(crate) mod table_set;
