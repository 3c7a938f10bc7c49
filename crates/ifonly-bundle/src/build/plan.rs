//! The encoding plan: from the statistics of all columns to the schema and the record length.
//! Also refuses tables in which no row, or too many rows, are accepted.

use crate::build::accept::{Acceptance, any_of};
use crate::build::group_report::{Exposure, GroupReport};
use crate::build::report::ExcludedColumn;
use crate::build::task::BuildTask;
use crate::columns::infer;
use crate::columns::infer::ColumnDecision;
use crate::columns::schema_file::{FeatureOverrides, MissingPolicy, Scalar, ScaleName, SchemaFile, find_column};
use crate::columns::stats::{ColumnStats, Median};
use crate::columns::table_stats::TableStats;
use crate::error::{BuildError, counted};
use crate::format::files;
use crate::options::BuildOptions;
use ifonly_core::params::Params;
use ifonly_values::manifest::MAX_LEVELS;
use ifonly_values::schema::{Feature, Schema};

/// How rows are encoded. Every part of the data uses the same plan.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct EncodingPlan {
    /// The features. Their deviations are added after all rows are encoded.
    pub(crate) schema: Schema,
    /// Indices of the columns whose missing value drops a row.
    pub(crate) required: Vec<usize>,
    /// Bytes of a record before its signature.
    pub(crate) text_length: usize,
    pub(crate) rows: u64,
    pub(crate) accepted: u64,
    pub(crate) left_out: Vec<ExcludedColumn>,
    /// Features that determine the accept mask (target leakage).
    pub(crate) leaking: Vec<String>,
    /// The result of grouping, after [`Build::group`](crate::Build::group).
    #[serde(default)]
    pub(crate) groups: Option<GroupReport>,
    #[serde(default)]
    pub(crate) exposure: Option<Exposure>,
}

/// The settings of all columns, from the build options and the schema file.
#[derive(Debug)]
pub(crate) struct ColumnRequests<'a> {
    pub(crate) options: &'a BuildOptions,
    pub(crate) settings: &'a SchemaFile,
    /// By index of the column in the data.
    pub(crate) columns: &'a [FeatureOverrides],
}

impl ColumnRequests<'_> {
    /// Per column, whether its median may replace missing values.
    pub(crate) fn medians(&self) -> Vec<Median> {
        let wanted = |column: usize| match self.missing(column) {
            MissingPolicy::Median => Median::Wanted,
            _ => Median::Unwanted,
        };
        (0..self.columns.len()).map(wanted).collect()
    }

    /// The plan for these statistics of all rows.
    pub(crate) fn plan(&self, task: &BuildTask, table: &TableStats) -> Result<EncodingPlan, BuildError> {
        check_accepted(task, table)?;
        let (schema, left_out) = self.schema(task, table)?;
        let indices: Vec<usize> = task.columns_of(&schema)?.into_iter().map(|(index, _)| index).collect();
        let drops = |index: &usize| {
            let missing = table.stats[*index].missing.is_some() && self.columns[*index].default.is_none();
            missing && self.missing(*index) == MissingPolicy::Drop
        };
        Ok(EncodingPlan {
            text_length: files::record_length(indices.iter().map(|index| table.stats[*index].longest)),
            required: indices.into_iter().filter(drops).collect(),
            rows: table.rows,
            accepted: table.accepted,
            leaking: table.leaking_features(task.tables.columns(), &schema),
            schema,
            left_out,
            groups: None,
            exposure: None,
        })
    }

    /// The settings of a column of the data.
    pub(crate) fn of(&self, task: &BuildTask, name: &str) -> Result<FeatureOverrides, BuildError> {
        Ok(self.columns[find_column(task.tables.columns(), name, "schema")?].clone())
    }

    /// The default number of levels and scale of numeric columns.
    pub(crate) fn scale(&self) -> (u32, Option<ScaleName>) {
        let levels = self.options.levels.or(self.settings.levels).unwrap_or_else(|| self.default_levels());
        (levels, self.options.scale.or(self.settings.scale))
    }

    fn schema(&self, task: &BuildTask, table: &TableStats) -> Result<(Schema, Vec<ExcludedColumn>), BuildError> {
        let tables = &task.tables;
        let mut features: Vec<Feature> = vec![];
        let mut left_out: Vec<ExcludedColumn> = tables.unusable().to_vec();
        let target = task.acceptance.target();
        for (index, name) in tables.columns().iter().enumerate().filter(|(index, _)| Some(*index) != target) {
            let (stats, settings) = (&table.stats[index], &self.filled(index, &table.stats[index]));
            let (levels, scale) = self.scale();
            let column = infer::ColumnEvidence { files: tables.files(), name, stats, settings, levels, scale };
            match column.infer_column()? {
                ColumnDecision::Excluded(reason) => left_out.push(ExcludedColumn { column: name.clone(), reason }),
                ColumnDecision::Kept(kept) => {
                    let refused = settings.default.is_none() && self.missing(index) != MissingPolicy::Drop;
                    if let Some((location, count)) = stats.missing.filter(|_| refused) {
                        let reason = format!(
                            "the value is missing, as in {} of this column; set `missing` to drop, median or \
                             most-common, or give features.{name:?}.default or .missing in the schema file, or exclude the \
                             column",
                            counted(count, "accepted row")
                        );
                        return Err(task.cell(location, index, reason));
                    }
                    features.extend(kept);
                }
            }
        }
        if features.is_empty() {
            let reason = |excluded: &ExcludedColumn| format!("{:?}: {}", excluded.column, excluded.reason);
            let reasons = left_out.iter().take(20).map(reason).collect::<Vec<_>>().join("; ");
            return Err(BuildError::NoFeatures { reasons });
        }
        let schema = Schema::new(features)?;
        // The manifest has the same limit, but this check comes before the counting of levels.
        let levels: u64 = schema.max_levels().iter().map(|&max_level| u64::from(max_level) + 1).sum();
        if levels > MAX_LEVELS as u64 {
            let reason = format!(
                "{levels} levels in all features together, but the maximum is {MAX_LEVELS}; lower the levels of some features"
            );
            return Err(BuildError::Settings(reason));
        }
        Ok((schema, left_out))
    }

    /// The treatment of missing values of a column.
    fn missing(&self, column: usize) -> MissingPolicy {
        let wanted = self.columns[column].missing.or(self.options.missing).or(self.settings.missing);
        wanted.unwrap_or(MissingPolicy::Refuse)
    }

    /// The settings of a column. If values are missing, the default is filled in by the policy for
    /// missing values.
    fn filled(&self, column: usize, stats: &ColumnStats) -> FeatureOverrides {
        let mut settings = self.columns[column].clone();
        if settings.default.is_none() && stats.missing_anywhere {
            settings.default = match self.missing(column) {
                MissingPolicy::Median => stats.median().or_else(|| stats.most_common()),
                MissingPolicy::MostCommon => stats.most_common(),
                MissingPolicy::Drop | MissingPolicy::Refuse => None,
            }
            .map(Scalar::Text);
        }
        settings
    }

    /// 1,000 levels per column, or fewer in wide tables, so that a search sends at most about a
    /// megabyte.
    fn default_levels(&self) -> u32 {
        const LEVELS: usize = 1000;
        // 20 bytes per level: two tables of 40-bit elements at each of two servers.
        const LEVELS_PER_SEARCH: usize = 1_000_000 / 20;
        LEVELS.min(LEVELS_PER_SEARCH / self.columns.len().max(1)).max(10) as u32
    }
}

/// Refuses tables in which no row, or too many rows, are accepted.
fn check_accepted(task: &BuildTask, table: &TableStats) -> Result<(), BuildError> {
    let refuse = |reason: String| Err(BuildError::File { path: task.tables.first(), reason });
    if table.rows == 0 {
        return refuse("the table has column names but no rows".into());
    }
    if table.accepted > Params::MAX_ROWS as u64 {
        return refuse(format!("{} accepted rows, but the maximum is {}", table.accepted, Params::MAX_ROWS));
    }
    if let Acceptance::Mask(mask) = &task.acceptance {
        if mask.rows.len() as u64 != table.rows {
            let reason = format!(
                "the mask has {}, but the table has {}",
                counted(mask.rows.len() as u64, "value"),
                counted(table.rows, "row")
            );
            return Err(BuildError::Settings(reason));
        }
        if table.accepted == 0 {
            return Err(BuildError::Settings("no row is accepted: the mask is false everywhere".into()));
        }
    }
    if let (Acceptance::Target(column, conditions), 0) = (&task.acceptance, table.accepted) {
        let (target, values) = (task.tables.columns()[*column].clone(), table.stats[*column].shown());
        if conditions.is_empty() {
            let reason =
                format!("accept is missing: say which values of {target:?} count as accepted; it has {values}");
            return Err(BuildError::Settings(reason));
        }
        return Err(BuildError::NothingAccepted { target, accept: any_of(conditions), values });
    }
    Ok(())
}
