//! Errors of building and opening bundles. Each names the file and, where possible, the row and the
//! column, and says what to do next.

use ifonly_scan::StoreError;
use ifonly_values::error_category::ErrorCategory;
use ifonly_values::manifest::ManifestError;
use ifonly_values::schema::SchemaError;
use std::path::{Path, PathBuf};

/// Position in a data file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum FileLocation {
    /// A line of a text file, counted from 1; the header is line 1.
    Line(u64),
    /// A row of a table without lines, counted from 1.
    Row(u64),
}

impl std::fmt::Display for FileLocation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FileLocation::Line(line) => write!(f, "line {line}"),
            FileLocation::Row(row) => write!(f, "row {row}"),
        }
    }
}

/// A number with its noun: "1 row", "2 rows". For nouns with a regular plural.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// The possible numbers of cost bits.
pub(crate) const COST_BITS: std::ops::RangeInclusive<i64> = 16..=60;

/// Why a build failed. A failed build leaves no files behind.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A file operation failed.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// The operation, as a verb.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The number of cost bits is out of range.
    #[error("cost_bits = {bits}: must be from {} to {}", COST_BITS.start(), COST_BITS.end())]
    CostBits {
        /// The number given.
        bits: u32,
    },
    /// Both settings of the same number are given.
    #[error("cost_bits and cost_limit set the same number; omit one of them")]
    CostLimitTwice,
    /// A file is invalid.
    #[error("{path}: {reason}")]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// A row of the data is invalid.
    #[error("{path}, {location}: {reason}")]
    Row {
        /// The file.
        path: PathBuf,
        /// The row.
        location: FileLocation,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// A value of the data is invalid.
    #[error("{path}, {location}, column {column:?}: {reason}")]
    Cell {
        /// The file.
        path: PathBuf,
        /// The row.
        location: FileLocation,
        /// The column.
        column: String,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// A setting names a column that the data does not have.
    #[error("{wanted_by}: the data has no column {name:?}; {hint}")]
    UnknownColumn {
        /// The setting: `target`, or a part of the schema file.
        wanted_by: String,
        /// The name of the column.
        name: String,
        /// A similar name, or the names that exist.
        hint: String,
    },
    /// The settings contradict each other or the data.
    #[error("{0}")]
    Settings(String),
    /// No row meets an accept condition.
    #[error("no row is accepted: column {target:?} never matches {accept}; it holds {values}")]
    NothingAccepted {
        /// The target column.
        target: String,
        /// The accept conditions.
        accept: String,
        /// Values that the target column has.
        values: String,
    },
    /// The progress callback stopped the build.
    #[error("the build was stopped")]
    Stopped,
    /// Every column was excluded.
    #[error("all columns were excluded: {reasons}")]
    NoFeatures {
        /// The reason for each column.
        reasons: String,
    },
    /// The schema is invalid.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// The manifest is invalid, for example because of contradictory deployment parameters.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// Manifest, rows and records do not belong to one bundle.
    #[error("{0}; all three must be made from the same rows")]
    Mismatch(String),
    /// The output path exists already.
    #[error("{path} already exists; choose another path, or allow the build to replace it")]
    Exists {
        /// The output path.
        path: PathBuf,
    },
}

impl BuildError {
    /// The category of the error, which determines the exit code.
    pub fn category(&self) -> ErrorCategory {
        match self {
            BuildError::Io { .. } => ErrorCategory::Machine,
            _ => ErrorCategory::Input,
        }
    }

    /// Converts an error of the row store that was being written to `path`.
    pub(crate) fn of_rows(error: StoreError, path: &Path) -> BuildError {
        match error {
            StoreError::Io(source) => BuildError::Io { action: "write", path: path.into(), source },
            other => BuildError::File { path: path.into(), reason: other.to_string() },
        }
    }
}

/// Why a bundle could not be opened. Usually the bundle must be copied or built again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// A file could not be read.
    #[error("cannot read {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The manifest is invalid.
    #[error("{path}: {source}")]
    Manifest {
        /// The file of the manifest.
        path: PathBuf,
        /// What is wrong.
        source: ManifestError,
    },
    /// The length of a file is not the length that the manifest implies.
    #[error("{path} has {have} bytes instead of {need}: it is truncated or belongs to another bundle; copy it again")]
    Length {
        /// The file.
        path: PathBuf,
        /// Actual length in bytes.
        have: u64,
        /// Expected length in bytes.
        need: u64,
    },
    /// The checksum of a file differs from the listed one.
    #[error("{path} does not have the checksum that the bundle lists: it was damaged or changed; copy it again")]
    Checksum {
        /// The file.
        path: PathBuf,
    },
    /// Users other than the owner and its group can read a file with rows or their checksums.
    #[error("{path} is readable by all users; run: chmod -R o= {}", .path.parent().unwrap_or(.path).display())]
    Readable {
        /// The file.
        path: PathBuf,
    },
    /// The files of a part come from different splits.
    #[error(
        "{path} has the checksums of one bundle and the rows of another, as after an interrupted copy; copy the whole part again, or split the bundle again"
    )]
    Mixed {
        /// The directory of the part.
        path: PathBuf,
    },
    /// A file or directory does not have the expected format.
    #[error("{path}: {reason}")]
    Malformed {
        /// The file or directory.
        path: PathBuf,
        /// What is wrong, and what to do.
        reason: String,
    },
}
