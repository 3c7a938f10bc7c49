//! Building a bundle: collect statistics of the columns, encode the accepted rows, write the
//! bundle.
//!
//! [`build`] and [`build_from`] run all steps in one process. [`Build`] has the single steps, so
//! that several workers can share them:
//!
//! 1. [`Build::task`] describes the work; workers receive it.
//! 2. [`BuildTask::collect_stats`] makes the first pass over a part of the data.
//! 3. [`Build::plan`] infers the schema from the statistics of all parts.
//! 4. [`BuildTask::encode`] makes the second pass over a part.
//! 5. [`PartFiles::sign`](crate::PartFiles::sign) signs the records of a part (optional).
//! 6. [`Build::assemble`] joins the parts and writes the bundle.
//!
//! A build in one process is the same with a single part, so the bytes of a bundle do not depend on
//! the number of workers.

use crate::build::accept::{AcceptCondition, AcceptMask, Acceptance};
use crate::build::parts::{LevelCounts, PartFiles};
use crate::build::plan::{ColumnRequests, EncodingPlan};
use crate::build::report::{BuildReport, FeatureReport};
use crate::build::signing_key::SigningKeyFile;
use crate::build::task::BuildTask;
use crate::build::{assemble, deployment};
use crate::columns::deviation::with_deviations;
use crate::columns::schema_file::{FeatureOverrides, SchemaFile, find_column};
use crate::columns::table_stats::TableStats;
use crate::error::BuildError;
use crate::format::write;
use crate::format::write::{OutputKind, ScratchDir};
#[cfg(feature = "arrow")]
use crate::input::arrow::ArrowTable;
#[cfg(feature = "arrow")]
use crate::input::source::TableSource;
use crate::input::source::{BuildProgress, ProgressCallback};
use crate::input::table_set::TableSet;
use crate::options::BuildOptions;
use ifonly_core::scheme;
use ifonly_core::signature::SIGNATURE_LENGTH;
use ifonly_values::manifest::Manifest;
use std::ops::ControlFlow;
use std::path::PathBuf;

/// Inputs that a program can give in memory, beside the options.
#[derive(Debug, Default)]
pub struct BuildInputs {
    /// The table, instead of a data file.
    #[cfg(feature = "arrow")]
    pub table: Option<ArrowTable>,
    /// The accepted rows, instead of a target.
    pub mask: Option<AcceptMask>,
    /// The settings, instead of a schema file.
    pub settings: Option<SchemaFile>,
}

/// Builds a bundle. `progress` is called repeatedly during all stages.
pub fn build(options: &BuildOptions, progress: &mut dyn FnMut(BuildProgress)) -> Result<BuildReport, BuildError> {
    build_from(options, BuildInputs::default(), &mut |done| {
        progress(done);
        ControlFlow::Continue(())
    })
}

/// Builds a bundle with inputs from memory. `watch` is called repeatedly, and may stop the build.
pub fn build_from(
    options: &BuildOptions,
    inputs: BuildInputs,
    watch: ProgressCallback<'_>,
) -> Result<BuildReport, BuildError> {
    let build = Build::new(options.clone(), inputs, watch)?;
    let task = build.task();
    let all_rows = task.all_rows();
    let plan = build.plan(&task.collect_stats(&all_rows, watch)?)?;
    let scratch = build.scratch_dir()?;
    let counts = task.encode(&plan, &all_rows, &PartFiles::new(scratch.directory(), 0), watch)?;
    build.assemble(&plan, &[counts], &scratch, watch)
}

/// A build in single steps; see the module documentation for their order.
pub struct Build {
    options: BuildOptions,
    settings: SchemaFile,
    /// By index of the column in the data.
    columns: Vec<FeatureOverrides>,
    key_file: SigningKeyFile,
    task: BuildTask,
}

impl std::fmt::Debug for Build {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Build({})", self.options.output.display())
    }
}

impl Build {
    /// Checks the options that do not depend on the data: the output path and the signing key. Call
    /// it before data is fetched at some expense.
    pub fn check(options: &BuildOptions) -> Result<(), BuildError> {
        write::check_target(&options.output, OutputKind::Bundle, options.replace)?;
        SigningKeyFile::of(options).map(drop)
    }

    /// Opens all data files and checks the settings against their columns. Reads no rows yet.
    pub fn new(options: BuildOptions, inputs: BuildInputs, watch: ProgressCallback<'_>) -> Result<Build, BuildError> {
        write::check_target(&options.output, OutputKind::Bundle, options.replace)?;
        let key_file = SigningKeyFile::of(&options)?;
        let settings = match (&options.schema, inputs.settings) {
            (Some(_), Some(_)) => {
                return Err(BuildError::Settings(
                    "both a schema file and settings were given; give only one of them".into(),
                ));
            }
            (Some(path), None) => SchemaFile::read(path)?,
            (None, settings) => settings.unwrap_or_default(),
        };
        #[cfg(feature = "arrow")]
        let table = inputs.table.map(|table| TableSet::of(TableSource::Arrow(table), None));
        #[cfg(not(feature = "arrow"))]
        let table = None;
        let tables = match table {
            Some(tables) => tables,
            None => TableSet::open(&options, watch)?,
        };
        settings.check_columns(tables.columns())?;
        let acceptance = acceptance(&options, &settings, inputs.mask, tables.columns())?;
        let columns = tables.columns().iter().map(|name| settings.of(name)).collect::<Result<Vec<_>, _>>()?;
        let words = |column: &FeatureOverrides| {
            let ranks = column.ranks.iter().flatten();
            ranks.chain(column.categories.iter().flatten()).map(ToString::to_string).collect()
        };
        let listed = columns.iter().map(words).collect();
        let medians = ColumnRequests { options: &options, settings: &settings, columns: &columns }.medians();
        let task = BuildTask { tables, acceptance, listed, medians };
        Ok(Build { options, settings, columns, key_file, task })
    }

    /// The task description that workers receive.
    pub fn task(&self) -> &BuildTask {
        &self.task
    }

    /// The encoding plan that follows from the statistics of all rows.
    pub fn plan(&self, stats: &TableStats) -> Result<EncodingPlan, BuildError> {
        ColumnRequests { options: &self.options, settings: &self.settings, columns: &self.columns }
            .plan(&self.task, stats)
    }

    /// Creates a directory beside the bundle for the files of the parts.
    pub fn scratch_dir(&self) -> Result<ScratchDir, BuildError> {
        ScratchDir::new(&self.options.output)
    }

    /// Writes the signing key to the scratch directory, for workers that sign. The file is removed
    /// with the directory.
    pub fn write_worker_key(&self, scratch: &ScratchDir) -> Result<PathBuf, BuildError> {
        self.key_file.write_copy(scratch.directory())
    }

    /// The manifest, from the counts of all encoded parts. The signatures of records cover its
    /// schema.
    pub fn manifest(&self, plan: &EncodingPlan, parts: &[LevelCounts]) -> Result<Manifest, BuildError> {
        let total = self.total(plan, parts)?;
        let schema = with_deviations(plan.schema.clone(), &total.histograms)?;
        // No overflow: the plan has checked that the number of rows is at most `Params::MAX_ROWS`.
        let (rows, record_length) = (total.kept as usize, plan.text_length + SIGNATURE_LENGTH);
        let mut fields = deployment::manifest_fields(&self.options, schema, rows, record_length)?;
        fields.signer = Some(self.key_file.key.public());
        fields.dataset.accepted = Some(self.task.acceptance.definition(self.task.tables.columns()));
        Ok(Manifest::new(fields)?)
    }

    /// Joins the parts, whose files are in the scratch directory, and moves the bundle to its
    /// output path. Signs the records that no worker has signed. `parts` has the counts of the
    /// parts in order.
    pub fn assemble(
        &self,
        plan: &EncodingPlan,
        parts: &[LevelCounts],
        scratch: &ScratchDir,
        watch: ProgressCallback<'_>,
    ) -> Result<BuildReport, BuildError> {
        let manifest = self.manifest(plan, parts)?;
        let sizes = assemble::assemble(&self.options, &self.key_file, &manifest, parts, scratch, watch)?;
        let total = self.total(plan, parts)?;
        let features = manifest.schema().features().iter().zip(&total.clamped).zip(&total.histograms);
        let features =
            features.map(|((feature, &clamped), histogram)| FeatureReport::new(feature, clamped, histogram)).collect();
        let wanted = &self.options.deployment;
        let recommended = manifest.instance(scheme::DEFAULT.name).is_ok() || !wanted.schemes.is_empty();
        let not_recommended =
            (!recommended).then(|| deployment::not_offered(manifest.fields(), scheme::DEFAULT.name).to_string());
        Ok(BuildReport {
            rows_read: plan.rows,
            rows_accepted: total.kept,
            rows_dropped: plan.accepted - total.kept,
            features,
            left_out: plan.left_out.clone(),
            telling: plan.leaking.clone(),
            not_recommended,
            signing_key: self.key_file.path.clone(),
            key_is_new: self.key_file.is_new,
            sizes,
            manifest,
        })
    }

    /// The sum of the counts of all parts. Checks that both passes saw the same number of rows.
    fn total(&self, plan: &EncodingPlan, parts: &[LevelCounts]) -> Result<LevelCounts, BuildError> {
        let mut total = LevelCounts::new(&plan.schema);
        parts.iter().for_each(|counts| total.add(counts));
        if (total.read, total.accepted) != (plan.rows, plan.accepted) {
            let reason = "the file changed while it was being read; build again".into();
            return Err(BuildError::File { path: self.task.tables.first(), reason });
        }
        if total.kept == 0 {
            return Err(BuildError::Settings(
                "every accepted row has a missing value; set `missing` to median or most-common, or exclude columns"
                    .into(),
            ));
        }
        Ok(total)
    }
}

/// The rule for accepted rows, from the options or else from the schema file.
fn acceptance(
    options: &BuildOptions,
    settings: &SchemaFile,
    mask: Option<AcceptMask>,
    columns: &[String],
) -> Result<Acceptance, BuildError> {
    let accept = if options.accept.is_empty() {
        settings.accept.iter().map(ToString::to_string).collect()
    } else {
        options.accept.clone()
    };
    let accept: Vec<AcceptCondition> =
        accept.iter().map(|text| text.parse()).collect::<Result<_, String>>().map_err(BuildError::Settings)?;
    let refuse = |reason: &str| Err(BuildError::Settings(reason.into()));
    match (options.target.as_ref().or(settings.target.as_ref()), mask) {
        (Some(_), Some(_)) => refuse("both a target and a mask were given; give only one of them"),
        (Some(name), None) => Ok(Acceptance::Target(find_column(columns, name, "target")?, accept)),
        (None, _) if !accept.is_empty() => refuse("accept needs a target; name the column that has these values"),
        (None, Some(mask)) => Ok(Acceptance::Mask(mask)),
        (None, None) => Ok(Acceptance::AllRows),
    }
}
