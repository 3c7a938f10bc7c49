//! `ifonly reproduce`.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::bars::Bars;
use super::print;
use crate::reproduce::{Effort, run};
use crate::{LabError, data, report};

/// Every table and figure of the paper, ours beside the printed value.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Example:
  ifonly reproduce -o report --data ../data

Writes reproduce.md, reproduce.json and one SVG per figure. The wine and COMPAS files are not part of ifonly; without them the report says
what to get from where, and does the rest.")]
pub struct ReproduceArgs {
    /// The folder to write the report into
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
    /// The folder with wine-white.csv and compas.csv (default: IFONLY_DATA)
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Sample less: a tenth of the paper's rounds and databases
    #[arg(long)]
    pub quick: bool,
    /// The seed of all sampling
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print the report as JSON, too
    #[arg(long)]
    pub json: bool,
}

/// Runs `ifonly reproduce`.
pub fn reproduce(args: &ReproduceArgs) -> Result<(), LabError> {
    if let Some(folder) = args.data.as_deref().filter(|folder| !folder.is_dir()) {
        return Err(LabError::flag("--data", format!("{} is not a folder", folder.display())));
    }
    let whole = Effort { seed: args.seed, ..Effort::default() };
    let effort = if args.quick {
        Effort { compas_samples: whole.compas_samples / 10, wine_rounds: whole.wine_rounds / 10, ..whole }
    } else {
        whole
    };
    let folder = data::folder(args.data.as_deref());
    let exhibits = run(folder.as_deref(), effort, &Bars::default())?;
    let preface = "Each table and figure of \"Private Counterfactual Retrieval\", computed by `ifonly reproduce`: \
         what the paper prints beside what comes out, and where the two differ, why.";
    let files =
        report::write(&args.output, "reproduce", "The paper's tables and figures, computed again", preface, &exhibits)?;
    if args.json {
        return print(&format!("{}\n", json!({ "exhibits": exhibits, "files": files })));
    }
    let names: String = files.iter().map(|file| format!("{}\n", file.display())).collect();
    print(&names)
}
