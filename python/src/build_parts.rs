//! A build in steps, for `ifonly.ray.build`: one process holds a `Build`, others learn, encode and
//! sign parts.
//!
//! A part is some of the files, as `Build.parts` cuts them, or a table with some rows of a larger
//! one and the number of rows in front of them. What travels between them is JSON that nobody else
//! reads. The signing key does not: it is lent in a file.

use crate::build::{TABLE, give, watched};
use crate::errors::{input, json, machine, options};
use crate::table::{built, table};
use ifonly::bundle::{
    Build as Steps, BuildInputs, TableStats, TablePart, PartFiles, EncodingPlan, SchemaFile, SigningJob, LevelCounts, BuildTask, ScratchDir, load_key,
};
use ifonly::{BuildOptions, Manifest};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A build that others help with.
#[pyclass(frozen)]
pub(crate) struct Build {
    steps: Steps,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    learnt: Option<TableStats>,
    scratch_dir: Option<ScratchDir>,
}

impl Build {
    fn state(&self) -> MutexGuard<'_, State> {
        // What a panic may have left is replaced whole or not at all.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Build {
    /// Opens all files; data, options and settings as for `build`. A table needs no rows: its parts
    /// bring them.
    #[new]
    #[pyo3(signature = (data, wanted, settings))]
    fn new(py: Python<'_>, data: &Bound<'_, PyAny>, wanted: &str, settings: Option<&str>) -> PyResult<Build> {
        let mut wanted: BuildOptions = options(wanted)?;
        let settings: Option<SchemaFile> = settings.map(options).transpose()?;
        let mut inputs = BuildInputs { settings, ..BuildInputs::default() };
        give(data, &mut wanted, &mut inputs)?;
        let steps = watched(py, None, |watch| Steps::new(wanted, inputs, watch))?;
        Ok(Build { steps, state: Mutex::default() })
    }

    /// Refuses options that no data would make right.
    #[staticmethod]
    fn check(wanted: &str) -> PyResult<()> {
        Steps::check(&options(wanted)?).map_err(|error| built(&error))
    }

    /// What workers need to know.
    fn work(&self) -> PyResult<String> {
        sent(self.steps.work())
    }

    /// The parts of the data, in order, each of about so many bytes.
    fn parts(&self, bytes: u64) -> PyResult<Vec<String>> {
        self.steps.work().parts(bytes).iter().map(sent).collect()
    }

    /// Takes what was learnt from the next part.
    fn take(&self, py: Python<'_>, learnt: &[u8]) -> PyResult<()> {
        py.detach(|| {
            let learnt: TableStats = serde_json::from_slice(learnt).map_err(machine)?;
            let mut state = self.state();
            match &mut state.learnt {
                Some(before) => before.merge(learnt),
                None => state.learnt = Some(learnt),
            }
            Ok(())
        })
    }

    /// How rows are encoded, from all that was taken.
    fn plan(&self, py: Python<'_>) -> PyResult<String> {
        let learnt = self.state().learnt.take().ok_or_else(|| input("there are no rows"))?;
        sent(&py.detach(|| self.steps.plan(&learnt)).map_err(|error| built(&error))?)
    }

    /// Makes the directory where workers leave their parts.
    fn begin(&self) -> PyResult<PathBuf> {
        let scratch_dir = self.steps.scratch_dir().map_err(|error| built(&error))?;
        let directory = scratch_dir.directory().to_owned();
        self.state().scratch_dir = Some(scratch_dir);
        Ok(directory)
    }

    /// Puts the key there, for those that sign.
    fn lend(&self) -> PyResult<()> {
        let state = self.state();
        let scratch_dir = state.scratch_dir.as_ref().ok_or_else(|| machine("there is no place for the key"))?;
        self.steps.lend_key(scratch_dir).map(drop).map_err(|error| built(&error))
    }

    /// The manifest that records are signed for.
    fn manifest(&self, plan: &str, tallies: Vec<String>) -> PyResult<String> {
        let manifest = self.steps.manifest(&options(plan)?, &all(&tallies)?);
        Ok(manifest.map_err(|error| built(&error))?.json().to_owned())
    }

    /// Puts the parts together; gives the report as `build` does.
    #[pyo3(signature = (plan, tallies, progress))]
    fn assemble(
        &self,
        py: Python<'_>,
        plan: &str,
        tallies: Vec<String>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<(String, String, Vec<String>)> {
        let (plan, tallies): (EncodingPlan, Vec<LevelCounts>) = (options(plan)?, all(&tallies)?);
        let scratch_dir = self.state().scratch_dir.take().ok_or_else(|| machine("there are no parts to assemble"))?;
        let report = watched(py, progress, |watch| self.steps.assemble(&plan, &tallies, &scratch_dir, watch))?;
        Ok((json(&report)?, report.to_string(), report.warnings()))
    }

    /// Removes what was made on the way.
    fn close(&self) {
        self.state().scratch_dir = None;
    }
}

/// As others take it.
fn sent(value: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(machine)
}

fn all(tallies: &[String]) -> PyResult<Vec<LevelCounts>> {
    tallies.iter().map(|tally| options(tally)).collect()
}

/// What is to be done, and with which rows of it.
fn task(work: &str, part: &Bound<'_, PyAny>) -> PyResult<(BuildTask, TablePart)> {
    let work: BuildTask = options(work)?;
    let Ok((rows, before)) = part.extract::<(Bound<'_, PyAny>, u64)>() else {
        return Ok((work, options(&part.extract::<String>()?)?));
    };
    let work = work.with_rows(table(&rows, TABLE)?.behind(before)).map_err(|error| built(&error))?;
    let part = work.whole();
    Ok((work, part))
}

/// Learns from a part; gives what `Build.take` takes.
#[pyfunction]
pub(crate) fn build_learn<'py>(py: Python<'py>, work: &str, part: &Bound<'_, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    let (work, part) = task(work, part)?;
    let learnt = watched(py, None, |watch| work.collect_stats(&part, watch))?;
    let bytes = py.detach(|| serde_json::to_vec(&learnt)).map_err(machine)?;
    Ok(PyBytes::new(py, &bytes))
}

/// Encodes a part into files of the workplace; gives its tally and its rows.
#[pyfunction]
pub(crate) fn build_encode(
    py: Python<'_>,
    work: &str,
    plan: &str,
    part: &Bound<'_, PyAny>,
    directory: PathBuf,
    number: usize,
) -> PyResult<(String, u64)> {
    let ((work, part), plan): (_, EncodingPlan) = (task(work, part)?, options(plan)?);
    let files = PartFiles::new(&directory, number);
    let tally = watched(py, None, |watch| work.encode(&plan, &part, &files, watch))?;
    Ok((sent(&tally)?, tally.rows()))
}

/// Signs the records of a part in the workplace.
#[pyfunction]
pub(crate) fn build_sign(py: Python<'_>, manifest: &str, directory: PathBuf, number: usize, rows: u64) -> PyResult<()> {
    let manifest = Manifest::from_json(manifest.as_bytes()).map_err(machine)?;
    watched(py, None, |watch| {
        let key = load_key(Path::new(&directory.join("signing.key")))?;
        PartFiles::new(&directory, number).sign(&SigningJob::new(&manifest, &key)?, rows, watch)
    })
}
