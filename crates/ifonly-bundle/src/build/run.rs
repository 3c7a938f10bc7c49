//! Building a bundle: learn the columns, encode the accepted rows, write everything or nothing.
//!
//! [`Build`] has the steps by themselves, for whoever shares them among workers: `work` says what
//! is to be done with each part of the data, [`Work::learn`] and then [`Work::encode`] do it,
//! [`PartFiles::sign`](crate::PartFiles::sign) signs, and `assemble` puts the parts together. One
//! process takes the same steps with all rows as the only part, so who did what shows in no byte.

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

/// What a program gives beside, or instead of, what a command line names.
#[derive(Debug, Default)]
pub struct BuildInputs {
    /// The table, instead of a data file.
    #[cfg(feature = "arrow")]
    pub table: Option<ArrowTable>,
    /// Who was accepted, instead of a target.
    pub mask: Option<AcceptMask>,
    /// What a schema file would say, instead of one.
    pub settings: Option<SchemaFile>,
}

/// Builds a bundle. `progress` is called now and then during both passes over the data.
pub fn build(options: &BuildOptions, progress: &mut dyn FnMut(BuildProgress)) -> Result<BuildReport, BuildError> {
    build_from(options, BuildInputs::default(), &mut |done| {
        progress(done);
        ControlFlow::Continue(())
    })
}

/// Builds a bundle from what a program has at hand. `watch` is called now and then, and may end the
/// build.
pub fn build_from(
    options: &BuildOptions,
    inputs: BuildInputs,
    watch: ProgressCallback<'_>,
) -> Result<BuildReport, BuildError> {
    let build = Build::new(options.clone(), inputs, watch)?;
    let work = build.work();
    let everything = work.whole();
    let plan = build.plan(&work.collect_stats(&everything, watch)?)?;
    let workplace = build.scratch_dir()?;
    let tally = work.encode(&plan, &everything, &PartFiles::new(workplace.directory(), 0), watch)?;
    build.assemble(&plan, &[tally], &workplace, watch)
}

/// A build in steps.
pub struct Build {
    options: BuildOptions,
    settings: SchemaFile,
    /// By the place of columns in the data.
    columns: Vec<FeatureOverrides>,
    keeping: SigningKeyFile,
    work: BuildTask,
}

impl std::fmt::Debug for Build {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Build({})", self.options.output.display())
    }
}

impl Build {
    /// Refuses what will be refused whatever the data is, before somebody takes pains to get at it:
    /// an output that exists, a key that cannot be read.
    pub fn check(options: &BuildOptions) -> Result<(), BuildError> {
        write::check_target(&options.output, OutputKind::Bundle, options.replace)?;
        SigningKeyFile::of(options).map(drop)
    }

    /// Brings options and data together: opens every file, and refuses what contradicts itself
    /// before anything is read.
    pub fn new(options: BuildOptions, inputs: BuildInputs, watch: ProgressCallback<'_>) -> Result<Build, BuildError> {
        write::check_target(&options.output, OutputKind::Bundle, options.replace)?;
        let keeping = SigningKeyFile::of(&options)?;
        let settings = match (&options.schema, inputs.settings) {
            (Some(_), Some(_)) => {
                return Err(BuildError::Settings("a schema file and settings: give one of them".into()));
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
        let work = BuildTask { tables, acceptance, listed, medians };
        Ok(Build { options, settings, columns, keeping, work })
    }

    /// What workers need to know.
    pub fn work(&self) -> &BuildTask {
        &self.work
    }

    /// How rows are encoded, from what was learnt about all of them.
    pub fn plan(&self, learnt: &TableStats) -> Result<EncodingPlan, BuildError> {
        ColumnRequests { options: &self.options, settings: &self.settings, columns: &self.columns }
            .plan(&self.work, learnt)
    }

    /// A directory for the files of parts, beside the bundle.
    pub fn scratch_dir(&self) -> Result<ScratchDir, BuildError> {
        ScratchDir::new(&self.options.output)
    }

    /// Writes the signing key into a workplace, for workers that sign. It goes when the workplace
    /// goes.
    pub fn lend_key(&self, workplace: &ScratchDir) -> Result<PathBuf, BuildError> {
        self.keeping.lend(workplace.directory())
    }

    /// The manifest, which follows when all parts are encoded; their records are signed for it.
    pub fn manifest(&self, plan: &EncodingPlan, tallies: &[LevelCounts]) -> Result<Manifest, BuildError> {
        let tally = self.total(plan, tallies)?;
        let schema = with_deviations(plan.schema.clone(), &tally.histograms)?;
        // The plan has compared the number with the largest M.
        let mut contents =
            deployment::contents(&self.options, schema, tally.kept as usize, plan.text_length + SIGNATURE_LENGTH)?;
        contents.signer = Some(self.keeping.key.public());
        contents.dataset.accepted = Some(self.work.acceptance.definition(self.work.tables.columns()));
        Ok(Manifest::new(contents)?)
    }

    /// Puts the parts together, the files of which are in the workplace in order, and the bundle in
    /// its place. Records that nobody has signed are signed here.
    pub fn assemble(
        &self,
        plan: &EncodingPlan,
        tallies: &[LevelCounts],
        workplace: &ScratchDir,
        watch: ProgressCallback<'_>,
    ) -> Result<BuildReport, BuildError> {
        let manifest = self.manifest(plan, tallies)?;
        let sizes = assemble::assemble(&self.options, &self.keeping, &manifest, tallies, workplace, watch)?;
        let tally = self.total(plan, tallies)?;
        let features = manifest.schema().features().iter().zip(&tally.clamped).zip(&tally.histograms);
        let features =
            features.map(|((feature, &clamped), histogram)| FeatureReport::new(feature, clamped, histogram)).collect();
        let wanted = &self.options.deployment;
        let recommended = manifest.instance(scheme::DEFAULT.name).is_ok() || !wanted.schemes.is_empty();
        let not_recommended =
            (!recommended).then(|| deployment::not_offered(manifest.fields(), scheme::DEFAULT.name).to_string());
        Ok(BuildReport {
            rows_read: plan.rows,
            rows_accepted: tally.kept,
            rows_dropped: plan.accepted - tally.kept,
            features,
            left_out: plan.left_out.clone(),
            telling: plan.telling.clone(),
            not_recommended,
            signing_key: self.keeping.path.clone(),
            key_is_new: self.keeping.is_new,
            sizes,
            manifest,
        })
    }

    /// All tallies in one, compared with what was learnt.
    fn total(&self, plan: &EncodingPlan, tallies: &[LevelCounts]) -> Result<LevelCounts, BuildError> {
        let mut total = LevelCounts::new(&plan.schema);
        tallies.iter().for_each(|tally| total.add(tally));
        if (total.read, total.accepted) != (plan.rows, plan.accepted) {
            let reason = "the file changed while it was being read; try again".into();
            return Err(BuildError::File { path: self.work.tables.first(), reason });
        }
        if total.kept == 0 {
            return Err(BuildError::Settings(
                "every accepted row has a missing value somewhere; use --missing median or most-common, or exclude columns"
                    .into(),
            ));
        }
        Ok(total)
    }
}

/// Who was accepted, by the options or else by the schema file.
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
        (Some(_), Some(_)) => refuse("a target and a mask: give one of them"),
        (Some(name), None) => Ok(Acceptance::Target(find_column(columns, name, "target")?, accept)),
        (None, _) if !accept.is_empty() => refuse("accept needs a target: which column holds these values?"),
        (None, Some(mask)) => Ok(Acceptance::Mask(mask)),
        (None, None) => Ok(Acceptance::Everybody),
    }
}
