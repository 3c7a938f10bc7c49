//! The files of a bundle, byte by byte.
//!
//! `rows` and `records` begin with 32 bytes: eight letters of magic, then M (eight bytes), the number of columns or the record
//! length (four bytes), the width of an entry in bytes (one byte) and zeros, all little-endian. After that `rows` has the
//! levels row by row, one byte each when every range is at most 255 and two otherwise; `records` has the records one after
//! another. `checksums` lists the BLAKE3 hash of the other files, in the form that `b3sum --check` reads.

use ifonly_core::manifest::Manifest;

pub(crate) const MANIFEST: &str = "manifest.json";
pub(crate) const ROWS: &str = "rows";
pub(crate) const RECORDS: &str = "records";
pub(crate) const CHECKSUMS: &str = "checksums";

pub(crate) const HEADER: usize = 32;
const ROWS_MAGIC: &[u8; 8] = b"ifonlyR1";
const RECORDS_MAGIC: &[u8; 8] = b"ifonlyO1";

/// The first bytes of `rows` or `records`, and what follows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    magic: &'static [u8; 8],
    count: u64,
    columns: u32,
    width: u8,
}

impl Shape {
    /// Levels for these ranges.
    pub(crate) fn rows(count: u64, ranges: &[u32]) -> Shape {
        let width = if ranges.iter().all(|&range| range <= 255) { 1 } else { 2 };
        // A schema has at most 4096 features.
        Shape { magic: ROWS_MAGIC, count, columns: ranges.len() as u32, width }
    }

    /// Records of this length, which a manifest limits to 1 MiB.
    pub(crate) fn records(count: u64, length: usize) -> Shape {
        Shape { magic: RECORDS_MAGIC, count, columns: length as u32, width: 1 }
    }

    /// Both shapes of a manifest's bundle.
    pub(crate) fn of(manifest: &Manifest) -> (Shape, Shape) {
        let count = manifest.rows() as u64;
        (Shape::rows(count, &manifest.schema().ranges()), Shape::records(count, manifest.record_length()))
    }

    /// Bytes per level.
    pub(crate) fn width(&self) -> u8 {
        self.width
    }

    pub(crate) fn header(&self) -> [u8; HEADER] {
        let mut header = [0; HEADER];
        header[..8].copy_from_slice(self.magic);
        header[8..16].copy_from_slice(&self.count.to_le_bytes());
        header[16..20].copy_from_slice(&self.columns.to_le_bytes());
        header[20] = self.width;
        header
    }

    /// Bytes of the whole file; `None` if no file is that long.
    pub(crate) fn file_length(&self) -> Option<u64> {
        let row = u64::from(self.columns) * u64::from(self.width);
        self.count.checked_mul(row)?.checked_add(HEADER as u64)
    }
}

/// The text of `checksums`.
pub(crate) fn checksums(hashes: &[(&str, blake3::Hash)]) -> String {
    hashes.iter().map(|(name, hash)| format!("{}  {name}\n", hash.to_hex())).collect()
}

/// The listed hashes of these files, if the text is exactly such a list.
pub(crate) fn parse_checksums<const FILES: usize>(text: &str, names: [&str; FILES]) -> Option<[blake3::Hash; FILES]> {
    let mut hashes = [blake3::Hash::from([0; 32]); FILES];
    let mut lines = text.lines();
    for (name, hash) in names.iter().zip(&mut hashes) {
        let (hex, listed) = lines.next()?.split_once("  ")?;
        if listed != *name {
            return None;
        }
        *hash = blake3::Hash::from_hex(hex).ok()?;
    }
    // Capital letters, other line ends or more lines would be another text for the same hashes.
    let listed: Vec<(&str, blake3::Hash)> = names.into_iter().zip(hashes).collect();
    (checksums(&listed) == text).then_some(hashes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_take_one_byte_up_to_255() {
        assert_eq!(Shape::rows(10, &[255, 1]).file_length(), Some(32 + 20));
        assert_eq!(Shape::rows(10, &[256, 1]).file_length(), Some(32 + 40));
        assert_eq!(Shape::records(u64::MAX, 64).file_length(), None);
        assert_eq!(&Shape::rows(3, &[7]).header()[..21], b"ifonlyR1\x03\0\0\0\0\0\0\0\x01\0\0\0\x01");
    }

    #[test]
    fn checksums_round_trip_and_nothing_else_does() {
        let (a, b) = (blake3::hash(b"a"), blake3::hash(b"b"));
        let text = checksums(&[("x", a), ("y", b)]);
        assert_eq!(parse_checksums(&text, ["x", "y"]), Some([a, b]));
        assert_eq!(parse_checksums(&text, ["y", "x"]), None);
        assert_eq!(parse_checksums(&text, ["x"]), None);
        assert_eq!(parse_checksums(&text[1..], ["x", "y"]), None);
        assert_eq!(parse_checksums(&text.replace('\n', "\r\n"), ["x", "y"]), None);
        assert_eq!(parse_checksums(&text.replace('a', "A"), ["x", "y"]), None);
        assert_eq!(parse_checksums("", ["x"]), None);
    }
}
