//! Building a bundle: learn the columns, encode the accepted rows, write everything or nothing.

use crate::accept::Accept;
use crate::error::{BuildError, Place};
use crate::format::{self, Shape};
use crate::infer::{self, Verdict};
use crate::report::{FeatureReport, LeftOut, Report, Sizes};
use crate::settings::{FeatureSettings, Settings, find_column};
use crate::source::{Progress, Row, Source, Stage};
use crate::stats::{ColumnStats, is_missing};
use crate::write::{self, Staging};
use ifonly_core::manifest::{Contents, Manifest, ManifestError, Operator};
use ifonly_core::params::Params;
use ifonly_core::record;
use ifonly_core::schema::{Column, Encoded, Feature, Kind, Schema, Value, nearest};
use ifonly_core::scheme;
use std::collections::HashMap;
use std::path::PathBuf;

/// What to build from what.
#[derive(Clone, Debug, Default)]
pub struct BuildOptions {
    /// A CSV or Parquet file.
    pub data: PathBuf,
    /// The bundle's directory.
    pub output: PathBuf,
    /// Whether a bundle of that name is replaced.
    pub replace: bool,
    /// The column that says who was accepted; without one, here or in the schema file, every row was.
    pub target: Option<String>,
    /// Values or comparisons such as `>=5`, any of which means acceptance. They take the place of the schema file's.
    pub accept: Vec<String>,
    /// A schema file.
    pub schema: Option<PathBuf>,
    /// R of continuous columns that do not say otherwise; 100 unless the schema file says so.
    pub levels: Option<u32>,
    /// What separates the fields of a CSV file; the header tells where it is not given.
    pub delimiter: Option<u8>,
    /// The dataset's name; the file's unless given.
    pub name: Option<String>,
    /// The dataset's version; "1" unless given.
    pub version: Option<String>,
    /// How it will be served.
    pub deployment: DeploymentOptions,
}

/// How a bundle will be served. What is not given is as in [`Contents::new`].
#[derive(Clone, Debug, Default)]
pub struct DeploymentOptions {
    /// How many servers there are; 2 unless given.
    pub servers: Option<u8>,
    /// Who runs them, in order; their number takes the place of `servers`.
    pub operators: Vec<Operator>,
    /// T.
    pub threshold: Option<usize>,
    /// S.
    pub silent: Option<usize>,
    /// B.
    pub lying: Option<usize>,
    /// Whether every search lists the rows in a fresh order.
    pub shuffle: Option<bool>,
    /// Whether lies show.
    pub verified: Option<bool>,
    /// L1.
    pub weight_limit: Option<u64>,
    /// F.
    pub immutable_limit: Option<usize>,
    /// d_min.
    pub mask: Option<u64>,
    /// p.
    pub exponent: Option<u32>,
    /// The largest entry of a cost table; the largest weight times the widest feature squared unless given.
    pub cost_limit: Option<u64>,
    /// The largest k.
    pub top_limit: Option<usize>,
    /// The schemes to offer; all that fit unless given.
    pub schemes: Vec<String>,
    /// The scheme to prefer.
    pub default_scheme: Option<String>,
    /// The key epochs, the current one first.
    pub epochs: Vec<u32>,
}

/// Builds a bundle. `progress` is called now and then during both passes over the data.
pub fn build(options: &BuildOptions, progress: &mut dyn FnMut(Progress)) -> Result<Report, BuildError> {
    write::check_target(&options.output, options.replace)?;
    let settings = options.schema.as_deref().map(Settings::read).transpose()?.unwrap_or_default();
    let source = Source::open(&options.data, options.delimiter)?;
    let plan = Plan::new(options, &settings, &source)?;
    let learnt = plan.learn(progress)?;
    let (schema, left_out) = plan.schema(&learnt)?;
    let staging = Staging::new(&options.output, options.replace)?;
    let encoded = plan.encode(&schema, &learnt, &staging, progress)?;
    let schema = with_deviations(schema, &encoded.histograms)?;
    let contents = plan.contents(schema, &learnt, encoded.record_length)?;
    let manifest = Manifest::new(contents)?;

    let mut file = staging.file(format::MANIFEST)?;
    file.write(manifest.json().as_bytes())?;
    let (manifest_hash, manifest_bytes) = file.finish()?;
    let [(rows_hash, rows_bytes), (records_hash, records_bytes)] = encoded.files;
    let hashes = [(format::MANIFEST, manifest_hash), (format::ROWS, rows_hash), (format::RECORDS, records_hash)];
    let mut file = staging.file(format::CHECKSUMS)?;
    file.write(format::checksums(&hashes).as_bytes())?;
    file.finish()?;
    staging.commit(options.replace)?;

    let sizes = Sizes { manifest: manifest_bytes, rows: rows_bytes, records: records_bytes };
    let features = manifest.schema().features().iter().zip(&encoded.clamped);
    let features = features.map(|(feature, &clamped)| FeatureReport::new(feature, clamped)).collect();
    let recommended = manifest.deployment(scheme::DEFAULT.name).is_ok() || !options.deployment.schemes.is_empty();
    let not_recommended = (!recommended).then(|| not_offered(manifest.contents(), scheme::DEFAULT.name).to_string());
    let (rows_read, rows_accepted) = (learnt.rows, learnt.accepted);
    Ok(Report { rows_read, rows_accepted, features, left_out, not_recommended, sizes, manifest })
}

/// The options and the file, brought together.
struct Plan<'a> {
    options: &'a BuildOptions,
    settings: &'a Settings,
    source: &'a Source,
    target: Option<(usize, Vec<Accept>)>,
    columns: Vec<FeatureSettings>,
    /// Per column the words that the schema file lists, which are never missing values.
    listed: Vec<Vec<String>>,
}

/// What the first pass found.
struct Learnt {
    rows: u64,
    accepted: u64,
    stats: Vec<ColumnStats>,
}

/// What the second pass wrote.
struct EncodedRows {
    record_length: usize,
    files: [(blake3::Hash, u64); 2],
    /// Per feature, how many rows have each level.
    histograms: Vec<Vec<u64>>,
    /// Per feature, how many values lay outside the bounds.
    clamped: Vec<u64>,
}

impl<'a> Plan<'a> {
    fn new(options: &'a BuildOptions, settings: &'a Settings, source: &'a Source) -> Result<Plan<'a>, BuildError> {
        settings.check_columns(source.columns())?;
        let accept = if options.accept.is_empty() {
            settings.accept.iter().map(ToString::to_string).collect()
        } else {
            options.accept.clone()
        };
        let accept: Vec<Accept> =
            accept.iter().map(|text| text.parse()).collect::<Result<_, String>>().map_err(BuildError::Settings)?;
        let target = match options.target.as_ref().or(settings.target.as_ref()) {
            Some(name) => Some((find_column(source.columns(), name, "target")?, accept)),
            None if accept.is_empty() => None,
            None => return Err(BuildError::Settings("accept needs a target: which column holds these values?".into())),
        };
        let columns = source.columns().iter().map(|name| settings.of(name)).collect::<Result<Vec<_>, _>>()?;
        let words = |column: &FeatureSettings| {
            let ranks = column.ranks.iter().flatten();
            ranks.chain(column.categories.iter().flatten()).map(ToString::to_string).collect()
        };
        let listed = columns.iter().map(words).collect();
        Ok(Plan { options, settings, source, target, columns, listed })
    }

    /// Goes over all rows and calls `visit` with each and whether it was accepted.
    fn scan(
        &self,
        stage: Stage,
        progress: &mut dyn FnMut(Progress),
        visit: &mut dyn FnMut(&Row<'_>, bool) -> Result<(), BuildError>,
    ) -> Result<(), BuildError> {
        const REPORT_EVERY: u64 = 4096;
        let total = self.source.total();
        progress(Progress { stage, done: 0, total });
        let mut count: u64 = 0;
        self.source.scan(&mut |row| {
            count += 1;
            if count % REPORT_EVERY == 0 {
                progress(Progress { stage, done: row.done.min(total), total });
            }
            visit(&row, self.accepts(&row)?)
        })?;
        progress(Progress { stage, done: total, total });
        Ok(())
    }

    fn accepts(&self, row: &Row<'_>) -> Result<bool, BuildError> {
        let Some((column, conditions)) = &self.target else { return Ok(true) };
        let value = row.cells[*column];
        if value.is_empty() {
            return Err(self.cell(
                row.place,
                *column,
                "the target is missing, so nobody knows who was accepted".into(),
            ));
        }
        for condition in conditions {
            if condition.matches(value).map_err(|reason| self.cell(row.place, *column, reason))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn learn(&self, progress: &mut dyn FnMut(Progress)) -> Result<Learnt, BuildError> {
        let mut learnt = Learnt { rows: 0, accepted: 0, stats: vec![] };
        learnt.stats.resize_with(self.columns.len(), ColumnStats::new);
        self.scan(Stage::Learning, progress, &mut |row, accepted| {
            learnt.rows += 1;
            learnt.accepted += u64::from(accepted);
            for ((stats, cell), listed) in learnt.stats.iter_mut().zip(row.cells).zip(&self.listed) {
                stats.take(row.place, cell, accepted, listed);
            }
            Ok(())
        })?;
        let path = || self.source.path().clone();
        if learnt.rows == 0 {
            return Err(BuildError::File { path: path(), reason: "there are column names but no rows".into() });
        }
        if learnt.accepted > Params::MAX_ROWS as u64 {
            let reason = format!("{} rows are more than {}", learnt.accepted, Params::MAX_ROWS);
            return Err(BuildError::File { path: path(), reason });
        }
        if let Some((column, conditions)) = self.target.as_ref().filter(|_| learnt.accepted == 0) {
            let (target, values) = (self.source.columns()[*column].clone(), learnt.stats[*column].shown());
            if conditions.is_empty() {
                let reason =
                    format!("accept is missing: which values of {target:?} mean acceptance? It holds {values}");
                return Err(BuildError::Settings(reason));
            }
            let accept = conditions.iter().map(|condition| condition.to_string()).collect::<Vec<_>>().join(" or ");
            return Err(BuildError::NothingAccepted { target, accept, values });
        }
        Ok(learnt)
    }

    fn schema(&self, learnt: &Learnt) -> Result<(Schema, Vec<LeftOut>), BuildError> {
        let (mut features, mut left_out): (Vec<Feature>, Vec<LeftOut>) = (vec![], vec![]);
        let target = self.target.as_ref().map(|(column, _)| *column);
        for (place, name) in self.source.columns().iter().enumerate().filter(|(place, _)| Some(*place) != target) {
            let (stats, settings) = (&learnt.stats[place], &self.columns[place]);
            let levels = self.options.levels.or(self.settings.levels).unwrap_or(Feature::DEFAULT_RANGE);
            let column = infer::Column { path: self.source.path(), name, stats, settings, levels };
            match column.judge()? {
                Verdict::LeftOut(reason) => left_out.push(LeftOut { column: name.clone(), reason }),
                Verdict::Kept(kept) => {
                    if let (Some((at, count)), None) = (stats.missing, &settings.default) {
                        let reason = format!(
                            "the value is missing, as in {count} accepted rows of this column; give features.{name:?}.default in the schema file, or exclude the column"
                        );
                        return Err(self.cell(at, place, reason));
                    }
                    features.extend(kept);
                }
            }
        }
        if features.is_empty() {
            let reason = |out: &LeftOut| format!("{:?}: {}", out.column, out.reason);
            let reasons = left_out.iter().take(20).map(reason).collect::<Vec<_>>().join("; ");
            return Err(BuildError::NoFeatures { reasons });
        }
        Ok((Schema::new(features)?, left_out))
    }

    fn encode(
        &self,
        schema: &Schema,
        learnt: &Learnt,
        staging: &Staging,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<EncodedRows, BuildError> {
        // Equal values are common; so many are remembered per column.
        const REMEMBERED: usize = 1 << 16;
        let columns: Vec<(usize, Column<'_>)> = schema
            .columns()
            .into_iter()
            .map(|column| Ok((find_column(self.source.columns(), column.name, "schema")?, column)))
            .collect::<Result<_, BuildError>>()?;
        // A multiple of 16, so that it does not tell the exact length of the longest row.
        let longest: usize = columns.iter().map(|(place, _)| 2 + learnt.stats[*place].longest).sum();
        let record_length = longest.next_multiple_of(16);
        let (row_shape, record_shape) =
            (Shape::rows(learnt.accepted, &schema.ranges()), Shape::records(learnt.accepted, record_length));
        let (mut rows, mut records) = (staging.file(format::ROWS)?, staging.file(format::RECORDS)?);
        rows.write(&row_shape.header())?;
        records.write(&record_shape.header())?;
        let mut histograms: Vec<Vec<u64>> = schema.ranges().iter().map(|&range| vec![0; range as usize + 1]).collect();
        let mut clamped = vec![0; schema.features().len()];
        let mut memory: Vec<HashMap<String, Vec<Encoded>>> = vec![HashMap::new(); columns.len()];
        let mut written = 0;
        let width = usize::from(row_shape.width());
        self.scan(Stage::Encoding, progress, &mut |row, accepted| {
            if !accepted {
                return Ok(());
            }
            written += 1;
            let mut levels: Vec<Encoded> = Vec::with_capacity(schema.features().len());
            let mut texts: Vec<&str> = Vec::with_capacity(columns.len());
            for ((place, column), memory) in columns.iter().zip(&mut memory) {
                let text = if is_missing(row.cells[*place], &self.listed[*place]) { "" } else { row.cells[*place] };
                texts.push(text);
                match memory.get(text) {
                    Some(known) => levels.extend(known),
                    None => {
                        let before = levels.len();
                        schema
                            .encode_column(column, &Value::from(text), &mut levels)
                            .map_err(|error| self.cell(row.place, *place, error.to_string()))?;
                        if memory.len() < REMEMBERED {
                            memory.insert(text.to_owned(), levels[before..].to_vec());
                        }
                    }
                }
                if text.len() > record::MAX_TEXT {
                    let reason =
                        format!("{} bytes are too long for a value; {} is the most", text.len(), record::MAX_TEXT);
                    return Err(self.cell(row.place, *place, reason));
                }
            }
            for (feature, encoded) in levels.iter().enumerate() {
                // A schema's levels end at its ranges.
                histograms[feature][encoded.level as usize] += 1;
                clamped[feature] += u64::from(encoded.clamped);
                rows.write(&encoded.level.to_le_bytes()[..width])?;
            }
            let record = record::encode(&texts, record_length).map_err(|error| BuildError::Row {
                path: self.source.path().clone(),
                place: row.place,
                reason: error.to_string(),
            })?;
            records.write(&record)
        })?;
        if written != learnt.accepted {
            let reason = "the file changed while it was being read; try again".into();
            return Err(BuildError::File { path: self.source.path().clone(), reason });
        }
        Ok(EncodedRows { record_length, files: [rows.finish()?, records.finish()?], histograms, clamped })
    }

    fn contents(&self, schema: Schema, learnt: &Learnt, record_length: usize) -> Result<Contents, BuildError> {
        let (options, wanted) = (self.options, &self.options.deployment);
        let stem = options.data.file_stem().unwrap_or_default().to_string_lossy();
        let name = options.name.as_deref().unwrap_or(&stem);
        // `learn` has compared the number with the largest M.
        let rows = learnt.accepted as usize;
        let mut contents = Contents::new(name, schema, rows, record_length, wanted.servers.unwrap_or(2));
        let default_cost = contents.cost_limit / contents.weight_limit;
        fn set<T: Clone>(field: &mut T, wanted: &Option<T>) {
            if let Some(value) = wanted {
                *field = value.clone();
            }
        }
        set(&mut contents.dataset.version, &options.version);
        set(&mut contents.threshold, &wanted.threshold);
        set(&mut contents.silent, &wanted.silent);
        set(&mut contents.lying, &wanted.lying);
        set(&mut contents.shuffle, &wanted.shuffle);
        set(&mut contents.verified, &wanted.verified);
        set(&mut contents.weight_limit, &wanted.weight_limit);
        set(&mut contents.immutable_limit, &wanted.immutable_limit);
        set(&mut contents.mask, &wanted.mask);
        set(&mut contents.exponent, &wanted.exponent);
        set(&mut contents.top_limit, &wanted.top_limit);
        contents.cost_limit = wanted.cost_limit.unwrap_or(contents.weight_limit.saturating_mul(default_cost));
        if !wanted.operators.is_empty() {
            contents.operators = wanted.operators.clone();
        }
        if !wanted.epochs.is_empty() {
            contents.epochs = wanted.epochs.clone();
        }
        contents.offer_all();
        choose_schemes(&mut contents, wanted)?;
        Ok(contents)
    }

    fn cell(&self, place: Place, column: usize, reason: String) -> BuildError {
        let column = self.source.columns()[column].clone();
        BuildError::Cell { path: self.source.path().clone(), place, column, reason }
    }
}

fn choose_schemes(contents: &mut Contents, wanted: &DeploymentOptions) -> Result<(), BuildError> {
    for name in &wanted.schemes {
        if !contents.schemes.iter().any(|offer| offer.name == *name) {
            return Err(not_offered(contents, name));
        }
    }
    if !wanted.schemes.is_empty() {
        contents.schemes.retain(|offer| wanted.schemes.contains(&offer.name));
    }
    let offered = |name: &&str| contents.schemes.iter().any(|offer| offer.name == **name);
    contents.default_scheme = match &wanted.default_scheme {
        Some(name) if offered(&name.as_str()) => name.clone(),
        Some(name) => return Err(not_offered(contents, name)),
        None => {
            // The recommended one, or else the one that tells the user least.
            let preferred = [scheme::DEFAULT.name, "gated-costs", "gated-ranges+", "gated+", "gated-ranges", "gated"];
            let first = contents.schemes.first().map(|offer| offer.name.as_str());
            let chosen = preferred.into_iter().find(offered).or(first);
            chosen.ok_or_else(|| not_offered(contents, scheme::DEFAULT.name))?.to_owned()
        }
    };
    Ok(())
}

/// Why a scheme is not among the offers: let the manifest's own checks say it.
fn not_offered(contents: &Contents, name: &str) -> BuildError {
    let Some(scheme) = scheme::named(name) else {
        let near = nearest(name, scheme::ALL.iter().map(|scheme| scheme.name)).map(str::to_owned);
        return ManifestError::UnknownScheme { name: name.into(), nearest: near }.into();
    };
    if let Some(feature) = contents.schema.features().iter().find(|feature| feature.is_nominal()) {
        if scheme.metric != scheme::Metric::Table {
            return ManifestError::NeedsTables { scheme: scheme.name, feature: feature.name.clone() }.into();
        }
    }
    let rule = ifonly_core::prime::FieldRule::Deployment;
    match ifonly_core::deployment::Deployment::new(scheme, contents.params(), rule) {
        Err(source) => ManifestError::Deployment { scheme: name.into(), source }.into(),
        Ok(deployment) => {
            let (need, have) = (deployment.servers(), contents.operators.len());
            ManifestError::TooFewOperators { scheme: scheme.name, need, have }.into()
        }
    }
}

/// The schema with each ordered feature's median absolute deviation, from how many rows have each level.
fn with_deviations(schema: Schema, histograms: &[Vec<u64>]) -> Result<Schema, BuildError> {
    let mut features = schema.features().to_vec();
    for (feature, histogram) in features.iter_mut().zip(histograms) {
        if !matches!(feature.kind, Kind::Categorical { .. }) {
            feature.mad = median_absolute_deviation(histogram);
        }
    }
    Ok(Schema::new(features)?)
}

fn median_absolute_deviation(histogram: &[u64]) -> Option<f64> {
    let values = || histogram.iter().enumerate().filter(|(_, count)| **count > 0);
    let middle = median(values().map(|(level, &count)| (level as f64, count)).collect())?;
    median(values().map(|(level, &count)| ((level as f64 - middle).abs(), count)).collect())
}

/// The middle of counted values; between two middles, their mean.
fn median(mut values: Vec<(f64, u64)>) -> Option<f64> {
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    let total: u64 = values.iter().map(|(_, count)| count).sum();
    let at = |rank: u64| {
        let mut seen = 0;
        values.iter().find_map(|(value, count)| {
            seen += count;
            (seen > rank).then_some(*value)
        })
    };
    Some((at(total.checked_sub(1)? / 2)? + at(total / 2)?) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviations_are_medians_of_distances_to_the_median() {
        // Levels 0, 0, 1, 4: median 0.5, distances 0.5, 0.5, 0.5, 3.5.
        assert_eq!(median_absolute_deviation(&[2, 1, 0, 0, 1]), Some(0.5));
        // Levels 1, 2, 6: median 2, distances 1, 0, 4.
        assert_eq!(median_absolute_deviation(&[0, 1, 1, 0, 0, 0, 1]), Some(1.0));
        assert_eq!(median_absolute_deviation(&[0, 9]), Some(0.0));
        assert_eq!(median_absolute_deviation(&[0, 0]), None);
    }
}
