//! A bundle as servers load it: nothing is believed before lengths, checksums and levels have been
//! checked.
//!
//! The files are mapped and used where they are: the rows are scanned, and the records sealed,
//! straight from the map. A bundle on disk is therefore never written to; a new one takes its place
//! by renaming (see `ifonly_scan::FileBytes`).

use crate::error::{BuildError, OpenError};
use crate::format::layout::RECORDS_HEADER;
use crate::format::write::HashingWriter;
use crate::format::{layout, split};
use ifonly_algebra::row_function::RowsError;
use ifonly_core::signature::{SIGNATURE_LENGTH, SigningKey};
use ifonly_scan::{FileBytes, RowStore, StoreError};
use ifonly_values::manifest::{MAX_JSON, Manifest, ManifestFields};
use std::fs::File;
use std::io::{self, Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A checked bundle.
pub struct Bundle {
    pub(crate) manifest: Manifest,
    pub(crate) rows: Arc<RowStore>,
    pub(crate) records: Arc<Records>,
    pub(crate) data_digest: [u8; 32],
}

/// Bytes of a file that is read from one end to the other that are held at a time.
const KEPT: usize = 16 << 20;

pub(crate) enum Records {
    /// With their header.
    File(FileBytes),
    Memory(Vec<u8>),
}

impl Records {
    /// Without the header.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Records::File(file) => &file.as_ref()[RECORDS_HEADER..],
            Records::Memory(bytes) => bytes,
        }
    }

    /// Some of them, of so many bytes each, one after another. What was passed need not stay in
    /// memory: servers read records once, to seal them.
    pub(crate) fn pass(&self, rows: Range<usize>, length: usize) -> impl ExactSizeIterator<Item = &[u8]> {
        let first = RECORDS_HEADER + rows.start * length;
        let mut kept = first;
        let records = self.bytes()[rows.start * length..rows.end * length].chunks_exact(length);
        records.enumerate().map(move |(row, record)| {
            let place = first + row * length;
            if let Records::File(file) = self
                && place - kept >= KEPT
            {
                file.release(kept..place);
                kept = place;
            }
            record
        })
    }
}

impl std::fmt::Debug for Bundle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Rows and records are the database: they do not belong in a log.
        f.debug_struct("Bundle").field("manifest", &self.manifest).finish_non_exhaustive()
    }
}

impl Bundle {
    /// Maps and checks a bundle.
    pub fn open(directory: &Path) -> Result<Bundle, OpenError> {
        Ok(Bundle::open_listed(directory)?.0)
    }

    /// With the checksums that its files were compared with.
    pub(crate) fn open_listed(directory: &Path) -> Result<(Bundle, Hashes), OpenError> {
        let (manifest, hashes) = read_manifest(directory)?;
        if let Some(what) = split::instead_of_a_bundle(directory) {
            return Err(OpenError::Malformed { path: directory.into(), reason: what.into() });
        }
        let rows = checked_rows(directory, &manifest, manifest.rows(), &hashes[1])?;
        let records = checked_records(directory, &manifest, manifest.rows(), &hashes[2])?;
        let (rows, records) = (Arc::new(rows), Arc::new(Records::File(records)));
        Ok((Bundle { manifest, rows, records, data_digest: data_digest(&hashes) }, hashes))
    }

    /// A bundle without files, from its three parts: for demonstrations, measurements, tests and
    /// other programs. Its digest is that of the same bundle on disk.
    pub fn in_memory(manifest: Manifest, rows: RowStore, records: Vec<u8>) -> Result<Bundle, BuildError> {
        Bundle::assembled(manifest, Arc::new(rows), records)
    }

    /// The same rows with signed records, in memory.
    pub fn signed(&self, key: &SigningKey) -> Result<Bundle, BuildError> {
        let contents = self.manifest.fields();
        if contents.signer.is_some() {
            return Err(BuildError::Mismatch("the records are signed already".into()));
        }
        let (signer, record_length) = (Some(key.public()), contents.record_length + SIGNATURE_LENGTH);
        let manifest = Manifest::new(ManifestFields { signer, record_length, ..contents.clone() })?;
        let subject = contents.subject();
        let records = crate::build::sign::signed(key, &subject, self.records.bytes(), contents.record_length);
        Bundle::assembled(manifest, self.rows.clone(), records)
    }

    fn assembled(manifest: Manifest, rows: Arc<RowStore>, records: Vec<u8>) -> Result<Bundle, BuildError> {
        check_rows(&manifest, manifest.rows(), &rows).map_err(BuildError::Mismatch)?;
        let (count, length) = (manifest.rows(), manifest.record_length());
        if count.checked_mul(length) != Some(records.len()) {
            let reason = format!("{} bytes are not {count} records of {length} bytes", records.len());
            return Err(BuildError::Mismatch(reason));
        }
        let mut rows_hash = HashingWriter::new(io::sink());
        let mut records_hash = HashingWriter::new(io::sink());
        let hashed = rows.write_to(&mut rows_hash).and_then(|()| {
            records_hash.write_all(&layout::records_header(count, length))?;
            records_hash.write_all(&records)
        });
        hashed.map_err(|source| BuildError::Io { action: "hash", path: layout::ROWS.into(), source })?;
        let hashes = [blake3::hash(manifest.json().as_bytes()), rows_hash.hash(), records_hash.hash()];
        let data_digest = data_digest(&hashes);
        Ok(Bundle { manifest, rows, records: Arc::new(Records::Memory(records)), data_digest })
    }

    /// Reads and checks the manifest only, for whoever wants to look at a bundle but not to serve
    /// it.
    pub fn manifest_of(directory: &Path) -> Result<Manifest, OpenError> {
        Ok(read_manifest(directory)?.0)
    }

    /// The public part.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The rows as they are scanned. Their levels have been checked.
    pub fn rows(&self) -> &Arc<RowStore> {
        &self.rows
    }

    /// The records in order, before they are sealed.
    pub fn records(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.records.pass(0..self.manifest.rows(), self.manifest.record_length())
    }

    /// The records without their signatures.
    pub fn texts(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        let signature = if self.manifest.fields().signer.is_some() { SIGNATURE_LENGTH } else { 0 };
        // A manifest with a signer has longer records than signatures.
        self.records().map(move |record| &record[..record.len() - signature])
    }

    /// A digest of everything in the bundle, the rows included. It must stay among the servers:
    /// with it, anybody could test a guess at the whole database. Mixed into the servers' keys it
    /// makes servers with different data notice.
    pub fn data_digest(&self) -> [u8; 32] {
        self.data_digest
    }
}

/// The file of `count` rows.
pub(crate) fn checked_rows(
    directory: &Path,
    manifest: &Manifest,
    count: usize,
    hash: &blake3::Hash,
) -> Result<RowStore, OpenError> {
    let path = directory.join(layout::ROWS);
    let length = RowStore::serialised_length(&manifest.schema().max_levels(), count);
    let rows = RowStore::from_bytes(checked_file(&path, length, hash)?)
        .map_err(|error| OpenError::Malformed { path: path.clone(), reason: in_words(error, manifest) })?;
    check_rows(manifest, count, &rows).map_err(|_| contradicts(path))?;
    Ok(rows)
}

/// The file of `count` records, with its header.
pub(crate) fn checked_records(
    directory: &Path,
    manifest: &Manifest,
    count: usize,
    hash: &blake3::Hash,
) -> Result<FileBytes, OpenError> {
    let path = directory.join(layout::RECORDS);
    let length = manifest.record_length();
    let records = checked_file(&path, layout::records_length(count, length), hash)?;
    match records.as_ref().starts_with(&layout::records_header(count, length)) {
        true => Ok(records),
        false => Err(contradicts(path)),
    }
}

fn contradicts(path: PathBuf) -> OpenError {
    OpenError::Malformed { path, reason: "its header contradicts the manifest".into() }
}

/// Whether rows are as many and as wide as the manifest says. Their levels were checked against
/// their own ranges.
fn check_rows(manifest: &Manifest, count: usize, rows: &RowStore) -> Result<(), String> {
    if rows.rows() != count {
        return Err(format!("{} rows, and a manifest of {count}", rows.rows()));
    }
    if rows.max_levels() != manifest.schema().max_levels() {
        return Err("the rows have other ranges than the manifest's features".into());
    }
    Ok(())
}

/// A fault of the rows with the names that people know: features by theirs, rows counted from 1.
fn in_words(error: StoreError, manifest: &Manifest) -> String {
    match error {
        StoreError::Row(RowsError::Level { row, feature, level, range }) => {
            let name = manifest.schema().features().get(feature).map_or("", |feature| &feature.name);
            format!("row {}, feature {name:?}: level {level} is above {range}", row + 1)
        }
        StoreError::NotRows | StoreError::Version(_) => format!("{error}; build the bundle again"),
        other => other.to_string(),
    }
}

/// BLAKE3 of the manifest, the rows and the records.
pub(crate) type Hashes = [blake3::Hash; 3];
const LISTED: [&str; 3] = [layout::MANIFEST, layout::ROWS, layout::RECORDS];

/// The text of `checksums`.
pub(crate) fn list(hashes: &Hashes) -> String {
    layout::checksums(&LISTED.into_iter().zip(*hashes).collect::<Vec<_>>())
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
    let path = directory.join(layout::CHECKSUMS);
    if !path.exists() && split::is_split(directory) {
        let (part, frontend) = (directory.join("part-0"), directory.join("frontend"));
        let reason = format!(
            "these are the parts of a bundle: `ifonly shard {}` serves the first, and `ifonly serve {} --shards …` is a front of all",
            part.display(),
            frontend.display()
        );
        return Err(OpenError::Malformed { path: directory.into(), reason });
    }
    let text = read_limited(&path, MAX_CHECKSUMS)?;
    let hashes = std::str::from_utf8(&text).ok().and_then(|text| layout::parse_checksums(text, LISTED));
    let hashes = hashes.ok_or_else(|| OpenError::Malformed {
        path: path.clone(),
        reason: "this is not the list of checksums of a bundle; copy the bundle again".into(),
    })?;
    let path = directory.join(layout::MANIFEST);
    let json = read_limited(&path, MAX_JSON as u64)?;
    if blake3::hash(&json) != hashes[0] {
        return Err(OpenError::Checksum { path });
    }
    let manifest = Manifest::from_json(&json).map_err(|source| OpenError::Manifest { path, source })?;
    Ok((manifest, hashes))
}

/// A file of at most `limit` bytes.
pub(crate) fn read_limited(path: &Path, limit: u64) -> Result<Vec<u8>, OpenError> {
    let io = |source| OpenError::Io { path: path.into(), source };
    let mut bytes = vec![];
    File::open(path).map_err(io)?.take(limit + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > limit {
        let reason = format!("more than {limit} bytes; this is no file of a bundle");
        return Err(OpenError::Malformed { path: path.into(), reason });
    }
    Ok(bytes)
}

/// A file with the length that the manifest implies, compared before anything is mapped or
/// allocated, and the listed hash.
fn checked_file(path: &Path, need: Option<usize>, hash: &blake3::Hash) -> Result<FileBytes, OpenError> {
    let io = |source| OpenError::Io { path: path.into(), source };
    let file = File::open(path).map_err(io)?;
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
    for (number, piece) in bytes.as_ref().chunks(KEPT).enumerate() {
        hasher.update(piece);
        bytes.release(number * KEPT..number * KEPT + piece.len());
    }
    match hasher.finalize() == *hash {
        true => Ok(bytes),
        false => Err(OpenError::Checksum { path: path.into() }),
    }
}
