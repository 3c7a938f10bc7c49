//! Parquet without Arrow: flat columns of numbers, texts, truth values, dates.
//!
//! Columns are read a batch of rows at a time, each into one long text, and the rows are put
//! together from these.

use crate::build::report::ExcludedColumn;
use crate::error::{BuildError, FileLocation};
use crate::input::file::Input;
use crate::input::source::{RowVisitor, SourceRow, column_names, trimmed};
use parquet::basic::{ConvertedType, LogicalType, Repetition, TimeUnit};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use parquet::schema::types::{ColumnDescPtr, TypePtr};
use std::fmt::Write;
use std::fs::File;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

pub(crate) struct ParquetSource {
    pub(crate) input: Input,
    pub(crate) columns: Vec<String>,
    pub(crate) rows: u64,
    /// The rows of each row group.
    pub(crate) groups: Vec<u64>,
    /// Columns of lists or groups, which cannot be features.
    pub(crate) nested: Vec<ExcludedColumn>,
    /// Where the other columns are in the file.
    places: Vec<usize>,
}

impl ParquetSource {
    pub(crate) fn open(input: Input) -> Result<ParquetSource, BuildError> {
        let path = input.name().clone();
        guarded(&path, || {
            let reader = reader(&input)?;
            let metadata = reader.metadata().file_metadata();
            let fields = metadata.schema().get_fields();
            let name = |field: &TypePtr| field.name().to_owned();
            let columns = column_names(&path, fields.iter().filter(|field| is_flat(field)).map(name))?;
            let left_out =
                |field: &TypePtr| ExcludedColumn { column: name(field), reason: "it holds lists or groups".into() };
            let nested = fields.iter().filter(|field| !is_flat(field)).map(left_out).collect();
            let leaves = metadata.schema_descr().columns().iter().enumerate();
            let flat = |leaf: &ColumnDescPtr| leaf.path().parts().len() == 1 && leaf.max_rep_level() == 0;
            let places = leaves.filter(|(_, leaf)| flat(leaf)).map(|(place, _)| place).collect();
            let rows = metadata.num_rows().try_into().unwrap_or(0);
            let groups =
                reader.metadata().row_groups().iter().map(|group| u64::try_from(group.num_rows()).unwrap_or(0));
            let groups = groups.collect();
            Ok(ParquetSource { input, columns, rows, groups, nested, places })
        })
    }

    /// All rows, or those of some row groups.
    ///
    /// One thread decodes while this one looks at what was decoded: columns of numbers take as long
    /// to write as texts as CSV takes to cut.
    pub(crate) fn scan(&self, groups: Option<Range<usize>>, visit: RowVisitor<'_>) -> Result<(), BuildError> {
        // Enough that neither waits for the other's slow moments, so little that it all stays in
        // the caches.
        const AHEAD: usize = 4;
        let whole = groups.is_none();
        let groups = groups.unwrap_or(0..self.groups.len());
        let rows_of = |groups: Range<usize>| self.groups.get(groups).unwrap_or_default().iter().sum::<u64>();
        let first = rows_of(0..groups.start);
        let end = if whole { self.rows } else { first + rows_of(groups.clone()) };
        thread::scope(|scope| {
            let (decoded, batches) = sync_channel(AHEAD);
            scope.spawn(move || {
                let ended = guarded(self.input.name(), || self.decode(groups, first, &decoded));
                if let Err(error) = ended {
                    // Nobody listens where a row was refused already.
                    let _ = decoded.send(Err(error));
                }
            });
            let mut done = first;
            for batch in batches {
                let Batch { rows, columns } = batch?;
                let mut cells = Vec::with_capacity(columns.len());
                for row in 0..rows {
                    cells.clear();
                    cells.extend(columns.iter().map(|column| trimmed(column.get(row))));
                    done += 1;
                    visit(SourceRow { place: FileLocation::Row(done), cells: &cells, done })?;
                }
            }
            match done == end {
                true => Ok(()),
                false => Err(self.damaged(&format!("it has {done} rows instead of {end}"))),
            }
        })
    }

    /// Sends all rows of these groups, of which `done` rows come before, or stops where nobody
    /// wants more.
    fn decode(
        &self,
        groups: Range<usize>,
        mut done: u64,
        to: &SyncSender<Result<Batch, BuildError>>,
    ) -> Result<(), BuildError> {
        const BATCH: u64 = 256;
        let file = reader(&self.input)?;
        for number in groups {
            let group = file.get_row_group(number).map_err(|error| self.damaged(&error))?;
            let mut readers = vec![];
            for &place in &self.places {
                let reader = group.get_column_reader(place).map_err(|error| self.damaged(&error))?;
                readers.push((reader, group.metadata().column(place).column_descr_ptr()));
            }
            let end = done + u64::try_from(group.metadata().num_rows()).unwrap_or(0);
            while done < end {
                let rows = BATCH.min(end - done) as usize;
                let mut columns = Vec::with_capacity(readers.len());
                for ((reader, kind), name) in readers.iter_mut().zip(&self.columns) {
                    columns.push(Texts::read(reader, kind, rows).map_err(|(place, reason)| {
                        let (path, place) = (self.input.name().clone(), FileLocation::Row(done + 1 + place as u64));
                        BuildError::Cell { path, place, column: name.clone(), reason }
                    })?);
                }
                if to.send(Ok(Batch { rows, columns })).is_err() {
                    return Ok(());
                }
                done += rows as u64;
            }
        }
        Ok(())
    }

    fn damaged(&self, error: &dyn std::fmt::Display) -> BuildError {
        explain(self.input.name(), error)
    }
}

/// Some rows that follow each other.
struct Batch {
    rows: usize,
    columns: Vec<Texts>,
}

/// A column of a batch: its values as texts, one behind the other.
struct Texts {
    text: String,
    ends: Vec<usize>,
}

impl Texts {
    fn get(&self, row: usize) -> &str {
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        &self.text[start..self.ends[row]]
    }

    /// The next `count` values; an error says at which of them.
    fn read(reader: &mut ColumnReader, kind: &ColumnDescPtr, count: usize) -> Result<Texts, (usize, String)> {
        use ColumnReader as Column;
        let mut texts = Texts { text: String::with_capacity(8 * count), ends: Vec::with_capacity(count) };
        let mut to = Appender { kind, text: &mut texts.text, ends: &mut texts.ends, count };
        match reader {
            Column::BoolColumnReader(reader) => to.take(reader, |text, _, value| show(text, value)),
            Column::Int32ColumnReader(reader) => {
                to.take(reader, |text, kind, value| append(text, &Field::convert_int32(kind, value)))
            }
            Column::Int64ColumnReader(reader) => to.take(reader, int64),
            Column::Int96ColumnReader(reader) => {
                to.take(reader, |text, kind, value| append(text, &Field::convert_int96(kind, value)))
            }
            Column::FloatColumnReader(reader) => to.take(reader, |text, _, value| append(text, &Field::Float(value))),
            Column::DoubleColumnReader(reader) => to.take(reader, |text, _, value| double(text, value)),
            Column::ByteArrayColumnReader(reader) => to.take(reader, bytes),
            Column::FixedLenByteArrayColumnReader(reader) => {
                to.take(reader, |text, kind, value| bytes(text, kind, value.into()))
            }
        }?;
        Ok(texts)
    }
}

/// Where values go.
struct Appender<'a> {
    kind: &'a ColumnDescPtr,
    text: &'a mut String,
    ends: &'a mut Vec<usize>,
    count: usize,
}

/// Appends the text of a value, as CSV would have it; `None` for what has no such form.
type Append<V> = fn(&mut String, &ColumnDescPtr, V) -> Option<()>;

impl Appender<'_> {
    fn take<T: DataType>(
        &mut self,
        reader: &mut ColumnReaderImpl<T>,
        append: Append<T::T>,
    ) -> Result<(), (usize, String)> {
        let (mut values, mut levels) = (vec![], vec![]);
        let present = self.kind.max_def_level();
        let mut read = 0;
        while read < self.count {
            let levels = (present > 0).then_some(&mut levels);
            let (records, ..) = reader
                .read_records(self.count - read, levels, None, &mut values)
                .map_err(|error| (read, format!("cannot be read as Parquet: {error}")))?;
            if records == 0 {
                return Err((read, "cannot be read as Parquet: the column ends here, and others do not".into()));
            }
            read += records;
        }
        let mut values = values.into_iter();
        for place in 0..self.count {
            // Columns that may have nulls have a level for every row.
            if present == 0 || levels.get(place) == Some(&present) {
                let lacking = || (place, "cannot be read as Parquet: a value is lacking".into());
                let value = values.next().ok_or_else(lacking)?;
                append(self.text, self.kind, value)
                    .ok_or_else(|| (place, "this is neither a number nor a text".into()))?;
            }
            self.ends.push(self.text.len());
        }
        Ok(())
    }
}

fn reader(input: &Input) -> Result<SerializedFileReader<File>, BuildError> {
    SerializedFileReader::new(input.file()?).map_err(|error| explain(input.name(), &error))
}

/// A single value, not a list of them.
fn is_flat(field: &TypePtr) -> bool {
    field.is_primitive()
        && field.get_basic_info().has_repetition()
        && field.get_basic_info().repetition() != Repetition::REPEATED
}

fn explain(path: &Path, error: &dyn std::fmt::Display) -> BuildError {
    BuildError::File { path: path.into(), reason: format!("cannot be read as Parquet: {error}") }
}

/// The Parquet library panics on some damaged files (a date beyond all calendars, a column chunk
/// that contradicts its schema). For whoever gave the file that is a bad file, not a crash.
fn guarded<T>(path: &Path, read: impl FnOnce() -> Result<T, BuildError>) -> Result<T, BuildError> {
    // Nothing that the closure touches is used after a panic: the build ends with this error.
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| {
        Err(BuildError::File { path: path.into(), reason: "cannot be read as Parquet: the file is damaged".into() })
    })
}

fn int64(text: &mut String, kind: &ColumnDescPtr, value: i64) -> Option<()> {
    match kind.logical_type_ref() {
        // The library knows no nanoseconds, which pandas writes; nobody's birthday needs them.
        Some(LogicalType::Timestamp(time)) if time.unit == TimeUnit::NANOS => {
            append(text, &Field::TimestampMicros(value.div_euclid(1000)))
        }
        _ if matches!(kind.converted_type(), ConvertedType::NONE | ConvertedType::INT_64) => {
            text.push_str(itoa::Buffer::new().format(value));
            Some(())
        }
        _ => append(text, &Field::convert_int64(kind, value)),
    }
}

/// The shortest text that gives the same number back; 5 rather than 5.0. NaN is how some tools
/// write a missing value.
pub(crate) fn double(text: &mut String, number: f64) -> Option<()> {
    if number.is_nan() {
        return Some(());
    }
    let mut buffer = ryu::Buffer::new();
    let shown = buffer.format(number);
    // Exponents are for very large and very small numbers, and for infinite ones there are words.
    if shown.bytes().any(|byte| byte.is_ascii_alphabetic()) {
        return show(text, number);
    }
    text.push_str(shown.strip_suffix(".0").unwrap_or(shown));
    Some(())
}

fn bytes(text: &mut String, kind: &ColumnDescPtr, value: ByteArray) -> Option<()> {
    match kind.converted_type() {
        ConvertedType::UTF8 | ConvertedType::ENUM | ConvertedType::JSON => text.push_str(value.as_utf8().ok()?),
        _ => append(text, &Field::convert_byte_array(kind, value).ok()?)?,
    }
    Some(())
}

pub(crate) fn append(text: &mut String, field: &Field) -> Option<()> {
    match field {
        Field::Null => Some(()),
        Field::Str(word) => show(text, word),
        Field::Bytes(bytes) => show(text, bytes.as_utf8().ok()?),
        Field::Int(number) => show(text, number),
        // NaN is how some tools write a missing value.
        Field::Float16(number) if number.is_nan() => Some(()),
        Field::Float(number) if number.is_nan() => Some(()),
        Field::Float16(number) => show(text, number.to_f64()),
        Field::Float(number) => show(text, number),
        Field::Double(number) => double(text, *number),
        Field::TimestampMillis(_) | Field::TimestampMicros(_) => {
            let shown = field.to_string();
            let bare = shown.strip_suffix(" +00:00").unwrap_or(&shown);
            // The fraction always has digits behind a point, mostly zeros.
            show(text, bare.trim_end_matches('0').trim_end_matches('.'))
        }
        Field::Group(_) | Field::ListInternal(_) | Field::MapInternal(_) => None,
        other => show(text, other),
    }
}

pub(crate) fn show(text: &mut String, value: impl std::fmt::Display) -> Option<()> {
    write!(text, "{value}").ok()
}
