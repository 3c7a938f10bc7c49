//! Parquet files, read without Arrow: flat columns of numbers, texts, Booleans and dates. Columns
//! of lists or groups cannot be features.
//!
//! Columns are decoded in batches of rows. Each column of a batch becomes one string with the
//! offsets of its values, from which the rows are assembled.

use crate::build::report::ExcludedColumn;
use crate::error::{BuildError, FileLocation, counted};
use crate::input::file::{Input, MAX_RATIO, MAX_UNPACKED};
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

/// Maximum bytes of one value.
const MAX_CELL: usize = 1 << 20;
/// Maximum bytes of the texts of one batch, over all columns. A dictionary may repeat a long value
/// in every row, so the size of the file does not limit them.
const MAX_BATCH_TEXT: usize = 32 << 20;

pub(crate) struct ParquetSource {
    pub(crate) input: Input,
    pub(crate) columns: Vec<String>,
    pub(crate) rows: u64,
    /// The number of rows of each row group.
    pub(crate) groups: Vec<u64>,
    /// Columns of lists or groups, which cannot be features.
    pub(crate) nested: Vec<ExcludedColumn>,
    /// Indices of the other columns in the file.
    indices: Vec<usize>,
}

impl ParquetSource {
    pub(crate) fn open(input: Input) -> Result<ParquetSource, BuildError> {
        let path = input.name().clone();
        guarded(&path, || {
            let reader = reader(&input)?;
            check_expansion(&input, &reader)?;
            let metadata = reader.metadata().file_metadata();
            let fields = metadata.schema().get_fields();
            let name = |field: &TypePtr| field.name().to_owned();
            let columns = column_names(&path, fields.iter().filter(|field| is_flat(field)).map(name))?;
            let exclude =
                |field: &TypePtr| ExcludedColumn { column: name(field), reason: "it has lists or groups".into() };
            let nested = fields.iter().filter(|field| !is_flat(field)).map(exclude).collect();
            let leaves = metadata.schema_descr().columns().iter().enumerate();
            let flat = |leaf: &ColumnDescPtr| leaf.path().parts().len() == 1 && leaf.max_rep_level() == 0;
            let indices = leaves.filter(|(_, leaf)| flat(leaf)).map(|(index, _)| index).collect();
            let rows = metadata.num_rows().try_into().unwrap_or(0);
            let groups =
                reader.metadata().row_groups().iter().map(|group| u64::try_from(group.num_rows()).unwrap_or(0));
            let groups = groups.collect();
            Ok(ParquetSource { input, columns, rows, groups, nested, indices })
        })
    }

    /// Visits all rows, or the rows of some row groups.
    ///
    /// A second thread decodes while this thread visits the rows: the conversion of numbers to
    /// texts takes about as long as the parsing of CSV.
    pub(crate) fn scan(&self, groups: Option<Range<usize>>, visit: RowVisitor<'_>) -> Result<(), BuildError> {
        // Enough batches to even out variations in speed, few enough to stay in the CPU caches.
        const QUEUED_BATCHES: usize = 4;
        let all_groups = groups.is_none();
        let groups = groups.unwrap_or(0..self.groups.len());
        let rows_of = |groups: Range<usize>| self.groups.get(groups).unwrap_or_default().iter().sum::<u64>();
        let first = rows_of(0..groups.start);
        let end = if all_groups { self.rows } else { first + rows_of(groups.clone()) };
        thread::scope(|scope| {
            let (decoded, batches) = sync_channel(QUEUED_BATCHES);
            scope.spawn(move || {
                let result = guarded(self.input.name(), || self.decode(groups, first, &decoded));
                if let Err(error) = result {
                    // The receiver is gone if the visitor has already returned an error.
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
                    visit(SourceRow { location: FileLocation::Row(done), cells: &cells, done })?;
                }
            }
            if done == end {
                Ok(())
            } else {
                Err(self.damaged(&format!("it has {} instead of {end}", counted(done, "row"))))
            }
        })
    }

    /// Sends all rows of these groups; `done` rows come before them. Stops when the receiver is
    /// gone.
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
            for &index in &self.indices {
                let reader = group.get_column_reader(index).map_err(|error| self.damaged(&error))?;
                readers.push((reader, group.metadata().column(index).column_descr_ptr()));
            }
            let end = done + u64::try_from(group.metadata().num_rows()).unwrap_or(0);
            while done < end {
                let rows = BATCH.min(end - done) as usize;
                let mut columns = Vec::with_capacity(readers.len());
                let mut left = MAX_BATCH_TEXT;
                for ((reader, kind), name) in readers.iter_mut().zip(&self.columns) {
                    let texts = Texts::read(reader, kind, rows, left).map_err(|(index, reason)| {
                        let (path, location) = (self.input.name().clone(), FileLocation::Row(done + 1 + index as u64));
                        BuildError::Cell { path, location, column: name.clone(), reason }
                    })?;
                    left = left.saturating_sub(texts.text.len());
                    columns.push(texts);
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

/// Consecutive rows.
struct Batch {
    rows: usize,
    columns: Vec<Texts>,
}

/// A column of a batch: the concatenated texts of its values, and the offset of the end of each.
struct Texts {
    text: String,
    ends: Vec<usize>,
}

impl Texts {
    fn get(&self, row: usize) -> &str {
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        &self.text[start..self.ends[row]]
    }

    /// Reads the next `count` values, whose texts may have `limit` bytes together. An error has the
    /// index of the value among them.
    fn read(
        reader: &mut ColumnReader,
        kind: &ColumnDescPtr,
        count: usize,
        limit: usize,
    ) -> Result<Texts, (usize, String)> {
        use ColumnReader as Column;
        let mut texts = Texts { text: String::with_capacity(8 * count), ends: Vec::with_capacity(count) };
        let mut to = Appender { kind, text: &mut texts.text, ends: &mut texts.ends, count, limit };
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
            Column::ByteArrayColumnReader(reader) => to.take_long(reader, ByteArray::len, bytes),
            Column::FixedLenByteArrayColumnReader(reader) => {
                to.take_long(reader, |value| value.len(), |text, kind, value| bytes(text, kind, value.into()))
            }
        }?;
        Ok(texts)
    }
}

/// Target of the texts of one column of a batch.
struct Appender<'a> {
    kind: &'a ColumnDescPtr,
    text: &'a mut String,
    ends: &'a mut Vec<usize>,
    count: usize,
    limit: usize,
}

/// Appends the text of a value as in CSV; `None` if the value has no text.
type Append<V> = fn(&mut String, &ColumnDescPtr, V) -> Option<()>;

impl Appender<'_> {
    fn take<T: DataType>(
        &mut self,
        reader: &mut ColumnReaderImpl<T>,
        append: Append<T::T>,
    ) -> Result<(), (usize, String)> {
        self.take_long(reader, |_| 0, append)
    }

    /// Appends values whose length in bytes is checked before their text is made.
    fn take_long<T: DataType>(
        &mut self,
        reader: &mut ColumnReaderImpl<T>,
        length: fn(&T::T) -> usize,
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
                return Err((read, "cannot be read as Parquet: this column ends before the others".into()));
            }
            read += records;
        }
        let mut values = values.into_iter();
        for index in 0..self.count {
            // A nullable column has a definition level for every row.
            if present == 0 || levels.get(index) == Some(&present) {
                let no_value = || (index, "cannot be read as Parquet: the column has too few values".into());
                let value = values.next().ok_or_else(no_value)?;
                let bytes = length(&value);
                if bytes > MAX_CELL {
                    return Err((index, format!("the value has {bytes} bytes, but the maximum is {MAX_CELL}")));
                }
                if self.text.len() + bytes > self.limit {
                    let reason = format!(
                        "the values of {} rows have more than {MAX_BATCH_TEXT} bytes; remove columns of long texts",
                        self.count
                    );
                    return Err((index, reason));
                }
                append(self.text, self.kind, value)
                    .ok_or_else(|| (index, "the value is neither a number nor a text".into()))?;
            }
            self.ends.push(self.text.len());
        }
        Ok(())
    }
}

/// Refuses a file that unpacks to much more than its size, as for other compressed files.
fn check_expansion(input: &Input, reader: &SerializedFileReader<File>) -> Result<(), BuildError> {
    let columns = reader.metadata().row_groups().iter().flat_map(|group| group.columns());
    let sizes = columns.map(|column| u64::try_from(column.uncompressed_size()).unwrap_or(u64::MAX));
    let unpacked = sizes.fold(0, u64::saturating_add);
    if unpacked > MAX_UNPACKED && unpacked > input.bytes().saturating_mul(MAX_RATIO) {
        let reason =
            format!("it unpacks to more than {MAX_RATIO} times its size; convert it to CSV if this is intended");
        return Err(BuildError::File { path: input.name().clone(), reason });
    }
    Ok(())
}

fn reader(input: &Input) -> Result<SerializedFileReader<File>, BuildError> {
    SerializedFileReader::new(input.file()?).map_err(|error| explain(input.name(), &error))
}

/// Whether a field has one value per row, not a list or group.
fn is_flat(field: &TypePtr) -> bool {
    field.is_primitive()
        && field.get_basic_info().has_repetition()
        && field.get_basic_info().repetition() != Repetition::REPEATED
}

fn explain(path: &Path, error: &dyn std::fmt::Display) -> BuildError {
    BuildError::File { path: path.into(), reason: format!("cannot be read as Parquet: {error}") }
}

/// Turns panics into errors. The Parquet library panics on some damaged files, for example on a
/// date out of range, or on a column chunk that contradicts its schema.
fn guarded<T>(path: &Path, read: impl FnOnce() -> Result<T, BuildError>) -> Result<T, BuildError> {
    // Unwind safety: the build ends with this error, so nothing that the closure used is used
    // again.
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| {
        Err(BuildError::File { path: path.into(), reason: "cannot be read as Parquet: the file is damaged".into() })
    })
}

fn int64(text: &mut String, kind: &ColumnDescPtr, value: i64) -> Option<()> {
    match kind.logical_type_ref() {
        // pandas writes nanoseconds, which `Field` does not have; cut to microseconds.
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

/// Appends the shortest text that parses to the same number, without a final ".0". Appends nothing
/// for NaN, with which some tools write a missing value.
pub(crate) fn double(text: &mut String, number: f64) -> Option<()> {
    if number.is_nan() {
        return Some(());
    }
    let mut buffer = ryu::Buffer::new();
    let written = buffer.format(number);
    // Exponents and infinities are left to `Display`.
    if written.bytes().any(|byte| byte.is_ascii_alphabetic()) {
        return show(text, number);
    }
    text.push_str(written.strip_suffix(".0").unwrap_or(written));
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
        // Some tools write a missing value as NaN.
        Field::Float16(number) if number.is_nan() => Some(()),
        Field::Float(number) if number.is_nan() => Some(()),
        Field::Float16(number) => show(text, number.to_f64()),
        Field::Float(number) => show(text, number),
        Field::Double(number) => double(text, *number),
        Field::TimestampMillis(_) | Field::TimestampMicros(_) => {
            let written = field.to_string();
            let without_zone = written.strip_suffix(" +00:00").unwrap_or(&written);
            // The text always has a fraction, mostly zeros, so only zeros of the fraction are
            // trimmed.
            show(text, without_zone.trim_end_matches('0').trim_end_matches('.'))
        }
        Field::Group(_) | Field::ListInternal(_) | Field::MapInternal(_) => None,
        other => show(text, other),
    }
}

pub(crate) fn show(text: &mut String, value: impl std::fmt::Display) -> Option<()> {
    write!(text, "{value}").ok()
}
