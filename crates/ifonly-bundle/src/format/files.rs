//! The names, headers and checksums of the files of a bundle.
//!
//! - `manifest.json`: the manifest.
//! - `rows`: a row store, as a scan reads it; see `row_store` in `ifonly-scan`.
//! - `records`: a header of 32 bytes, then all records. The header has a magic value (8 bytes), the
//!   number of records M (8 bytes), the record length (4 bytes), the byte 1 and zeros; integers are
//!   little-endian.
//! - `checksums`: the BLAKE3 hashes of the other files, in the format of `b3sum --check`.

pub(crate) const MANIFEST: &str = "manifest.json";
pub(crate) const ROWS: &str = "rows";
pub(crate) const RECORDS: &str = "records";
pub(crate) const CHECKSUMS: &str = "checksums";

/// Length of the header of `records`, in bytes.
pub(crate) const RECORDS_HEADER: usize = 32;
const RECORDS_MAGIC: &[u8; 8] = b"ifonlyO1";

/// Bytes of a record before its signature, from the longest text of each column. A multiple of 16,
/// so that it does not reveal the exact length of the longest row.
pub(crate) fn record_length(longest: impl IntoIterator<Item = usize>) -> usize {
    longest.into_iter().map(|bytes| 2 + bytes).sum::<usize>().next_multiple_of(16)
}

/// The header for `count` records of `length` bytes. The manifest limits `length` to 1 MiB.
pub(crate) fn records_header(count: usize, length: usize) -> [u8; RECORDS_HEADER] {
    let mut header = [0; RECORDS_HEADER];
    header[..8].copy_from_slice(RECORDS_MAGIC);
    header[8..16].copy_from_slice(&(count as u64).to_le_bytes());
    header[16..20].copy_from_slice(&(length as u32).to_le_bytes());
    header[20] = 1;
    header
}

/// Length of the file with `count` records; `None` on overflow.
pub(crate) fn records_length(count: usize, length: usize) -> Option<usize> {
    count.checked_mul(length)?.checked_add(RECORDS_HEADER)
}

/// The text of the file `checksums`.
pub(crate) fn checksums(hashes: &[(&str, blake3::Hash)]) -> String {
    hashes.iter().map(|(name, hash)| format!("{}  {name}\n", hash.to_hex())).collect()
}

/// The hashes of these files from the text of `checksums`; `None` unless the text is canonical.
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
    // Refuses other texts for the same hashes: capital letters, other line ends, additional lines.
    let listed: Vec<(&str, blake3::Hash)> = names.into_iter().zip(hashes).collect();
    (checksums(&listed) == text).then_some(hashes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_of_records_has_their_number_and_length() {
        assert_eq!(records_length(10, 48), Some(32 + 480));
        assert_eq!(records_length(usize::MAX, 64), None);
        assert_eq!(&records_header(3, 7)[..21], b"ifonlyO1\x03\0\0\0\0\0\0\0\x07\0\0\0\x01");
    }

    #[test]
    fn only_canonical_checksums_are_parsed() {
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
