//! `ifonly.leakage` and `ifonly.attack`.

use crate::errors::{blamed, input, json, options};
use crate::runtime::aside;
use ifonly::lab::LabError;
use ifonly::lab::attack::{NAMES, radix, run};
use ifonly::lab::cli::{LeakageArgs, leakage_of};
use ifonly::lab::leakage::Population;
use ifonly::lab::progress::Quiet;
use ifonly::lab::report::Exhibit;
use ifonly::{Blame, Bundle, exhibits};
use pyo3::prelude::*;
use std::path::PathBuf;

/// How much one search tells about the database, as JSON. Rows are a bundle's, where one is given.
#[pyfunction]
#[pyo3(signature = (wanted, bundle))]
pub(crate) fn leakage(py: Python<'_>, wanted: &str, bundle: Option<PathBuf>) -> PyResult<String> {
    let args = LeakageArgs { json: true, ..options(wanted)? };
    aside(py, move || {
        let rows = match bundle {
            Some(path) => Some(exhibits::levels(&open(&path)?)),
            None => None,
        };
        let population = rows.as_ref().map_or(Population::Grid, |rows| Population::Rows { rows, queries: rows });
        leakage_of(&args, population).map_err(refused)
    })?
    .map_err(|(blame, message)| blamed(blame, message))
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
    let exhibit = aside(py, move || -> Result<Exhibit, (Blame, String)> {
        match bundle {
            Some(path) => radix::run(&exhibits::target(&open(&path)?), seed, &Quiet).map_err(refused),
            None => run(&name, seed, &Quiet).map_err(refused),
        }
    })?;
    let mut exhibit = exhibit.map_err(|(blame, message)| blamed(blame, message))?;
    exhibit.plot = None;
    json(&exhibit)
}

fn refused(error: LabError) -> (Blame, String) {
    (Blame::Input, error.to_string())
}

fn open(path: &std::path::Path) -> Result<Bundle, (Blame, String)> {
    Bundle::open(path).map_err(|error| (Blame::Input, error.to_string()))
}
