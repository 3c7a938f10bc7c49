//! Opening a bundle. Lengths, checksums and levels are checked before any data is used.
//!
//! The files are memory-mapped: rows are scanned, and records encoded, directly from the map.
//! Therefore a bundle on disk must never be modified; a new bundle replaces it by a rename (see
//! `ifonly_scan::FileBytes`).

use crate::error::{BuildError, OpenError, counted};
use crate::format::files::RECORDS_HEADER;
use crate::format::write::HashingWriter;
use crate::format::{files, split};
use ifonly_algebra::row_function::RowsError;
use ifonly_core::signature::{SIGNATURE_LENGTH, SigningKey};
use ifonly_scan::{FileBytes, RowStore, StoreError};
use ifonly_values::manifest::{MAX_JSON, Manifest, ManifestFields};
use std::fs::File;
use std::io::{self, Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An opened and checked bundle.
pub struct Bundle {
    pub(crate) manifest: Manifest,
    pub(crate) rows: Arc<RowStore>,
    pub(crate) records: Arc<Records>,
    pub(crate) data_digest: [u8; 32],
}

/// Bytes of a mapped file that stay in memory during a sequential read.
const RELEASE_EVERY: usize = 16 << 20;

pub(crate) enum Records {
    /// The mapped file, with its header.
    File(FileBytes),
    /// Records in memory, without a header.
    Memory(Vec<u8>),
}

impl Records {
    /// The records without the header.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Records::File(file) => &file.as_ref()[RECORDS_HEADER..],
            Records::Memory(bytes) => bytes,
        }
    }

    /// The records of some rows in order, each of `length` bytes. Releases mapped pages behind the
    /// iterator: servers read records once, to encode them.
    pub(crate) fn iter(&self, rows: Range<usize>, length: usize) -> impl ExactSizeIterator<Item = &[u8]> {
        let first = RECORDS_HEADER + rows.start * length;
        let mut released = first;
        let records = self.bytes()[rows.start * length..rows.end * length].chunks_exact(length);
        records.enumerate().map(move |(row, record)| {
            let offset = first + row * length;
            if let Records::File(file) = self
                && offset - released >= RELEASE_EVERY
            {
                file.release(released..offset);
                released = offset;
            }
            record
        })
    }
}

impl std::fmt::Debug for Bundle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Rows and records are private data and must not appear in a log.
        f.debug_struct("Bundle").field("manifest", &self.manifest).finish_non_exhaustive()
    }
}

impl Bundle {
    /// Opens and checks a bundle.
    pub fn open(directory: &Path) -> Result<Bundle, OpenError> {
        Ok(Bundle::open_with_checksums(directory)?.0)
    }

    /// Opens a bundle; also returns the checksums of its files.
    pub(crate) fn open_with_checksums(directory: &Path) -> Result<(Bundle, Hashes), OpenError> {
        let (manifest, hashes) = read_manifest(directory)?;
        if let Some(reason) = split::why_not_a_bundle(directory) {
            return Err(OpenError::Malformed { path: directory.into(), reason: reason.into() });
        }
        let rows = checked_rows(directory, &manifest, manifest.rows(), &hashes[1])?;
        let records = checked_records(directory, &manifest, manifest.rows(), &hashes[2])?;
        let (rows, records) = (Arc::new(rows), Arc::new(Records::File(records)));
        Ok((Bundle { manifest, rows, records, data_digest: data_digest(&hashes) }, hashes))
    }

    /// A bundle in memory, from its three components. Its data digest is that of the same bundle on
    /// disk.
    pub fn in_memory(manifest: Manifest, rows: RowStore, records: Vec<u8>) -> Result<Bundle, BuildError> {
        Bundle::from_components(manifest, Arc::new(rows), records)
    }

    /// The same bundle with signed records, in memory.
    pub fn signed(&self, key: &SigningKey) -> Result<Bundle, BuildError> {
        let fields = self.manifest.fields();
        if fields.signer.is_some() {
            return Err(BuildError::Mismatch("the records are already signed".into()));
        }
        let (signer, record_length) = (Some(key.public()), fields.record_length + SIGNATURE_LENGTH);
        let manifest = Manifest::new(ManifestFields { signer, record_length, ..fields.clone() })?;
        let context = fields.signature_context();
        let records = crate::build::sign::signed(key, &context, self.records.bytes(), fields.record_length);
        Bundle::from_components(manifest, self.rows.clone(), records)
    }

    fn from_components(manifest: Manifest, rows: Arc<RowStore>, records: Vec<u8>) -> Result<Bundle, BuildError> {
        check_rows(&manifest, manifest.rows(), &rows).map_err(BuildError::Mismatch)?;
        let (count, length) = (manifest.rows(), manifest.record_length());
        if count.checked_mul(length) != Some(records.len()) {
            let reason =
                format!("the records have {} bytes, but {count} records of {length} bytes are expected", records.len());
            return Err(BuildError::Mismatch(reason));
        }
        let mut rows_hash = HashingWriter::new(io::sink());
        let mut records_hash = HashingWriter::new(io::sink());
        let hashed = rows.write_to(&mut rows_hash).and_then(|()| {
            records_hash.write_all(&files::records_header(count, length))?;
            records_hash.write_all(&records)
        });
        hashed.map_err(|source| BuildError::Io { action: "hash", path: files::ROWS.into(), source })?;
        let hashes = [blake3::hash(manifest.json().as_bytes()), rows_hash.hash(), records_hash.hash()];
        let data_digest = data_digest(&hashes);
        Ok(Bundle { manifest, rows, records: Arc::new(Records::Memory(records)), data_digest })
    }

    /// Reads and checks only the manifest of a bundle.
    pub fn manifest_of(directory: &Path) -> Result<Manifest, OpenError> {
        Ok(read_manifest(directory)?.0)
    }

    /// The public description of the bundle.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The rows, ready to be scanned. Their levels have been checked.
    pub fn rows(&self) -> &Arc<RowStore> {
        &self.rows
    }

    /// The records in the order of the rows, before the all-or-nothing transform.
    pub fn records(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.records.iter(0..self.manifest.rows(), self.manifest.record_length())
    }

    /// The records without their signatures.
    pub fn texts(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        let signature = if self.manifest.fields().signer.is_some() { SIGNATURE_LENGTH } else { 0 };
        // No underflow: a manifest with a signer has records that are longer than a signature.
        self.records().map(move |record| &record[..record.len() - signature])
    }

    /// A digest of the whole bundle, including the rows. Servers must keep it secret: with it, a
    /// guess of the whole database could be tested. Servers mix it into their keys, so that
    /// different data at two servers is detected.
    pub fn data_digest(&self) -> [u8; 32] {
        self.data_digest
    }
}

/// Opens and checks the file with `count` rows.
pub(crate) fn checked_rows(
    directory: &Path,
    manifest: &Manifest,
    count: usize,
    hash: &blake3::Hash,
) -> Result<RowStore, OpenError> {
    let path = directory.join(files::ROWS);
    let length = RowStore::serialised_length(&manifest.schema().max_levels(), count);
    let rows = RowStore::from_bytes(checked_file(&path, length, hash)?)
        .map_err(|error| OpenError::Malformed { path: path.clone(), reason: describe(error, manifest) })?;
    check_rows(manifest, count, &rows).map_err(|_| contradicts(path))?;
    Ok(rows)
}

/// Opens and checks the file with `count` records.
pub(crate) fn checked_records(
    directory: &Path,
    manifest: &Manifest,
    count: usize,
    hash: &blake3::Hash,
) -> Result<FileBytes, OpenError> {
    let path = directory.join(files::RECORDS);
    let length = manifest.record_length();
    let records = checked_file(&path, files::records_length(count, length), hash)?;
    if records.as_ref().starts_with(&files::records_header(count, length)) {
        Ok(records)
    } else {
        Err(contradicts(path))
    }
}

fn contradicts(path: PathBuf) -> OpenError {
    OpenError::Malformed { path, reason: "its header contradicts the manifest; copy the bundle again".into() }
}

/// Checks the number of rows and their max levels against the manifest. The row store has already
/// checked its levels against its own max levels.
fn check_rows(manifest: &Manifest, count: usize, rows: &RowStore) -> Result<(), String> {
    if rows.rows() != count {
        return Err(format!("the bundle has {}, but its manifest says {count}", counted(rows.rows() as u64, "row")));
    }
    if rows.max_levels() != manifest.schema().max_levels() {
        return Err("the max levels of the rows differ from those of the manifest".into());
    }
    Ok(())
}

/// The text of a row store error, with the names of features, and rows counted from 1.
fn describe(error: StoreError, manifest: &Manifest) -> String {
    match error {
        StoreError::Row(RowsError::Level { row, feature, level, max_level }) => {
            let name = manifest.schema().features().get(feature).map_or("", |feature| &feature.name);
            format!("row {}, feature {name:?}: level {level} is above the max level {max_level}", row + 1)
        }
        StoreError::NotRows | StoreError::Version(_) => format!("{error}; build the bundle again"),
        other => other.to_string(),
    }
}

/// BLAKE3 hashes of the manifest, the rows and the records.
pub(crate) type Hashes = [blake3::Hash; 3];
const HASHED_FILES: [&str; 3] = [files::MANIFEST, files::ROWS, files::RECORDS];

/// The text of the file `checksums`.
pub(crate) fn checksums_text(hashes: &Hashes) -> String {
    files::checksums(&HASHED_FILES.into_iter().zip(*hashes).collect::<Vec<_>>())
}

pub(crate) fn data_digest(hashes: &Hashes) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_derive_key("ifonly bundle data v1");
    hashes.iter().for_each(|hash| {
        hasher.update(hash.as_bytes());
    });
    *hasher.finalize().as_bytes()
}

pub(crate) fn read_manifest(directory: &Path) -> Result<(Manifest, Hashes), OpenError> {
    const MAX_CHECKSUMS: u64 = 1 << 10;
    let path = directory.join(files::CHECKSUMS);
    if !path.exists() && split::is_split(directory) {
        let (part, frontend) = (directory.join("part-0"), directory.join("frontend"));
        let reason = format!(
            "this directory has the parts of a split bundle; open one of them: a shard serves a part such as {}, and the frontend serves {}",
            part.display(),
            frontend.display()
        );
        return Err(OpenError::Malformed { path: directory.into(), reason });
    }
    let text = read_private(&path, MAX_CHECKSUMS)?;
    let hashes = std::str::from_utf8(&text).ok().and_then(|text| files::parse_checksums(text, HASHED_FILES));
    let hashes = hashes.ok_or_else(|| OpenError::Malformed {
        path: path.clone(),
        reason: "not a valid list of checksums; copy the bundle again".into(),
    })?;
    let path = directory.join(files::MANIFEST);
    let json = read_limited(&path, MAX_JSON as u64)?;
    if blake3::hash(&json) != hashes[0] {
        return Err(OpenError::Checksum { path });
    }
    let manifest = Manifest::from_json(&json).map_err(|source| OpenError::Manifest { path, source })?;
    Ok((manifest, hashes))
}

/// Reads a file of at most `limit` bytes.
pub(crate) fn read_limited(path: &Path, limit: u64) -> Result<Vec<u8>, OpenError> {
    read_at_most(path, &File::open(path).map_err(|source| OpenError::Io { path: path.into(), source })?, limit)
}

/// The same for a file that must not be readable by all users.
fn read_private(path: &Path, limit: u64) -> Result<Vec<u8>, OpenError> {
    let file = File::open(path).map_err(|source| OpenError::Io { path: path.into(), source })?;
    check_private(path, &file)?;
    read_at_most(path, &file, limit)
}

/// Refuses a file that all users can read. The group may: Kubernetes gives volumes to the group of
/// a pod.
fn check_private(path: &Path, file: &File) -> Result<(), OpenError> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let metadata = file.metadata().map_err(|source| OpenError::Io { path: path.into(), source })?;
        if metadata.permissions().mode() & 0o007 != 0 {
            return Err(OpenError::Readable { path: path.into() });
        }
    }
    #[cfg(not(unix))]
    let _ = (path, file);
    Ok(())
}

fn read_at_most(path: &Path, file: &File, limit: u64) -> Result<Vec<u8>, OpenError> {
    let io = |source| OpenError::Io { path: path.into(), source };
    let mut bytes = vec![];
    file.take(limit + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > limit {
        let reason = format!("more than {limit} bytes: not a file of a bundle; copy the bundle again");
        return Err(OpenError::Malformed { path: path.into(), reason });
    }
    Ok(bytes)
}

/// Maps a file and checks its hash. The length is checked first, before memory is mapped or
/// allocated.
fn checked_file(path: &Path, need: Option<usize>, hash: &blake3::Hash) -> Result<FileBytes, OpenError> {
    let io = |source| OpenError::Io { path: path.into(), source };
    let file = File::open(path).map_err(io)?;
    check_private(path, &file)?;
    let have = file.metadata().map_err(io)?.len();
    let need = match need {
        Some(need) if need as u64 == have => need,
        need => {
            let need = need.map_or(u64::MAX, |need| need as u64);
            return Err(OpenError::Length { path: PathBuf::from(path), have, need });
        }
    };
    let bytes = FileBytes::open(&file, need).map_err(io)?;
    let mut hasher = blake3::Hasher::new();
    for (number, chunk) in bytes.as_ref().chunks(RELEASE_EVERY).enumerate() {
        hasher.update(chunk);
        bytes.release(number * RELEASE_EVERY..number * RELEASE_EVERY + chunk.len());
    }
    if hasher.finalize() == *hash { Ok(bytes) } else { Err(OpenError::Checksum { path: path.into() }) }
}
