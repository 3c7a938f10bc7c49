//! The command line of private counterfactual retrieval: one word per task, `--help` with an example each.
//!
//! What a program would want lives in the other crates; here are flags, files, tables and exit codes.
#![forbid(unsafe_code)]

mod commands;
mod end_to_end;
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
    Build(Box<commands::build::Args>),
    Inspect(commands::inspect::Args),
    Keygen(commands::keygen::Args),
    Serve(Box<commands::serve::Args>),
    Ask(Box<commands::ask::Args>),
    Leakage(Box<commands::leakage::Args>),
    Reproduce(ifonly_lab::cli::ReproduceArgs),
    Attack(ifonly_lab::cli::AttackArgs),
    Bench(Box<commands::bench::Args>),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Demo(args) => commands::demo::run(&args),
        Command::Build(args) => commands::build::run(&args),
        Command::Inspect(args) => commands::inspect::run(&args),
        Command::Keygen(args) => commands::keygen::run(&args),
        Command::Serve(args) => commands::serve::run(&args),
        Command::Ask(args) => commands::ask::run(&args),
        Command::Leakage(args) => commands::leakage::run(&args),
        Command::Reproduce(args) => done(ifonly_lab::cli::reproduce(&args)),
        Command::Attack(args) => done(ifonly_lab::cli::attack(&args)),
        Command::Bench(args) => commands::bench::run(&args),
    };
    exit::finish(result)
}

/// Commands of other crates end well or say why not.
fn done<E: std::fmt::Display>(result: Result<(), E>) -> Result<exit::Done, exit::Failure> {
    result.map(|()| exit::Done::Fine).map_err(exit::Failure::machine)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn every_command_has_help_and_flags_do_not_clash() {
        Cli::command().debug_assert();
        for command in Cli::command().get_subcommands() {
            assert!(command.get_about().is_some(), "{} has no help", command.get_name());
        }
    }
}
