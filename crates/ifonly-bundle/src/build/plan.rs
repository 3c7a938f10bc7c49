//! From what was learnt about all columns to how rows are encoded.

use crate::build::accept::{Acceptance, any_of};
use crate::build::report::ExcludedColumn;
use crate::build::task::BuildTask;
use crate::columns::infer;
use crate::columns::infer::ColumnDecision;
use crate::columns::schema_file::{FeatureOverrides, MissingPolicy, Scalar, SchemaFile};
use crate::columns::stats::{ColumnStats, Median};
use crate::columns::table_stats::TableStats;
use crate::error::BuildError;
use crate::format::layout;
use crate::options::BuildOptions;
use ifonly_core::params::Params;
use ifonly_values::manifest::MAX_LEVELS;
use ifonly_values::schema::{Feature, Schema};

/// How rows are encoded, the same for every part.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct EncodingPlan {
    /// The features; how far they deviate is known when all rows are encoded.
    pub(crate) schema: Schema,
    /// The columns without whose value a row is left out, by their place in the data.
    pub(crate) incomplete: Vec<usize>,
    /// Bytes of a record before its signature.
    pub(crate) text_length: usize,
    pub(crate) rows: u64,
    pub(crate) accepted: u64,
    pub(crate) left_out: Vec<ExcludedColumn>,
    pub(crate) telling: Vec<String>,
}

/// What the author of a bundle wants of its columns.
#[derive(Debug)]
pub(crate) struct ColumnRequests<'a> {
    pub(crate) options: &'a BuildOptions,
    pub(crate) settings: &'a SchemaFile,
    /// By the place of columns in the data.
    pub(crate) columns: &'a [FeatureOverrides],
}

impl ColumnRequests<'_> {
    /// The columns whose median may stand for missing values.
    pub(crate) fn medians(&self) -> Vec<Median> {
        let wanted = |column: usize| match self.missing(column) {
            MissingPolicy::Median => Median::Wanted,
            _ => Median::Unwanted,
        };
        (0..self.columns.len()).map(wanted).collect()
    }

    /// The plan that follows from all rows.
    pub(crate) fn plan(&self, work: &BuildTask, learnt: &TableStats) -> Result<EncodingPlan, BuildError> {
        check_accepted(work, learnt)?;
        let (schema, left_out) = self.schema(work, learnt)?;
        let places: Vec<usize> = work.columns_of(&schema)?.into_iter().map(|(place, _)| place).collect();
        let drops = |place: &usize| {
            let missing = learnt.stats[*place].missing.is_some() && self.columns[*place].default.is_none();
            missing && self.missing(*place) == MissingPolicy::Drop
        };
        Ok(EncodingPlan {
            text_length: layout::record_length(places.iter().map(|place| learnt.stats[*place].longest)),
            incomplete: places.into_iter().filter(drops).collect(),
            rows: learnt.rows,
            accepted: learnt.accepted,
            telling: learnt.telling(work.tables.columns(), &schema),
            schema,
            left_out,
        })
    }

    fn schema(&self, work: &BuildTask, learnt: &TableStats) -> Result<(Schema, Vec<ExcludedColumn>), BuildError> {
        let tables = &work.tables;
        let mut features: Vec<Feature> = vec![];
        let mut left_out: Vec<ExcludedColumn> = tables.unusable().to_vec();
        let target = work.acceptance.target();
        for (place, name) in tables.columns().iter().enumerate().filter(|(place, _)| Some(*place) != target) {
            let (stats, settings) = (&learnt.stats[place], &self.filled(place, &learnt.stats[place]));
            let levels = self.options.levels.or(self.settings.levels).unwrap_or_else(|| self.usual_levels());
            let scale = self.options.scale.or(self.settings.scale);
            let column = infer::ColumnEvidence { files: tables.files(), name, stats, settings, levels, scale };
            match column.infer_column()? {
                ColumnDecision::LeftOut(reason) => left_out.push(ExcludedColumn { column: name.clone(), reason }),
                ColumnDecision::Kept(kept) => {
                    let refused = settings.default.is_none() && self.missing(place) != MissingPolicy::Drop;
                    if let Some((at, count)) = stats.missing.filter(|_| refused) {
                        let reason = format!(
                            "the value is missing, as in {count} accepted rows of this column; add --missing drop, median \
                             or most-common, or give features.{name:?}.default or .missing in the schema file, or exclude the \
                             column"
                        );
                        return Err(work.cell(at, place, reason));
                    }
                    features.extend(kept);
                }
            }
        }
        if features.is_empty() {
            let reason = |out: &ExcludedColumn| format!("{:?}: {}", out.column, out.reason);
            let reasons = left_out.iter().take(20).map(reason).collect::<Vec<_>>().join("; ");
            return Err(BuildError::NoFeatures { reasons });
        }
        let schema = Schema::new(features)?;
        // The manifest would refuse it too, but only after somebody has counted every level.
        let levels: u64 = schema.max_levels().iter().map(|&range| u64::from(range) + 1).sum();
        if levels > MAX_LEVELS as u64 {
            let reason = format!("{levels} levels in all features together; {MAX_LEVELS} are the most, so lower some");
            return Err(BuildError::Settings(reason));
        }
        Ok((schema, left_out))
    }

    /// What happens to missing values of a column.
    fn missing(&self, column: usize) -> MissingPolicy {
        let wanted = self.columns[column].missing.or(self.options.missing).or(self.settings.missing);
        wanted.unwrap_or(MissingPolicy::Refuse)
    }

    /// The settings of a column, with the value that stands for missing ones where values are
    /// missing.
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

    /// A thousand levels a column, or fewer in tables so wide that a question would exceed a
    /// megabyte.
    fn usual_levels(&self) -> u32 {
        const LEVELS: usize = 1000;
        // Two tables of 40 bits for each level, at two servers.
        const LEVELS_OF_A_QUESTION: usize = 1_000_000 / 20;
        LEVELS.min(LEVELS_OF_A_QUESTION / self.columns.len().max(1)).max(10) as u32
    }
}

/// Refuses tables of which nothing, or too much, is accepted.
fn check_accepted(work: &BuildTask, learnt: &TableStats) -> Result<(), BuildError> {
    let refuse = |reason: String| Err(BuildError::File { path: work.tables.first(), reason });
    if learnt.rows == 0 {
        return refuse("there are column names but no rows".into());
    }
    if learnt.accepted > Params::MAX_ROWS as u64 {
        return refuse(format!("{} rows are more than {}", learnt.accepted, Params::MAX_ROWS));
    }
    if let Acceptance::Mask(mask) = &work.acceptance {
        if mask.rows.len() as u64 != learnt.rows {
            let reason = format!("the mask has {} values, but the table has {} rows", mask.rows.len(), learnt.rows);
            return Err(BuildError::Settings(reason));
        }
        if learnt.accepted == 0 {
            return Err(BuildError::Settings("no row is accepted: the mask is false everywhere".into()));
        }
    }
    if let (Acceptance::Target(column, conditions), 0) = (&work.acceptance, learnt.accepted) {
        let (target, values) = (work.tables.columns()[*column].clone(), learnt.stats[*column].shown());
        if conditions.is_empty() {
            let reason = format!("accept is missing: which values of {target:?} mean acceptance? It holds {values}");
            return Err(BuildError::Settings(reason));
        }
        return Err(BuildError::NothingAccepted { target, accept: any_of(conditions), values });
    }
    Ok(())
}
