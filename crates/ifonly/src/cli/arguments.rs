//! The command line of private counterfactual retrieval: one word per task, `--help` with an
//! example each.
//!
//! What a program would want lives in the other crates; here are flags, files, tables and exit
//! codes. It is in the library, so that the Python package has the same commands as the program.

use crate::cli::{commands, exit};
use clap::{CommandFactory, Parser, Subcommand};
use std::ffi::OsString;

/// Ask what would have had to be different, without telling anybody who is asking.
#[derive(Debug, Parser)]
#[command(name = "ifonly", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[cfg(all(feature = "ask", feature = "serve"))]
    Demo(commands::demo::Args),
    #[cfg(feature = "build")]
    Build(Box<commands::build::Args>),
    #[cfg(any(feature = "build", feature = "serve"))]
    Inspect(commands::inspect::Args),
    #[cfg(feature = "serve")]
    Keygen(commands::keygen::Args),
    #[cfg(feature = "serve")]
    Serve(Box<commands::serve::Args>),
    #[cfg(feature = "serve")]
    Shard(commands::shard::Args),
    #[cfg(feature = "serve")]
    Split(commands::split::Args),
    #[cfg(feature = "ask")]
    Ask(Box<commands::ask::Args>),
    #[cfg(feature = "ask")]
    Profile(commands::profile::Args),
    #[cfg(feature = "ask")]
    Page(commands::page::Args),
    #[cfg(feature = "lab")]
    Leakage(Box<commands::leakage::Args>),
    #[cfg(feature = "lab")]
    Reproduce(ifonly_lab::cli::ReproduceArgs),
    #[cfg(feature = "lab")]
    Attack(commands::attack::Args),
    #[cfg(feature = "bench")]
    Bench(Box<commands::bench::Args>),
    Completions(commands::completions::Args),
    Man(commands::completions::ManArgs),
}

/// Does what the arguments say, the program's own name first, and gives the exit code. For whoever
/// owns the process: arguments that cannot be read and a call for help end it at once.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    exit::ignore_broken_pipe();
    let result = match Cli::parse_from(arguments).command {
        #[cfg(all(feature = "ask", feature = "serve"))]
        Command::Demo(args) => commands::demo::run(&args),
        #[cfg(feature = "build")]
        Command::Build(args) => commands::build::run(&args),
        #[cfg(any(feature = "build", feature = "serve"))]
        Command::Inspect(args) => commands::inspect::run(&args),
        #[cfg(feature = "serve")]
        Command::Keygen(args) => commands::keygen::run(&args),
        #[cfg(feature = "serve")]
        Command::Serve(args) => commands::serve::run(&args),
        #[cfg(feature = "serve")]
        Command::Shard(args) => commands::shard::run(&args),
        #[cfg(feature = "serve")]
        Command::Split(args) => commands::split::run(&args),
        #[cfg(feature = "ask")]
        Command::Ask(args) => commands::ask::run(&args),
        #[cfg(feature = "ask")]
        Command::Profile(args) => commands::profile::run(&args),
        #[cfg(feature = "ask")]
        Command::Page(args) => commands::page::run(&args),
        #[cfg(feature = "lab")]
        Command::Leakage(args) => commands::leakage::run(&args),
        #[cfg(feature = "lab")]
        Command::Reproduce(args) => done(ifonly_lab::cli::reproduce(&args)),
        #[cfg(feature = "lab")]
        Command::Attack(args) => commands::attack::run(&args),
        #[cfg(feature = "bench")]
        Command::Bench(args) => commands::bench::run(&args),
        Command::Completions(args) => commands::completions::run(&args, Cli::command()),
        Command::Man(args) => commands::completions::man(&args, Cli::command()),
    };
    exit::finish(result)
}

/// Commands of other crates end well or say why not.
#[cfg(feature = "lab")]
fn done<E: std::fmt::Display>(result: Result<(), E>) -> Result<exit::CommandOutcome, exit::CommandError> {
    result.map(|()| exit::CommandOutcome::Fine).map_err(exit::CommandError::machine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_help_and_flags_do_not_clash() {
        Cli::command().debug_assert();
        for command in Cli::command().get_subcommands() {
            assert!(command.get_about().is_some(), "{} has no help", command.get_name());
            let mut flags = command.get_arguments().filter_map(|argument| argument.get_long());
            assert!(!flags.any(|flag| flag.contains('_')), "{}: flags have hyphens", command.get_name());
        }
    }
}
