//! The Python module `ifonly._ifonly`: what `ifonly/*.py` calls.
//!
//! Thin: options and wishes come in as JSON that the crates read themselves, tables by the Arrow
//! interface, answers leave as the JSON that the command line prints. The interpreter's lock is
//! never held while something takes time, and nothing of Python touches shares: those are made,
//! sent and decoded below, with the operating system's random numbers.
#![forbid(unsafe_code)]

mod ask;
mod build;
mod build_parts;
mod command;
mod errors;
mod lab;
mod runtime;
mod scales;
mod serve;
mod table;

/// Everything that the Python files use.
#[pyo3::pymodule]
mod _ifonly {
    #[pymodule_export]
    use crate::ask::{Batch, Client};
    #[pymodule_export]
    use crate::build::{build, inspect};
    #[pymodule_export]
    use crate::build_parts::{Build, build_encode, build_learn, build_sign};
    #[pymodule_export]
    use crate::command::main;
    #[pymodule_export]
    use crate::lab::{attack, attacks, leakage};
    #[pymodule_export]
    use crate::serve::{Servers, keygen, serve, signing_key};
    #[pymodule_export]
    use crate::table::rows;

    /// The version of the package.
    #[pymodule_export]
    #[allow(non_upper_case_globals, reason = "Python's name for it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
