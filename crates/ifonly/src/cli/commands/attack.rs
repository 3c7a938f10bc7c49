//! `ifonly attack`: the attacks of `ifonly-lab`, on generated rows or on the rows of a bundle.

use crate::cli::exit::{CommandError, CommandOutcome};
use ifonly::bundle_rows;
use ifonly_bundle::Bundle;
use ifonly_lab::cli::{AttackArgs, attack, attack_on};
use std::path::PathBuf;

/// Simulate attacks by users: what they learn over many searches, with and without defences.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ifonly attack -o report
  ifonly attack trilateration
  ifonly attack radix --bundle loans.bundle

Attacks: trilateration, linking, replay, radix, collecting, stopping.")]
pub(crate) struct Args {
    #[command(flatten)]
    lab: AttackArgs,
    /// Bundle to attack with every scheme that it offers (radix attack only). The result is the
    /// number of searches after which a cheating client has the rows; set budgets below it.
    #[arg(long, value_name = "BUNDLE")]
    bundle: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<CommandOutcome, CommandError> {
    let Some(path) = &args.bundle else {
        return attack(&args.lab).map(|()| CommandOutcome::Success).map_err(CommandError::machine);
    };
    let bundle = Bundle::open(path).map_err(CommandError::input)?;
    attack_on(&args.lab, &bundle_rows::target(&bundle)).map(|()| CommandOutcome::Success).map_err(CommandError::input)
}
