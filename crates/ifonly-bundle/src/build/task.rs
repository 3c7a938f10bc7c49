//! The two passes over the data, over all of it or a part: learn what the columns are, then encode
//! the accepted rows.
//!
//! [`Work`] is what somebody needs to know for that, and nothing else. It travels between
//! processes, so a part can be read by whoever is free. A part that is worked on again, by anybody,
//! gives the same bytes.

use crate::build::accept::{Acceptance, TargetLeakDetector};
use crate::build::parts::{LevelCounts, PartFiles};
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

/// What has to be done with the rows of some tables.
#[derive(serde::Serialize, serde::Deserialize)]
pub struct BuildTask {
    pub(crate) tables: TableSet,
    pub(crate) acceptance: Acceptance,
    /// Per column the words that the schema file lists, which are never missing values.
    pub(crate) listed: Vec<Vec<String>>,
    /// Per column whether its median may be wanted.
    pub(crate) medians: Vec<Median>,
}

impl std::fmt::Debug for BuildTask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Work({} files, {} columns)", self.tables.files().len(), self.listed.len())
    }
}

impl BuildTask {
    /// All rows.
    pub fn whole(&self) -> TablePart {
        self.tables.whole()
    }

    /// All rows in parts of about so many bytes of their files, in order. CSV files are not cut,
    /// Parquet files between row groups.
    pub fn parts(&self, bytes: u64) -> Vec<TablePart> {
        self.tables.parts(bytes)
    }

    /// The same work with rows in memory: some of a table that nobody has to hold as a whole. It
    /// has the columns that the work was made with.
    #[cfg(feature = "arrow")]
    pub fn with_rows(self, rows: ArrowTable) -> Result<BuildTask, BuildError> {
        Ok(BuildTask { tables: self.tables.with_rows(TableSource::Arrow(rows))?, ..self })
    }

    /// The first pass: what the columns of some rows are.
    pub fn collect_stats(&self, part: &TablePart, watch: ProgressCallback<'_>) -> Result<TableStats, BuildError> {
        let masked = matches!(self.acceptance, Acceptance::Mask(_));
        let telltales = vec![TargetLeakDetector::default(); if masked { self.listed.len() } else { 0 }];
        let stats = self.medians.iter().map(|median| ColumnStats::new(*median)).collect();
        let mut learnt = TableStats { rows: 0, accepted: 0, stats, telltales };
        self.scan(part, BuildStage::Learning, watch, &mut |spot, row, accepted| {
            learnt.rows += 1;
            learnt.accepted += u64::from(accepted);
            for ((stats, cell), listed) in learnt.stats.iter_mut().zip(row.cells).zip(&self.listed) {
                stats.take(spot, cell, accepted, listed);
            }
            learnt.telltales.iter_mut().zip(row.cells).for_each(|(telltale, cell)| telltale.take(cell, accepted));
            Ok(())
        })?;
        Ok(learnt)
    }

    /// The second pass: the levels and the texts of the accepted rows among some.
    pub fn encode(
        &self,
        plan: &EncodingPlan,
        part: &TablePart,
        files: &PartFiles,
        watch: ProgressCallback<'_>,
    ) -> Result<LevelCounts, BuildError> {
        // Equal words are common, and reading one takes longer than finding it; so many are
        // remembered per column.
        const REMEMBERED: usize = 1 << 16;
        let schema = &plan.schema;
        let columns = self.columns_of(schema)?;
        let mut to = files.create()?;
        let mut tally = LevelCounts::new(schema);
        let mut memory: Vec<TextMap<Vec<EncodedValue>>> = vec![TextMap::default(); columns.len()];
        self.scan(part, BuildStage::Encoding, watch, &mut |spot, row, accepted| {
            tally.read += 1;
            tally.accepted += u64::from(accepted);
            if !accepted || !self.is_complete(row, &plan.incomplete) {
                return Ok(());
            }
            let mut levels: Vec<EncodedValue> = Vec::with_capacity(schema.features().len());
            let mut texts: Vec<&str> = Vec::with_capacity(columns.len());
            for ((place, column), memory) in columns.iter().zip(&mut memory) {
                let text = if is_missing(row.cells[*place], &self.listed[*place]) { "" } else { row.cells[*place] };
                texts.push(text);
                let refuse = |error: SchemaError| self.cell(spot, *place, error.to_string());
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
                    return Err(self.cell(spot, *place, reason));
                }
            }
            let record = record::encode(&texts, plan.text_length).map_err(|error| BuildError::Row {
                path: self.file(spot),
                place: spot.place,
                reason: error.to_string(),
            })?;
            tally.count(&levels);
            to.push(&levels, &record)
        })?;
        to.finish()?;
        Ok(tally)
    }

    /// Goes over the rows of a part and calls `visit` with each and whether it was accepted.
    fn scan(
        &self,
        part: &TablePart,
        stage: BuildStage,
        watch: ProgressCallback<'_>,
        visit: &mut dyn FnMut(RowLocation, &SourceRow<'_>, bool) -> Result<(), BuildError>,
    ) -> Result<(), BuildError> {
        let mut count = 0;
        self.tables.scan(part, stage, watch, &mut |spot, row| {
            // A mask is for all rows, and only who has all rows has one.
            let place = count;
            count += 1;
            visit(spot, row, self.accepts(spot, row, place)?)
        })
    }

    fn accepts(&self, spot: RowLocation, row: &SourceRow<'_>, place: usize) -> Result<bool, BuildError> {
        let (column, conditions) = match &self.acceptance {
            Acceptance::Everybody => return Ok(true),
            // Whether it has as many values as there are rows is seen at the end.
            Acceptance::Mask(mask) => return Ok(mask.rows.get(place) == Some(&true)),
            Acceptance::Target(column, conditions) => (column, conditions),
        };
        let value = row.cells[*column];
        // A target of "NA" is missing, unless somebody asks for just that.
        if is_missing(value, &[]) && !conditions.iter().any(|condition| condition.names(value)) {
            return Err(self.cell(spot, *column, "the target is missing, so nobody knows who was accepted".into()));
        }
        for condition in conditions {
            if condition.matches(value).map_err(|reason| self.cell(spot, *column, reason))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn is_complete(&self, row: &SourceRow<'_>, needed: &[usize]) -> bool {
        let cells = |&place: &usize| row.cells.get(place).zip(self.listed.get(place));
        !needed.iter().filter_map(cells).any(|(cell, listed)| is_missing(cell, listed))
    }

    /// The columns of a schema with their places in the data.
    pub(crate) fn columns_of<'s>(&self, schema: &'s Schema) -> Result<Vec<(usize, Column<'s>)>, BuildError> {
        let find = |column: Column<'s>| Ok((find_column(self.tables.columns(), column.name, "schema")?, column));
        schema.columns().into_iter().map(find).collect()
    }

    /// What is wrong with a value.
    pub(crate) fn cell(&self, spot: RowLocation, column: usize, reason: String) -> BuildError {
        let column = self.tables.columns()[column].clone();
        BuildError::Cell { path: self.file(spot), place: spot.place, column, reason }
    }

    fn file(&self, spot: RowLocation) -> std::path::PathBuf {
        self.tables.files().get(spot.file).cloned().unwrap_or_default()
    }
}

/// The feature of a column of plain numbers, which are read as fast as they are found.
fn plain_numbers<'a>(schema: &'a Schema, column: &Column<'_>) -> Option<&'a Feature> {
    let [feature] = &schema.features()[column.features.clone()] else { return None };
    matches!(feature.kind, FeatureKind::Numeric { notation: Notation::Plain, .. }).then_some(feature)
}
