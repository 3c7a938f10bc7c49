//! `ifonly.leakage` and `ifonly.attack`.

use crate::errors::{blamed, input, json, options};
use crate::runtime::aside;
use ifonly::lab::LabError;
use ifonly::lab::attack::{NAMES, radix, run};
use ifonly::lab::cli::{LeakageArgs, leakage_of};
use ifonly::lab::leakage::Population;
use ifonly::lab::progress::NoProgress;
use ifonly::lab::report::ReportItem;
use ifonly::{ErrorCategory, Bundle, bundle_rows};
use pyo3::prelude::*;
use std::path::PathBuf;

/// How much one search tells about the database, as JSON. Rows are a bundle's, where one is given.
#[pyfunction]
#[pyo3(signature = (wanted, bundle))]
pub(crate) fn leakage(py: Python<'_>, wanted: &str, bundle: Option<PathBuf>) -> PyResult<String> {
    let args = LeakageArgs { json: true, ..options(wanted)? };
    aside(py, move || {
        let rows = match bundle {
            Some(path) => Some(bundle_rows::levels(&open(&path)?)),
            None => None,
        };
        let population = rows.as_ref().map_or(Population::Grid, |rows| Population::Rows { rows, queries: rows });
        leakage_of(&args, population).map_err(refused)
    })?
    .map_err(|(category, message)| blamed(category, message))
}

/// The attacks by name.
#[pyfunction]
pub(crate) fn attacks() -> Vec<&'static str> {
    NAMES.to_vec()
}

/// Plays an attack; its table, title and text as JSON.
#[pyfunction]
#[pyo3(signature = (name, seed, bundle))]
pub(crate) fn attack(py: Python<'_>, name: String, seed: u64, bundle: Option<PathBuf>) -> PyResult<String> {
    if bundle.is_some() && name != "radix" {
        return Err(input("only the radix attack takes a bundle; the others play on uniform rows"));
    }
    let exhibit = aside(py, move || -> Result<ReportItem, (ErrorCategory, String)> {
        match bundle {
            Some(path) => radix::run(&bundle_rows::target(&open(&path)?), seed, &NoProgress).map_err(refused),
            None => run(&name, seed, &NoProgress).map_err(refused),
        }
    })?;
    let mut exhibit = exhibit.map_err(|(category, message)| blamed(category, message))?;
    exhibit.plot = None;
    json(&exhibit)
}

fn refused(error: LabError) -> (ErrorCategory, String) {
    (ErrorCategory::Input, error.to_string())
}

fn open(path: &std::path::Path) -> Result<Bundle, (ErrorCategory, String)> {
    Bundle::open(path).map_err(|error| (ErrorCategory::Input, error.to_string()))
}
