//! `ifonly.build` and `ifonly.inspect`.

use crate::errors::{blamed, json, options};
use crate::table::{built, table};
use ifonly::bundle::{BuildError, BuildInputs, AcceptMask, BuildProgress, SchemaFile, BuildStage, ProgressCallback, build_from, summarise};
use ifonly::{ErrorCategory, BuildOptions, Bundle};
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What messages call a table in memory.
pub(crate) const TABLE: &str = "the table";

/// Builds a bundle; gives the report as JSON, as text, and its warnings.
///
/// `data` is a path, a list of paths, or a table; `wanted` has the options by their names,
/// `settings` what a schema file would say; `mask` is a byte per row, with the words that define
/// it. `progress` is called with a stage and a share now and then.
#[pyfunction]
#[pyo3(signature = (data, wanted, settings, mask, progress))]
pub(crate) fn build(
    py: Python<'_>,
    data: &Bound<'_, PyAny>,
    wanted: &str,
    settings: Option<&str>,
    mask: Option<(Vec<u8>, String)>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(String, String, Vec<String>)> {
    let mut wanted: BuildOptions = options(wanted)?;
    let settings: Option<SchemaFile> = settings.map(options).transpose()?;
    let mask = mask.map(|(rows, definition)| AcceptMask { rows: rows.iter().map(|&byte| byte != 0).collect(), definition });
    let mut inputs = BuildInputs { settings, mask, ..BuildInputs::default() };
    give(data, &mut wanted, &mut inputs)?;
    let report = watched(py, progress, |watch| build_from(&wanted, inputs, watch))?;
    Ok((json(&report)?, report.to_string(), report.warnings()))
}

/// Gives a build its data: a path, a list of paths, or a table.
pub(crate) fn give(data: &Bound<'_, PyAny>, wanted: &mut BuildOptions, inputs: &mut BuildInputs) -> PyResult<()> {
    match (data.extract::<PathBuf>(), data.cast::<PyList>()) {
        (Ok(path), _) => wanted.data = vec![path],
        (Err(_), Ok(paths)) => wanted.data = paths.extract()?,
        (Err(_), Err(_)) => {
            let table = table(data, TABLE)?;
            // A column of truth values says by itself what means acceptance.
            if wanted.accept.is_empty() && wanted.target.as_deref().is_some_and(|target| table.is_boolean(target)) {
                wanted.accept = vec!["true".into()];
            }
            inputs.table = Some(table);
        }
    }
    Ok(())
}

/// Does something that takes time, without the interpreter's lock, and looks for signals meanwhile.
pub(crate) fn watched<T: Send>(
    py: Python<'_>,
    progress: Option<Py<PyAny>>,
    work: impl FnOnce(ProgressCallback<'_>) -> Result<T, BuildError> + Send,
) -> PyResult<T> {
    let mut watcher = Watcher { progress, last: Instant::now(), raised: None };
    let done = py.detach(|| work(&mut |progress| watcher.see(progress)));
    match (watcher.raised, done) {
        (Some(raised), _) => Err(raised),
        (None, done) => done.map_err(|error| built(&error)),
    }
}

/// Looks for signals while a build runs, and tells of it.
struct Watcher {
    progress: Option<Py<PyAny>>,
    last: Instant,
    raised: Option<PyErr>,
}

impl Watcher {
    fn see(&mut self, progress: BuildProgress) -> ControlFlow<()> {
        const EVERY: Duration = Duration::from_millis(50);
        let ended = progress.done == progress.total;
        if self.last.elapsed() < EVERY && !ended {
            return ControlFlow::Continue(());
        }
        self.last = Instant::now();
        let stage = match progress.stage {
            BuildStage::Unpacking => "unpacking",
            BuildStage::Learning => "learning",
            BuildStage::Encoding => "encoding",
            BuildStage::Signing => "signing",
        };
        let share = progress.done as f64 / progress.total.max(1) as f64;
        let told = Python::attach(|py| {
            py.check_signals()?;
            self.progress.as_ref().map(|callback| callback.call1(py, (stage, share))).transpose()
        });
        match told {
            Ok(_) => ControlFlow::Continue(()),
            Err(error) => {
                self.raised = Some(error);
                ControlFlow::Break(())
            }
        }
    }
}

/// What a bundle's manifest says, with its digest and what its schemes cost, as JSON and as text.
#[pyfunction]
#[pyo3(signature = (bundle, check))]
pub(crate) fn inspect(py: Python<'_>, bundle: PathBuf, check: bool) -> PyResult<(String, String)> {
    let manifest = py.detach(|| {
        let opened = match check {
            true => Bundle::open(&bundle).map(|bundle| bundle.manifest().clone()),
            false => Bundle::manifest_of(&bundle),
        };
        opened.map_err(|error| (ErrorCategory::Input, error.to_string()))
    });
    let manifest = manifest.map_err(|(category, message)| blamed(category, message))?;
    let summary = summarise(&manifest);
    Ok((json(&summary)?, summary.to_string()))
}
