//! `ifonly completions` and `ifonly man`: shell completions and manual pages, generated from the
//! definitions of the commands.

use crate::cli::exit::{CommandError, CommandOutcome};
use clap::Command;
use std::path::PathBuf;

/// Print the completion script for a shell.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: ifonly completions bash > ~/.local/share/bash-completion/completions/ifonly")]
pub(crate) struct Args {
    /// Shell.
    shell: clap_complete::Shell,
}

/// Write manual pages, one per command.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: ifonly man ~/.local/share/man/man1")]
pub(crate) struct ManArgs {
    /// Directory for the pages; created if missing.
    directory: PathBuf,
}

pub(crate) fn run(args: &Args, mut command: Command) -> Result<CommandOutcome, CommandError> {
    let mut text = vec![];
    clap_complete::generate(args.shell, &mut command, "ifonly", &mut text);
    crate::cli::exit::out(&String::from_utf8_lossy(&text))?;
    Ok(CommandOutcome::Success)
}

pub(crate) fn man(args: &ManArgs, command: Command) -> Result<CommandOutcome, CommandError> {
    let failed = |error: std::io::Error| CommandError::Machine(format!("{}: {error}", args.directory.display()));
    std::fs::create_dir_all(&args.directory).map_err(failed)?;
    clap_mangen::generate_to(command, &args.directory).map_err(failed)?;
    Ok(CommandOutcome::Success)
}
