//! CSV files in UTF-8: quoted fields, LF or CRLF line ends, an optional byte order mark, and a
//! delimiter that is detected from the header.

use crate::error::{BuildError, FileLocation, counted};
use crate::input::file::Input;
use crate::input::source::{MAX_ROW_BYTES, RowVisitor, SourceRow, column_names, trimmed};
use csv::{ErrorKind, Reader, ReaderBuilder, StringRecord};
use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::rc::Rc;

pub(crate) struct CsvSource {
    pub(crate) input: Input,
    pub(crate) columns: Vec<String>,
    delimiter: u8,
    /// Correction of line numbers: 1 with CRLF line ends, otherwise 0. At the start of a record,
    /// the CSV reader has not yet counted the line feed after a carriage return.
    line_offset: u64,
}

impl CsvSource {
    pub(crate) fn open(input: Input, delimiter: Option<u8>) -> Result<CsvSource, BuildError> {
        let path = input.name().clone();
        let mut header = vec![];
        let mut first_line = BufReader::new(input.reader()?).take(MAX_ROW_BYTES);
        first_line.read_until(b'\n', &mut header).map_err(|source| BuildError::Io {
            action: "read",
            path: path.clone(),
            source,
        })?;
        let refuse = |reason: &str| Err(BuildError::File { path: path.clone(), reason: reason.into() });
        if header.starts_with(&[0xff, 0xfe]) || header.starts_with(&[0xfe, 0xff]) {
            return refuse("the file is UTF-16; save it as UTF-8");
        }
        if header.contains(&0) {
            return refuse("the file is neither CSV nor Parquet: its first line has zero bytes");
        }
        let line_offset = u64::from(header.ends_with(b"\r\n"));
        let mut source = CsvSource {
            input,
            columns: vec![],
            delimiter: delimiter.unwrap_or(detect_delimiter(&header)),
            line_offset,
        };
        let mut reader = source.reader(&Rc::new(Cell::new(MAX_ROW_BYTES)))?;
        let names = reader.headers().map_err(|error| source.explain(error))?.clone();
        if names.is_empty() {
            return refuse("the file is empty; the first line must name the columns");
        }
        source.columns = column_names(&path, names.iter().map(str::to_owned))?;
        Ok(source)
    }

    pub(crate) fn scan(&self, visit: RowVisitor<'_>) -> Result<(), BuildError> {
        let budget = Rc::new(Cell::new(MAX_ROW_BYTES));
        let mut reader = self.reader(&budget)?;
        let mut record = StringRecord::new();
        loop {
            budget.set(MAX_ROW_BYTES);
            // The position of the reader does not skip empty lines before a record; the position of
            // the record does.
            if !reader.read_record(&mut record).map_err(|error| self.explain(error))? {
                return Ok(());
            }
            let cells: Vec<&str> = record.iter().map(trimmed).collect();
            let line = record.position().map_or(0, csv::Position::line) + self.line_offset;
            visit(SourceRow { location: FileLocation::Line(line), cells: &cells, done: reader.position().byte() })?;
        }
    }

    fn reader(&self, budget: &Rc<Cell<u64>>) -> Result<Reader<Budgeted<'_>>, BuildError> {
        let file = Budgeted { inner: self.input.reader()?, budget: budget.clone() };
        let reader = ReaderBuilder::new().delimiter(self.delimiter).buffer_capacity(1 << 16).from_reader(file);
        Ok(reader)
    }

    fn explain(&self, error: csv::Error) -> BuildError {
        let path = self.input.name().clone();
        let location = FileLocation::Line(error.position().map_or(1, |position| position.line() + self.line_offset));
        match error.into_kind() {
            ErrorKind::Io(source) if source.kind() == io::ErrorKind::InvalidData => {
                BuildError::File { path, reason: source.to_string() }
            }
            ErrorKind::Io(source) => BuildError::Io { action: "read", path, source },
            ErrorKind::Utf8 { err, .. } => {
                let column = self.columns.get(err.field()).cloned().unwrap_or(format!("column {}", err.field() + 1));
                BuildError::Cell {
                    path,
                    location,
                    column,
                    reason: "the value is not UTF-8; save the file as UTF-8".into(),
                }
            }
            ErrorKind::UnequalLengths { expected_len, len, .. } => BuildError::Row {
                path,
                location,
                reason: format!(
                    "{} instead of {expected_len}; a delimiter or a quote may be missing",
                    counted(len, "field")
                ),
            },
            other => BuildError::Row { path, location, reason: format!("{other:?}") },
        }
    }
}

/// The delimiter that occurs most often in the header outside quotes; a comma if there is none.
fn detect_delimiter(header: &[u8]) -> u8 {
    let mut quoted = false;
    let mut counts = [(b',', 0), (b';', 0), (b'\t', 0), (b'|', 0)];
    for &byte in header {
        quoted ^= byte == b'"';
        if let Some((_, count)) = counts.iter_mut().find(|(delimiter, _)| !quoted && *delimiter == byte) {
            *count += 1;
        }
    }
    // `max_by_key` returns the last maximum: in reverse order, a tie goes to the first delimiter.
    counts.into_iter().rev().max_by_key(|(_, count)| *count).map_or(b',', |(delimiter, _)| delimiter)
}

/// A reader that fails when its byte budget is used up. The budget is reset for each row, so that
/// an endless field cannot fill the memory.
struct Budgeted<'a> {
    inner: &'a File,
    budget: Rc<Cell<u64>>,
}

impl Read for Budgeted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        let left = self.budget.get().checked_sub(count as u64);
        let reason = "a row is longer than 16 MiB; a closing quote may be missing";
        self.budget.set(left.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, reason))?);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delimiter_is_detected_from_the_header() {
        for (header, delimiter) in
            [("a,b,c", b','), ("a;b;c", b';'), ("a\tb", b'\t'), ("\"a,x,y\";b;c", b';'), ("a", b','), ("a|b|c,d", b'|')]
        {
            assert_eq!(detect_delimiter(header.as_bytes()), delimiter, "{header}");
        }
    }
}
