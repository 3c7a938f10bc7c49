//! The intermediate files of a build: the encoded rows of one part of the data.
//!
//! All workers share one directory. Part n has up to four files there:
//!
//! - `part-n.rejected`: the levels of its rejected rows, in the same form, for grouping
//! - `part-n.levels`: the levels of its accepted rows, row by row, two bytes each, little-endian
//! - `part-n.texts`: their records without signatures
//! - `part-n.records`: their records with signatures, if a worker has signed them
//!
//! Each file is written under a temporary name and then renamed, so a file under its final name is
//! complete. A worker that repeats a part replaces its files by the same bytes.

use crate::build::sign::signed;
use crate::error::BuildError;
use crate::input::source::{BuildProgress, BuildStage, ProgressCallback, report_progress};
use ifonly_core::signature::{SIGNATURE_LENGTH, SignatureContext, SigningKey};
use ifonly_values::schema::{EncodedValue, Schema};
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// The paths of the files of one part.
#[derive(Clone, Debug)]
pub struct PartFiles {
    directory: PathBuf,
    number: usize,
}

impl PartFiles {
    /// The files of the part with this number.
    pub fn new(directory: &Path, number: usize) -> PartFiles {
        PartFiles { directory: directory.into(), number }
    }

    fn path(&self, extension: &str) -> PathBuf {
        self.directory.join(format!("part-{}.{extension}", self.number))
    }

    pub(crate) fn create(&self) -> Result<EncodedPart, BuildError> {
        Ok(EncodedPart {
            levels: self.writer("levels")?,
            rejected: self.writer("rejected")?,
            texts: self.writer("texts")?,
            row: vec![],
        })
    }

    fn writer(&self, extension: &str) -> Result<PartWriter, BuildError> {
        let path = self.path(extension);
        // A unique name for each attempt; only the owner can read a temporary file.
        let new = tempfile::Builder::new().prefix(".part-").tempfile_in(&self.directory);
        let file = BufWriter::with_capacity(1 << 16, new.map_err(|source| io_error("create", &path, source))?);
        Ok(PartWriter { file, path })
    }

    /// Opens a file that must have exactly this length.
    fn reader(&self, extension: &str, bytes: u64) -> Result<PartReader, BuildError> {
        let path = self.path(extension);
        let file = File::open(&path).map_err(|source| io_error("read", &path, source))?;
        let have = file.metadata().map_err(|source| io_error("read", &path, source))?.len();
        if have != bytes {
            let reason =
                format!("it has {have} bytes instead of {bytes} because it was changed during the build; build again");
            return Err(BuildError::File { path, reason });
        }
        Ok(PartReader { file: BufReader::with_capacity(1 << 16, file), path })
    }

    /// A reader of the levels of the part, which has this number of rows.
    pub(crate) fn levels(&self, rows: u64, features: usize) -> Result<LevelReader, BuildError> {
        self.level_reader("levels", rows, features)
    }

    /// A reader of the levels of the rejected rows of the part.
    pub(crate) fn rejected(&self, rows: u64, features: usize) -> Result<LevelReader, BuildError> {
        self.level_reader("rejected", rows, features)
    }

    fn level_reader(&self, extension: &str, rows: u64, features: usize) -> Result<LevelReader, BuildError> {
        let file = self.reader(extension, rows * 2 * features as u64)?;
        Ok(LevelReader { file, left: rows, bytes: vec![0; 2 * features], levels: vec![0; features] })
    }

    /// Signs the records of the part and writes them to `part-n.records`.
    pub fn sign(&self, signing: &SigningJob<'_>, rows: u64, watch: ProgressCallback<'_>) -> Result<(), BuildError> {
        let mut to = self.writer("records")?;
        let mut done = 0;
        self.sign_into(signing, rows, &mut |records| {
            report_progress(watch, BuildProgress { stage: BuildStage::Signing, done, total: rows })?;
            done += (records.len() / (signing.text_length + SIGNATURE_LENGTH)) as u64;
            to.write(records)
        })?;
        report_progress(watch, BuildProgress { stage: BuildStage::Signing, done: rows, total: rows })?;
        to.finish()
    }

    /// Signs the records of the part and passes them to `to` in batches.
    pub(crate) fn sign_into(
        &self,
        signing: &SigningJob<'_>,
        rows: u64,
        to: &mut dyn FnMut(&[u8]) -> Result<(), BuildError>,
    ) -> Result<(), BuildError> {
        const BATCH: u64 = 1 << 12;
        let length = signing.text_length;
        let mut texts = self.reader("texts", rows * length as u64)?;
        let mut batch = vec![0; BATCH.min(rows) as usize * length];
        for first in (0..rows).step_by(BATCH as usize) {
            let batch = &mut batch[..BATCH.min(rows - first) as usize * length];
            texts.read(batch)?;
            to(&signed(signing.key, &signing.context, batch, length))?;
        }
        Ok(())
    }

    /// Passes the signed records of the part, each of `length` bytes, to `to` in batches.
    pub(crate) fn records_into(
        &self,
        rows: u64,
        length: usize,
        to: &mut dyn FnMut(&[u8]) -> Result<(), BuildError>,
    ) -> Result<(), BuildError> {
        const BATCH: u64 = 1 << 12;
        let mut records = self.reader("records", rows * length as u64)?;
        let mut batch = vec![0; BATCH.min(rows) as usize * length];
        for first in (0..rows).step_by(BATCH as usize) {
            let batch = &mut batch[..BATCH.min(rows - first) as usize * length];
            records.read(batch)?;
            to(batch)?;
        }
        Ok(())
    }

    /// Whether a worker has signed the records of the part.
    pub(crate) fn is_signed(&self) -> bool {
        self.path("records").exists()
    }

    /// Removes the files to free disk space. Errors are ignored: the directory is removed later.
    pub(crate) fn remove(&self) {
        for extension in ["levels", "rejected", "texts", "records"] {
            let _ = fs::remove_file(self.path(extension));
        }
    }
}

/// The key, the signature context and the record length with which a part is signed.
#[derive(Debug)]
pub struct SigningJob<'a> {
    pub(crate) key: &'a SigningKey,
    pub(crate) context: SignatureContext,
    pub(crate) text_length: usize,
}

/// The counts of the second pass over some rows: rows read and encoded, and rows per level.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct LevelCounts {
    pub(crate) read: u64,
    pub(crate) accepted: u64,
    /// Accepted rows without a missing value that would drop them.
    pub(crate) kept: u64,
    /// Rejected rows that could be encoded.
    pub(crate) rejected: u64,
    /// Per feature, the number of rows with each level.
    pub(crate) histograms: Vec<Vec<u64>>,
    /// Per feature, the number of values outside its bounds.
    pub(crate) clamped: Vec<u64>,
    /// The levels of the first rejected rows, if they are wanted.
    pub(crate) rejected_sample: Vec<Vec<u16>>,
}

/// Rejected rows that are kept at most.
pub(crate) const REJECTED_LIMIT: usize = 200;

impl LevelCounts {
    pub(crate) fn new(schema: &Schema) -> LevelCounts {
        let histograms = schema.max_levels().iter().map(|&max_level| vec![0; max_level as usize + 1]).collect();
        LevelCounts {
            read: 0,
            accepted: 0,
            kept: 0,
            rejected: 0,
            histograms,
            clamped: vec![0; schema.features().len()],
            rejected_sample: vec![],
        }
    }

    /// The number of rows for the bundle.
    pub fn rows(&self) -> u64 {
        self.kept
    }

    pub(crate) fn count(&mut self, levels: &[EncodedValue]) {
        self.kept += 1;
        for ((histogram, clamped), encoded) in self.histograms.iter_mut().zip(&mut self.clamped).zip(levels) {
            // In bounds: no encoded level exceeds the max level of its feature.
            histogram[encoded.level as usize] += 1;
            *clamped += u64::from(encoded.clamped);
        }
    }

    /// Adds the counts of other rows.
    pub(crate) fn add(&mut self, other: &LevelCounts) {
        let sum = |ours: &mut [u64], theirs: &[u64]| ours.iter_mut().zip(theirs).for_each(|(our, their)| *our += their);
        self.read += other.read;
        self.accepted += other.accepted;
        self.kept += other.kept;
        self.rejected += other.rejected;
        self.histograms.iter_mut().zip(&other.histograms).for_each(|(ours, theirs)| sum(ours, theirs));
        sum(&mut self.clamped, &other.clamped);
        let left = REJECTED_LIMIT.saturating_sub(self.rejected_sample.len());
        self.rejected_sample.extend(other.rejected_sample.iter().take(left).cloned());
    }
}

/// Writer of the levels and texts of one part.
pub(crate) struct EncodedPart {
    levels: PartWriter,
    rejected: PartWriter,
    texts: PartWriter,
    row: Vec<u8>,
}

impl EncodedPart {
    pub(crate) fn push(&mut self, levels: &[EncodedValue], text: &[u8]) -> Result<(), BuildError> {
        self.fill(levels);
        self.levels.write(&self.row)?;
        self.texts.write(text)
    }

    pub(crate) fn push_rejected(&mut self, levels: &[EncodedValue]) -> Result<(), BuildError> {
        self.fill(levels);
        self.rejected.write(&self.row)
    }

    fn fill(&mut self, levels: &[EncodedValue]) {
        self.row.clear();
        // Max levels fit into two bytes.
        self.row.extend(levels.iter().flat_map(|encoded| (encoded.level as u16).to_le_bytes()));
    }

    pub(crate) fn finish(self) -> Result<(), BuildError> {
        self.levels.finish()?;
        self.rejected.finish()?;
        self.texts.finish()
    }
}

struct PartWriter {
    file: BufWriter<tempfile::NamedTempFile>,
    path: PathBuf,
}

impl PartWriter {
    fn write(&mut self, bytes: &[u8]) -> Result<(), BuildError> {
        self.file.write_all(bytes).map_err(|source| io_error("write", &self.path, source))
    }

    fn finish(self) -> Result<(), BuildError> {
        let error = |source| io_error("write", &self.path, source);
        let file = self.file.into_inner().map_err(|failed| error(failed.into_error()))?;
        file.persist(&self.path).map_err(|failed| error(failed.error))?;
        Ok(())
    }
}

struct PartReader {
    file: BufReader<File>,
    path: PathBuf,
}

impl PartReader {
    fn read(&mut self, bytes: &mut [u8]) -> Result<(), BuildError> {
        self.file.read_exact(bytes).map_err(|source| io_error("read", &self.path, source))
    }
}

/// Reader of the levels of one part.
pub(crate) struct LevelReader {
    file: PartReader,
    left: u64,
    bytes: Vec<u8>,
    levels: Vec<u16>,
}

impl LevelReader {
    /// The next row; `None` after the last one.
    pub(crate) fn next(&mut self) -> Result<Option<&[u16]>, BuildError> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        self.file.read(&mut self.bytes)?;
        let pairs = self.bytes.as_chunks::<2>().0;
        self.levels.iter_mut().zip(pairs).for_each(|(level, pair)| *level = u16::from_le_bytes(*pair));
        Ok(Some(&self.levels))
    }
}

fn io_error(action: &'static str, path: &Path, source: io::Error) -> BuildError {
    BuildError::Io { action, path: path.into(), source }
}
