//! The files of a bundle, byte by byte.
//!
//! `rows` is a row store of `ifonly-scan`, in the layout in which a scan reads it (see its
//! `store`). `records` begins with 32 bytes: eight letters of magic, then M (eight bytes), the
//! record length (four bytes), a one and zeros, all little-endian; then come the records one after
//! another. `checksums` lists the BLAKE3 hash of the other files, in the form that `b3sum --check`
//! reads.

pub(crate) const MANIFEST: &str = "manifest.json";
pub(crate) const ROWS: &str = "rows";
pub(crate) const RECORDS: &str = "records";
pub(crate) const CHECKSUMS: &str = "checksums";

/// Bytes in front of the records.
pub(crate) const RECORDS_HEADER: usize = 32;
const RECORDS_MAGIC: &[u8; 8] = b"ifonlyO1";

/// Bytes of a record before its signature, from the longest text of each column: a multiple of 16,
/// so that it does not tell the length of the longest row.
pub(crate) fn record_length(longest: impl IntoIterator<Item = usize>) -> usize {
    longest.into_iter().map(|bytes| 2 + bytes).sum::<usize>().next_multiple_of(16)
}

/// What stands in front of `count` records of `length` bytes, which a manifest limits to 1 MiB.
pub(crate) fn records_header(count: usize, length: usize) -> [u8; RECORDS_HEADER] {
    let mut header = [0; RECORDS_HEADER];
    header[..8].copy_from_slice(RECORDS_MAGIC);
    header[8..16].copy_from_slice(&(count as u64).to_le_bytes());
    header[16..20].copy_from_slice(&(length as u32).to_le_bytes());
    header[20] = 1;
    header
}

/// Bytes of the file of so many records; `None` if no file is that long.
pub(crate) fn records_length(count: usize, length: usize) -> Option<usize> {
    count.checked_mul(length)?.checked_add(RECORDS_HEADER)
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
    fn records_say_how_many_and_how_long_they_are() {
        assert_eq!(records_length(10, 48), Some(32 + 480));
        assert_eq!(records_length(usize::MAX, 64), None);
        assert_eq!(&records_header(3, 7)[..21], b"ifonlyO1\x03\0\0\0\0\0\0\0\x07\0\0\0\x01");
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
