//! `ifonly.build` and `ifonly.inspect`.

use crate::errors::{exception, json, parse};
use crate::table::{build_error, table};
use ifonly::bundle::{
    AcceptMask, BuildError, BuildInputs, BuildProgress, BuildStage, GroupModel, ProgressCallback, SchemaFile,
    build_from, summarise,
};
use ifonly::{BuildOptions, Bundle, ErrorCategory};
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The name of a table in memory in error messages.
pub(crate) const TABLE: &str = "the table";

/// Builds a bundle; returns the report as JSON, the report as text, and the warnings.
///
/// `data` is a path, a list of paths, or a table. `options` are the build options and `schema_file`
/// the content of a schema file, both as JSON. `mask` has one byte per row, and the text that
/// defines the mask. `progress` is called with a stage and a fraction from time to time.
#[pyfunction]
#[pyo3(signature = (data, options, schema_file, mask, model, progress))]
pub(crate) fn build(
    py: Python<'_>,
    data: &Bound<'_, PyAny>,
    options: &str,
    schema_file: Option<&str>,
    mask: Option<(Vec<u8>, String)>,
    model: Option<Py<PyAny>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(String, String, Vec<String>)> {
    let mut options: BuildOptions = parse(options)?;
    let settings: Option<SchemaFile> = schema_file.map(parse).transpose()?;
    let mask =
        mask.map(|(rows, definition)| AcceptMask { rows: rows.iter().map(|&byte| byte != 0).collect(), definition });
    let mut inputs = BuildInputs { settings, mask, ..BuildInputs::default() };
    add_data(data, &mut options, &mut inputs)?;
    let raised = RaisedError::default();
    inputs.model = model.map(|model| group_model(model, raised.clone()));
    let report = interruptible(py, progress, |callback| build_from(&options, inputs, callback));
    let report = report.map_err(|error| raised.take().unwrap_or(error))?;
    Ok((json(&report)?, report.to_string(), report.warnings()))
}

/// The exception that a model raised.
#[derive(Clone, Default)]
pub(crate) struct RaisedError(Arc<Mutex<Option<PyErr>>>);

impl RaisedError {
    pub(crate) fn take(&self) -> Option<PyErr> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A model that is a Python function of names of columns and rows of texts.
pub(crate) fn group_model(model: Py<PyAny>, raised: RaisedError) -> GroupModel {
    GroupModel(Box::new(move |names, rows| {
        let decided = Python::attach(|py| {
            let (names, rows) = (names.to_vec(), rows.to_vec());
            model.call1(py, (names, rows))?.extract::<Vec<bool>>(py)
        });
        decided.map_err(|error| {
            *raised.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            BuildError::Stopped
        })
    }))
}

/// Adds the data to the options or the inputs: a path, a list of paths, or a table.
pub(crate) fn add_data(data: &Bound<'_, PyAny>, options: &mut BuildOptions, inputs: &mut BuildInputs) -> PyResult<()> {
    match (data.extract::<PathBuf>(), data.cast::<PyList>()) {
        (Ok(path), _) => options.data = vec![path],
        (Err(_), Ok(paths)) => options.data = paths.extract()?,
        (Err(_), Err(_)) => {
            let table = table(data, TABLE)?;
            // In a boolean target, true means accepted.
            if options.accept.is_empty() && options.target.as_deref().is_some_and(|target| table.is_boolean(target)) {
                options.accept = vec!["true".into()];
            }
            inputs.table = Some(table);
        }
    }
    Ok(())
}

/// Runs a part of a build without the interpreter lock, and checks for signals meanwhile.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    progress: Option<Py<PyAny>>,
    work: impl FnOnce(ProgressCallback<'_>) -> Result<T, BuildError> + Send,
) -> PyResult<T> {
    let mut watcher = ProgressWatcher { progress, last: Instant::now(), raised: None };
    let result = py.detach(|| work(&mut |progress| watcher.update(progress)));
    match (watcher.raised, result) {
        (Some(raised), _) => Err(raised),
        (None, result) => result.map_err(|error| build_error(&error)),
    }
}

/// Checks for signals while a build runs, and reports its progress.
struct ProgressWatcher {
    progress: Option<Py<PyAny>>,
    last: Instant,
    raised: Option<PyErr>,
}

impl ProgressWatcher {
    fn update(&mut self, progress: BuildProgress) -> ControlFlow<()> {
        const INTERVAL: Duration = Duration::from_millis(50);
        let ended = progress.done == progress.total;
        if self.last.elapsed() < INTERVAL && !ended {
            return ControlFlow::Continue(());
        }
        self.last = Instant::now();
        let stage = match progress.stage {
            BuildStage::Unpacking => "unpacking",
            BuildStage::Learning => "learning",
            BuildStage::Encoding => "encoding",
            BuildStage::Signing => "signing",
        };
        let fraction = progress.done as f64 / progress.total.max(1) as f64;
        let reported = Python::attach(|py| {
            py.check_signals()?;
            self.progress.as_ref().map(|callback| callback.call1(py, (stage, fraction))).transpose()
        });
        match reported {
            Ok(_) => ControlFlow::Continue(()),
            Err(error) => {
                self.raised = Some(error);
                ControlFlow::Break(())
            }
        }
    }
}

/// A summary of a bundle's manifest with digest and costs of its schemes, as JSON and as text.
#[pyfunction]
#[pyo3(signature = (bundle, check))]
pub(crate) fn inspect(py: Python<'_>, bundle: PathBuf, check: bool) -> PyResult<(String, String)> {
    let manifest = py.detach(|| {
        let opened = if check {
            Bundle::open(&bundle).map(|bundle| bundle.manifest().clone())
        } else {
            Bundle::manifest_of(&bundle)
        };
        opened.map_err(|error| (ErrorCategory::Input, error.to_string()))
    });
    let manifest = manifest.map_err(|(category, message)| exception(category, message))?;
    let summary = summarise(&manifest);
    Ok((json(&summary)?, summary.to_string()))
}
