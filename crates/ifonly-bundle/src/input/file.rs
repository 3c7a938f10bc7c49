//! A data file as it was given: plain, compressed with gzip or Zstandard, or standard input.
//!
//! A build goes over its data twice, and Parquet begins at its end. So whatever cannot be read
//! again from any place is first unpacked into a temporary file, which has no name for others to
//! open and is gone with the process. What a file is, its first bytes say; names are not believed.

use crate::error::{BuildError, FileLocation};
use crate::input::source::{BuildProgress, BuildStage, ProgressCallback, TableSource, tell};
use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// A compressed file that grows beyond both of these is not unpacked further: so many bytes, and so
/// many times its size.
const UNPACKED: u64 = 64 << 20;
const GROWTH: u64 = 100;

/// Data that can be read again from its start.
#[derive(Debug)]
pub struct Input {
    name: PathBuf,
    file: File,
    bytes: u64,
    /// Whether it is a copy that is gone when this is: nobody can open it again.
    is_copy: bool,
}

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Packing {
    None,
    Gzip,
    Zstandard,
}

impl Input {
    /// Opens a file, or standard input for `-`. `progress` hears of what has to be unpacked.
    pub fn open(path: &Path, progress: &mut dyn FnMut(BuildProgress)) -> Result<Input, BuildError> {
        Input::open_watched(path, &mut |unpacked| {
            progress(unpacked);
            ControlFlow::Continue(())
        })
    }

    /// The same for somebody who may want no more.
    pub(crate) fn open_watched(path: &Path, watch: ProgressCallback<'_>) -> Result<Input, BuildError> {
        if path == Path::new("-") {
            return unpack("standard input".into(), io::stdin().lock(), 0, watch);
        }
        let io = |source| BuildError::Io { action: "read", path: path.into(), source };
        let mut file = File::open(path).map_err(io)?;
        let metadata = file.metadata().map_err(io)?;
        if !metadata.is_file() {
            return unpack(path.into(), file, 0, watch);
        }
        let packing = Packing::of(path, &start(&mut file).map_err(io)?)?;
        file.seek(SeekFrom::Start(0)).map_err(io)?;
        match packing {
            Packing::None => Ok(Input { name: path.into(), file, bytes: metadata.len(), is_copy: false }),
            _ => unpack(path.into(), file, metadata.len(), watch),
        }
    }

    /// What messages call it.
    pub fn name(&self) -> &PathBuf {
        &self.name
    }

    /// Its length, unpacked.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether it was unpacked, so that opening it again would unpack it again.
    pub(crate) fn is_copy(&self) -> bool {
        self.is_copy
    }

    fn begins_with(&self, magic: &[u8]) -> Result<bool, BuildError> {
        let mut found = vec![];
        self.reader()?.take(magic.len() as u64).read_to_end(&mut found).map_err(|source| self.io(source))?;
        Ok(found == magic)
    }

    /// The file itself, for what reads it from any place.
    pub(crate) fn file(&self) -> Result<File, BuildError> {
        self.file.try_clone().map_err(|source| self.io(source))
    }

    /// Reads it from its start. One reader at a time: they share their place in the file.
    pub(crate) fn reader(&self) -> Result<&File, BuildError> {
        let mut file = &self.file;
        file.seek(SeekFrom::Start(0)).map_err(|source| self.io(source))?;
        Ok(file)
    }

    /// All of it as text, unless it has more than `limit` bytes.
    pub fn text(&self, limit: u64) -> Result<String, BuildError> {
        let refuse = |reason: String| BuildError::File { path: self.name.clone(), reason };
        if self.bytes > limit {
            return Err(refuse(format!("{} bytes are too many here; {limit} is the most", self.bytes)));
        }
        let mut bytes = vec![];
        self.reader()?.take(limit).read_to_end(&mut bytes).map_err(|source| self.io(source))?;
        String::from_utf8(bytes).map_err(|_| refuse("this is not UTF-8; save it as UTF-8".into()))
    }

    /// Whether this is Parquet, which is no text.
    pub fn is_parquet(&self) -> Result<bool, BuildError> {
        let named = self.name.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("parquet"));
        Ok(named || self.begins_with(b"PAR1")?)
    }

    /// One row of the table, counted from 1: the names of the columns and the texts in them.
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
            // Whatever comes behind it does not matter; this ends the scan and goes no further.
            Err(source.at(row.place, "the row"))
        });
        match (found, scanned) {
            (Some(row), _) => Ok(row),
            (None, Err(error)) => Err(error),
            (None, Ok(())) => {
                Err(source.at(FileLocation::Row(number), &format!("there is no such row; the table has {count}")))
            }
        }
    }

    fn io(&self, source: io::Error) -> BuildError {
        BuildError::Io { action: "read", path: self.name.clone(), source }
    }
}

impl Packing {
    fn of(path: &Path, start: &[u8]) -> Result<Packing, BuildError> {
        let other = match start {
            [0x1f, 0x8b, ..] => return Ok(Packing::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => return Ok(Packing::Zstandard),
            [b'P', b'K', 3, 4, ..] => "a zip archive or a spreadsheet; unpack it, or save the table as CSV",
            [b'B', b'Z', b'h', ..] => "compressed with bzip2; unpack it first (bunzip2)",
            [0xfd, b'7', b'z', b'X', b'Z', ..] => "compressed with xz; unpack it first (unxz)",
            _ => return Ok(Packing::None),
        };
        Err(BuildError::File { path: path.into(), reason: format!("this is {other}") })
    }

    fn name(self) -> &'static str {
        match self {
            Packing::None => "plain data",
            Packing::Gzip => "gzip",
            Packing::Zstandard => "Zstandard",
        }
    }
}

/// The name of a table without the endings of its format: `loans` for `loans.csv.gz`.
pub(crate) fn stem(path: &Path) -> String {
    if path == Path::new("-") {
        return "table".into();
    }
    let packed = path.extension().is_some_and(|ending| ["gz", "zst"].iter().any(|known| ending == *known));
    let unpacked = if packed { Path::new(path.file_stem().unwrap_or_default()) } else { path };
    unpacked.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// As many bytes as the longest magic has, or fewer at the end.
fn start(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut start = vec![];
    from.by_ref().take(6).read_to_end(&mut start)?;
    Ok(start)
}

/// A copy that can be read again; `total` is the length of what is given, if it is known.
fn unpack(name: PathBuf, mut given: impl Read, total: u64, watch: ProgressCallback<'_>) -> Result<Input, BuildError> {
    let reading = |source| BuildError::Io { action: "read", path: name.clone(), source };
    let writing = |source| BuildError::Io { action: "write a temporary file in", path: std::env::temp_dir(), source };
    let start = start(&mut given).map_err(reading)?;
    let packing = Packing::of(&name, &start)?;
    let read = Rc::new(Cell::new(0));
    let counted = Counted { inner: start.chain(given), count: read.clone() };
    let mut unpacked: Box<dyn Read + '_> = match packing {
        Packing::None => Box::new(counted),
        // Several members in a row are one file, and so are several frames.
        Packing::Gzip => Box::new(flate2::read::MultiGzDecoder::new(io::BufReader::with_capacity(1 << 16, counted))),
        // The library refuses windows beyond 128 MiB.
        Packing::Zstandard => Box::new(zstd::Decoder::new(counted).map_err(reading)?),
    };
    let mut file = tempfile::tempfile().map_err(writing)?;
    let (mut buffer, mut bytes) = (vec![0; 1 << 16], 0);
    loop {
        let count = match unpacked.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if packing == Packing::None => return Err(reading(error)),
            Err(error) => {
                let reason = format!(
                    "cannot be unpacked as {}: {error}; it is cut off or damaged, so get it again",
                    packing.name()
                );
                return Err(BuildError::File { path: name, reason });
            }
        };
        bytes += count as u64;
        if packing != Packing::None && bytes > UNPACKED && bytes / GROWTH > read.get() {
            let reason = format!(
                "it unpacks to more than {GROWTH} times its size, which may be meant to fill the disk; if it is not, unpack \
                 it first and give that file"
            );
            return Err(BuildError::File { path: name, reason });
        }
        file.write_all(&buffer[..count]).map_err(writing)?;
        if total > 0 {
            tell(watch, BuildProgress { stage: BuildStage::Unpacking, done: read.get().min(total), total })?;
        }
    }
    drop(unpacked);
    Ok(Input { name, file, bytes, is_copy: true })
}

/// Counts what is read.
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
    fn tables_are_called_by_their_names_without_endings() {
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
