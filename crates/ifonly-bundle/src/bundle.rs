//! A bundle as servers load it: nothing is believed before lengths, checksums and levels have been checked.

use crate::error::OpenError;
use crate::format::{self, HEADER, Shape};
use ifonly_core::form::{Rows, RowsError};
use ifonly_core::manifest::{MAX_JSON, Manifest};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// A checked bundle in memory.
pub struct Bundle {
    manifest: Manifest,
    rows: Vec<u8>,
    records: Vec<u8>,
    width: u8,
    data_digest: [u8; 32],
}

impl std::fmt::Debug for Bundle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Rows and records are the database: they do not belong in a log.
        f.debug_struct("Bundle").field("manifest", &self.manifest).finish_non_exhaustive()
    }
}

impl Bundle {
    /// Reads and checks a bundle.
    pub fn open(directory: &Path) -> Result<Bundle, OpenError> {
        let (manifest, hashes) = read_manifest(directory)?;
        let (row_shape, record_shape) = Shape::of(&manifest);
        let rows = read_shaped(directory.join(format::ROWS), row_shape, &hashes[1])?;
        let records = read_shaped(directory.join(format::RECORDS), record_shape, &hashes[2])?;
        let data_digest = data_digest(&hashes);
        let bundle = Bundle { manifest, rows, records, width: row_shape.width(), data_digest };
        bundle.check_levels().map_err(|reason| OpenError::Malformed { path: directory.join(format::ROWS), reason })?;
        Ok(bundle)
    }

    /// Reads and checks the manifest only, for whoever wants to look at a bundle but not to serve it.
    pub fn manifest_of(directory: &Path) -> Result<Manifest, OpenError> {
        Ok(read_manifest(directory)?.0)
    }

    /// The public part.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The rows in order, as levels.
    pub fn levels(&self) -> impl ExactSizeIterator<Item = Vec<u16>> + '_ {
        let width = usize::from(self.width);
        let row = self.manifest.schema().features().len() * width;
        let level = move |bytes: &[u8]| bytes.iter().rev().fold(0, |level, &byte| level << 8 | u16::from(byte));
        self.rows[HEADER..].chunks_exact(row).map(move |row| row.chunks_exact(width).map(level).collect())
    }

    /// The rows for the plain evaluator.
    pub fn rows(&self) -> Result<Rows, RowsError> {
        Rows::new(&self.manifest.schema().ranges(), self.levels())
    }

    /// The records in order, before they are sealed.
    pub fn records(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.records[HEADER..].chunks_exact(self.manifest.record_length())
    }

    /// A digest of everything in the bundle, the rows included. It must stay among the servers: with it, anybody could test
    /// a guess at the whole database. Mixed into the servers' keys it makes servers with different data notice.
    pub fn data_digest(&self) -> [u8; 32] {
        self.data_digest
    }

    fn check_levels(&self) -> Result<(), String> {
        let features = self.manifest.schema().features();
        let ranges = self.manifest.schema().ranges();
        for (number, row) in (1..).zip(self.levels()) {
            for ((&level, &range), feature) in row.iter().zip(&ranges).zip(features) {
                if u32::from(level) > range {
                    return Err(format!("row {number}, feature {:?}: level {level} is above {range}", feature.name));
                }
            }
        }
        Ok(())
    }
}

fn data_digest(hashes: &[blake3::Hash; 3]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_derive_key("ifonly bundle data v1");
    hashes.iter().for_each(|hash| {
        hasher.update(hash.as_bytes());
    });
    *hasher.finalize().as_bytes()
}

fn read_manifest(directory: &Path) -> Result<(Manifest, [blake3::Hash; 3]), OpenError> {
    const MAX_CHECKSUMS: u64 = 1 << 10;
    let path = directory.join(format::CHECKSUMS);
    let text = read_limited(&path, MAX_CHECKSUMS)?;
    let names = [format::MANIFEST, format::ROWS, format::RECORDS];
    let hashes = std::str::from_utf8(&text).ok().and_then(|text| format::parse_checksums(text, names));
    let hashes = hashes.ok_or_else(|| OpenError::Malformed {
        path: path.clone(),
        reason: "this is not the list of checksums of a bundle; copy the bundle again".into(),
    })?;
    let path = directory.join(format::MANIFEST);
    let json = read_limited(&path, MAX_JSON as u64)?;
    if blake3::hash(&json) != hashes[0] {
        return Err(OpenError::Checksum { path });
    }
    let manifest = Manifest::from_json(&json).map_err(|source| OpenError::Manifest { path, source })?;
    Ok((manifest, hashes))
}

/// A file of at most `limit` bytes.
fn read_limited(path: &Path, limit: u64) -> Result<Vec<u8>, OpenError> {
    let io = |source| OpenError::Io { path: path.into(), source };
    let mut bytes = vec![];
    File::open(path).map_err(io)?.take(limit + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > limit {
        let reason = format!("more than {limit} bytes; this is no file of a bundle");
        return Err(OpenError::Malformed { path: path.into(), reason });
    }
    Ok(bytes)
}

/// A file with exactly the shape that the manifest implies. Its length is compared before anything is allocated.
fn read_shaped(path: PathBuf, shape: Shape, hash: &blake3::Hash) -> Result<Vec<u8>, OpenError> {
    let io = |source| OpenError::Io { path: path.clone(), source };
    let mut file = File::open(&path).map_err(io)?;
    let have = file.metadata().map_err(io)?.len();
    let need = shape.file_length().unwrap_or(u64::MAX);
    if have != need {
        return Err(OpenError::Length { path, have, need });
    }
    let length = usize::try_from(need).map_err(|_| io(io::ErrorKind::OutOfMemory.into()))?;
    let mut bytes = vec![];
    bytes.try_reserve_exact(length).map_err(|_| io(io::ErrorKind::OutOfMemory.into()))?;
    // The file may have grown since; its checksum tells.
    (&mut file).take(need).read_to_end(&mut bytes).map_err(io)?;
    if blake3::hash(&bytes) != *hash {
        return Err(OpenError::Checksum { path });
    }
    if bytes.len() != length || bytes[..HEADER] != shape.header() {
        return Err(OpenError::Malformed { path, reason: "its header contradicts the manifest".into() });
    }
    Ok(bytes)
}
