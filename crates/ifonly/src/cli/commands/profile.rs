//! `ifonly profile`: a template of a profile, made from the public manifest of the servers.

use crate::cli::connection_args::ConnectionArgs;
use crate::cli::exit::{CommandError, CommandOutcome};
use crate::cli::{connection_args, render};
use ifonly_client::Pins;

/// Print a profile to fill in: every column with its kind, unit, range or values.
///
/// The client fetches only the public manifest and compares the servers. If a server cannot be
/// compared, the profile is printed, and the exit code is 5.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  ifonly profile https://a.example https://b.example > me.toml
  ifonly ask --server https://a.example --server https://b.example --profile me.toml")]
pub(crate) struct Args {
    /// Addresses of all servers.
    #[arg(value_name = "URL", required = true)]
    servers: Vec<String>,
    #[command(flatten)]
    connection: ConnectionArgs,
}

pub(crate) fn run(args: &Args) -> Result<CommandOutcome, CommandError> {
    let client = connection_args::run(args.connection.connect(&args.servers, &Pins::default()))?;
    render::out(&ifonly_client::template(client.manifest()))?;
    client.check_all_compared()?;
    Ok(CommandOutcome::Success)
}
