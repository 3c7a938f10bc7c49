//! Parquet through its row interface, without Arrow: flat columns of numbers, texts, truth values, dates.

use crate::error::{BuildError, Place};
use crate::source::{Row, Visit, column_names};
use parquet::basic::Repetition;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use parquet::record::reader::RowIter;
use parquet::schema::types::{Type, TypePtr};
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

pub(crate) struct ParquetSource {
    pub(crate) path: PathBuf,
    pub(crate) columns: Vec<String>,
    pub(crate) rows: u64,
    /// Columns of lists or groups, which cannot be features.
    pub(crate) nested: Vec<String>,
}

impl ParquetSource {
    pub(crate) fn open(path: &Path) -> Result<ParquetSource, BuildError> {
        guarded(path, || {
            let reader = reader(path)?;
            let metadata = reader.metadata().file_metadata();
            let fields = metadata.schema().get_fields();
            let name = |field: &TypePtr| field.name().to_owned();
            let columns = column_names(path, fields.iter().filter(|field| is_flat(field)).map(name))?;
            let nested = fields.iter().filter(|field| !is_flat(field)).map(name).collect();
            let rows = metadata.num_rows().try_into().unwrap_or(0);
            Ok(ParquetSource { path: path.into(), columns, rows, nested })
        })
    }

    pub(crate) fn scan(&self, visit: Visit<'_>) -> Result<(), BuildError> {
        guarded(&self.path, || {
            let reader = reader(&self.path)?;
            let rows = flat_rows(&reader).map_err(|error| explain(&self.path, &error))?;
            for (number, row) in (1..).zip(rows) {
                let place = Place::Row(number);
                let row = row.map_err(|error| {
                    let reason = format!("cannot be read as Parquet: {error}");
                    BuildError::Row { path: self.path.clone(), place, reason }
                })?;
                let mut texts = Vec::with_capacity(self.columns.len());
                for (column, field) in row.get_column_iter() {
                    let cell = |reason: &str| BuildError::Cell {
                        path: self.path.clone(),
                        place,
                        column: column.clone(),
                        reason: reason.into(),
                    };
                    texts.push(text(field).ok_or_else(|| cell("this is neither a number nor a text"))?);
                }
                let cells: Vec<&str> = texts.iter().map(|text| text.trim()).collect();
                if cells.len() != self.columns.len() {
                    let reason = format!("{} fields instead of {}", cells.len(), self.columns.len());
                    return Err(BuildError::Row { path: self.path.clone(), place, reason });
                }
                visit(Row { place, cells: &cells, done: number })?;
            }
            Ok(())
        })
    }
}

fn reader(path: &Path) -> Result<SerializedFileReader<File>, BuildError> {
    let file = File::open(path).map_err(|source| BuildError::Io { action: "read", path: path.into(), source })?;
    SerializedFileReader::new(file).map_err(|error| explain(path, &error))
}

/// A single value, not a list of them.
fn is_flat(field: &TypePtr) -> bool {
    field.is_primitive()
        && field.get_basic_info().has_repetition()
        && field.get_basic_info().repetition() != Repetition::REPEATED
}

/// The rows without their nested columns.
fn flat_rows(reader: &SerializedFileReader<File>) -> Result<RowIter<'_>, ParquetError> {
    let schema = reader.metadata().file_metadata().schema();
    let fields = schema.get_fields().iter().filter(|field| is_flat(field)).cloned().collect();
    reader.get_row_iter(Some(Type::group_type_builder(schema.name()).with_fields(fields).build()?))
}

fn explain(path: &Path, error: &ParquetError) -> BuildError {
    BuildError::File { path: path.into(), reason: format!("cannot be read as Parquet: {error}") }
}

/// The Parquet library panics on some damaged files (a date beyond all calendars, a column chunk that contradicts its
/// schema). For whoever gave the file that is a bad file, not a crash.
fn guarded<T>(path: &Path, read: impl FnOnce() -> Result<T, BuildError>) -> Result<T, BuildError> {
    // Nothing that the closure touches is used after a panic: the build ends with this error.
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| {
        Err(BuildError::File { path: path.into(), reason: "cannot be read as Parquet: the file is damaged".into() })
    })
}

/// The value as CSV would have it; `None` for what has no such form.
fn text(field: &Field) -> Option<String> {
    Some(match field {
        Field::Null => String::new(),
        Field::Str(text) => text.clone(),
        Field::Bytes(bytes) => String::from_utf8(bytes.data().to_vec()).ok()?,
        // NaN is how some tools write a missing value.
        Field::Float16(number) if number.is_nan() => String::new(),
        Field::Float(number) if number.is_nan() => String::new(),
        Field::Double(number) if number.is_nan() => String::new(),
        // The shortest text that gives the same number back; 5 rather than 5.0.
        Field::Float16(number) => number.to_f64().to_string(),
        Field::Float(number) => number.to_string(),
        Field::Double(number) => number.to_string(),
        Field::Group(_) | Field::ListInternal(_) | Field::MapInternal(_) => return None,
        other => other.to_string(),
    })
}
