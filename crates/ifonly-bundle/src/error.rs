//! What can go wrong, where, and who has to do what about it.

use ifonly_scan::StoreError;
use ifonly_values::error_category::ErrorCategory;
use ifonly_values::manifest::ManifestError;
use ifonly_values::schema::SchemaError;
use std::path::{Path, PathBuf};

/// Where in a file.
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

/// Why no bundle was built. Nothing has been written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The file system refused.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What it said.
        source: std::io::Error,
    },
    /// The data file is not what it should be.
    #[error("{path}: {reason}")]
    File {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A row of the data is not what it should be.
    #[error("{path}, {place}: {reason}")]
    Row {
        /// Which file.
        path: PathBuf,
        /// Where in it.
        place: FileLocation,
        /// What is wrong there.
        reason: String,
    },
    /// A value of the data is not what it should be.
    #[error("{path}, {place}, column {column:?}: {reason}")]
    Cell {
        /// Which file.
        path: PathBuf,
        /// Where in it.
        place: FileLocation,
        /// Which column.
        column: String,
        /// What is wrong there.
        reason: String,
    },
    /// A column that the data does not have.
    #[error("{wanted_by}: the data has no column {name:?}; {hint}")]
    UnknownColumn {
        /// Who asked for it: the target, or a part of the schema file.
        wanted_by: String,
        /// As asked for.
        name: String,
        /// What may have been meant, or what there is.
        hint: String,
    },
    /// The settings contradict themselves or the data.
    #[error("{0}")]
    Settings(String),
    /// The target selects no row.
    #[error("no row is accepted: column {target:?} never matches {accept}; it holds {values}")]
    NothingAccepted {
        /// The target.
        target: String,
        /// The conditions.
        accept: String,
        /// What there is instead.
        values: String,
    },
    /// Whoever watches the build wanted no more of it.
    #[error("the build was stopped")]
    Stopped,
    /// Every column was left out.
    #[error("no column is left to compare: {reasons}")]
    NoFeatures {
        /// Why each was left out.
        reasons: String,
    },
    /// The schema makes no sense.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// The deployment makes no sense.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// Manifest, rows and records are not those of one bundle.
    #[error("{0}; all three must be made from the same rows")]
    Mismatch(String),
    /// There is something already.
    #[error("{path} exists already; choose another name or ask to replace it")]
    Exists {
        /// The output.
        path: PathBuf,
    },
}

impl BuildError {
    /// Whose fault it is.
    pub fn category(&self) -> ErrorCategory {
        match self {
            BuildError::Io { .. } => ErrorCategory::Machine,
            _ => ErrorCategory::Input,
        }
    }

    /// What went wrong with the rows on their way into this file.
    pub(crate) fn of_rows(error: StoreError, path: &Path) -> BuildError {
        match error {
            StoreError::Io(source) => BuildError::Io { action: "write", path: path.into(), source },
            other => BuildError::File { path: path.into(), reason: other.to_string() },
        }
    }
}

/// Why a bundle is not served. Whoever copied or made it must do so again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The file system refused.
    #[error("cannot read {path}: {source}")]
    Io {
        /// Which file.
        path: PathBuf,
        /// What it said.
        source: std::io::Error,
    },
    /// The manifest is refused.
    #[error("{path}: {source}")]
    Manifest {
        /// The manifest's file.
        path: PathBuf,
        /// Why.
        source: ManifestError,
    },
    /// A file has another length than the manifest implies.
    #[error("{path} has {have} bytes instead of {need}: it is cut off or belongs to another bundle; copy it again")]
    Length {
        /// Which file.
        path: PathBuf,
        /// Bytes there are.
        have: u64,
        /// Bytes there should be.
        need: u64,
    },
    /// A file's checksum is not the one listed.
    #[error("{path} does not have the checksum that the bundle lists: it was damaged or changed; copy it again")]
    Checksum {
        /// Which file.
        path: PathBuf,
    },
    /// A part whose files are of different splits.
    #[error(
        "{path} has the checksums of one bundle and the rows of another, as after a copy that broke off; copy the whole part again, or split the bundle again"
    )]
    Mixed {
        /// The part.
        path: PathBuf,
    },
    /// A file is not what its name says.
    #[error("{path}: {reason}")]
    Malformed {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}
