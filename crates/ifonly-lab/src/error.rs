//! Everything that can go wrong in the lab, named after what the caller has to change.

use std::path::PathBuf;

/// An error of the lab; each variant says which flag, file, row or column is at fault.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// A flag has a value that the computation cannot use.
    #[error("{flag}: {reason}")]
    Flag {
        /// The flag as it is typed.
        flag: &'static str,
        /// What is wrong with its value, and what would be right.
        reason: String,
    },
    /// An exact computation would take too long.
    #[error(
        "{what} needs about {steps:.1e} steps, the limit is {limit:.0e}: use --samples N for a Monte Carlo estimate \
         with its standard error"
    )]
    TooLarge {
        /// What was to be enumerated.
        what: &'static str,
        /// The estimated number of steps.
        steps: f64,
        /// The largest number that is attempted.
        limit: f64,
    },
    /// A data file lacks a column, or a cell is not what it should be.
    #[error("{file}, row {row}, column {column}: {reason}", file = file.display())]
    Cell {
        /// The file.
        file: PathBuf,
        /// The row, counted from 1, the header not included; 0 is the header itself.
        row: usize,
        /// The column's name.
        column: String,
        /// What is wrong.
        reason: String,
    },
    /// A file cannot be read or written.
    #[error("{path}: {source}", path = path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// The operating system's reason.
        source: std::io::Error,
    },
    /// A CSV file cannot be parsed.
    #[error("{path}: {source}", path = path.display())]
    Csv {
        /// The file.
        path: PathBuf,
        /// The parser's reason, with the line.
        source: csv::Error,
    },
    /// A picture cannot be drawn.
    #[error("drawing {name}: {reason}")]
    Plot {
        /// The picture's name.
        name: String,
        /// The drawing library's reason.
        reason: String,
    },
    /// The protocol engine refused what the lab asked of it.
    #[error("running {scheme} through the protocol: {reason}")]
    Protocol {
        /// The scheme.
        scheme: String,
        /// The engine's reason.
        reason: String,
    },
}

impl LabError {
    /// A complaint about a flag.
    pub fn flag(flag: &'static str, reason: impl Into<String>) -> Self {
        LabError::Flag { flag, reason: reason.into() }
    }
}
