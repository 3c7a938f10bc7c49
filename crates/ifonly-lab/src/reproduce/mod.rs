//! The paper's tables and figures, computed again, ours beside the printed value and the reason
//! where they differ.

mod compas;
mod costs;
mod immutables;
mod synthetic;
pub mod wine;

use std::path::Path;

use crate::LabError;
use crate::data::{self, COMPAS, DataFile, WINE};
use crate::leakage::{Decoded, LeakageScheme};
use crate::progress::ProgressSink;
use crate::report::{ReportItem, cells};

/// How much work to put into the experiments.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// Databases per query that the paper's COMPAS estimator samples (100,000 in the paper).
    pub compas_samples: usize,
    /// Rounds of the wine experiment (100 in the paper).
    pub wine_rounds: usize,
    /// The seed of everything.
    pub seed: u64,
}

impl Default for Effort {
    fn default() -> Self {
        Effort { compas_samples: 100_000, wine_rounds: 100, seed: 1 }
    }
}

/// All exhibits, in the paper's order; those whose data is missing say what to get and from where.
pub fn run(folder: Option<&Path>, effort: Effort, progress: &dyn ProgressSink) -> Result<Vec<ReportItem>, LabError> {
    let mut exhibits = vec![costs::run(effort.seed)?];
    match WINE.find(folder) {
        Some(path) => {
            let wine = data::wine(&path)?;
            exhibits.extend(wine::run(&wine, WINE.is_genuine(&path)?, effort, progress)?);
        }
        None => exhibits.push(missing("wine", "Accuracy and quantisation on white wine", WINE)),
    }
    exhibits.push(synthetic::run()?);
    match COMPAS.find(folder) {
        Some(path) => {
            let split = data::compas(&path)?;
            let genuine = COMPAS.is_genuine(&path)?;
            exhibits.push(compas::run(&split, genuine, effort, progress)?);
        }
        None => exhibits.push(missing("compas", "Leakage on COMPAS", COMPAS)),
    }
    exhibits.push(immutables::run()?);
    Ok(exhibits)
}

/// What to do about a missing file.
fn missing(name: &'static str, title: &str, file: DataFile) -> ReportItem {
    ReportItem {
        name,
        title: format!("{title}: not computed, the data is missing"),
        text: format!(
            "Put `{}` into a folder and name that folder with `--data DIR` or in `IFONLY_DATA`. \
             The file is not part of this project; its origin is: {}.",
            file.name, file.origin
        ),
        columns: cells(["file", "SHA-256"]),
        rows: vec![cells([file.name, file.sha256])],
        plot: None,
    }
}

/// What a table calls a scheme.
fn label(scheme: LeakageScheme, d_min: u32) -> String {
    match scheme.decoded {
        Decoded::Masked => format!("{}, d_min={d_min}", scheme.name),
        _ => scheme.name.into(),
    }
}

/// A remark for reports on a file that is not the one whose numbers are known.
fn remark_on_origin(genuine: bool, file: DataFile) -> String {
    if genuine {
        String::new()
    } else {
        format!(
            " **The file is not the one that the known numbers come from (SHA-256 {}): expect differences.**",
            file.sha256
        )
    }
}
