//! The command line of private counterfactual retrieval: one word per task, `--help` with an example each.
//!
//! What a program would want lives in the other crates; here are flags, files, tables and exit codes.
#![forbid(unsafe_code)]

mod commands;
mod exit;
mod loans;
mod profile;
mod show;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Ask what would have had to be different, without telling anybody who is asking.
#[derive(Debug, Parser)]
#[command(name = "ifonly", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(commands::demo::Args),
    Ask(Box<commands::ask::Args>),
    Keygen(commands::keygen::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Ask(args) => commands::ask::run(&args),
        Command::Demo(args) => commands::demo::run(&args),
        Command::Keygen(args) => commands::keygen::run(&args),
    };
    exit::finish(result)
}
