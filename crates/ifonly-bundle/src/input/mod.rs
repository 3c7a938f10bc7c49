//! Reading tables: CSV and Parquet files, one or several, Arrow tables, and rows in memory.

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
