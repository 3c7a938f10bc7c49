//! Some rows of a bundle, for a server whose rows are on several machines: shards hold parts, and
//! the front holds no rows at all.
//!
//! A part is cut out of a whole bundle when it is opened, or beforehand by [`Bundle::split`], so
//! that no machine needs more than its own rows. Then it is a directory with the manifest and the
//! checksums of the whole bundle, `rows` and `records` of its rows alone, and `part`, which says
//! which rows these are and what all of its files hash to. The checksums are among them: a front
//! believes whoever has the same, so that rows beside the checksums of another bundle would be
//! answered as that bundle's. A front's directory has the manifest and the checksums only.

use crate::error::{BuildError, OpenError};
use crate::format::open::{Bundle, Hashes, Records};
use crate::format::write::{OutputKind, PrivateDir, StagingDir};
use crate::format::{layout, open, write};
use ifonly_scan::RowStore;
use ifonly_values::manifest::Manifest;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// What a part says about itself, as JSON.
const PART: &str = "part";
/// A front's folder among the parts.
const FRONTEND: &str = "frontend";
/// More than a label ever takes.
const MOST_BYTES: u64 = 1 << 12;

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct PartLabel {
    /// The first row, counted from 0.
    first: usize,
    /// How many.
    count: usize,
    /// BLAKE3 of the file `checksums`, which has the manifest's.
    checksums: String,
    /// BLAKE3 of the file `rows`.
    rows: String,
    /// BLAKE3 of the file `records`.
    records: String,
}

/// What a directory is that looks like a bundle and is not all of one.
pub(crate) fn instead_of_a_bundle(directory: &Path) -> Option<&'static str> {
    if directory.join(PART).exists() {
        return Some("this is a part of a bundle; `ifonly shard` serves it");
    }
    let rows = directory.join(layout::ROWS).exists() || directory.join(layout::RECORDS).exists();
    (!rows).then_some("there are no rows here: this is for a front, which needs shards that have them (--shards)")
}

/// Whether a directory has what a bundle was split into.
pub(crate) fn is_split(directory: &Path) -> bool {
    directory.join("part-0").join(PART).is_file() && directory.join(FRONTEND).join(layout::CHECKSUMS).is_file()
}

/// Whether it has nothing else.
pub(crate) fn is_split_alone(directory: &Path) -> bool {
    let is_ours = |name: &str| {
        let number = name.strip_prefix("part-").unwrap_or_default();
        name == FRONTEND || (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let ours = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.is_ok_and(|entry| entry.file_name().to_str().is_some_and(is_ours))
    };
    is_split(directory) && std::fs::read_dir(directory).is_ok_and(|mut entries| entries.all(ours))
}

/// A bundle without its rows: what a front needs.
#[derive(Debug)]
pub struct BundleMetadata {
    manifest: Manifest,
    data_digest: [u8; 32],
}

impl BundleMetadata {
    /// Reads and checks the manifest and the list of checksums of a bundle, a part or a front's
    /// directory.
    pub fn open(directory: &Path) -> Result<BundleMetadata, OpenError> {
        Ok(BundleMetadata::open_listed(directory)?.0)
    }

    fn open_listed(directory: &Path) -> Result<(BundleMetadata, Hashes), OpenError> {
        let (manifest, hashes) = open::read_manifest(directory)?;
        Ok((BundleMetadata { manifest, data_digest: open::data_digest(&hashes) }, hashes))
    }

    /// The public part.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// [`Bundle::data_digest`] of the whole bundle.
    pub fn data_digest(&self) -> [u8; 32] {
        self.data_digest
    }
}

/// Some rows of a bundle that follow each other, checked.
pub struct BundlePart {
    outline: BundleMetadata,
    first_row: usize,
    rows: Arc<RowStore>,
    records: Arc<Records>,
    /// Records in front of the part's first one.
    before: usize,
}

impl std::fmt::Debug for BundlePart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BundlePart(rows {:?}, ..)", self.rows())
    }
}

impl BundlePart {
    /// Opens a part, or cuts `wanted` out of a whole bundle; all of its rows without. A part holds
    /// the rows it holds: other ones are refused.
    pub fn open(directory: &Path, wanted: Option<Range<usize>>) -> Result<BundlePart, OpenError> {
        let path = directory.join(PART);
        let malformed = |reason: String| OpenError::Malformed { path: path.clone(), reason };
        if !path.exists() {
            let whole = Bundle::open(directory)?;
            let all = 0..whole.manifest().rows();
            let wanted = wanted.unwrap_or(all.clone());
            if wanted.is_empty() || wanted.end > all.end {
                let reason = format!("rows {}:{} are not some of its {} rows", wanted.start, wanted.end, all.end);
                return Err(OpenError::Malformed { path: directory.into(), reason });
            }
            return Ok(whole.cut(wanted));
        }
        let (outline, listed) = BundleMetadata::open_listed(directory)?;
        let label: PartLabel = serde_json::from_slice(&open::read_limited(&path, MOST_BYTES)?).map_err(|error| {
            malformed(format!("this is not the label of a part of a bundle: {error}; split the bundle again"))
        })?;
        let hash = |hex: &str| blake3::Hash::from_hex(hex).map_err(|error| malformed(error.to_string()));
        let hashes = [hash(&label.rows)?, hash(&label.records)?];
        if hash(&label.checksums)? != blake3::hash(open::list(&listed).as_bytes()) {
            return Err(OpenError::Mixed { path: directory.into() });
        }
        let manifest = &outline.manifest;
        let rows = label.first..label.first.saturating_add(label.count);
        if rows.is_empty() || rows.end > manifest.rows() {
            return Err(malformed(format!("rows {rows:?} are not some of the {} rows", manifest.rows())));
        }
        if let Some(wanted) = wanted.filter(|wanted| *wanted != rows) {
            let reason = format!(
                "this part has rows {}:{}, and {}:{} were asked for; leave them out, or name the whole bundle",
                rows.start, rows.end, wanted.start, wanted.end
            );
            return Err(malformed(reason));
        }
        let store = open::checked_rows(directory, manifest, label.count, &hashes[0])?;
        let records = open::checked_records(directory, manifest, label.count, &hashes[1])?;
        let (rows, first_row) = (Arc::new(store), label.first);
        Ok(BundlePart { outline, first_row, rows, records: Arc::new(Records::File(records)), before: 0 })
    }

    /// The public part of the whole bundle.
    pub fn manifest(&self) -> &Manifest {
        &self.outline.manifest
    }

    /// [`Bundle::data_digest`] of the whole bundle.
    pub fn data_digest(&self) -> [u8; 32] {
        self.outline.data_digest
    }

    /// Which rows these are, counted from 0.
    pub fn rows(&self) -> Range<usize> {
        self.first_row..self.first_row + self.rows.rows()
    }

    /// The rows as they are scanned.
    pub fn store(&self) -> &Arc<RowStore> {
        &self.rows
    }

    /// Their records in order, before they are sealed.
    pub fn records(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.records.pass(self.before..self.before + self.rows.rows(), self.manifest().record_length())
    }

    fn write(&self, folder: &PrivateDir, checksums: &[u8]) -> Result<(), BuildError> {
        write_outline(folder, self.manifest(), checksums)?;
        let mut rows = folder.file(layout::ROWS)?;
        let path = rows.path().to_owned();
        self.rows.write_to(&mut rows).map_err(|source| BuildError::Io { action: "write", path, source })?;
        let mut records = folder.file(layout::RECORDS)?;
        records.write(&layout::records_header(self.rows.rows(), self.manifest().record_length()))?;
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
        let mut part = folder.file(PART)?;
        // Numbers and hashes always are JSON.
        part.write(serde_json::to_string_pretty(&label).unwrap_or_default().as_bytes())?;
        part.finish()?;
        folder.sync()
    }
}

/// The manifest and the checksums of a bundle.
fn write_outline(folder: &PrivateDir, manifest: &Manifest, checksums: &[u8]) -> Result<(), BuildError> {
    for (name, bytes) in [(layout::MANIFEST, manifest.json().as_bytes()), (layout::CHECKSUMS, checksums)] {
        let mut file = folder.file(name)?;
        file.write(bytes)?;
        file.finish()?;
    }
    folder.sync()
}

impl Bundle {
    /// Some of its rows, in memory of their own; the records stay where they are.
    fn cut(&self, wanted: Range<usize>) -> BundlePart {
        let all = wanted.len() == self.rows.rows();
        let rows = if all { self.rows.clone() } else { Arc::new(self.rows.cut(wanted.clone())) };
        let outline = BundleMetadata { manifest: self.manifest.clone(), data_digest: self.data_digest };
        let (first_row, before) = (wanted.start, wanted.start);
        BundlePart { outline, first_row, rows, records: self.records.clone(), before }
    }

    /// Cuts the bundle in `directory` into `parts` parts of nearly equal length: `part-0` and so on
    /// in `output`, and `front`. Says which rows each has, the front none. All of them are written,
    /// or none; what a bundle was split into before is replaced if `replace` says so.
    pub fn split(
        directory: &Path,
        parts: usize,
        output: &Path,
        replace: bool,
    ) -> Result<Vec<(String, Range<usize>)>, SplitError> {
        write::check_target(output, OutputKind::Parts, replace)?;
        let (whole, hashes) = Bundle::open_listed(directory)?;
        let rows = whole.manifest().rows();
        if parts == 0 || parts > rows {
            return Err(SplitError::Count { parts, rows });
        }
        // Not the file once more: it may be another bundle's by now.
        let checksums = open::list(&hashes).into_bytes();
        let staging = StagingDir::new(output, OutputKind::Parts, replace)?;
        let cut = |part: usize| (rows as u128 * part as u128 / parts as u128) as usize;
        let mut written = vec![];
        for number in 0..parts {
            let part = whole.cut(cut(number)..cut(number + 1));
            let name = format!("part-{number}");
            part.write(&staging.folder().folder(&name)?, &checksums)?;
            written.push((name, part.rows()));
        }
        write_outline(&staging.folder().folder(FRONTEND)?, whole.manifest(), &checksums)?;
        written.push((FRONTEND.into(), 0..0));
        staging.commit(replace)?;
        Ok(written)
    }
}

/// Why a bundle was not split.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SplitError {
    /// The bundle cannot be opened.
    #[error(transparent)]
    Open(Box<OpenError>),
    /// A part cannot be written.
    #[error(transparent)]
    Write(Box<BuildError>),
    /// Not that many parts.
    #[error("{rows} rows cannot be cut into {parts} parts")]
    Count {
        /// As asked.
        parts: usize,
        /// Rows of the bundle.
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
