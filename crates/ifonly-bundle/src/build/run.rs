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
//! 5. [`Build::group`] replaces rows by groups, if the build wants groups, and computes exposure.
//! 6. [`PartFiles::sign`](crate::PartFiles::sign) signs the records of a part (optional).
//! 7. [`Build::assemble`] joins the parts and writes the bundle.
//!
//! A build in one process is the same with a single part, so the bytes of a bundle do not depend on
//! the number of workers.

use crate::build::accept::{AcceptCondition, AcceptError, AcceptMask, Acceptance};
use crate::build::group_report::Exposure;
use crate::build::parts::{LevelCounts, PartFiles};
use crate::build::plan::{ColumnRequests, EncodingPlan};
use crate::build::report::{BuildReport, FeatureReport};
use crate::build::signing_key::SigningKeyFile;
use crate::build::task::BuildTask;
use crate::build::{assemble, deployment};
use crate::columns::deviation::with_deviations;
use crate::columns::schema_file::{FeatureOverrides, SchemaFile, find_column};
use crate::columns::table_stats::TableStats;
use crate::error::{BuildError, OpenError};
use crate::format::open::Bundle;
use crate::format::write;
use crate::format::write::{OutputKind, ScratchDir};
use crate::group::cuts::CutFile;
use crate::group::diversity::Diversity;
use crate::group::publish::{ModelCheck, Publication};
use crate::group::table::GroupTable;
use crate::group::{GroupRequest, group};
#[cfg(feature = "arrow")]
use crate::input::arrow::ArrowTable;
#[cfg(feature = "arrow")]
use crate::input::source::TableSource;
use crate::input::source::{BuildProgress, ProgressCallback};
use crate::input::table_set::TableSet;
use crate::options::BuildOptions;
use ifonly_algebra::random::OsRandom;
use ifonly_core::d_min::MaskEffects;
use ifonly_core::scheme;
use ifonly_core::signature::{BundleId, SIGNATURE_LENGTH};
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
    /// Decides which representatives of groups are kept. Only [`build_from`] uses it; see
    /// [`Build::group`].
    pub model: Option<GroupModel>,
}

/// A model that decides which representatives of groups are kept.
pub struct GroupModel(pub Box<ModelCheck<'static>>);

impl std::fmt::Debug for GroupModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("GroupModel(..)")
    }
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
    mut inputs: BuildInputs,
    watch: ProgressCallback<'_>,
) -> Result<BuildReport, BuildError> {
    let mut model = inputs.model.take();
    let build = Build::new(options.clone(), inputs, watch)?;
    let task = build.task();
    let all_rows = task.all_rows();
    let plan = build.plan(&task.collect_stats(&all_rows, watch)?)?;
    let scratch = build.scratch_dir()?;
    let counts = task.encode(&plan, &all_rows, &PartFiles::new(scratch.directory(), 0), watch)?;
    let model = model.as_mut().map(|model| &mut *model.0 as &mut ModelCheck<'_>);
    let (plan, parts) = build.group(plan, vec![counts], &scratch, model)?;
    build.assemble(&plan, &parts, &scratch, watch)
}

/// A build in single steps; see the module documentation for their order.
pub struct Build {
    options: BuildOptions,
    settings: SchemaFile,
    /// By index of the column in the data.
    columns: Vec<FeatureOverrides>,
    key_file: SigningKeyFile,
    bundle_id: BundleId,
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
        let named = options.deployment.schemes.iter().chain(&options.deployment.default_scheme);
        let keeps_rejected = named.filter_map(|name| scheme::named(name)).any(|scheme| scheme.is_masked());
        let task = BuildTask { tables, acceptance, listed, medians, keeps_rejected };
        let bundle_id = options.bundle_id.unwrap_or_else(|| BundleId::generate(&mut OsRandom::default()));
        Ok(Build { options, settings, columns, key_file, bundle_id, task })
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

    /// Computes the exposure of the accepted rows. If the build wants groups, also replaces the
    /// parts by one part with the representatives of all groups, and the plan by the published one.
    pub fn group(
        &self,
        mut plan: EncodingPlan,
        parts: Vec<LevelCounts>,
        scratch: &ScratchDir,
        model: Option<&mut ModelCheck<'_>>,
    ) -> Result<(EncodingPlan, Vec<LevelCounts>), BuildError> {
        self.total(&plan, &parts)?;
        let k = self.group_size();
        if k < 2 && (model.is_some() || self.options.cuts.is_some()) {
            return Err(BuildError::Settings(
                "a model or earlier cuts need groups; set group, for example to 10".into(),
            ));
        }
        let earlier = self.options.cuts.as_ref().map(|old| CutFile::read(&cuts_path(old))).transpose()?;
        let spreads = earlier.as_ref().map(|file| &file.spreads);
        let table = GroupTable::read(&plan.schema, spreads, &parts, scratch.directory())?;
        plan.exposure = Some(Exposure::of(&table)?);
        if k < 2 {
            return Ok((plan, parts));
        }
        let request = self.group_request(&table, k)?;
        let mut grouping = group(&table, &request, earlier.as_ref())?;
        let cuts = std::mem::take(&mut grouping.cuts);
        let text = serde_json::to_string(&cuts)
            .map_err(|error| BuildError::Settings(format!("the cuts cannot be written: {error}")))?;
        (0..parts.len()).for_each(|number| PartFiles::new(scratch.directory(), number).remove());
        let requests = ColumnRequests { options: &self.options, settings: &self.settings, columns: &self.columns };
        let publication = Publication { requests, task: &self.task, plan: &plan, table: &table, request: &request };
        let (plan, counts) = publication.publish(grouping, model, &PartFiles::new(scratch.directory(), 0))?;
        let path = scratch.directory().join(CUTS);
        std::fs::write(&path, text).map_err(|source| BuildError::Io { action: "write", path, source })?;
        Ok((plan, vec![counts]))
    }

    /// The number of people per group; 1 without groups.
    fn group_size(&self) -> u32 {
        self.options.group.or(self.settings.group).unwrap_or(1)
    }

    fn group_request(&self, table: &GroupTable, k: u32) -> Result<GroupRequest, BuildError> {
        let refuse = |reason: String| Err(BuildError::Settings(reason));
        let names: Vec<String> = table.columns().iter().map(|column| column.name.clone()).collect();
        let find = |key: &str, columns: &[String]| {
            let indices = columns.iter().map(|name| find_column(&names, name, &format!("{key} (features)")));
            indices.collect::<Result<Vec<usize>, _>>()
        };
        let (keep, columns) = (find("keep", &self.settings.keep)?, find("sensitive", &self.settings.sensitive)?);
        let l = self.settings.l.unwrap_or(if columns.is_empty() { 1 } else { 2 });
        if l == 0 || l > k || l > 1 && columns.is_empty() {
            return refuse(format!(
                "l = {l}: must be 2 to the number of people per group, and needs `sensitive` columns"
            ));
        }
        if let Some(name) = keep.iter().find(|column| columns.contains(column)).map(|&column| &names[column]) {
            return refuse(format!(
                "column {name:?} is listed under keep and sensitive; a kept column has one value per group"
            ));
        }
        Ok(GroupRequest { k: k as usize, keep, diversity: Diversity { columns, l: l as usize } })
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
        fields.bundle_id = self.bundle_id;
        fields.signer = Some(self.key_file.key.public());
        fields.dataset.outcome = self.settings.outcome.clone();
        fields.dataset.groups = plan.groups.as_ref().map(|groups| groups.terms.clone());
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
        let replaced = self.replaced_texts(&manifest);
        let sizes = assemble::assemble(&self.options, &self.key_file, &manifest, parts, scratch, watch)?;
        let total = self.total(plan, parts)?;
        if plan.groups.is_some() {
            save_cuts(&scratch.directory().join(CUTS), &cuts_path(&self.options.output))?;
        }
        let accepted = plan.groups.as_ref().map_or(total.kept, |groups| groups.people + groups.left_out);
        let features = manifest.schema().features().iter().zip(&total.clamped).zip(&total.histograms);
        let features =
            features.map(|((feature, &clamped), histogram)| FeatureReport::new(feature, clamped, histogram)).collect();
        let wanted = &self.options.deployment;
        let recommended = manifest.instance(scheme::DEFAULT.name).is_ok() || !wanted.schemes.is_empty();
        let not_recommended =
            (!recommended).then(|| deployment::not_offered(manifest.fields(), scheme::DEFAULT.name).to_string());
        Ok(BuildReport {
            rows_read: plan.rows,
            rows_accepted: accepted,
            rows_dropped: plan.accepted - accepted,
            groups: plan.groups.clone(),
            exposure: plan.exposure.clone(),
            warn_of_originals: self.options.group.or(self.settings.group).is_none(),
            features,
            left_out: plan.left_out.clone(),
            telling: plan.leaking.clone(),
            not_recommended,
            masks: if self.task.keeps_rejected { self.mask_effects(&manifest, total.rejected_sample)? } else { None },
            version_reused: replaced.is_some_and(|texts| self.replaced_texts(&manifest) != Some(texts)),
            signing_key: self.key_file.path.clone(),
            key_is_new: self.key_file.is_new,
            sizes,
            manifest,
        })
    }

    /// What masks do with the rows of the written bundle; `None` without rejected rows.
    fn mask_effects(
        &self,
        manifest: &Manifest,
        mut rejected: Vec<Vec<u16>>,
    ) -> Result<Option<MaskEffects>, BuildError> {
        // Distances from rejected to accepted rows that are computed.
        const DISTANCES: usize = 50_000_000;
        rejected.truncate((DISTANCES / manifest.rows().max(1)).max(1));
        if rejected.is_empty() {
            return Ok(None);
        }
        let path = &self.options.output;
        let refuse = |error: OpenError| BuildError::File { path: path.clone(), reason: error.to_string() };
        let rows: Vec<Vec<u16>> = Bundle::open(path).map_err(refuse)?.rows().levels().collect();
        Ok(Some(MaskEffects::new(&rows, &rejected, manifest.fields().params.d_min)))
    }

    /// A hash of the schema and the texts of the bundle at the output path, if it has the name and
    /// the version of this one.
    fn replaced_texts(&self, manifest: &Manifest) -> Option<blake3::Hash> {
        if !self.options.output.exists() {
            return None;
        }
        // A bundle that cannot be opened is replaced without a comparison.
        let bundle = Bundle::open(&self.options.output).ok()?;
        let (dataset, there) = (&manifest.fields().dataset, &bundle.manifest().fields().dataset);
        if (&dataset.name, &dataset.version) != (&there.name, &there.version) {
            return None;
        }
        let mut hasher = blake3::Hasher::new();
        hasher.update(&serde_json::to_vec(bundle.manifest().schema()).ok()?);
        bundle.texts().for_each(|text| {
            hasher.update(text);
        });
        Some(hasher.finalize())
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

/// The cuts of a grouped build in its scratch directory.
const CUTS: &str = "cuts.json";

/// The file of cuts beside a bundle. It has medians of groups and stays with the institution.
fn cuts_path(bundle: &std::path::Path) -> PathBuf {
    let mut name = bundle.file_name().unwrap_or_default().to_owned();
    name.push(".cuts.json");
    bundle.with_file_name(name)
}

/// Moves the cuts to their place. Only their owner can read them.
fn save_cuts(from: &std::path::Path, to: &std::path::Path) -> Result<(), BuildError> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let private = std::fs::Permissions::from_mode(0o600);
        let io = |source| BuildError::Io { action: "protect", path: from.into(), source };
        std::fs::set_permissions(from, private).map_err(io)?;
    }
    std::fs::rename(from, to).map_err(|source| BuildError::Io { action: "create", path: to.into(), source })
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
    let accept: Vec<AcceptCondition> = accept
        .iter()
        .map(|text| text.parse())
        .collect::<Result<_, AcceptError>>()
        .map_err(|error| BuildError::Settings(error.to_string()))?;
    let refuse = |reason: &str| Err(BuildError::Settings(reason.into()));
    match (options.target.as_ref().or(settings.target.as_ref()), mask) {
        (Some(_), Some(_)) => refuse("both a target and a mask were given; give only one of them"),
        (Some(name), None) => Ok(Acceptance::Target(find_column(columns, name, "target")?, accept)),
        (None, _) if !accept.is_empty() => refuse("accept needs a target; name the column that has these values"),
        (None, Some(mask)) => Ok(Acceptance::Mask(mask)),
        (None, None) => Ok(Acceptance::AllRows),
    }
}
