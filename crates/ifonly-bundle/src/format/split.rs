//! Parts of a bundle, for a server whose rows are on several machines. Each shard holds one part;
//! the frontend holds no rows.
//!
//! [`BundlePart::open`] opens a part that [`Bundle::split`] has written, so that a machine needs
//! only its own rows. It can also take a range of rows from a complete bundle.
//!
//! The directory of a part has these files:
//!
//! - `manifest.json` and `checksums` of the complete bundle
//! - `rows` and `records` of its own rows
//! - `part`: which rows these are, and the hashes of `checksums`, `rows` and `records`
//!
//! The hash of `checksums` is included because a frontend trusts a shard with the same checksums.
//! Without it, rows beside the checksums of another bundle would pass for rows of that bundle.
//!
//! The directory of the frontend has the manifest and the checksums only.

use crate::error::{BuildError, OpenError, counted};
use crate::format::open::{Bundle, Hashes, Records};
use crate::format::write::{OutputKind, PrivateDir, StagingDir};
use crate::format::{files, open, write};
use ifonly_scan::RowStore;
use ifonly_values::manifest::Manifest;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// File with the label of a part, as JSON.
const PART: &str = "part";
/// Directory for the frontend, beside the parts.
const FRONTEND: &str = "frontend";
/// Maximum size of a label; every label is smaller.
const MAX_LABEL_BYTES: u64 = 1 << 12;

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct PartLabel {
    /// The first row, counted from 0.
    first: usize,
    /// The number of rows.
    count: usize,
    /// BLAKE3 of the file `checksums`, which has the hash of the manifest.
    checksums: String,
    /// BLAKE3 of the file `rows`.
    rows: String,
    /// BLAKE3 of the file `records`.
    records: String,
}

/// Why a directory with a manifest is not a complete bundle; `None` if it is.
pub(crate) fn why_not_a_bundle(directory: &Path) -> Option<&'static str> {
    if directory.join(PART).exists() {
        return Some(
            "this is one part of a bundle, which only a shard can serve; open the complete bundle, or start a shard",
        );
    }
    let rows = directory.join(files::ROWS).exists() || directory.join(files::RECORDS).exists();
    (!rows).then_some(
        "this directory has no rows: it is for a frontend with shards; configure the shards, or open the complete bundle",
    )
}

/// Whether a directory has the output of [`Bundle::split`].
pub(crate) fn is_split(directory: &Path) -> bool {
    directory.join("part-0").join(PART).is_file() && directory.join(FRONTEND).join(files::CHECKSUMS).is_file()
}

/// Whether a directory has the output of [`Bundle::split`] and nothing else.
pub(crate) fn is_only_split(directory: &Path) -> bool {
    let is_split_name = |name: &str| {
        let number = name.strip_prefix("part-").unwrap_or_default();
        name == FRONTEND || (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let is_split_entry = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.is_ok_and(|entry| entry.file_name().to_str().is_some_and(is_split_name))
    };
    is_split(directory) && std::fs::read_dir(directory).is_ok_and(|mut entries| entries.all(is_split_entry))
}

/// The manifest and the data digest of a bundle, without rows: what a frontend needs.
#[derive(Debug)]
pub struct BundleMetadata {
    manifest: Manifest,
    data_digest: [u8; 32],
}

impl BundleMetadata {
    /// Reads and checks the manifest and the checksums of a bundle, a part or a frontend directory.
    pub fn open(directory: &Path) -> Result<BundleMetadata, OpenError> {
        Ok(BundleMetadata::open_with_checksums(directory)?.0)
    }

    fn open_with_checksums(directory: &Path) -> Result<(BundleMetadata, Hashes), OpenError> {
        let (manifest, hashes) = open::read_manifest(directory)?;
        Ok((BundleMetadata { manifest, data_digest: open::data_digest(&hashes) }, hashes))
    }

    /// The public description of the bundle.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// [`Bundle::data_digest`] of the complete bundle.
    pub fn data_digest(&self) -> [u8; 32] {
        self.data_digest
    }
}

/// Consecutive rows of a bundle, opened and checked.
pub struct BundlePart {
    metadata: BundleMetadata,
    first_row: usize,
    rows: Arc<RowStore>,
    records: Arc<Records>,
    /// Index in `records` of the first record of the part.
    first_record: usize,
}

impl std::fmt::Debug for BundlePart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BundlePart(rows {:?}, ..)", self.rows())
    }
}

impl BundlePart {
    /// Opens a part, or takes the rows `wanted` (default: all) from a complete bundle. For a part,
    /// `wanted` must be exactly its rows.
    pub fn open(directory: &Path, wanted: Option<Range<usize>>) -> Result<BundlePart, OpenError> {
        let path = directory.join(PART);
        let malformed = |reason: String| OpenError::Malformed { path: path.clone(), reason };
        if !path.exists() {
            let bundle = Bundle::open(directory)?;
            let all = 0..bundle.manifest().rows();
            let wanted = wanted.unwrap_or(all.clone());
            if wanted.is_empty() || wanted.end > all.end {
                let reason = format!(
                    "rows {}:{} were requested, but the bundle has rows 0:{}",
                    wanted.start, wanted.end, all.end
                );
                return Err(OpenError::Malformed { path: directory.into(), reason });
            }
            return Ok(bundle.cut(wanted));
        }
        let (metadata, listed) = BundleMetadata::open_with_checksums(directory)?;
        let label: PartLabel = serde_json::from_slice(&open::read_limited(&path, MAX_LABEL_BYTES)?)
            .map_err(|error| malformed(format!("not a valid label of a part: {error}; split the bundle again")))?;
        let hash = |hex: &str| blake3::Hash::from_hex(hex).map_err(|error| malformed(error.to_string()));
        let hashes = [hash(&label.rows)?, hash(&label.records)?];
        if hash(&label.checksums)? != blake3::hash(open::checksums_text(&listed).as_bytes()) {
            return Err(OpenError::Mixed { path: directory.into() });
        }
        let manifest = &metadata.manifest;
        let rows = label.first..label.first.saturating_add(label.count);
        if rows.is_empty() || rows.end > manifest.rows() {
            return Err(malformed(format!(
                "rows {}:{} are not in the bundle, which has rows 0:{}; split the bundle again",
                rows.start,
                rows.end,
                manifest.rows()
            )));
        }
        if let Some(wanted) = wanted.filter(|wanted| *wanted != rows) {
            let reason = format!(
                "this part has rows {}:{}, but rows {}:{} were requested; request no rows, or open the complete bundle",
                rows.start, rows.end, wanted.start, wanted.end
            );
            return Err(malformed(reason));
        }
        let store = open::checked_rows(directory, manifest, label.count, &hashes[0])?;
        let records = open::checked_records(directory, manifest, label.count, &hashes[1])?;
        let (rows, first_row) = (Arc::new(store), label.first);
        Ok(BundlePart { metadata, first_row, rows, records: Arc::new(Records::File(records)), first_record: 0 })
    }

    /// The manifest of the complete bundle.
    pub fn manifest(&self) -> &Manifest {
        &self.metadata.manifest
    }

    /// [`Bundle::data_digest`] of the complete bundle.
    pub fn data_digest(&self) -> [u8; 32] {
        self.metadata.data_digest
    }

    /// The range of rows in the complete bundle, counted from 0.
    pub fn rows(&self) -> Range<usize> {
        self.first_row..self.first_row + self.rows.rows()
    }

    /// The rows, ready to be scanned.
    pub fn store(&self) -> &Arc<RowStore> {
        &self.rows
    }

    /// The records in the order of the rows, before the all-or-nothing transform.
    pub fn records(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.records.iter(self.first_record..self.first_record + self.rows.rows(), self.manifest().record_length())
    }

    fn write(&self, directory: &PrivateDir, checksums: &[u8]) -> Result<(), BuildError> {
        write_metadata(directory, self.manifest(), checksums)?;
        let mut rows = directory.file(files::ROWS)?;
        let path = rows.path().to_owned();
        self.rows.write_to(&mut rows).map_err(|source| BuildError::Io { action: "write", path, source })?;
        let mut records = directory.file(files::RECORDS)?;
        records.write(&files::records_header(self.rows.rows(), self.manifest().record_length()))?;
        for record in self.records() {
            records.write(record)?;
        }
        let hash = |(hash, _): (blake3::Hash, u64)| hash.to_hex().to_string();
        let label = PartLabel {
            first: self.first_row,
            count: self.rows.rows(),
            checksums: blake3::hash(checksums).to_hex().to_string(),
            rows: hash(rows.finish()?),
            records: hash(records.finish()?),
        };
        let mut part = directory.file(PART)?;
        let label = serde_json::to_string_pretty(&label).expect("a label has only numbers and strings");
        part.write(label.as_bytes())?;
        part.finish()?;
        directory.sync()
    }
}

/// Writes the manifest and the checksums of a bundle.
fn write_metadata(directory: &PrivateDir, manifest: &Manifest, checksums: &[u8]) -> Result<(), BuildError> {
    for (name, bytes) in [(files::MANIFEST, manifest.json().as_bytes()), (files::CHECKSUMS, checksums)] {
        let mut file = directory.file(name)?;
        file.write(bytes)?;
        file.finish()?;
    }
    directory.sync()
}

impl Bundle {
    /// A copy of some of the rows; the records are shared with the bundle.
    fn cut(&self, wanted: Range<usize>) -> BundlePart {
        let all = wanted.len() == self.rows.rows();
        let rows = if all { self.rows.clone() } else { Arc::new(self.rows.cut(wanted.clone())) };
        let metadata = BundleMetadata { manifest: self.manifest.clone(), data_digest: self.data_digest };
        let (first_row, first_record) = (wanted.start, wanted.start);
        BundlePart { metadata, first_row, rows, records: self.records.clone(), first_record }
    }

    /// Splits the bundle in `directory` into `parts` parts of nearly equal length, `part-0` and so
    /// on, and a directory `frontend`, all in `output`. Returns the name and the rows of each; the
    /// frontend has no rows. Writes all of them or nothing. With `replace`, replaces the output of
    /// an earlier split.
    pub fn split(
        directory: &Path,
        parts: usize,
        output: &Path,
        replace: bool,
    ) -> Result<Vec<(String, Range<usize>)>, SplitError> {
        write::check_target(output, OutputKind::Parts, replace)?;
        let (bundle, hashes) = Bundle::open_with_checksums(directory)?;
        let rows = bundle.manifest().rows();
        if parts == 0 || parts > rows {
            return Err(SplitError::Count { parts, rows });
        }
        // From the checked hashes: the file on disk may belong to another bundle by now.
        let checksums = open::checksums_text(&hashes).into_bytes();
        let staging = StagingDir::new(output, OutputKind::Parts, replace)?;
        let boundary = |part: usize| (rows as u128 * part as u128 / parts as u128) as usize;
        let mut written = vec![];
        for number in 0..parts {
            let part = bundle.cut(boundary(number)..boundary(number + 1));
            let name = format!("part-{number}");
            part.write(&staging.directory().subdirectory(&name)?, &checksums)?;
            written.push((name, part.rows()));
        }
        write_metadata(&staging.directory().subdirectory(FRONTEND)?, bundle.manifest(), &checksums)?;
        written.push((FRONTEND.into(), 0..0));
        staging.commit(replace)?;
        Ok(written)
    }
}

/// Why a bundle could not be split.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SplitError {
    /// The bundle cannot be opened.
    #[error(transparent)]
    Open(Box<OpenError>),
    /// A part cannot be written.
    #[error(transparent)]
    Write(Box<BuildError>),
    /// The number of parts is 0 or larger than the number of rows.
    #[error("cannot split {} into {}; choose 1 to {rows} parts", counted(*rows as u64, "row"), counted(*parts as u64, "part"))]
    Count {
        /// The requested number of parts.
        parts: usize,
        /// The number of rows of the bundle.
        rows: usize,
    },
}

impl From<OpenError> for SplitError {
    fn from(error: OpenError) -> SplitError {
        SplitError::Open(Box::new(error))
    }
}

impl From<BuildError> for SplitError {
    fn from(error: BuildError) -> SplitError {
        SplitError::Write(Box::new(error))
    }
}
