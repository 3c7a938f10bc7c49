//! Building a bundle: learn the columns, encode the accepted rows, write everything or nothing.

use crate::accept::{Accept, Acceptance, Mask, Telltale, any_of};
#[cfg(feature = "arrow")]
use crate::arrow_source::ArrowTable;
use crate::by_text::ByText;
use crate::deploy;
use crate::deviation::with_deviations;
use crate::error::{BuildError, Place};
use crate::format;
use crate::infer::{self, Verdict};
use crate::input::Input;
use crate::options::BuildOptions;
use crate::report::{FeatureReport, LeftOut, Report, Sizes};
use crate::settings::{FeatureSettings, Missing, Scalar, Settings, find_column};
use crate::signing_key::{self, Keeping};
use crate::source::{Progress, Row, Source, Stage, Watch, tell};
use crate::stats::{ColumnStats, is_missing};
use crate::write::{self, Staging};
use ifonly_core::params::Params;
use ifonly_core::scheme;
use ifonly_core::signature::SIGNATURE_LENGTH;
use ifonly_scan::RowWriter;
use ifonly_values::manifest::{MAX_LEVELS, Manifest};
use ifonly_values::record;
use ifonly_values::schema::{Column, Encoded, Feature, Kind, Notation, Schema, SchemaError, Value};
use std::ops::ControlFlow;

/// What a program gives beside, or instead of, what a command line names.
#[derive(Debug, Default)]
pub struct Inputs {
    /// The table, instead of a data file.
    #[cfg(feature = "arrow")]
    pub table: Option<ArrowTable>,
    /// Who was accepted, instead of a target.
    pub mask: Option<Mask>,
    /// What a schema file would say, instead of one.
    pub settings: Option<Settings>,
}

/// Builds a bundle. `progress` is called now and then during both passes over the data.
pub fn build(options: &BuildOptions, progress: &mut dyn FnMut(Progress)) -> Result<Report, BuildError> {
    build_from(options, Inputs::default(), &mut |done| {
        progress(done);
        ControlFlow::Continue(())
    })
}

/// Builds a bundle from what a program has at hand. `watch` is called now and then, and may end the build.
pub fn build_from(options: &BuildOptions, inputs: Inputs, watch: Watch<'_>) -> Result<Report, BuildError> {
    write::check_target(&options.output, options.replace)?;
    let keeping = Keeping::of(options)?;
    let settings = match (&options.schema, inputs.settings) {
        (Some(_), Some(_)) => return Err(BuildError::Settings("a schema file and settings: give one of them".into())),
        (Some(path), None) => Settings::read(path)?,
        (None, settings) => settings.unwrap_or_default(),
    };
    #[cfg(feature = "arrow")]
    let table = inputs.table.map(Source::Arrow);
    #[cfg(not(feature = "arrow"))]
    let table = None;
    let source = match table {
        Some(source) => source,
        None => Source::of(Input::open_watched(&options.data, watch)?, options.delimiter)?,
    };
    let plan = Plan::new(options, &settings, &source, inputs.mask.as_ref())?;
    let learnt = plan.learn(watch)?;
    let (schema, left_out) = plan.schema(&learnt)?;
    let incomplete = plan.incomplete(&schema, &learnt)?;
    let kept = plan.kept(&learnt, &incomplete, watch)?;
    let staging = Staging::new(&options.output, options.replace)?;
    let encoded = plan.encode(&schema, &learnt, &incomplete, kept, &staging, watch)?;
    let schema = with_deviations(schema, &encoded.histograms)?;
    // `learn` has compared the number with the largest M.
    let mut contents = deploy::contents(options, schema, kept as usize, encoded.text_length + SIGNATURE_LENGTH)?;
    contents.signer = Some(keeping.key.public());
    contents.dataset.accepted = Some(plan.acceptance.definition(source.columns()));
    let manifest = Manifest::new(contents)?;
    let subject = manifest.contents().subject();
    let sizes = (manifest.rows(), encoded.text_length);
    let (records_hash, records_bytes) = signing_key::sign_file(&staging, &keeping.key, &subject, sizes, watch)?;

    let mut file = staging.file(format::MANIFEST)?;
    file.write(manifest.json().as_bytes())?;
    let (manifest_hash, manifest_bytes) = file.finish()?;
    let (rows_hash, rows_bytes) = encoded.rows_file;
    let hashes = [(format::MANIFEST, manifest_hash), (format::ROWS, rows_hash), (format::RECORDS, records_hash)];
    let mut file = staging.file(format::CHECKSUMS)?;
    file.write(format::checksums(&hashes).as_bytes())?;
    file.finish()?;
    keeping.keep(|| staging.commit(options.replace))?;

    let sizes = Sizes { manifest: manifest_bytes, rows: rows_bytes, records: records_bytes };
    let features = manifest.schema().features().iter().zip(&encoded.clamped).zip(&encoded.histograms);
    let features =
        features.map(|((feature, &clamped), histogram)| FeatureReport::new(feature, clamped, histogram)).collect();
    let recommended = manifest.deployment(scheme::DEFAULT.name).is_ok() || !options.deployment.schemes.is_empty();
    let not_recommended =
        (!recommended).then(|| deploy::not_offered(manifest.contents(), scheme::DEFAULT.name).to_string());
    let (rows_read, rows_accepted, rows_dropped) = (learnt.rows, kept, learnt.accepted - kept);
    let Keeping { path: signing_key, is_new: key_is_new, .. } = keeping;
    let telling = learnt.telling(source.columns(), manifest.schema());
    Ok(Report {
        rows_read,
        rows_accepted,
        rows_dropped,
        features,
        left_out,
        telling,
        not_recommended,
        signing_key,
        key_is_new,
        sizes,
        manifest,
    })
}

/// The options and the file, brought together.
struct Plan<'a> {
    options: &'a BuildOptions,
    settings: &'a Settings,
    source: &'a Source,
    acceptance: Acceptance<'a>,
    columns: Vec<FeatureSettings>,
    /// Per column the words that the schema file lists, which are never missing values.
    listed: Vec<Vec<String>>,
}

/// What the first pass found.
struct Learnt {
    rows: u64,
    accepted: u64,
    stats: Vec<ColumnStats>,
    /// Per column, where there is a mask.
    telltales: Vec<Telltale>,
}

impl Learnt {
    /// The features that alone say whom the mask accepts.
    fn telling(&self, columns: &[String], schema: &Schema) -> Vec<String> {
        let tell = columns.iter().zip(&self.telltales).filter(|(_, telltale)| telltale.tells());
        let features = schema.columns();
        let is_feature = |name: &&String| features.iter().any(|column| column.name == *name);
        tell.map(|(name, _)| name).filter(is_feature).cloned().collect()
    }
}

/// What the second pass wrote.
struct EncodedRows {
    /// Bytes of a record before its signature.
    text_length: usize,
    rows_file: (blake3::Hash, u64),
    /// Per feature, how many rows have each level.
    histograms: Vec<Vec<u64>>,
    /// Per feature, how many values lay outside the bounds.
    clamped: Vec<u64>,
}

impl<'a> Plan<'a> {
    fn new(
        options: &'a BuildOptions,
        settings: &'a Settings,
        source: &'a Source,
        mask: Option<&'a Mask>,
    ) -> Result<Plan<'a>, BuildError> {
        settings.check_columns(source.columns())?;
        let accept = if options.accept.is_empty() {
            settings.accept.iter().map(ToString::to_string).collect()
        } else {
            options.accept.clone()
        };
        let accept: Vec<Accept> =
            accept.iter().map(|text| text.parse()).collect::<Result<_, String>>().map_err(BuildError::Settings)?;
        let refuse = |reason: &str| Err(BuildError::Settings(reason.into()));
        let acceptance = match (options.target.as_ref().or(settings.target.as_ref()), mask) {
            (Some(_), Some(_)) => return refuse("a target and a mask: give one of them"),
            (Some(name), None) => Acceptance::Target(find_column(source.columns(), name, "target")?, accept),
            (None, _) if !accept.is_empty() => {
                return refuse("accept needs a target: which column holds these values?");
            }
            (None, Some(mask)) => Acceptance::Mask(mask),
            (None, None) => Acceptance::Everybody,
        };
        let columns = source.columns().iter().map(|name| settings.of(name)).collect::<Result<Vec<_>, _>>()?;
        let words = |column: &FeatureSettings| {
            let ranks = column.ranks.iter().flatten();
            ranks.chain(column.categories.iter().flatten()).map(ToString::to_string).collect()
        };
        let listed = columns.iter().map(words).collect();
        Ok(Plan { options, settings, source, acceptance, columns, listed })
    }

    /// Goes over all rows and calls `visit` with each and whether it was accepted.
    fn scan(
        &self,
        stage: Stage,
        watch: Watch<'_>,
        visit: &mut dyn FnMut(&Row<'_>, bool) -> Result<(), BuildError>,
    ) -> Result<(), BuildError> {
        const REPORT_EVERY: u64 = 4096;
        let total = self.source.total();
        tell(watch, Progress { stage, done: 0, total })?;
        let mut count: u64 = 0;
        self.source.scan(&mut |row| {
            let place = count as usize;
            count += 1;
            if count.is_multiple_of(REPORT_EVERY) {
                tell(watch, Progress { stage, done: row.done.min(total), total })?;
            }
            visit(&row, self.accepts(&row, place)?)
        })?;
        tell(watch, Progress { stage, done: total, total })
    }

    fn accepts(&self, row: &Row<'_>, place: usize) -> Result<bool, BuildError> {
        let (column, conditions) = match &self.acceptance {
            Acceptance::Everybody => return Ok(true),
            // Whether it has as many values as there are rows, `learn` sees at the end.
            Acceptance::Mask(mask) => return Ok(mask.rows.get(place) == Some(&true)),
            Acceptance::Target(column, conditions) => (column, conditions),
        };
        let value = row.cells[*column];
        // A target of "NA" is missing, unless somebody asks for just that.
        if is_missing(value, &[]) && !conditions.iter().any(|condition| condition.names(value)) {
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

    fn learn(&self, watch: Watch<'_>) -> Result<Learnt, BuildError> {
        let masked = matches!(self.acceptance, Acceptance::Mask(_));
        let telltales = vec![Telltale::default(); if masked { self.columns.len() } else { 0 }];
        let mut learnt = Learnt { rows: 0, accepted: 0, stats: vec![], telltales };
        learnt.stats.resize_with(self.columns.len(), ColumnStats::new);
        self.scan(Stage::Learning, watch, &mut |row, accepted| {
            learnt.rows += 1;
            learnt.accepted += u64::from(accepted);
            for ((stats, cell), listed) in learnt.stats.iter_mut().zip(row.cells).zip(&self.listed) {
                stats.take(row.place, cell, accepted, listed);
            }
            learnt.telltales.iter_mut().zip(row.cells).for_each(|(telltale, cell)| telltale.take(cell, accepted));
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
        if let Acceptance::Mask(mask) = &self.acceptance {
            if mask.rows.len() as u64 != learnt.rows {
                let reason = format!("the mask has {} values, but the table has {} rows", mask.rows.len(), learnt.rows);
                return Err(BuildError::Settings(reason));
            }
            if learnt.accepted == 0 {
                return Err(BuildError::Settings("no row is accepted: the mask is false everywhere".into()));
            }
        }
        if let (Acceptance::Target(column, conditions), 0) = (&self.acceptance, learnt.accepted) {
            let (target, values) = (self.source.columns()[*column].clone(), learnt.stats[*column].shown());
            if conditions.is_empty() {
                let reason =
                    format!("accept is missing: which values of {target:?} mean acceptance? It holds {values}");
                return Err(BuildError::Settings(reason));
            }
            return Err(BuildError::NothingAccepted { target, accept: any_of(conditions), values });
        }
        Ok(learnt)
    }

    fn schema(&self, learnt: &Learnt) -> Result<(Schema, Vec<LeftOut>), BuildError> {
        let mut features: Vec<Feature> = vec![];
        let mut left_out: Vec<LeftOut> = self.source.unusable().to_vec();
        let target = self.acceptance.target();
        for (place, name) in self.source.columns().iter().enumerate().filter(|(place, _)| Some(*place) != target) {
            let (stats, settings) = (&learnt.stats[place], &self.filled(place, &learnt.stats[place]));
            let levels = self.options.levels.or(self.settings.levels).unwrap_or_else(|| self.usual_levels());
            let scale = self.options.scale.or(self.settings.scale);
            let column = infer::Column { path: self.source.path(), name, stats, settings, levels, scale };
            match column.judge()? {
                Verdict::LeftOut(reason) => left_out.push(LeftOut { column: name.clone(), reason }),
                Verdict::Kept(kept) => {
                    let refused = settings.default.is_none() && self.missing(place) != Missing::Drop;
                    if let Some((at, count)) = stats.missing.filter(|_| refused) {
                        let reason = format!(
                            "the value is missing, as in {count} accepted rows of this column; add --missing drop, median \
                             or most-common, or give features.{name:?}.default or .missing in the schema file, or exclude the \
                             column"
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
        let schema = Schema::new(features)?;
        // The manifest would refuse it too, but only after somebody has counted every level.
        let levels: u64 = schema.ranges().iter().map(|&range| u64::from(range) + 1).sum();
        if levels > MAX_LEVELS as u64 {
            let reason = format!("{levels} levels in all features together; {MAX_LEVELS} are the most, so lower some");
            return Err(BuildError::Settings(reason));
        }
        Ok((schema, left_out))
    }

    /// What happens to missing values of a column.
    fn missing(&self, column: usize) -> Missing {
        let wanted = self.columns[column].missing.or(self.options.missing).or(self.settings.missing);
        wanted.unwrap_or(Missing::Refuse)
    }

    /// The settings of a column, with the value that stands for missing ones where values are missing.
    fn filled(&self, column: usize, stats: &ColumnStats) -> FeatureSettings {
        let mut settings = self.columns[column].clone();
        if settings.default.is_none() && stats.missing_anywhere {
            settings.default = match self.missing(column) {
                Missing::Median => stats.median().or_else(|| stats.most_common()),
                Missing::MostCommon => stats.most_common(),
                Missing::Drop | Missing::Refuse => None,
            }
            .map(Scalar::Text);
        }
        settings
    }

    /// A thousand levels a column, or fewer in tables so wide that a question would exceed a megabyte.
    fn usual_levels(&self) -> u32 {
        const LEVELS: usize = 1000;
        // Two tables of 40 bits for each level, at two servers.
        const LEVELS_OF_A_QUESTION: usize = 1_000_000 / 20;
        LEVELS.min(LEVELS_OF_A_QUESTION / self.columns.len().max(1)).max(10) as u32
    }

    /// The columns without whose value a row is left out, by their place in the data.
    fn incomplete(&self, schema: &Schema, learnt: &Learnt) -> Result<Vec<usize>, BuildError> {
        let places =
            schema.columns().into_iter().map(|column| find_column(self.source.columns(), column.name, "schema"));
        let places: Vec<usize> = places.collect::<Result<_, _>>()?;
        let drops = |place: &usize| {
            let missing = learnt.stats[*place].missing.is_some() && self.columns[*place].default.is_none();
            missing && self.missing(*place) == Missing::Drop
        };
        Ok(places.into_iter().filter(drops).collect())
    }

    /// How many accepted rows have all values that they need. Only then another pass is needed to count them.
    fn kept(&self, learnt: &Learnt, incomplete: &[usize], watch: Watch<'_>) -> Result<u64, BuildError> {
        if incomplete.is_empty() {
            return Ok(learnt.accepted);
        }
        let mut kept = 0;
        self.scan(Stage::Learning, watch, &mut |row, accepted| {
            kept += u64::from(accepted && self.is_complete(row, incomplete));
            Ok(())
        })?;
        match kept {
            0 => Err(BuildError::Settings(
                "every accepted row has a missing value somewhere; use --missing median or most-common, or exclude columns"
                    .into(),
            )),
            kept => Ok(kept),
        }
    }

    fn is_complete(&self, row: &Row<'_>, needed: &[usize]) -> bool {
        !needed.iter().any(|&place| is_missing(row.cells[place], &self.listed[place]))
    }

    fn encode(
        &self,
        schema: &Schema,
        learnt: &Learnt,
        incomplete: &[usize],
        kept: u64,
        staging: &Staging,
        watch: Watch<'_>,
    ) -> Result<EncodedRows, BuildError> {
        // Equal words are common, and reading one takes longer than finding it; so many are remembered per column.
        const REMEMBERED: usize = 1 << 16;
        let columns: Vec<(usize, Column<'_>)> = schema
            .columns()
            .into_iter()
            .map(|column| Ok((find_column(self.source.columns(), column.name, "schema")?, column)))
            .collect::<Result<_, BuildError>>()?;
        let text_length = format::record_length(columns.iter().map(|(place, _)| learnt.stats[*place].longest));
        // `learn` has compared the number with the largest M.
        let accepted = kept as usize;
        let rows_path = self.options.output.join(format::ROWS);
        let of_rows = |error| BuildError::of_rows(error, &rows_path);
        let mut rows = RowWriter::new(staging.file(format::ROWS)?, &schema.ranges(), accepted).map_err(of_rows)?;
        let mut records = staging.file(format::UNSIGNED)?;
        let mut histograms: Vec<Vec<u64>> = schema.ranges().iter().map(|&range| vec![0; range as usize + 1]).collect();
        let mut clamped = vec![0; schema.features().len()];
        let mut memory: Vec<ByText<Vec<Encoded>>> = vec![ByText::default(); columns.len()];
        let mut written = 0;
        self.scan(Stage::Encoding, watch, &mut |row, accepted| {
            if !accepted || !self.is_complete(row, incomplete) {
                return Ok(());
            }
            written += 1;
            let mut levels: Vec<Encoded> = Vec::with_capacity(schema.features().len());
            let mut texts: Vec<&str> = Vec::with_capacity(columns.len());
            for ((place, column), memory) in columns.iter().zip(&mut memory) {
                let text = if is_missing(row.cells[*place], &self.listed[*place]) { "" } else { row.cells[*place] };
                texts.push(text);
                let refuse = |error: SchemaError| self.cell(row.place, *place, error.to_string());
                if let Some(plain) = plain_numbers(schema, column) {
                    levels.push(plain.encode_text(text).map_err(refuse)?);
                } else if let Some(known) = memory.get(text) {
                    levels.extend(known);
                } else {
                    let before = levels.len();
                    schema.encode_column(column, &Value::from(text), &mut levels).map_err(refuse)?;
                    if memory.len() < REMEMBERED {
                        memory.insert(text, levels[before..].to_vec());
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
            }
            let levels: Vec<u16> = levels.iter().map(|encoded| encoded.level as u16).collect();
            rows.push(&levels).map_err(of_rows)?;
            let record = record::encode(&texts, text_length).map_err(|error| BuildError::Row {
                path: self.source.path().clone(),
                place: row.place,
                reason: error.to_string(),
            })?;
            records.write(&record)
        })?;
        if written != kept {
            let reason = "the file changed while it was being read; try again".into();
            return Err(BuildError::File { path: self.source.path().clone(), reason });
        }
        records.finish()?;
        Ok(EncodedRows { text_length, rows_file: rows.finish().map_err(of_rows)?.finish()?, histograms, clamped })
    }

    fn cell(&self, place: Place, column: usize, reason: String) -> BuildError {
        let column = self.source.columns()[column].clone();
        BuildError::Cell { path: self.source.path().clone(), place, column, reason }
    }
}

/// The feature of a column of plain numbers, which are read as fast as they are found.
fn plain_numbers<'a>(schema: &'a Schema, column: &Column<'_>) -> Option<&'a Feature> {
    let [feature] = &schema.features()[column.features.clone()] else { return None };
    matches!(feature.kind, Kind::Numeric { notation: Notation::Plain, .. }).then_some(feature)
}
