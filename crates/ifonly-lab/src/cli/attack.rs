//! `ifonly attack`: simulated attacks by users and cheating clients.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::bars::Bars;
use super::print;
use crate::attack::{NAMES, radix, run, unknown};
use crate::report::ReportItem;
use crate::{LabError, report};

/// Simulate attacks by users: what they learn over many searches, with and without defences.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  ifonly attack -o report
  ifonly attack trilateration

Attacks: trilateration, linking, replay, radix, collecting, stopping.")]
pub struct AttackArgs {
    /// Name of one attack (default: all attacks)
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// Folder for attack.md, attack.json and one SVG per attack
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Seed of the attacked databases
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
            None => return Err(unknown(name)),
        },
    };
    let items = names.into_iter().map(|name| run(name, args.seed, &Bars::default())).collect::<Result<Vec<_>, _>>()?;
    let preface = "Attacks by users and by cheating clients on databases of uniform rows, computed by `ifonly attack`. \
         A row counts as recovered when exactly one row is consistent with all observed values, and it is the true row.";
    show(args, preface, &items)
}

/// Runs `ifonly attack radix` on a given database. No other attack accepts a database.
pub fn attack_on(args: &AttackArgs, target: &radix::Target) -> Result<(), LabError> {
    if args.name.as_deref().is_some_and(|name| name != "radix") {
        return Err(LabError::parameter(
            "bundle",
            "only the radix attack accepts a bundle; the other attacks use generated rows",
        ));
    }
    let item = radix::run(target, args.seed, &Bars::default())?;
    let preface = "What a cheating client learns about this database, computed by `ifonly attack radix --bundle`. A row \
         counts as recovered when exactly one row is consistent with all observed values, and it is the true row.";
    show(args, preface, &[item])
}

/// Shows the result of `ifonly attack linkage`, which runs on a bundle and its data.
pub fn show_linkage(args: &AttackArgs, item: &ReportItem) -> Result<(), LabError> {
    let preface = "What somebody who knows a few facts about an accepted person reads from records of people and of \
         groups, computed by `ifonly attack linkage`.";
    show(args, preface, std::slice::from_ref(item))
}

fn show(args: &AttackArgs, preface: &str, items: &[ReportItem]) -> Result<(), LabError> {
    let files = match &args.output {
        Some(folder) => report::write(folder, "attack", "Attacks on the database", preface, items)?,
        None => Vec::new(),
    };
    if args.json {
        return print(&format!("{}\n", json!({ "items": items, "files": files })));
    }
    let pages: Vec<String> = items.iter().map(ReportItem::text_page).collect();
    let names: String = files.iter().map(|file| format!("{}\n", file.display())).collect();
    print(&format!("{}{names}", pages.join("\n")))
}
