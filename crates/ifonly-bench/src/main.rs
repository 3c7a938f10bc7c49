//! The program `ifonly-bench`; `ifonly bench` starts it.
#![forbid(unsafe_code)]

use clap::Parser;
use ifonly_bench::command::{self, Args};
use std::process::ExitCode;

fn main() -> ExitCode {
    match command::run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ifonly-bench: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}
