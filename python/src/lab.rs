//! `ifonly.leakage` and `ifonly.attack`.

use crate::errors::{exception, input, json, parse};
use crate::runtime::in_background;
use ifonly::lab::LabError;
use ifonly::lab::attack::{NAMES, radix, run};
use ifonly::lab::cli::{LeakageArgs, leakage_of};
use ifonly::lab::leakage::Population;
use ifonly::lab::progress::NoProgress;
use ifonly::lab::report::ReportItem;
use ifonly::{Bundle, ErrorCategory, bundle_rows};
use pyo3::prelude::*;
use std::path::PathBuf;

/// The leakage of one search, as JSON; for the rows of a bundle if one is given.
#[pyfunction]
#[pyo3(signature = (options, bundle))]
pub(crate) fn leakage(py: Python<'_>, options: &str, bundle: Option<PathBuf>) -> PyResult<String> {
    let args = LeakageArgs { json: true, ..parse(options)? };
    in_background(py, move || {
        let rows = match bundle {
            Some(path) => Some(bundle_rows::levels(&open(&path)?)),
            None => None,
        };
        let population = rows.as_ref().map_or(Population::Grid, |rows| Population::Rows { rows, queries: rows });
        leakage_of(&args, population).map_err(lab_error)
    })?
    .map_err(|(category, message)| exception(category, message))
}

/// The names of the attacks.
#[pyfunction]
pub(crate) fn attacks() -> Vec<&'static str> {
    NAMES.to_vec()
}

/// Runs an attack; returns its report item as JSON.
#[pyfunction]
#[pyo3(signature = (name, seed, bundle))]
pub(crate) fn attack(py: Python<'_>, name: String, seed: u64, bundle: Option<PathBuf>) -> PyResult<String> {
    if bundle.is_some() && name != "radix" {
        return Err(input("only the radix attack takes a bundle; the others run on uniform rows"));
    }
    let item = in_background(py, move || -> Result<ReportItem, (ErrorCategory, String)> {
        match bundle {
            Some(path) => radix::run(&bundle_rows::target(&open(&path)?), seed, &NoProgress).map_err(lab_error),
            None => run(&name, seed, &NoProgress).map_err(lab_error),
        }
    })?;
    let mut item = item.map_err(|(category, message)| exception(category, message))?;
    item.figure = None;
    json(&item)
}

fn lab_error(error: LabError) -> (ErrorCategory, String) {
    (ErrorCategory::Input, error.to_string())
}

fn open(path: &std::path::Path) -> Result<Bundle, (ErrorCategory, String)> {
    Bundle::open(path).map_err(|error| (ErrorCategory::Input, error.to_string()))
}
