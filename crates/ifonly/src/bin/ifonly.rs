//! The program `ifonly`. Its commands are in [`ifonly::cli`].
#![forbid(unsafe_code)]

#[cfg(not(any(feature = "ask", feature = "serve", feature = "build", feature = "lab")))]
compile_error!("the command line has no commands; enable one of the features ask, serve, build and lab");

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(ifonly::cli::arguments::run(std::env::args_os()))
}
