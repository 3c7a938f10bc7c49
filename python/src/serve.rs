//! `ifonly.serve`, which runs the servers of a bundle on loopback, and `ifonly.keygen`.

use crate::errors::{exception, input, machine};
use crate::runtime::{in_background, runtime};
use ifonly::algebra::random::OsRandom;
use ifonly::core::signature::SigningKey;
use ifonly::server::key_file;
use ifonly::{Bundle, ErrorCategory, Loopback};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// Running servers.
#[pyclass(frozen, module = "ifonly._ifonly")]
pub(crate) struct Servers {
    urls: Vec<String>,
    running: Mutex<Option<Loopback>>,
}

#[pymethods]
impl Servers {
    /// The addresses, in the order of the server indices.
    #[getter]
    fn urls(&self) -> Vec<String> {
        self.urls.clone()
    }

    /// Waits for running requests, then stops the servers. A second call has no effect.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(running) = running else { return Ok(()) };
        let runtime = runtime()?;
        in_background(py, move || runtime.block_on(running.stop()))
    }
}

/// Starts the servers of a bundle.
#[pyfunction]
#[pyo3(signature = (bundle, servers, keys))]
pub(crate) fn serve(py: Python<'_>, bundle: PathBuf, servers: Option<usize>, keys: Vec<PathBuf>) -> PyResult<Servers> {
    let runtime = runtime()?;
    let started = in_background(py, move || {
        let bundle = Bundle::open(&bundle).map_err(|error| (ErrorCategory::Input, error.to_string()))?;
        let keys = keys.iter().map(|path| key_file::load(path)).collect::<Result<Vec<_>, _>>();
        let keys = keys.map_err(|error| (ErrorCategory::Input, error.to_string()))?;
        runtime
            .block_on(Loopback::start(&bundle, servers, keys, &[]))
            .map_err(|error| (error.category(), error.to_string()))
    })?;
    let running = started.map_err(|(category, message)| exception(category, message))?;
    Ok(Servers { urls: running.urls().to_vec(), running: Mutex::new(Some(running)) })
}

/// Writes a new root key; returns its fingerprint.
#[pyfunction]
#[pyo3(signature = (path, epoch))]
pub(crate) fn keygen(path: PathBuf, epoch: u32) -> PyResult<String> {
    key_file::create(&path, epoch).map(|fingerprint| fingerprint.to_string()).map_err(machine)
}

/// Writes a new signing key; returns the public key.
#[pyfunction]
#[pyo3(signature = (path))]
pub(crate) fn signing_key(path: PathBuf) -> PyResult<String> {
    let key = SigningKey::generate(&mut OsRandom::default());
    match ifonly::bundle::save_key(&path, &key) {
        Ok(()) => Ok(key.public().to_string()),
        Err(error) if path.exists() => Err(input(error)),
        Err(error) => Err(machine(error)),
    }
}
