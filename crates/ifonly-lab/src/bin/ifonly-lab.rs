//! The commands of this crate without the rest of `ifonly`, for development and tests. Users run
//! them as commands of `ifonly`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use ifonly_lab::cli::{self, AttackArgs, LeakageArgs, ReproduceArgs};

#[derive(Parser)]
#[command(name = "ifonly-lab", about = "Leakage, attacks and the paper's experiments")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Leakage(LeakageArgs),
    Reproduce(ReproduceArgs),
    Attack(AttackArgs),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Leakage(args) => cli::leakage(&args),
        Command::Reproduce(args) => cli::reproduce(&args),
        Command::Attack(args) => cli::attack(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
