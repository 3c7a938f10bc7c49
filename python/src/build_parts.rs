//! A build in steps, for `ifonly.ray.build`. One process holds a `Build`; workers collect
//! statistics of parts, encode them and sign them.
//!
//! A part is a range of the files, as `Build.parts` cuts them, or a table with some rows of a
//! larger table and the number of rows before them. The processes exchange JSON that only this
//! module reads. The signing key is not exchanged; `Build.write_worker_key` writes it to a file.

use crate::build::{RaisedError, TABLE, add_data, group_model, interruptible};
use crate::errors::{input, json, machine, parse};
use crate::table::{build_error, table};
use ifonly::bundle::{
    Build as Steps, BuildInputs, BuildTask, EncodingPlan, LevelCounts, ModelCheck, PartFiles, SchemaFile, ScratchDir,
    SigningJob, TablePart, TableStats, load_key,
};
use ifonly::{BuildOptions, Manifest};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A build in which workers take part.
#[pyclass(frozen)]
pub(crate) struct Build {
    steps: Steps,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    stats: Option<TableStats>,
    scratch_dir: Option<ScratchDir>,
}

impl Build {
    fn state(&self) -> MutexGuard<'_, State> {
        // Every change replaces one field completely, so a panic leaves a valid state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Build {
    /// Opens all files. The arguments are those of `build`. A table needs no rows, because its
    /// parts contain them.
    #[new]
    #[pyo3(signature = (data, options, schema_file))]
    fn new(py: Python<'_>, data: &Bound<'_, PyAny>, options: &str, schema_file: Option<&str>) -> PyResult<Build> {
        let mut options: BuildOptions = parse(options)?;
        let settings: Option<SchemaFile> = schema_file.map(parse).transpose()?;
        let mut inputs = BuildInputs { settings, ..BuildInputs::default() };
        add_data(data, &mut options, &mut inputs)?;
        let steps = interruptible(py, None, |callback| Steps::new(options, inputs, callback))?;
        Ok(Build { steps, state: Mutex::default() })
    }

    /// Refuses options that are invalid for any data.
    #[staticmethod]
    fn check(options: &str) -> PyResult<()> {
        Steps::check(&parse(options)?).map_err(|error| build_error(&error))
    }

    /// The task that workers receive.
    fn task(&self) -> PyResult<String> {
        serialise(self.steps.task())
    }

    /// The parts of the data, in order, each of about this many bytes.
    fn parts(&self, bytes: u64) -> PyResult<Vec<String>> {
        self.steps.task().parts(bytes).iter().map(serialise).collect()
    }

    /// Adds the statistics of the next part.
    fn add_stats(&self, py: Python<'_>, stats: &[u8]) -> PyResult<()> {
        py.detach(|| {
            let stats: TableStats = serde_json::from_slice(stats).map_err(machine)?;
            let mut state = self.state();
            match &mut state.stats {
                Some(before) => before.merge(stats),
                None => state.stats = Some(stats),
            }
            Ok(())
        })
    }

    /// The encoding plan, from the statistics of all parts.
    fn plan(&self, py: Python<'_>) -> PyResult<String> {
        let stats = self.state().stats.take().ok_or_else(|| input("the data has no rows"))?;
        serialise(&py.detach(|| self.steps.plan(&stats)).map_err(|error| build_error(&error))?)
    }

    /// Creates the directory in which workers write their parts.
    fn begin(&self) -> PyResult<PathBuf> {
        let scratch_dir = self.steps.scratch_dir().map_err(|error| build_error(&error))?;
        let directory = scratch_dir.directory().to_owned();
        self.state().scratch_dir = Some(scratch_dir);
        Ok(directory)
    }

    /// Writes the signing key to that directory, for workers that sign.
    fn write_worker_key(&self) -> PyResult<()> {
        let state = self.state();
        let scratch_dir = state
            .scratch_dir
            .as_ref()
            .ok_or_else(|| machine("Build.begin() was not called before Build.write_worker_key()"))?;
        self.steps.write_worker_key(scratch_dir).map(drop).map_err(|error| build_error(&error))
    }

    /// Replaces the parts by one part of groups, if the options ask for groups; computes exposure.
    /// Returns plan, level counts and numbers of rows of the parts.
    #[pyo3(signature = (plan, level_counts, model))]
    fn group(
        &self,
        py: Python<'_>,
        plan: &str,
        level_counts: Vec<String>,
        model: Option<Py<PyAny>>,
    ) -> PyResult<(String, Vec<String>, Vec<u64>)> {
        let (plan, counts): (EncodingPlan, Vec<LevelCounts>) = (parse(plan)?, parse_all(&level_counts)?);
        let raised = RaisedError::default();
        let mut model = model.map(|model| group_model(model, raised.clone()));
        let grouped = py.detach(|| {
            let state = self.state();
            let scratch_dir = state.scratch_dir.as_ref();
            let scratch_dir =
                scratch_dir.ok_or_else(|| machine("Build.begin() was not called before Build.group()"))?;
            let model = model.as_mut().map(|model| &mut *model.0 as &mut ModelCheck<'_>);
            self.steps.group(plan, counts, scratch_dir, model).map_err(|error| build_error(&error))
        });
        let (plan, counts) = grouped.map_err(|error| raised.take().unwrap_or(error))?;
        let rows = counts.iter().map(LevelCounts::rows).collect();
        Ok((serialise(&plan)?, counts.iter().map(serialise).collect::<PyResult<_>>()?, rows))
    }

    /// The manifest that records are signed for.
    fn manifest(&self, plan: &str, level_counts: Vec<String>) -> PyResult<String> {
        let manifest = self.steps.manifest(&parse(plan)?, &parse_all(&level_counts)?);
        Ok(manifest.map_err(|error| build_error(&error))?.json().to_owned())
    }

    /// Assembles the parts; returns the report as `build` does.
    #[pyo3(signature = (plan, level_counts, progress))]
    fn assemble(
        &self,
        py: Python<'_>,
        plan: &str,
        level_counts: Vec<String>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<(String, String, Vec<String>)> {
        let (plan, counts): (EncodingPlan, Vec<LevelCounts>) = (parse(plan)?, parse_all(&level_counts)?);
        let scratch_dir = self
            .state()
            .scratch_dir
            .take()
            .ok_or_else(|| machine("Build.begin() was not called before Build.assemble()"))?;
        let report =
            interruptible(py, progress, |callback| self.steps.assemble(&plan, &counts, &scratch_dir, callback))?;
        Ok((json(&report)?, report.to_string(), report.warnings()))
    }

    /// Removes the directory of the parts.
    fn close(&self) {
        self.state().scratch_dir = None;
    }
}

/// JSON for another process.
fn serialise(value: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(machine)
}

fn parse_all(level_counts: &[String]) -> PyResult<Vec<LevelCounts>> {
    level_counts.iter().map(|counts| parse(counts)).collect()
}

/// Parses a task and the part of the data that it applies to.
fn task_and_part(task: &str, part: &Bound<'_, PyAny>) -> PyResult<(BuildTask, TablePart)> {
    let task: BuildTask = parse(task)?;
    let Ok((rows, before)) = part.extract::<(Bound<'_, PyAny>, u64)>() else {
        return Ok((task, parse(&part.extract::<String>()?)?));
    };
    let task = task.with_rows(table(&rows, TABLE)?.with_row_offset(before)).map_err(|error| build_error(&error))?;
    let part = task.all_rows();
    Ok((task, part))
}

/// Collects the statistics of a part; returns the argument of `Build.add_stats`.
#[pyfunction]
pub(crate) fn build_collect_stats<'py>(
    py: Python<'py>,
    task: &str,
    part: &Bound<'_, PyAny>,
) -> PyResult<Bound<'py, PyBytes>> {
    let (task, part) = task_and_part(task, part)?;
    let stats = interruptible(py, None, |callback| task.collect_stats(&part, callback))?;
    let bytes = py.detach(|| serde_json::to_vec(&stats)).map_err(machine)?;
    Ok(PyBytes::new(py, &bytes))
}

/// Encodes a part into files of `directory`; returns its level counts and its number of rows.
#[pyfunction]
pub(crate) fn build_encode(
    py: Python<'_>,
    task: &str,
    plan: &str,
    part: &Bound<'_, PyAny>,
    directory: PathBuf,
    number: usize,
) -> PyResult<(String, u64)> {
    let ((task, part), plan): (_, EncodingPlan) = (task_and_part(task, part)?, parse(plan)?);
    let files = PartFiles::new(&directory, number);
    let counts = interruptible(py, None, |callback| task.encode(&plan, &part, &files, callback))?;
    Ok((serialise(&counts)?, counts.rows()))
}

/// Signs the records of a part in `directory`.
#[pyfunction]
pub(crate) fn build_sign(py: Python<'_>, manifest: &str, directory: PathBuf, number: usize, rows: u64) -> PyResult<()> {
    let manifest = Manifest::from_json(manifest.as_bytes()).map_err(machine)?;
    interruptible(py, None, |callback| {
        let key = load_key(Path::new(&directory.join("signing.key")))?;
        PartFiles::new(&directory, number).sign(&SigningJob::new(&manifest, &key)?, rows, callback)
    })
}
