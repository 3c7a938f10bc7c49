//! `ifonly inspect`: what a bundle holds, or what servers offer, and what their schemes cost.

use crate::cli::exit::{CommandError, CommandOutcome, out, out_json};
use ifonly_bundle::{Bundle, summarise};
use ifonly_values::manifest::Manifest;
use std::path::Path;

/// Show what a bundle holds, or what servers offer: columns, operators, schemes, and the digest
/// that `ask --manifest` pins.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example: ifonly inspect loans.bundle --json
         ifonly inspect https://a.example https://b.example")]
pub(crate) struct Args {
    /// A bundle, or the addresses of all servers, whose manifests are compared.
    #[arg(value_name = "BUNDLE|URL", required = true)]
    subject: Vec<String>,
    /// Print the manifest, its digest and the schemes as JSON.
    #[arg(long)]
    json: bool,
    /// Check rows and records of a bundle too, not only its manifest.
    #[arg(long)]
    check: bool,
    #[cfg(feature = "ask")]
    #[command(flatten)]
    connection: crate::cli::connection_args::ConnectionArgs,
}

pub(crate) fn run(args: &Args) -> Result<CommandOutcome, CommandError> {
    let manifest = manifest(args)?;
    let summary = summarise(&manifest);
    match args.json {
        true => out_json(&summary)?,
        false => out(&summary.to_string())?,
    }
    Ok(CommandOutcome::Fine)
}

fn manifest(args: &Args) -> Result<Manifest, CommandError> {
    #[cfg(feature = "ask")]
    if args.subject.iter().all(|subject| subject.starts_with("http://") || subject.starts_with("https://")) {
        let pins = ifonly_client::Pins::default();
        let client = crate::cli::connection_args::run(args.connection.connect(&args.subject, &pins))?;
        return Ok(client.manifest().clone());
    }
    let [bundle] = args.subject.as_slice() else {
        return Err(CommandError::Input("give one bundle, or the addresses of all servers".into()));
    };
    match args.check {
        true => Ok(Bundle::open(Path::new(bundle)).map_err(CommandError::input)?.manifest().clone()),
        false => Bundle::manifest_of(Path::new(bundle)).map_err(CommandError::input),
    }
}
