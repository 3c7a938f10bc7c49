//! `ifonly leakage`: the leakage computation of `ifonly-lab`, optionally for the rows of a bundle.

use crate::cli::exit::{CommandError, CommandOutcome};
use ifonly_bundle::Bundle;
use ifonly_lab::cli::{LeakageArgs, leakage, leakage_of};
use ifonly_lab::leakage::Population;
use std::path::PathBuf;

/// Compute how many bits one search reveals about the rows, exactly or by sampling.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ifonly leakage --scheme gated --r 3 --d 3 --m 3 --immutable 1 --base 757
  ifonly leakage --scheme mask --d-min 2 --r 10 --d 6 --m 100 --samples 6400
  ifonly leakage --scheme gated --bundle loans.bundle --m 50 --immutable 2 --samples 20000 --json

Model of the paper: the profile x is uniform; the rows are drawn without replacement from all
points except x, or from --bundle or --rows. The number of servers and the threshold do not
matter, because the user decodes the same values.

The first number excludes the record that the search returns, the second includes it. Maximal
leakage holds for every prior, and the values of several searches add up: use it for budgets.")]
pub(crate) struct Args {
    #[command(flatten)]
    lab: LeakageArgs,
    /// Bundle from whose rows both rows and profiles are drawn
    #[arg(long, value_name = "BUNDLE", conflicts_with_all = ["rows", "queries", "r", "d"])]
    bundle: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<CommandOutcome, CommandError> {
    let Some(path) = &args.bundle else {
        return leakage(&args.lab).map(|()| CommandOutcome::Success).map_err(CommandError::machine);
    };
    let bundle = Bundle::open(path).map_err(CommandError::input)?;
    let rows = ifonly::bundle_rows::levels(&bundle);
    let population = Population::Rows { rows: &rows, queries: &rows };
    print!("{}", leakage_of(&args.lab, population).map_err(CommandError::input)?);
    Ok(CommandOutcome::Success)
}
