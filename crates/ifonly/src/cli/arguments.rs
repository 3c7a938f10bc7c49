//! The commands of `ifonly` and their dispatch. Each command has one file in `commands/`.
//!
//! The command line only handles flags, files, printed tables and exit codes; the work is done in
//! the other crates. This module is in the library so that the Python package offers the same
//! commands as the program.

use crate::cli::{commands, exit};
use clap::{CommandFactory, Parser, Subcommand};
use std::ffi::OsString;

/// Find the nearest accepted case without revealing your data.
#[derive(Debug, Parser)]
#[command(name = "ifonly", version, propagate_version = true)]
#[cfg_attr(
    all(feature = "ask", feature = "serve", feature = "build", feature = "lab"),
    command(after_help = "\
Start with `ifonly demo`. Then, by role:
  institution  build, inspect, leakage, attack
  operator     keygen, serve; split and shard if the rows do not fit one machine
  user         inspect, profile, ask
`ifonly COMMAND --help` describes a command. docs/tutorial.md shows all steps in ten minutes.")
)]
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
    Bench(commands::bench::Args),
    Completions(commands::completions::Args),
    Man(commands::completions::ManArgs),
}

/// Runs the command that `arguments` describe and returns its exit code. The first argument is the
/// program's name.
///
/// Invalid arguments, `--help` and `--version` end the process at once, so only the owner of the
/// process should call this function.
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
        Command::Reproduce(args) => outcome(ifonly_lab::cli::reproduce(&args)),
        #[cfg(feature = "lab")]
        Command::Attack(args) => commands::attack::run(&args),
        Command::Bench(args) => commands::bench::run(&args),
        Command::Completions(args) => commands::completions::run(&args, Cli::command()),
        Command::Man(args) => commands::completions::man(&args, Cli::command()),
    };
    exit::finish(result)
}

/// The outcome of a command that another crate implements.
#[cfg(feature = "lab")]
fn outcome<E: std::fmt::Display>(result: Result<(), E>) -> Result<exit::CommandOutcome, exit::CommandError> {
    result.map(|()| exit::CommandOutcome::Success).map_err(exit::CommandError::machine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_help_and_flags_do_not_clash() {
        Cli::command().debug_assert();
        for command in Cli::command().get_subcommands() {
            assert!(command.get_about().is_some(), "{} has no help text", command.get_name());
            let mut flags = command.get_arguments().filter_map(|argument| argument.get_long());
            assert!(!flags.any(|flag| flag.contains('_')), "{}: a flag contains an underscore", command.get_name());
        }
    }
}
