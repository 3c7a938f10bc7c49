//! `ifonly reproduce`: the tables and figures of the paper, computed again.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;

use super::bars::Bars;
use super::print;
use crate::data::{COMPAS, WINE};
use crate::report::ReportItem;
use crate::reproduce::{EXHIBITS, Effort, growth, run};
use crate::{LabError, data, report};

/// Compute every table and figure of the paper again, and compare with the printed values.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  ifonly reproduce -o report --data ../data
  ifonly reproduce errata
  ifonly reproduce -o report --only synthetic --only immutables

Exhibits: systems, costs, wine, synthetic, compas, immutables, errata. All take about 15 minutes on two cores,
with --quick about 2; wine and compas take nearly all of it.

Writes reproduce.html (one file with all figures), reproduce.md, reproduce.json, and an SVG and a PNG
per figure. Exit code 1: a value differs without a known reason. The wine and COMPAS files are not
part of ifonly. For each missing file the report says where to get it; all other items are computed.")]
pub struct ReproduceArgs {
    /// Name of one exhibit (default: all)
    #[arg(value_name = "EXHIBIT", conflicts_with = "only")]
    pub exhibit: Option<String>,
    /// Folder for the report (default: print the exhibits)
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Only this exhibit; repeatable
    #[arg(long, value_name = "EXHIBIT")]
    pub only: Vec<String>,
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
    let wanted: Vec<&str> = args.only.iter().chain(&args.exhibit).map(String::as_str).collect();
    if let Some(unknown) = wanted.iter().find(|name| !EXHIBITS.contains(*name)) {
        let reason = format!("unknown exhibit {unknown:?}; use one of {}", EXHIBITS.join(", "));
        return Err(LabError::parameter("exhibit", reason));
    }
    let names = if wanted.is_empty() { EXHIBITS.to_vec() } else { wanted };
    let started = Instant::now();
    let items = run(folder.as_deref(), &names, effort, &Bars::default())?;
    let mut header = header(args, effort, folder.as_deref(), started.elapsed())?;
    if names.contains(&"costs") && args.output.is_some() {
        for line in growth::measure()? {
            header.push_str(&format!("\n- growth of computing, {line}"));
        }
    }
    let preface = format!(
        "Each table and figure of the paper \"What If, But Privately: Private Counterfactual Retrieval\", computed by \
         `ifonly reproduce`, beside the printed values. Where the two differ, the text gives the reason.\n\n{header}"
    );
    let title = "Tables and figures of the paper, computed again";
    let files = match &args.output {
        Some(folder) => {
            let mut files = report::write(folder, "reproduce", title, &preface, &items)?;
            files.push(report::write_html(folder, "reproduce", title, &preface, &items)?);
            files
        }
        None => Vec::new(),
    };
    if args.json {
        print(&format!("{}\n", json!({ "items": items, "files": files })))?;
    } else if files.is_empty() {
        let pages: Vec<String> = items.iter().map(ReportItem::text_page).collect();
        print(&pages.join("\n"))?;
    } else {
        let names: String = files.iter().map(|file| format!("{}\n", file.display())).collect();
        print(&names)?;
    }
    let unexplained = items.iter().map(|item| item.unexplained()).sum::<usize>();
    if unexplained > 0 {
        return Err(LabError::parameter("reproduce", format!("{unexplained} values differ without a reason")));
    }
    Ok(())
}

/// Version, parameters, data files, processor and duration, one per line.
fn header(args: &ReproduceArgs, effort: Effort, folder: Option<&Path>, duration: Duration) -> Result<String, LabError> {
    let processor = std::fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
        text.lines()
            .find(|line| line.starts_with("model name"))
            .and_then(|line| Some(line.split_once(": ")?.1.to_owned()))
    });
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut lines = vec![
        format!("- ifonly {}, seed {}", env!("CARGO_PKG_VERSION"), args.seed),
        format!(
            "- effort: {} rounds of wine, {} sampled databases per query of COMPAS",
            effort.wine_rounds, effort.compas_samples
        ),
        format!("- processor: {}, {cores} threads", processor.unwrap_or_else(|| std::env::consts::ARCH.into())),
        format!("- duration: {:.0} s", duration.as_secs_f64()),
    ];
    for file in [WINE, COMPAS] {
        if let Some(path) = file.find(folder) {
            lines.push(format!("- {}: SHA-256 {}", file.name, file.digest(&path)?));
        }
    }
    Ok(lines.join("\n"))
}
