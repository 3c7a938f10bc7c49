//! `ifonly attack`: the attacks of `ifonly-lab`, on generated rows or on the rows of a bundle.

use crate::cli::exit::{CommandError, CommandOutcome};
use ifonly::bundle_rows;
use ifonly_bundle::Bundle;
use ifonly_lab::LabError;
#[cfg(feature = "build")]
use ifonly_lab::cli::show_linkage;
use ifonly_lab::cli::{AttackArgs, attack, attack_on};
use std::path::PathBuf;

/// Simulate attacks by users: what they learn over many searches, with and without defences.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ifonly attack -o report
  ifonly attack trilateration
  ifonly attack radix --bundle loans.bundle
  ifonly attack linkage --bundle loans.bundle --data applications.csv

Attacks: trilateration, linking, replay, radix, collecting, stopping, linkage.")]
pub(crate) struct Args {
    #[command(flatten)]
    lab: AttackArgs,
    /// Bundle to attack (radix and linkage). Radix attacks every scheme that it offers and gives
    /// the number of searches after which a cheating client has the rows; set budgets below it.
    #[arg(long, value_name = "BUNDLE")]
    bundle: Option<PathBuf>,
    /// Data from which the bundle was built (linkage attack only). Groups of 1, 5, 10 and 20 people
    /// of this table are attacked too.
    #[arg(long, value_name = "DATA")]
    data: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<CommandOutcome, CommandError> {
    let is_linkage = args.lab.name.as_deref() == Some("linkage");
    let Some(path) = &args.bundle else {
        if is_linkage || args.data.is_some() {
            return Err(CommandError::Input(LINKAGE.into()));
        }
        return attack(&args.lab).map(|()| CommandOutcome::Success).map_err(CommandError::machine);
    };
    let bundle = Bundle::open(path).map_err(CommandError::input)?;
    let done = match (is_linkage, &args.data) {
        (true, Some(data)) => linkage(args, &bundle, data)?,
        (true, None) | (false, Some(_)) => return Err(CommandError::Input(LINKAGE.into())),
        (false, None) => attack_on(&args.lab, &bundle_rows::target(&bundle)),
    };
    done.map(|()| CommandOutcome::Success).map_err(CommandError::input)
}

const LINKAGE: &str = "the linkage attack needs a bundle and its data: ifonly attack linkage --bundle BUNDLE --data CSV; no other attack \
     takes --data";

#[cfg(feature = "build")]
fn linkage(args: &Args, bundle: &Bundle, data: &std::path::Path) -> Result<Result<(), LabError>, CommandError> {
    let item = ifonly::linkage::report(bundle, data, args.lab.seed)
        .map_err(|error| CommandError::from_category(error.category(), error))?;
    Ok(item.and_then(|item| show_linkage(&args.lab, &item)))
}

#[cfg(not(feature = "build"))]
fn linkage(_: &Args, _: &Bundle, _: &std::path::Path) -> Result<Result<(), LabError>, CommandError> {
    Err(CommandError::Input("this program cannot read tables; install ifonly with the feature build".into()))
}
