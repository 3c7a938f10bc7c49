//! `ifonly split`: divides a bundle into parts, one for each shard.

use crate::cli::exit::{CommandError, CommandOutcome, out};
use crate::cli::hints;
use ifonly_bundle::{Bundle, SplitError};
use std::path::PathBuf;

/// Split a bundle into parts, so that each shard gets only its own rows.
///
/// Writes DIR/part-0, DIR/part-1, … for `ifonly shard`, and DIR/frontend for `ifonly serve
/// --shards`. The bundle itself does not change.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Example: ifonly split loans.bundle --parts 8 -o parts")]
pub(crate) struct Args {
    /// Bundle built by `ifonly build`.
    bundle: PathBuf,
    /// Number of parts; their numbers of rows differ by at most 1.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    parts: u32,
    /// Directory for the parts. After an error nothing is written.
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Replace the parts in DIR, if it contains a split bundle.
    #[arg(long)]
    replace: bool,
}

pub(crate) fn run(args: &Args) -> Result<CommandOutcome, CommandError> {
    let written =
        Bundle::split(&args.bundle, args.parts as usize, &args.output, args.replace).map_err(|error| match error {
            SplitError::Write(error) => CommandError::from_category(error.category(), hints::for_build(&error)),
            error => CommandError::input(error),
        })?;
    for (name, rows) in written {
        let path = args.output.join(name);
        if rows.is_empty() {
            out(&format!("{}\n", path.display()))?
        } else {
            out(&format!("{}  rows {}:{}\n", path.display(), rows.start, rows.end))?
        }
    }
    Ok(CommandOutcome::Success)
}
