//! The error type of this crate. Each variant is named after what the caller has to change.

use std::path::PathBuf;

/// An error of this crate. Each variant names the parameter, file, row or column at fault.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// A parameter has a value that the computation cannot use.
    #[error("{parameter}: {reason}")]
    Parameter {
        /// The name of the parameter.
        parameter: &'static str,
        /// What is wrong with its value, and which values are valid.
        reason: String,
    },
    /// An exact computation would take too long.
    #[error(
        "{what} needs about {steps:.1e} steps, but the limit is {limit:.0e}; set the number of samples for a Monte \
         Carlo estimate with its standard error"
    )]
    TooLarge {
        /// The computation.
        what: &'static str,
        /// The estimated number of steps.
        steps: f64,
        /// The largest permitted number of steps.
        limit: f64,
    },
    /// A data file lacks a column, or a cell has an invalid value.
    #[error("{file}, row {row}, column {column}: {reason}", file = file.display())]
    Cell {
        /// The file.
        file: PathBuf,
        /// The row, counted from 1 without the header; 0 is the header.
        row: usize,
        /// The name of the column.
        column: String,
        /// What is wrong with the cell.
        reason: String,
    },
    /// A file cannot be read or written.
    #[error("{path}: {source}", path = path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// The reason of the operating system.
        source: std::io::Error,
    },
    /// A CSV file cannot be parsed.
    #[error("{path}: {source}", path = path.display())]
    Csv {
        /// The file.
        path: PathBuf,
        /// The reason of the parser, with the line.
        source: csv::Error,
    },
    /// A plot cannot be drawn.
    #[error("cannot draw the plot {name:?}: {reason}")]
    Plot {
        /// The title of the plot.
        name: String,
        /// The reason of the drawing library.
        reason: String,
    },
    /// The protocol failed or refused its inputs.
    #[error("the protocol failed with scheme {scheme}: {reason}")]
    Protocol {
        /// The name of the scheme.
        scheme: String,
        /// The reason of the protocol code.
        reason: String,
    },
}

impl LabError {
    /// An invalid value of a parameter.
    pub fn parameter(parameter: &'static str, reason: impl Into<String>) -> Self {
        LabError::Parameter { parameter, reason: reason.into() }
    }
}
