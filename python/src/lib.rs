//! The Python module `ifonly._ifonly`, which `ifonly/*.py` calls.
//!
//! The module is a thin layer. Options and wishes come in as JSON that the crates parse, and tables
//! through the Arrow interface. Answers go out as the JSON that the command line prints. Long work
//! runs without the interpreter lock. Python code never handles secret shares: the Rust crates
//! create, send and decode them with randomness of the operating system.
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

/// The functions and classes that the Python files use.
#[pyo3::pymodule]
mod _ifonly {
    #[pymodule_export]
    use crate::ask::{Batch, Client};
    #[pymodule_export]
    use crate::build::{build, inspect};
    #[pymodule_export]
    use crate::build_parts::{Build, build_collect_stats, build_encode, build_sign};
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
    #[allow(non_upper_case_globals, reason = "the usual name in Python")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
