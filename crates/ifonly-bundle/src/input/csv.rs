//! CSV: quoted fields, LF or CRLF, a byte order mark or none, and the delimiter that the header
//! uses.

use crate::error::{BuildError, FileLocation};
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
    /// Lines that the CSV reader is behind where a record begins: it has not seen the line feed of
    /// a carriage return yet.
    behind: u64,
}

impl CsvSource {
    pub(crate) fn open(input: Input, delimiter: Option<u8>) -> Result<CsvSource, BuildError> {
        let path = input.name().clone();
        let mut header = vec![];
        let mut first = BufReader::new(input.reader()?).take(MAX_ROW_BYTES);
        first.read_until(b'\n', &mut header).map_err(|source| BuildError::Io {
            action: "read",
            path: path.clone(),
            source,
        })?;
        let refuse = |reason: &str| Err(BuildError::File { path: path.clone(), reason: reason.into() });
        if header.starts_with(&[0xff, 0xfe]) || header.starts_with(&[0xfe, 0xff]) {
            return refuse("this is UTF-16; save it as UTF-8");
        }
        if header.contains(&0) {
            return refuse("this is neither CSV nor Parquet: its first line has zero bytes");
        }
        let behind = u64::from(header.ends_with(b"\r\n"));
        let mut source = CsvSource { input, columns: vec![], delimiter: delimiter.unwrap_or(sniff(&header)), behind };
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
            // The position before a record counts empty lines that come first; the record knows its
            // own.
            if !reader.read_record(&mut record).map_err(|error| self.explain(error))? {
                return Ok(());
            }
            let cells: Vec<&str> = record.iter().map(trimmed).collect();
            let line = record.position().map_or(0, csv::Position::line) + self.behind;
            visit(SourceRow { place: FileLocation::Line(line), cells: &cells, done: reader.position().byte() })?;
        }
    }

    fn reader(&self, budget: &Rc<Cell<u64>>) -> Result<Reader<Budgeted<'_>>, BuildError> {
        let file = Budgeted { inner: self.input.reader()?, budget: budget.clone() };
        let reader = ReaderBuilder::new().delimiter(self.delimiter).buffer_capacity(1 << 16).from_reader(file);
        Ok(reader)
    }

    fn explain(&self, error: csv::Error) -> BuildError {
        let path = self.input.name().clone();
        let place = FileLocation::Line(error.position().map_or(1, |position| position.line() + self.behind));
        match error.into_kind() {
            ErrorKind::Io(source) if source.kind() == io::ErrorKind::InvalidData => {
                BuildError::File { path, reason: source.to_string() }
            }
            ErrorKind::Io(source) => BuildError::Io { action: "read", path, source },
            ErrorKind::Utf8 { err, .. } => {
                let column = self.columns.get(err.field()).cloned().unwrap_or(format!("column {}", err.field() + 1));
                BuildError::Cell { path, place, column, reason: "this is not UTF-8; save the file as UTF-8".into() }
            }
            ErrorKind::UnequalLengths { expected_len, len, .. } => BuildError::Row {
                path,
                place,
                reason: format!("{len} fields instead of {expected_len}; a delimiter or a quote may be missing"),
            },
            other => BuildError::Row { path, place, reason: format!("{other:?}") },
        }
    }
}

/// The delimiter that the header has most of, outside quotes; a comma when it has none.
fn sniff(header: &[u8]) -> u8 {
    let mut quoted = false;
    let mut counts = [(b',', 0), (b';', 0), (b'\t', 0), (b'|', 0)];
    for &byte in header {
        quoted ^= byte == b'"';
        if let Some((_, count)) = counts.iter_mut().find(|(delimiter, _)| !quoted && *delimiter == byte) {
            *count += 1;
        }
    }
    // The first of equals wins, so a tie goes to the comma.
    counts.into_iter().rev().max_by_key(|(_, count)| *count).map_or(b',', |(delimiter, _)| delimiter)
}

/// A reader that gives out so many bytes until somebody fills it up again: a field without end must
/// not fill the memory.
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
    fn the_header_tells_the_delimiter() {
        for (header, delimiter) in
            [("a,b,c", b','), ("a;b;c", b';'), ("a\tb", b'\t'), ("\"a,x,y\";b;c", b';'), ("a", b','), ("a|b|c,d", b'|')]
        {
            assert_eq!(sniff(header.as_bytes()), delimiter, "{header}");
        }
    }
}
