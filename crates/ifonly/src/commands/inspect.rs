//! `ifonly inspect`: what a bundle holds and what its schemes cost.

use crate::exit::{Done, Failure};
use ifonly_bundle::{Bundle, summarise};
use std::path::PathBuf;

/// Show what a bundle holds and which schemes it offers.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: ifonly inspect loans.bundle --json")]
pub(crate) struct Args {
    /// The bundle.
    bundle: PathBuf,
    /// Print the manifest, its digest and the schemes as JSON.
    #[arg(long)]
    json: bool,
    /// Check rows and records too, not only the manifest.
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(args: &Args) -> Result<Done, Failure> {
    let manifest = match args.check {
        true => Bundle::open(&args.bundle).map_err(Failure::input)?.manifest().clone(),
        false => Bundle::manifest_of(&args.bundle).map_err(Failure::input)?,
    };
    let summary = summarise(&manifest);
    match args.json {
        true => println!("{}", serde_json::to_string(&summary).map_err(Failure::machine)?),
        false => print!("{summary}"),
    }
    Ok(Done::Fine)
}
