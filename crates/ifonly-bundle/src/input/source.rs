//! A table as a stream of rows, independent of its format. A source can be read several times from
//! the start.
//!
//! Values are texts without surrounding spaces. A missing value is an empty text, as in CSV; nulls
//! of Parquet and Arrow become empty texts.

use crate::build::report::ExcludedColumn;
use crate::error::{BuildError, FileLocation};
#[cfg(feature = "arrow")]
use crate::input::arrow::ArrowTable;
use crate::input::csv::CsvSource;
use crate::input::file::Input;
use crate::input::parquet::ParquetSource;
use std::collections::HashSet;
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};

/// Maximum length of a row. A longer row is probably an unclosed quote.
pub(crate) const MAX_ROW_BYTES: u64 = 16 << 20;
/// Maximum number of columns.
pub(crate) const MAX_COLUMNS: usize = 16_384;

/// Progress of a build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuildProgress {
    /// The current stage.
    pub stage: BuildStage,
    /// Completed amount: bytes of files, rows of a table in memory, or records.
    pub done: u64,
    /// Total amount, in the same unit.
    pub total: u64,
}

/// The stages of a build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuildStage {
    /// Unpacking a compressed file.
    Unpacking,
    /// First pass over the data: collecting statistics of the columns.
    Learning,
    /// Second pass over the data: encoding the accepted rows.
    Encoding,
    /// Signing the records and writing the bundle.
    Signing,
}

/// Receives the progress of a build; returns `Break` to stop it.
pub type ProgressCallback<'a> = &'a mut dyn FnMut(BuildProgress) -> ControlFlow<()>;

/// Calls the callback; an error if it stops the build.
pub(crate) fn report_progress(watch: ProgressCallback<'_>, progress: BuildProgress) -> Result<(), BuildError> {
    match watch(progress) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(BuildError::Stopped),
    }
}

/// One row of a table.
pub(crate) struct SourceRow<'a> {
    pub(crate) location: FileLocation,
    pub(crate) cells: &'a [&'a str],
    /// Progress within the source after this row, out of [`TableSource::total`].
    pub(crate) done: u64,
}

/// A table in a file or in memory.
pub(crate) enum TableSource {
    Csv(CsvSource),
    Parquet(ParquetSource),
    #[cfg(feature = "arrow")]
    Arrow(ArrowTable),
}

/// Callback for each row.
pub(crate) type RowVisitor<'a> = &'a mut dyn FnMut(SourceRow<'_>) -> Result<(), BuildError>;

impl TableSource {
    /// Opens a table. A file that begins with `PAR1`, or whose name ends with `.parquet`, is
    /// Parquet; any other file is CSV.
    pub(crate) fn of(input: Input, delimiter: Option<u8>) -> Result<TableSource, BuildError> {
        if input.is_parquet()? {
            Ok(TableSource::Parquet(ParquetSource::open(input)?))
        } else {
            Ok(TableSource::Csv(CsvSource::open(input, delimiter)?))
        }
    }

    pub(crate) fn path(&self) -> &PathBuf {
        match self {
            TableSource::Csv(source) => source.input.name(),
            TableSource::Parquet(source) => source.input.name(),
            #[cfg(feature = "arrow")]
            TableSource::Arrow(table) => &table.name,
        }
    }

    pub(crate) fn columns(&self) -> &[String] {
        match self {
            TableSource::Csv(source) => &source.columns,
            TableSource::Parquet(source) => &source.columns,
            #[cfg(feature = "arrow")]
            TableSource::Arrow(table) => &table.columns,
        }
    }

    /// Columns that cannot be features because of their type.
    pub(crate) fn unusable(&self) -> &[ExcludedColumn] {
        match self {
            TableSource::Csv(_) => &[],
            TableSource::Parquet(source) => &source.nested,
            #[cfg(feature = "arrow")]
            TableSource::Arrow(table) => &table.unusable,
        }
    }

    /// The value of [`SourceRow::done`] at the last row.
    pub(crate) fn total(&self) -> u64 {
        match self {
            TableSource::Csv(source) => source.input.bytes(),
            TableSource::Parquet(source) => source.rows,
            #[cfg(feature = "arrow")]
            TableSource::Arrow(table) => table.rows(),
        }
    }

    /// An error about a row.
    pub(crate) fn at(&self, location: FileLocation, reason: &str) -> BuildError {
        BuildError::Row { path: self.path().clone(), location, reason: reason.into() }
    }

    /// The number of rows of each row group; empty for formats without row groups.
    pub(crate) fn groups(&self) -> &[u64] {
        match self {
            TableSource::Parquet(source) => &source.groups,
            _ => &[],
        }
    }

    /// The length of the unpacked file in bytes; for a table in memory, its number of rows.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            TableSource::Csv(source) => source.input.bytes(),
            TableSource::Parquet(source) => source.input.bytes(),
            #[cfg(feature = "arrow")]
            TableSource::Arrow(table) => table.rows(),
        }
    }

    /// Whether the data exists only in this source and cannot be opened again by name.
    pub(crate) fn is_unique(&self) -> bool {
        match self {
            TableSource::Csv(source) => source.input.is_copy(),
            TableSource::Parquet(source) => source.input.is_copy(),
            #[cfg(feature = "arrow")]
            TableSource::Arrow(_) => true,
        }
    }

    /// Visits all rows in order, or only those of some row groups.
    pub(crate) fn scan(&self, groups: Option<Range<usize>>, visit: RowVisitor<'_>) -> Result<(), BuildError> {
        match self {
            TableSource::Csv(source) => source.scan(visit),
            TableSource::Parquet(source) => source.scan(groups, visit),
            #[cfg(feature = "arrow")]
            TableSource::Arrow(table) => table.scan(visit),
        }
    }
}

/// The text without surrounding spaces. The first and the last byte show quickly that most texts
/// have none.
pub(crate) fn trimmed(text: &str) -> &str {
    match text.as_bytes() {
        [first, .., last] if first.is_ascii_graphic() && last.is_ascii_graphic() => text,
        _ => text.trim(),
    }
}

/// Checks the names of columns. A column without a name, such as the index that some tools write,
/// is named by its number.
pub(crate) fn column_names(path: &Path, names: impl Iterator<Item = String>) -> Result<Vec<String>, BuildError> {
    let refuse = |reason: String| Err(BuildError::File { path: path.into(), reason });
    let name = |(index, name): (usize, String)| match name.trim() {
        "" => format!("column {}", index + 1),
        trimmed => trimmed.to_owned(),
    };
    let columns: Vec<String> = names.enumerate().map(name).collect();
    if columns.is_empty() {
        return refuse("the table has no columns with single values".into());
    }
    if columns.len() > MAX_COLUMNS {
        return refuse(format!("the table has {} columns, but the maximum is {MAX_COLUMNS}", columns.len()));
    }
    let mut names = HashSet::new();
    if let Some(duplicate) = columns.iter().find(|column| !names.insert(column.as_str())) {
        return refuse(format!("two columns are named {duplicate:?}; give each its own name"));
    }
    Ok(columns)
}
