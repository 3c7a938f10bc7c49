//! A compressed table gives the bundle of the unpacked table. A truncated or damaged file, or a
//! decompression bomb, gives an error that names the file, and leaves no files behind.

mod common;

use common::*;
use ifonly_bundle::{BuildOptions, Bundle, Input};
use std::io::Write;

fn csv() -> String {
    let rows: String = (0..500).map(|n| format!("{},{}\n", 20 + n * 7 % 50, ["baker", "pilot"][n % 2])).collect();
    format!("age,job\n{rows}")
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(vec![], flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstandard(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(vec![], 3).unwrap();
    encoder.include_checksum(true).unwrap();
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn built(options: &BuildOptions) -> (String, [u8; 32]) {
    build_quietly(options).unwrap_or_else(|error| panic!("{error}"));
    let bundle = Bundle::open(&options.output).unwrap();
    (bundle.manifest().json().to_owned(), bundle.data_digest())
}

#[test]
fn compressed_tables_give_the_same_bundle() {
    let dir = TestDir::new();
    let text = csv();
    let sign = Some(signing_key(&dir));
    let expected = built(&BuildOptions { signing_key: sign.clone(), ..dir.options(&dir.write("data.csv", &text)) });
    let (first, second) = text.as_bytes().split_at(777);
    for (name, bytes) in [
        ("data.csv.gz", gzip(text.as_bytes())),
        ("data.csv.zst", zstandard(text.as_bytes())),
        // Concatenated members or frames are one file, and the extension does not matter.
        ("data.data", [gzip(first), gzip(second)].concat()),
        ("data.gz", [zstandard(first), zstandard(second)].concat()),
    ] {
        let mut options = dir.options(&dir.write(name, bytes));
        options.signing_key.clone_from(&sign);
        options.output = dir.path(&format!("{name}.bundle"));
        assert_eq!(built(&options), expected, "{name}");
    }
}

#[test]
fn truncated_and_damaged_files_are_named_and_nothing_is_left() {
    let text = csv();
    for (name, whole) in [("data.csv.gz", gzip(text.as_bytes())), ("data.csv.zst", zstandard(text.as_bytes()))] {
        let dir = TestDir::new();
        let refused = |bytes: &[u8], what: &str| {
            let options = dir.options(&dir.write(name, bytes));
            let error = build_quietly(&options).unwrap_err().to_string();
            assert!(error.contains(name), "{what}: {error}");
            assert_eq!(dir.names(), [name], "{what}");
            error
        };
        for length in (4..whole.len()).step_by(11) {
            let error = refused(&whole[..length], &format!("{length} bytes"));
            assert!(error.contains("cannot be unpacked as") && error.contains("truncated"), "{error}");
        }
        // Nearly every bit matters or is covered by the final checksum, so no changed file may
        // become a bundle.
        for offset in (10..whole.len()).step_by(13) {
            let mut changed = whole.clone();
            changed[offset] ^= 0x10;
            refused(&changed, &format!("byte {offset}"));
        }
        refused(&[&whole[..], b"and more"].concat(), "additional bytes");
    }
}

#[test]
fn a_decompression_bomb_is_refused() {
    let dir = TestDir::new();
    let bomb = zstandard("1,2\n".repeat(20 << 20).as_bytes());
    assert!(bomb.len() < 100_000);
    let options = dir.options(&dir.write("data.csv.zst", bomb));
    let error = build_quietly(&options).unwrap_err().to_string();
    assert!(error.contains("data.csv.zst: it unpacks to more than 100 times its size"), "{error}");
    assert_eq!(dir.names(), ["data.csv.zst"]);
}

#[test]
fn other_compressions_are_named() {
    let dir = TestDir::new();
    for (bytes, words) in [
        (&b"PK\x03\x04rest"[..], "spreadsheet"),
        (b"BZh91AY", "bunzip2"),
        (b"\xfd7zXZ\x00rest", "unxz"),
        (&gzip(&gzip(b"a,b\n1,2\n")), "neither CSV nor Parquet"),
    ] {
        let error = build_quietly(&dir.options(&dir.write("data.csv", bytes))).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn one_row_of_a_table_can_be_read_by_itself() {
    let dir = TestDir::new();
    let path = dir.write("people.csv.gz", gzip(b"age;name\n41; Ann \n17;Bob\nbroken\n"));
    let row = |number| Input::open(&path, &mut |_| {}).and_then(|input| input.row(number));
    let text = |pairs: Vec<(String, String)>| pairs.into_iter().map(|(name, value)| format!("{name}={value}"));
    assert_eq!(text(row(1).unwrap()).collect::<Vec<_>>(), ["age=41", "name=Ann"]);
    // Errors in later rows do not matter.
    assert_eq!(text(row(2).unwrap()).collect::<Vec<_>>(), ["age=17", "name=Bob"]);
    assert!(row(3).unwrap_err().to_string().contains("line 4"));
    let short = dir.write("short.csv", "age\n1\n");
    let error = Input::open(&short, &mut |_| {}).and_then(|input| input.row(2)).unwrap_err().to_string();
    assert!(error.contains("row 2: there is no such row; the table has 1 row"), "{error}");
}
