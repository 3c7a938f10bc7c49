//! The command line as part of the Python package.

use pyo3::prelude::*;
use std::ffi::OsString;

/// Runs the command line; the first argument is the name of the program. Returns the exit code.
/// Only for a process that does nothing else: `--help` and invalid arguments end the process.
#[pyfunction]
pub(crate) fn main(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| ifonly::cli::arguments::run(arguments))
}
