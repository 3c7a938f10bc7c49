//! `ifonly bench`: starts the program `ifonly-bench`, which has the measurements.
//!
//! The measuring code is in a crate of its own that is not published, so this crate cannot depend
//! on it.

use crate::cli::exit::{CommandError, CommandOutcome};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

/// The program without the suffix of executables.
const PROGRAM: &str = "ifonly-bench";

/// Measure every part of a query on this machine, as a ratio to reading the same rows.
#[derive(Debug, clap::Args)]
#[command(
    // All flags, also --help and --version, are those of the program.
    disable_help_flag = true,
    disable_version_flag = true,
    after_help = "Starts the program ifonly-bench, which lies beside this program or on the PATH.\n\
                  `ifonly bench --help` prints its options.\n\n\
                  Example: ifonly bench --rows 1000000 --http"
)]
pub(crate) struct Args {
    /// Options of ifonly-bench
    #[arg(value_name = "OPTIONS", trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Replaces this process by `ifonly-bench` on Unix. Elsewhere it waits for the program and exits
/// with its exit code.
pub(crate) fn run(args: &Args) -> Result<CommandOutcome, CommandError> {
    let mut command = Command::new(program());
    command.args(&args.arguments);
    #[cfg(unix)]
    let error = std::os::unix::process::CommandExt::exec(&mut command);
    #[cfg(not(unix))]
    let error = match command.status() {
        Ok(status) => std::process::exit(status.code().unwrap_or(1)),
        Err(error) => error,
    };
    Err(match error.kind() {
        std::io::ErrorKind::NotFound => CommandError::Machine(format!(
            "the program {PROGRAM} was not found beside ifonly or on the PATH. It is not part of the published \
             packages: in a checkout of the repository run `cargo build --release -p ifonly-bench`, or install it \
             with `cargo install --path crates/ifonly-bench`"
        )),
        _ => CommandError::Machine(format!("cannot start {PROGRAM}: {error}")),
    })
}

/// The program beside the running executable; otherwise its name, which is looked up on the PATH.
fn program() -> PathBuf {
    let name = format!("{PROGRAM}{}", std::env::consts::EXE_SUFFIX);
    let beside = std::env::current_exe().ok().map(|executable| executable.with_file_name(&name));
    beside.filter(|path| path.is_file()).unwrap_or_else(|| name.into())
}
