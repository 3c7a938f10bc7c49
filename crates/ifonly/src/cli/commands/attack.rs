//! `ifonly attack`: the lab's command, against a bundle where one is given.

use crate::cli::exit::{CommandError, CommandOutcome};
use ifonly::bundle_rows;
use ifonly_bundle::Bundle;
use ifonly_lab::cli::{AttackArgs, attack, attack_on};
use std::path::PathBuf;

/// Play what a determined user learns over many searches, with and without the defences.
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
    /// Play the radix attack against every scheme that this bundle offers: in how many searches a
    /// client that cheats has its rows, which is what a budget of searches must stay below
    #[arg(long, value_name = "BUNDLE")]
    bundle: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<CommandOutcome, CommandError> {
    let Some(path) = &args.bundle else {
        return attack(&args.lab).map(|()| CommandOutcome::Fine).map_err(CommandError::machine);
    };
    let bundle = Bundle::open(path).map_err(CommandError::input)?;
    attack_on(&args.lab, &bundle_rows::target(&bundle)).map(|()| CommandOutcome::Fine).map_err(CommandError::input)
}
