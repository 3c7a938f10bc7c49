//! Tables as a stream of rows, whatever the file format, or from memory. A source can be read again
//! from the start.
//!
//! Values are texts without surrounding spaces. Missing ones are empty: that is what CSV has for
//! them, and what the nulls of Parquet and Arrow become.

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

/// A row longer than this is not a row: most likely a quote was never closed.
pub(crate) const MAX_ROW_BYTES: u64 = 16 << 20;
/// More columns than this do not make features.
pub(crate) const MAX_COLUMNS: usize = 16_384;

/// How far a build is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuildProgress {
    /// Which part of it.
    pub stage: BuildStage,
    /// Bytes of files, rows of a table in memory, or records.
    pub done: u64,
    /// As many there are.
    pub total: u64,
}

/// The parts of a build: two passes over the data, one over the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuildStage {
    /// Unpacking a compressed file.
    Unpacking,
    /// Learning what the columns are.
    Learning,
    /// Encoding the accepted rows.
    Encoding,
    /// Signing their records.
    Signing,
}

/// Hears how far a build is, and may end it.
pub type ProgressCallback<'a> = &'a mut dyn FnMut(BuildProgress) -> ControlFlow<()>;

/// Tells a watcher, who may want no more.
pub(crate) fn tell(watch: ProgressCallback<'_>, progress: BuildProgress) -> Result<(), BuildError> {
    match watch(progress) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(BuildError::Stopped),
    }
}

/// One row.
pub(crate) struct SourceRow<'a> {
    pub(crate) place: FileLocation,
    pub(crate) cells: &'a [&'a str],
    pub(crate) done: u64,
}

/// A table in a file or in memory.
pub(crate) enum TableSource {
    Csv(CsvSource),
    Parquet(ParquetSource),
    #[cfg(feature = "arrow")]
    Arrow(ArrowTable),
}

/// What is done with each row.
pub(crate) type RowVisitor<'a> = &'a mut dyn FnMut(SourceRow<'_>) -> Result<(), BuildError>;

impl TableSource {
    /// Looks at the first bytes rather than at the name: Parquet says `PAR1`, anything else is
    /// text.
    pub(crate) fn of(input: Input, delimiter: Option<u8>) -> Result<TableSource, BuildError> {
        match input.is_parquet()? {
            true => Ok(TableSource::Parquet(ParquetSource::open(input)?)),
            false => Ok(TableSource::Csv(CsvSource::open(input, delimiter)?)),
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

    /// Columns that cannot be features, whatever they mean.
    pub(crate) fn unusable(&self) -> &[ExcludedColumn] {
        match self {
            TableSource::Csv(_) => &[],
            TableSource::Parquet(source) => &source.nested,
            #[cfg(feature = "arrow")]
            TableSource::Arrow(table) => &table.unusable,
        }
    }

    /// What `Row::done` will reach.
    pub(crate) fn total(&self) -> u64 {
        match self {
            TableSource::Csv(source) => source.input.bytes(),
            TableSource::Parquet(source) => source.rows,
            #[cfg(feature = "arrow")]
            TableSource::Arrow(table) => table.rows(),
        }
    }

    /// What is wrong with a row.
    pub(crate) fn at(&self, place: FileLocation, reason: &str) -> BuildError {
        BuildError::Row { path: self.path().clone(), place, reason: reason.into() }
    }

    /// The rows of each of its row groups, where it has some.
    pub(crate) fn groups(&self) -> &[u64] {
        match self {
            TableSource::Parquet(source) => &source.groups,
            _ => &[],
        }
    }

    /// Its length on the disk, unpacked, or as many rows as it has in memory.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            TableSource::Csv(source) => source.input.bytes(),
            TableSource::Parquet(source) => source.input.bytes(),
            #[cfg(feature = "arrow")]
            TableSource::Arrow(table) => table.rows(),
        }
    }

    /// Whether it can be read only while this is kept.
    pub(crate) fn is_unique(&self) -> bool {
        match self {
            TableSource::Csv(source) => source.input.is_copy(),
            TableSource::Parquet(source) => source.input.is_copy(),
            #[cfg(feature = "arrow")]
            TableSource::Arrow(_) => true,
        }
    }

    /// All rows in order, or those of some row groups of a file that has them.
    pub(crate) fn scan(&self, groups: Option<Range<usize>>, visit: RowVisitor<'_>) -> Result<(), BuildError> {
        match self {
            TableSource::Csv(source) => source.scan(visit),
            TableSource::Parquet(source) => source.scan(groups, visit),
            #[cfg(feature = "arrow")]
            TableSource::Arrow(table) => table.scan(visit),
        }
    }
}

/// The text without surrounding spaces; most have none, which the first and the last byte tell.
pub(crate) fn trimmed(text: &str) -> &str {
    match text.as_bytes() {
        [first, .., last] if first.is_ascii_graphic() && last.is_ascii_graphic() => text,
        _ => text.trim(),
    }
}

/// Checks column names; a column without one (the index that some tools write) is called by its
/// number.
pub(crate) fn column_names(path: &Path, names: impl Iterator<Item = String>) -> Result<Vec<String>, BuildError> {
    let refuse = |reason: String| Err(BuildError::File { path: path.into(), reason });
    let name = |(place, name): (usize, String)| match name.trim() {
        "" => format!("column {}", place + 1),
        trimmed => trimmed.to_owned(),
    };
    let columns: Vec<String> = names.enumerate().map(name).collect();
    if columns.is_empty() {
        return refuse("there are no columns with single values".into());
    }
    if columns.len() > MAX_COLUMNS {
        return refuse(format!("{} columns; {MAX_COLUMNS} is the most", columns.len()));
    }
    let mut seen = HashSet::new();
    if let Some(twice) = columns.iter().find(|column| !seen.insert(column.as_str())) {
        return refuse(format!("two columns are called {twice:?}; give each its own name"));
    }
    Ok(columns)
}
