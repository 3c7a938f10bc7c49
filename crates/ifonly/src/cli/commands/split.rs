//! `ifonly split`: a bundle in parts, one for every shard.

use crate::cli::exit::{CommandError, CommandOutcome, out};
use ifonly_bundle::{Bundle, SplitError};
use std::path::PathBuf;

/// Cut a bundle into parts, so that every shard's machine gets its own rows and no others.
///
/// Writes DIR/part-0 and so on for `ifonly shard`, and DIR/front for `ifonly serve --shards`. The
/// bundle itself stays as it is.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Example: ifonly split loans.bundle --parts 8 -o parts")]
pub(crate) struct Args {
    /// The bundle, made by `ifonly build`.
    bundle: PathBuf,
    /// How many parts, of nearly equal length.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    parts: u32,
    /// Where to write them: all of them, or none where something goes wrong.
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Replace what a bundle was split into under that name.
    #[arg(long)]
    replace: bool,
}

pub(crate) fn run(args: &Args) -> Result<CommandOutcome, CommandError> {
    let written =
        Bundle::split(&args.bundle, args.parts as usize, &args.output, args.replace).map_err(|error| match error {
            SplitError::Write(error) => CommandError::of(error.category(), error),
            error => CommandError::input(error),
        })?;
    for (name, rows) in written {
        let path = args.output.join(name);
        match rows.is_empty() {
            true => out(&format!("{}\n", path.display()))?,
            false => out(&format!("{}  rows {}:{}\n", path.display(), rows.start, rows.end))?,
        }
    }
    Ok(CommandOutcome::Fine)
}
