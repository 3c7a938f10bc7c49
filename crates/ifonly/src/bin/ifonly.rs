//! The program: the library's command line.
#![forbid(unsafe_code)]

#[cfg(not(any(feature = "ask", feature = "serve", feature = "build", feature = "lab")))]
compile_error!("a command line without commands: enable ask, serve, build, lab or bench");

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(ifonly::cli::arguments::run(std::env::args_os()))
}
