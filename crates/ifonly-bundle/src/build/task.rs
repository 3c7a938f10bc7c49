//! The two passes over the data: collect statistics of the columns, then encode the accepted rows.
//!
//! [`BuildTask`] has everything that a worker needs for both passes over any part of the data. It
//! can be serialised and sent to another process. Both passes are deterministic: a part that is
//! processed again, by any worker, gives the same bytes.

use crate::build::accept::{Acceptance, TargetLeakDetector};
use crate::build::parts::{LevelCounts, PartFiles, REJECTED_LIMIT};
use crate::build::plan::EncodingPlan;
use crate::columns::schema_file::find_column;
use crate::columns::stats::{ColumnStats, Median, RowLocation, is_missing};
use crate::columns::table_stats::TableStats;
use crate::columns::text_map::TextMap;
use crate::error::BuildError;
#[cfg(feature = "arrow")]
use crate::input::arrow::ArrowTable;
#[cfg(feature = "arrow")]
use crate::input::source::TableSource;
use crate::input::source::{BuildStage, ProgressCallback, SourceRow};
use crate::input::table_set::{TablePart, TableSet};
use ifonly_values::record;
use ifonly_values::schema::{Column, EncodedValue, Feature, FeatureKind, Notation, Schema, SchemaError, Value};

/// Values repeat often, and a cache lookup is faster than parsing. Entries per column.
const MAX_CACHED: usize = 1 << 16;

/// The tables, the accept rule and the column settings of a build, as workers receive them.
#[derive(serde::Serialize, serde::Deserialize)]
pub struct BuildTask {
    pub(crate) tables: TableSet,
    pub(crate) acceptance: Acceptance,
    /// Per column, the words that the schema file lists; they never count as missing values.
    pub(crate) listed: Vec<Vec<String>>,
    /// Per column, whether its median may be needed.
    pub(crate) medians: Vec<Median>,
    /// Whether the second pass keeps the levels of some rejected rows, for the effects of masks.
    pub(crate) keeps_rejected: bool,
}

impl std::fmt::Debug for BuildTask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BuildTask({} files, {} columns)", self.tables.files().len(), self.listed.len())
    }
}

impl BuildTask {
    /// All rows as one part.
    pub fn all_rows(&self) -> TablePart {
        self.tables.all_rows()
    }

    /// All rows in consecutive parts, each of about this many bytes of the data files. CSV files
    /// are not divided; Parquet files are divided between row groups.
    pub fn parts(&self, bytes: u64) -> Vec<TablePart> {
        self.tables.parts(bytes)
    }

    /// The same task with other rows from memory, for a table that no process holds completely. The
    /// rows must have the columns of the original table.
    #[cfg(feature = "arrow")]
    pub fn with_rows(self, rows: ArrowTable) -> Result<BuildTask, BuildError> {
        Ok(BuildTask { tables: self.tables.with_rows(TableSource::Arrow(rows))?, ..self })
    }

    /// The first pass: collects the statistics of the columns over the rows of a part.
    pub fn collect_stats(&self, part: &TablePart, watch: ProgressCallback<'_>) -> Result<TableStats, BuildError> {
        let masked = matches!(self.acceptance, Acceptance::Mask(_));
        let leak_detectors = vec![TargetLeakDetector::default(); if masked { self.listed.len() } else { 0 }];
        let stats = self.medians.iter().map(|median| ColumnStats::new(*median)).collect();
        let mut table = TableStats { rows: 0, accepted: 0, stats, leak_detectors };
        self.scan(part, BuildStage::Learning, watch, &mut |location, row, accepted| {
            table.rows += 1;
            table.accepted += u64::from(accepted);
            for ((stats, cell), listed) in table.stats.iter_mut().zip(row.cells).zip(&self.listed) {
                stats.take(location, cell, accepted, listed);
            }
            table.leak_detectors.iter_mut().zip(row.cells).for_each(|(detector, cell)| detector.take(cell, accepted));
            Ok(())
        })?;
        Ok(table)
    }

    /// The second pass: writes the levels and the texts of the accepted rows of a part.
    pub fn encode(
        &self,
        plan: &EncodingPlan,
        part: &TablePart,
        files: &PartFiles,
        watch: ProgressCallback<'_>,
    ) -> Result<LevelCounts, BuildError> {
        let schema = &plan.schema;
        let columns = self.columns_of(schema)?;
        let mut to = files.create()?;
        let mut counts = LevelCounts::new(schema);
        let mut caches: Vec<TextMap<Vec<EncodedValue>>> = vec![TextMap::default(); columns.len()];
        self.scan(part, BuildStage::Encoding, watch, &mut |location, row, accepted| {
            counts.read += 1;
            counts.accepted += u64::from(accepted);
            if !self.is_complete(row, &plan.required) {
                return Ok(());
            }
            if !accepted {
                // Only grouping uses rejected rows, so one with an invalid value is left out.
                if let Some(levels) = self.rejected_levels(schema, &columns, row, &mut caches) {
                    counts.rejected += 1;
                    if self.keeps_rejected && counts.rejected_sample.len() < REJECTED_LIMIT {
                        counts.rejected_sample.push(levels.iter().map(|encoded| encoded.level as u16).collect());
                    }
                    to.push_rejected(&levels)?;
                }
                return Ok(());
            }
            let mut levels: Vec<EncodedValue> = Vec::with_capacity(schema.features().len());
            let mut texts: Vec<&str> = Vec::with_capacity(columns.len());
            for ((index, column), cache) in columns.iter().zip(&mut caches) {
                let text = if is_missing(row.cells[*index], &self.listed[*index]) { "" } else { row.cells[*index] };
                texts.push(text);
                let refuse = |error: SchemaError| self.cell(location, *index, error.to_string());
                if let Some(plain) = plain_numbers(schema, column) {
                    levels.push(plain.encode_text(text).map_err(refuse)?);
                } else if let Some(known) = cache.get(text) {
                    levels.extend(known);
                } else {
                    let before = levels.len();
                    schema.encode_column(column, &Value::from(text), &mut levels).map_err(refuse)?;
                    if cache.len() < MAX_CACHED {
                        cache.insert(text, levels[before..].to_vec());
                    }
                }
                if text.len() > record::MAX_TEXT {
                    let reason =
                        format!("the value is too long: {} bytes, but the maximum is {}", text.len(), record::MAX_TEXT);
                    return Err(self.cell(location, *index, reason));
                }
            }
            let record = record::encode(&texts, plan.text_length).map_err(|error| BuildError::Row {
                path: self.file(location),
                location: location.position,
                reason: error.to_string(),
            })?;
            counts.count(&levels);
            to.push(&levels, &record)
        })?;
        to.finish()?;
        Ok(counts)
    }

    fn rejected_levels(
        &self,
        schema: &Schema,
        columns: &[(usize, Column<'_>)],
        row: &SourceRow<'_>,
        caches: &mut [TextMap<Vec<EncodedValue>>],
    ) -> Option<Vec<EncodedValue>> {
        let mut levels = Vec::with_capacity(schema.features().len());
        for ((index, column), cache) in columns.iter().zip(caches) {
            let text = if is_missing(row.cells[*index], &self.listed[*index]) { "" } else { row.cells[*index] };
            if let Some(known) = cache.get(text) {
                levels.extend(known);
                continue;
            }
            let before = levels.len();
            schema.encode_column(column, &Value::from(text), &mut levels).ok()?;
            if cache.len() < MAX_CACHED {
                cache.insert(text, levels[before..].to_vec());
            }
        }
        Some(levels)
    }

    /// Calls `visit` with each row of a part and whether the row is accepted.
    fn scan(
        &self,
        part: &TablePart,
        stage: BuildStage,
        watch: ProgressCallback<'_>,
        visit: &mut dyn FnMut(RowLocation, &SourceRow<'_>, bool) -> Result<(), BuildError>,
    ) -> Result<(), BuildError> {
        let mut count = 0;
        self.tables.scan(part, stage, watch, &mut |location, row| {
            // The number within the part is the index in the mask: with a mask, the only part is
            // the whole table.
            let index = count;
            count += 1;
            visit(location, row, self.accepts(location, row, index)?)
        })
    }

    fn accepts(&self, location: RowLocation, row: &SourceRow<'_>, index: usize) -> Result<bool, BuildError> {
        let (column, conditions) = match &self.acceptance {
            Acceptance::AllRows => return Ok(true),
            // The length of the mask is checked after the first pass.
            Acceptance::Mask(mask) => return Ok(mask.rows.get(index) == Some(&true)),
            Acceptance::Target(column, conditions) => (column, conditions),
        };
        let value = row.cells[*column];
        // A target of "NA" is missing, unless a condition has exactly this value.
        if is_missing(value, &[]) && !conditions.iter().any(|condition| condition.has_value(value)) {
            return Err(self.cell(location, *column, "the target is missing, so it is not known whether the row was accepted; give it a value or remove the row".into()));
        }
        for condition in conditions {
            if condition.matches(value).map_err(|error| self.cell(location, *column, error.to_string()))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn is_complete(&self, row: &SourceRow<'_>, required: &[usize]) -> bool {
        let cells = |&index: &usize| row.cells.get(index).zip(self.listed.get(index));
        !required.iter().filter_map(cells).any(|(cell, listed)| is_missing(cell, listed))
    }

    /// The columns of a schema with their indices in the data.
    pub(crate) fn columns_of<'s>(&self, schema: &'s Schema) -> Result<Vec<(usize, Column<'s>)>, BuildError> {
        let find = |column: Column<'s>| Ok((find_column(self.tables.columns(), column.name, "schema")?, column));
        schema.columns().into_iter().map(find).collect()
    }

    /// An error about one value.
    pub(crate) fn cell(&self, location: RowLocation, column: usize, reason: String) -> BuildError {
        let column = self.tables.columns()[column].clone();
        BuildError::Cell { path: self.file(location), location: location.position, column, reason }
    }

    fn file(&self, location: RowLocation) -> std::path::PathBuf {
        self.tables.files().get(location.file).cloned().unwrap_or_default()
    }
}

/// The feature of a column of plain numbers. Parsing these is as fast as a cache lookup.
fn plain_numbers<'a>(schema: &'a Schema, column: &Column<'_>) -> Option<&'a Feature> {
    let [feature] = &schema.features()[column.features.clone()] else { return None };
    matches!(feature.kind, FeatureKind::Numeric { notation: Notation::Plain, .. }).then_some(feature)
}
