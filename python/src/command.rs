//! The command line, so that the package brings the program too.

use pyo3::prelude::*;
use std::ffi::OsString;

/// Does what the arguments say, the program's name first, and gives the exit code. Only for a
/// process that does nothing else: help and arguments that cannot be read end it at once.
#[pyfunction]
pub(crate) fn main(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| ifonly::cli::arguments::run(arguments))
}
