//! One data file: plain, compressed with gzip or Zstandard, or standard input.
//!
//! A build reads its data twice, and Parquet is read from its end. So input that cannot be read
//! again at any offset is first unpacked into a temporary file. This file has no name, so other
//! processes cannot open it, and it is removed with the process. The compression is detected from
//! the first bytes, not from the name.

use crate::error::{BuildError, FileLocation, counted};
use crate::input::source::{BuildProgress, BuildStage, ProgressCallback, TableSource, report_progress};
use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Decompression stops when the unpacked data exceeds both limits: this size in bytes ...
pub(crate) const MAX_UNPACKED: u64 = 64 << 20;
/// ... and this multiple of the compressed size.
pub(crate) const MAX_RATIO: u64 = 100;

/// Data that can be read several times from its start.
#[derive(Debug)]
pub struct Input {
    name: PathBuf,
    file: File,
    bytes: u64,
    /// Whether `file` is an unpacked temporary copy, which cannot be opened again by name.
    is_copy: bool,
}

/// The compression of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compression {
    None,
    Gzip,
    Zstandard,
}

impl Input {
    /// Opens a file, or standard input for `-`. `progress` is called while a file is unpacked.
    pub fn open(path: &Path, progress: &mut dyn FnMut(BuildProgress)) -> Result<Input, BuildError> {
        Input::open_with_callback(path, &mut |unpacked| {
            progress(unpacked);
            ControlFlow::Continue(())
        })
    }

    /// The same with a callback that may stop the build.
    pub(crate) fn open_with_callback(path: &Path, watch: ProgressCallback<'_>) -> Result<Input, BuildError> {
        if path == Path::new("-") {
            return unpack("standard input".into(), io::stdin().lock(), 0, watch);
        }
        let io = |source| BuildError::Io { action: "read", path: path.into(), source };
        let mut file = File::open(path).map_err(io)?;
        let metadata = file.metadata().map_err(io)?;
        if !metadata.is_file() {
            return unpack(path.into(), file, 0, watch);
        }
        let compression = Compression::of(path, &start(&mut file).map_err(io)?)?;
        file.seek(SeekFrom::Start(0)).map_err(io)?;
        match compression {
            Compression::None => Ok(Input { name: path.into(), file, bytes: metadata.len(), is_copy: false }),
            _ => unpack(path.into(), file, metadata.len(), watch),
        }
    }

    /// The name of the file in messages.
    pub fn name(&self) -> &PathBuf {
        &self.name
    }

    /// The length of the unpacked data.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether the data was unpacked, so that opening the file again would unpack it again.
    pub(crate) fn is_copy(&self) -> bool {
        self.is_copy
    }

    fn begins_with(&self, magic: &[u8]) -> Result<bool, BuildError> {
        let mut found = vec![];
        self.reader()?.take(magic.len() as u64).read_to_end(&mut found).map_err(|source| self.io(source))?;
        Ok(found == magic)
    }

    /// The file itself, for readers that seek.
    pub(crate) fn file(&self) -> Result<File, BuildError> {
        self.file.try_clone().map_err(|source| self.io(source))
    }

    /// A reader from the start of the data. Use one reader at a time: all share one file position.
    pub(crate) fn reader(&self) -> Result<&File, BuildError> {
        let mut file = &self.file;
        file.seek(SeekFrom::Start(0)).map_err(|source| self.io(source))?;
        Ok(file)
    }

    /// All data as text. Fails if there are more than `limit` bytes.
    pub fn text(&self, limit: u64) -> Result<String, BuildError> {
        let refuse = |reason: String| BuildError::File { path: self.name.clone(), reason };
        if self.bytes > limit {
            return Err(refuse(format!("the file has {} bytes, but the maximum is {limit}", self.bytes)));
        }
        let mut bytes = vec![];
        self.reader()?.take(limit).read_to_end(&mut bytes).map_err(|source| self.io(source))?;
        String::from_utf8(bytes).map_err(|_| refuse("the file is not UTF-8; save it as UTF-8".into()))
    }

    /// Whether this is a Parquet file.
    pub fn is_parquet(&self) -> Result<bool, BuildError> {
        let named = self.name.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("parquet"));
        Ok(named || self.begins_with(b"PAR1")?)
    }

    /// One row of the table, counted from 1, as pairs of column name and text.
    pub fn row(self, number: u64) -> Result<Vec<(String, String)>, BuildError> {
        let source = TableSource::of(self, None)?;
        let (mut count, mut found) = (0, None);
        let scanned = source.scan(None, &mut |row| {
            count += 1;
            if count < number {
                return Ok(());
            }
            let texts = row.cells.iter().map(|text| (*text).to_owned());
            found = Some(source.columns().iter().cloned().zip(texts).collect());
            // An error ends the scan early, so later rows are not read; it is discarded below.
            Err(source.at(row.location, "the row"))
        });
        match (found, scanned) {
            (Some(row), _) => Ok(row),
            (None, Err(error)) => Err(error),
            (None, Ok(())) => Err(source.at(
                FileLocation::Row(number),
                &format!("there is no such row; the table has {}", counted(count, "row")),
            )),
        }
    }

    fn io(&self, source: io::Error) -> BuildError {
        BuildError::Io { action: "read", path: self.name.clone(), source }
    }
}

impl Compression {
    fn of(path: &Path, start: &[u8]) -> Result<Compression, BuildError> {
        let unsupported = match start {
            [0x1f, 0x8b, ..] => return Ok(Compression::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => return Ok(Compression::Zstandard),
            [b'P', b'K', 3, 4, ..] => "a zip archive or a spreadsheet; unpack it, or save the table as CSV",
            [b'B', b'Z', b'h', ..] => "compressed with bzip2; unpack it first (bunzip2)",
            [0xfd, b'7', b'z', b'X', b'Z', ..] => "compressed with xz; unpack it first (unxz)",
            _ => return Ok(Compression::None),
        };
        Err(BuildError::File { path: path.into(), reason: format!("the file is {unsupported}") })
    }

    fn name(self) -> &'static str {
        match self {
            Compression::None => "plain data",
            Compression::Gzip => "gzip",
            Compression::Zstandard => "Zstandard",
        }
    }
}

/// The name of a table without the extensions of its format: `loans` for `loans.csv.gz`.
pub(crate) fn stem(path: &Path) -> String {
    if path == Path::new("-") {
        return "table".into();
    }
    let packed = path.extension().is_some_and(|extension| ["gz", "zst"].iter().any(|known| extension == *known));
    let unpacked = if packed { Path::new(path.file_stem().unwrap_or_default()) } else { path };
    unpacked.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// The first bytes, as many as the longest magic value, or fewer for a shorter file.
fn start(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut start = vec![];
    from.by_ref().take(6).read_to_end(&mut start)?;
    Ok(start)
}

/// Copies the input to a temporary file, unpacked. `total` is the length of the input; 0 if
/// unknown.
fn unpack(name: PathBuf, mut input: impl Read, total: u64, watch: ProgressCallback<'_>) -> Result<Input, BuildError> {
    let reading = |source| BuildError::Io { action: "read", path: name.clone(), source };
    let writing = |source| BuildError::Io { action: "write a temporary file in", path: std::env::temp_dir(), source };
    let start = start(&mut input).map_err(reading)?;
    let compression = Compression::of(&name, &start)?;
    let read = Rc::new(Cell::new(0));
    let counted = Counted { inner: start.chain(input), count: read.clone() };
    let mut unpacked: Box<dyn Read + '_> = match compression {
        Compression::None => Box::new(counted),
        // Concatenated gzip members are one file, as are concatenated Zstandard frames.
        Compression::Gzip => {
            Box::new(flate2::read::MultiGzDecoder::new(io::BufReader::with_capacity(1 << 16, counted)))
        }
        // Memory is bounded: the library refuses windows above 128 MiB.
        Compression::Zstandard => Box::new(zstd::Decoder::new(counted).map_err(reading)?),
    };
    let mut file = tempfile::tempfile().map_err(writing)?;
    let (mut buffer, mut bytes) = (vec![0; 1 << 16], 0);
    loop {
        let count = match unpacked.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if compression == Compression::None => return Err(reading(error)),
            Err(error) => {
                let reason = format!(
                    "cannot be unpacked as {}: {error}; the file is truncated or damaged, so copy it again",
                    compression.name()
                );
                return Err(BuildError::File { path: name, reason });
            }
        };
        bytes += count as u64;
        if compression != Compression::None && bytes > MAX_UNPACKED && bytes / MAX_RATIO > read.get() {
            let reason = format!(
                "it unpacks to more than {MAX_RATIO} times its size, so it may be a decompression bomb; if it is not, \
                 unpack it and give the unpacked file"
            );
            return Err(BuildError::File { path: name, reason });
        }
        file.write_all(&buffer[..count]).map_err(writing)?;
        if total > 0 {
            report_progress(watch, BuildProgress { stage: BuildStage::Unpacking, done: read.get().min(total), total })?;
        }
    }
    drop(unpacked);
    Ok(Input { name, file, bytes, is_copy: true })
}

/// Counts the bytes that are read.
struct Counted<R> {
    inner: R,
    count: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.count.set(self.count.get() + count as u64);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_table_is_its_file_name_without_extensions() {
        for (path, name) in [
            ("a/loans.csv", "loans"),
            ("loans.csv.gz", "loans"),
            ("loans.parquet.zst", "loans"),
            ("loans.2026.csv", "loans.2026"),
            ("loans", "loans"),
            ("-", "table"),
        ] {
            assert_eq!(stem(Path::new(path)), name);
        }
    }
}
