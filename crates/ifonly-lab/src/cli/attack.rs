//! `ifonly attack`.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::bars::Bars;
use super::print;
use crate::attack::{NAMES, radix, run};
use crate::report::ReportItem;
use crate::{LabError, report};

/// What a determined user learns over many sessions, with and without the defences.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  ifonly attack -o report
  ifonly attack trilateration

Attacks: trilateration, linking, replay, radix, collecting, stopping.")]
pub struct AttackArgs {
    /// One attack by name (default: all)
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// Write attack.md, attack.json and one SVG per attack into this folder
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// The seed of the attacked databases
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Runs `ifonly attack`.
pub fn attack(args: &AttackArgs) -> Result<(), LabError> {
    let names = match args.name.as_deref() {
        None => NAMES.to_vec(),
        Some(name) => match NAMES.iter().find(|known| **known == name) {
            Some(known) => vec![*known],
            None => {
                return Err(LabError::flag(
                    "NAME",
                    format!("there is no attack {name:?}; there are {}", NAMES.join(", ")),
                ));
            }
        },
    };
    let exhibits =
        names.into_iter().map(|name| run(name, args.seed, &Bars::default())).collect::<Result<Vec<_>, _>>()?;
    let preface = "Attacks by a user (or a client that cheats) on databases of uniform rows, computed by `ifonly \
         attack`. A row counts as recovered when exactly one row fits all that was seen, and it is the true one.";
    show(args, preface, &exhibits)
}

/// Runs `ifonly attack radix` on a database at hand, the only attack that takes one.
pub fn attack_on(args: &AttackArgs, target: &radix::Target) -> Result<(), LabError> {
    if args.name.as_deref().is_some_and(|name| name != "radix") {
        return Err(LabError::flag(
            "--bundle",
            "only the radix attack takes a bundle; the others play on uniform rows",
        ));
    }
    let exhibit = radix::run(target, args.seed, &Bars::default())?;
    let preface = "What a client that cheats learns of this database, computed by `ifonly attack radix --bundle`. A row counts \
         as recovered when exactly one row fits all that was seen, and it is the true one.";
    show(args, preface, &[exhibit])
}

fn show(args: &AttackArgs, preface: &str, exhibits: &[ReportItem]) -> Result<(), LabError> {
    let files = match &args.output {
        Some(folder) => report::write(folder, "attack", "What a determined user learns", preface, exhibits)?,
        None => Vec::new(),
    };
    if args.json {
        return print(&format!("{}\n", json!({ "exhibits": exhibits, "files": files })));
    }
    let pages: Vec<String> = exhibits.iter().map(ReportItem::text_page).collect();
    let names: String = files.iter().map(|file| format!("{}\n", file.display())).collect();
    print(&format!("{}{names}", pages.join("\n")))
}
