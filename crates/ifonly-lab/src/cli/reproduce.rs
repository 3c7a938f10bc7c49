//! `ifonly reproduce`: the tables and figures of the paper, computed again.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::bars::Bars;
use super::print;
use crate::reproduce::{Effort, run};
use crate::{LabError, data, report};

/// Compute every table and figure of the paper again, and compare with the printed values.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Example:
  ifonly reproduce -o report --data ../data

Writes reproduce.md, reproduce.json and one SVG per figure. The wine and COMPAS files are not part of
ifonly. For each missing file the report says where to get it; all other items are computed.")]
pub struct ReproduceArgs {
    /// Folder for the report
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
    /// Folder with wine-white.csv and compas.csv (default: the environment variable IFONLY_DATA)
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Use a tenth of the rounds and sampled databases of the paper
    #[arg(long)]
    pub quick: bool,
    /// Seed of all sampling
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Also print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// Runs `ifonly reproduce`.
pub fn reproduce(args: &ReproduceArgs) -> Result<(), LabError> {
    if let Some(folder) = args.data.as_deref().filter(|folder| !folder.is_dir()) {
        return Err(LabError::parameter("data", format!("{} is not a folder", folder.display())));
    }
    let full = Effort { seed: args.seed, ..Effort::default() };
    let effort = if args.quick {
        Effort { compas_samples: full.compas_samples / 10, wine_rounds: full.wine_rounds / 10, ..full }
    } else {
        full
    };
    let folder = data::folder(args.data.as_deref());
    let items = run(folder.as_deref(), effort, &Bars::default())?;
    let preface = "Each table and figure of the paper \"Private Counterfactual Retrieval\", computed by `ifonly \
         reproduce`, beside the printed values. Where the two differ, the text gives the reason.";
    let files =
        report::write(&args.output, "reproduce", "Tables and figures of the paper, computed again", preface, &items)?;
    if args.json {
        return print(&format!("{}\n", json!({ "items": items, "files": files })));
    }
    let names: String = files.iter().map(|file| format!("{}\n", file.display())).collect();
    print(&names)
}
