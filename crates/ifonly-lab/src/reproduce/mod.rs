//! The tables and figures of the paper, computed again. Each report item has the values of
//! ifonly beside the printed ones, and the reason where they differ.

mod compas;
mod costs;
mod errata;
pub(crate) mod growth;
mod immutables;
mod synthetic;
mod systems;
pub mod wine;

use std::path::Path;

use crate::LabError;
use crate::data::{self, COMPAS, DataFile, WINE};
use crate::leakage::{Decoded, LeakageScheme};
use crate::progress::ProgressSink;
use crate::report::{ReportItem, cells};

/// The number of repetitions of the experiments.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// Databases per query that the estimator of the paper samples on COMPAS (100,000 in the
    /// paper).
    pub compas_samples: usize,
    /// Rounds of the wine experiment (100 in the paper).
    pub wine_rounds: usize,
    /// The seed of all sampling.
    pub seed: u64,
}

impl Default for Effort {
    fn default() -> Self {
        Effort { compas_samples: 100_000, wine_rounds: 100, seed: 1 }
    }
}

/// The names of the exhibits, in the order of the paper.
pub const EXHIBITS: [&str; 7] = ["systems", "costs", "wine", "synthetic", "compas", "immutables", "errata"];

/// The report items of the named exhibits, in the order of the paper. An item whose data file is
/// missing says where to get the file.
pub fn run(
    folder: Option<&Path>,
    names: &[&str],
    effort: Effort,
    progress: &dyn ProgressSink,
) -> Result<Vec<ReportItem>, LabError> {
    let mut items = Vec::new();
    for name in EXHIBITS.iter().filter(|name| names.contains(*name)) {
        progress.start(&format!("exhibit {name}"), 1);
        progress.finish();
        items.extend(exhibit(name, folder, effort, progress)?);
    }
    Ok(items)
}

fn exhibit(
    name: &str,
    folder: Option<&Path>,
    effort: Effort,
    progress: &dyn ProgressSink,
) -> Result<Vec<ReportItem>, LabError> {
    Ok(match name {
        "systems" => systems::run(),
        "costs" => vec![costs::run(effort.seed)?],
        "synthetic" => vec![synthetic::run()?],
        "immutables" => vec![immutables::run()?],
        "errata" => {
            let split = COMPAS.find(folder).map(|path| data::compas(&path)).transpose()?;
            vec![errata::run(split.as_ref(), effort.seed)?]
        }
        "wine" => match WINE.find(folder) {
            Some(path) => wine::run(&data::wine(&path)?, WINE.is_genuine(&path)?, effort, progress)?,
            None => vec![missing("wine", "Accuracy and quantisation on white wine", WINE)],
        },
        _ => match COMPAS.find(folder) {
            Some(path) => vec![compas::run(&data::compas(&path)?, COMPAS.is_genuine(&path)?, effort, progress)?],
            None => vec![missing("compas", "Leakage on COMPAS", COMPAS)],
        },
    })
}

/// The item that replaces an experiment whose data file is missing.
fn missing(name: &'static str, title: &str, file: DataFile) -> ReportItem {
    ReportItem {
        name,
        title: format!("{title}: not computed, because the data file is missing"),
        text: format!(
            "Put `{}` into a folder and pass that folder as the data folder (`ifonly reproduce --data DIR`, or the \
             environment variable `IFONLY_DATA`). The file is not part of this project. Source: {}.",
            file.name, file.origin
        ),
        columns: cells(["file", "SHA-256"]),
        rows: vec![cells([file.name, file.sha256])],
        figure: None,
    }
}

/// The name of a scheme in a table.
fn label(scheme: LeakageScheme, d_min: u32) -> String {
    match scheme.decoded {
        Decoded::Masked => format!("{}, d_min={d_min}", scheme.name),
        _ => scheme.name.into(),
    }
}

/// A remark for a report on a file with another checksum.
fn remark_on_origin(genuine: bool, file: DataFile) -> String {
    if genuine {
        String::new()
    } else {
        format!(
            " **The documented numbers come from a file with another checksum (SHA-256 {}); expect differences.**",
            file.sha256
        )
    }
}
