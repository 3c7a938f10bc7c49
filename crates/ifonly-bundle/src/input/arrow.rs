//! Arrow tables in memory, for example from data frames.
//!
//! Every value is converted to the text that it would have in a Parquet file. So the same code
//! infers the schema, and a data frame and its Parquet file give the same bundle.

use crate::build::report::ExcludedColumn;
use crate::error::{BuildError, FileLocation};
use crate::input::parquet::{append, double, show};
use crate::input::source::{RowVisitor, SourceRow, column_names, trimmed};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Date64Type, Decimal128Type, Float16Type, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Schema, TimeUnit};
use parquet::record::Field;
use std::path::PathBuf;

/// An Arrow table in memory.
#[derive(Clone, Debug)]
pub struct ArrowTable {
    /// The name of the table in messages.
    pub(crate) name: PathBuf,
    pub(crate) columns: Vec<String>,
    /// Columns that cannot be features.
    pub(crate) unusable: Vec<ExcludedColumn>,
    /// Indices of the other columns.
    indices: Vec<usize>,
    /// Whether each of these columns is Boolean.
    booleans: Vec<bool>,
    /// Whether each of these columns has numbers with fractions.
    fractions: Vec<bool>,
    batches: Vec<RecordBatch>,
    /// Rows of the larger table before the first row, if this is a part of one.
    row_offset: u64,
}

impl ArrowTable {
    /// A table from batches that all have this schema. Messages call it `name`.
    pub fn new(name: &str, schema: &Schema, batches: Vec<RecordBatch>) -> Result<ArrowTable, BuildError> {
        let name = PathBuf::from(name);
        let (usable, others): (Vec<_>, Vec<_>) =
            schema.fields().iter().enumerate().partition(|(_, field)| is_usable(field.data_type()));
        let columns = column_names(&name, usable.iter().map(|(_, field)| field.name().clone()))?;
        let unusable = others.into_iter().map(|(_, field)| ExcludedColumn {
            column: field.name().clone(),
            reason: if field.data_type().is_nested() {
                "it has lists or groups".into()
            } else {
                format!(
                    "its Arrow type is {}; only numbers, texts, dates and Booleans are supported",
                    field.data_type()
                )
            },
        });
        let unusable = unusable.collect();
        let indices: Vec<usize> = usable.into_iter().map(|(index, _)| index).collect();
        let fits = |batch: &RecordBatch| {
            let type_of = |index: usize| batch.columns().get(index).map(|column| column.data_type());
            indices.iter().all(|&index| type_of(index) == Some(schema.field(index).data_type()))
        };
        if !batches.iter().all(fits) {
            let reason = "the columns of its record batches do not match its schema".into();
            return Err(BuildError::File { path: name, reason });
        }
        let booleans = indices.iter().map(|&index| *schema.field(index).data_type() == DataType::Boolean).collect();
        let is_fraction = |&index: &usize| {
            let kind = schema.field(index).data_type();
            kind.is_floating() || matches!(kind, DataType::Decimal128(..) | DataType::Decimal256(..))
        };
        let fractions = indices.iter().map(is_fraction).collect();
        Ok(ArrowTable { name, columns, unusable, indices, booleans, fractions, batches, row_offset: 0 })
    }

    /// The same rows as a part of a larger table, of which `rows` come before. Messages count rows
    /// from the start of the larger table.
    pub fn with_row_offset(self, rows: u64) -> ArrowTable {
        ArrowTable { row_offset: rows, ..self }
    }

    /// The number of rows.
    pub fn rows(&self) -> u64 {
        self.batches.iter().map(|batch| batch.num_rows() as u64).sum()
    }

    /// The names of the columns that can be features.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Whether a column is Boolean.
    pub fn is_boolean(&self, column: &str) -> bool {
        self.columns.iter().zip(&self.booleans).any(|(name, is_boolean)| name == column && *is_boolean)
    }

    /// Whether each of [`columns`](ArrowTable::columns) has numbers with fractions.
    pub fn fractions(&self) -> &[bool] {
        &self.fractions
    }

    /// All rows as texts, in the order of [`columns`](ArrowTable::columns). Missing values are
    /// empty.
    pub fn texts(&self) -> Result<Vec<Vec<String>>, BuildError> {
        let mut rows = vec![];
        self.scan(&mut |row| {
            rows.push(row.cells.iter().map(|cell| (*cell).to_owned()).collect());
            Ok(())
        })?;
        Ok(rows)
    }

    pub(crate) fn scan(&self, visit: RowVisitor<'_>) -> Result<(), BuildError> {
        let mut done = 0;
        let (mut text, mut ends) = (String::new(), Vec::with_capacity(self.columns.len()));
        for batch in &self.batches {
            for row in 0..batch.num_rows() {
                done += 1;
                let location = FileLocation::Row(self.row_offset + done);
                text.clear();
                ends.clear();
                for (&index, name) in self.indices.iter().zip(&self.columns) {
                    write(&mut text, batch.column(index), row).map_err(|reason| BuildError::Cell {
                        path: self.name.clone(),
                        location,
                        column: name.clone(),
                        reason: reason.into(),
                    })?;
                    ends.push(text.len());
                }
                let starts = std::iter::once(&0).chain(&ends);
                let cells: Vec<&str> = starts.zip(&ends).map(|(&start, &end)| trimmed(&text[start..end])).collect();
                visit(SourceRow { location, cells: &cells, done })?;
            }
        }
        Ok(())
    }
}

fn is_usable(data_type: &DataType) -> bool {
    use DataType as Type;
    match data_type {
        Type::Dictionary(_, values) => is_usable(values),
        Type::Null | Type::Boolean | Type::Utf8 | Type::LargeUtf8 | Type::Utf8View => true,
        Type::Decimal128(_, scale) => (0..=38).contains(scale),
        Type::Date32 | Type::Date64 | Type::Timestamp(..) => true,
        other => other.is_integer() || matches!(other, Type::Float16 | Type::Float32 | Type::Float64),
    }
}

/// Appends the text of a value. Appends nothing for a null.
fn write(text: &mut String, array: &dyn Array, row: usize) -> Result<(), &'static str> {
    use DataType as Type;
    if array.is_null(row) {
        return Ok(());
    }
    let written = match array.data_type() {
        Type::Boolean => show(text, array.as_boolean().value(row)),
        Type::Int8 => integer(text, value::<Int8Type>(array, row)),
        Type::Int16 => integer(text, value::<Int16Type>(array, row)),
        Type::Int32 => integer(text, value::<Int32Type>(array, row)),
        Type::Int64 => integer(text, value::<Int64Type>(array, row)),
        Type::UInt8 => integer(text, value::<UInt8Type>(array, row)),
        Type::UInt16 => integer(text, value::<UInt16Type>(array, row)),
        Type::UInt32 => integer(text, value::<UInt32Type>(array, row)),
        Type::UInt64 => integer(text, value::<UInt64Type>(array, row)),
        Type::Float16 => append(text, &Field::Float16(value::<Float16Type>(array, row))),
        Type::Float32 => append(text, &Field::Float(value::<Float32Type>(array, row))),
        Type::Float64 => double(text, value::<Float64Type>(array, row)),
        Type::Decimal128(_, scale) => decimal(text, value::<Decimal128Type>(array, row), *scale as usize),
        Type::Utf8 => show(text, array.as_string::<i32>().value(row)),
        Type::LargeUtf8 => show(text, array.as_string::<i64>().value(row)),
        Type::Utf8View => show(text, array.as_string_view().value(row)),
        Type::Date32 => return date(text, value::<Date32Type>(array, row).into()),
        Type::Date64 => return date(text, value::<Date64Type>(array, row).div_euclid(86_400_000)),
        Type::Timestamp(unit, _) => {
            let micros = match unit {
                TimeUnit::Second => value::<TimestampSecondType>(array, row).checked_mul(1_000_000),
                TimeUnit::Millisecond => value::<TimestampMillisecondType>(array, row).checked_mul(1000),
                TimeUnit::Microsecond => Some(value::<TimestampMicrosecondType>(array, row)),
                // Cut to microseconds, as for Parquet.
                TimeUnit::Nanosecond => Some(value::<TimestampNanosecondType>(array, row).div_euclid(1000)),
            };
            return timestamp(text, micros);
        }
        Type::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            let key = key(dictionary.keys(), row).filter(|&key| key < dictionary.values().len());
            return write(
                text,
                dictionary.values(),
                key.ok_or("the dictionary of the column has no entry for this value")?,
            );
        }
        // A column without values.
        Type::Null => Some(()),
        _ => None,
    };
    written.ok_or("the value is neither a number nor a text")
}

/// The index of the dictionary entry of a row.
fn key(keys: &dyn Array, row: usize) -> Option<usize> {
    use DataType as Type;
    match keys.data_type() {
        Type::Int8 => value::<Int8Type>(keys, row).try_into().ok(),
        Type::Int16 => value::<Int16Type>(keys, row).try_into().ok(),
        Type::Int32 => value::<Int32Type>(keys, row).try_into().ok(),
        Type::Int64 => value::<Int64Type>(keys, row).try_into().ok(),
        Type::UInt8 => Some(value::<UInt8Type>(keys, row).into()),
        Type::UInt16 => Some(value::<UInt16Type>(keys, row).into()),
        Type::UInt32 => value::<UInt32Type>(keys, row).try_into().ok(),
        Type::UInt64 => value::<UInt64Type>(keys, row).try_into().ok(),
        _ => None,
    }
}

fn value<T: ArrowPrimitiveType>(array: &dyn Array, row: usize) -> T::Native {
    array.as_primitive::<T>().value(row)
}

fn integer(text: &mut String, number: impl itoa::Integer) -> Option<()> {
    text.push_str(itoa::Buffer::new().format(number));
    Some(())
}

/// Appends a decimal with all digits of its scale, as for Parquet.
fn decimal(text: &mut String, units: i128, scale: usize) -> Option<()> {
    let digits = format!("{:0>width$}", units.unsigned_abs(), width = scale + 1);
    let (integer, fraction) = digits.split_at(digits.len() - scale);
    let (sign, point) = (if units < 0 { "-" } else { "" }, if scale > 0 { "." } else { "" });
    show(text, format_args!("{sign}{integer}{point}{fraction}"))
}

/// Largest supported distance from 1970, in days. The library that formats dates panics somewhat
/// beyond it.
const MAX_DAYS: i64 = 95_000_000;
const OUT_OF_RANGE: &str = "the date is out of range";

fn date(text: &mut String, days: i64) -> Result<(), &'static str> {
    let days = i32::try_from(days).ok().filter(|days| i64::from(*days).abs() <= MAX_DAYS);
    append(text, &Field::Date(days.ok_or(OUT_OF_RANGE)?)).ok_or(OUT_OF_RANGE)
}

fn timestamp(text: &mut String, micros: Option<i64>) -> Result<(), &'static str> {
    let micros = micros.filter(|micros| micros.unsigned_abs() <= MAX_DAYS as u64 * 86_400_000_000);
    append(text, &Field::TimestampMicros(micros.ok_or(OUT_OF_RANGE)?)).ok_or(OUT_OF_RANGE)
}
