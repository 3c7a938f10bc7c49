//! Compressed tables give the bundle of the table itself; what is cut off, damaged or meant to fill
//! the disk gives an error that names the file, and leaves nothing behind.

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
    quietly(options).unwrap_or_else(|error| panic!("{error}"));
    let bundle = Bundle::open(&options.output).unwrap();
    (bundle.manifest().json().to_owned(), bundle.data_digest())
}

#[test]
fn compressed_tables_give_the_same_bundle() {
    let desk = Desk::new();
    let text = csv();
    let sign = Some(signing_key(&desk));
    let right = built(&BuildOptions { signing_key: sign.clone(), ..desk.options(&desk.write("data.csv", &text)) });
    let (frontend, back) = text.as_bytes().split_at(777);
    for (name, bytes) in [
        ("data.csv.gz", gzip(text.as_bytes())),
        ("data.csv.zst", zstandard(text.as_bytes())),
        // Several members or frames are one file, and a name is only a name.
        ("data.data", [gzip(frontend), gzip(back)].concat()),
        ("data.gz", [zstandard(frontend), zstandard(back)].concat()),
    ] {
        let mut options = desk.options(&desk.write(name, bytes));
        options.signing_key.clone_from(&sign);
        options.output = desk.path(&format!("{name}.bundle"));
        assert_eq!(built(&options), right, "{name}");
    }
}

#[test]
fn files_that_are_cut_off_or_damaged_are_named_and_nothing_is_left() {
    let text = csv();
    for (name, whole) in [("data.csv.gz", gzip(text.as_bytes())), ("data.csv.zst", zstandard(text.as_bytes()))] {
        let desk = Desk::new();
        let refused = |bytes: &[u8], what: &str| {
            let options = desk.options(&desk.write(name, bytes));
            let error = quietly(&options).unwrap_err().to_string();
            assert!(error.contains(name), "{what}: {error}");
            assert_eq!(desk.names(), [name], "{what}");
            error
        };
        for length in (4..whole.len()).step_by(11) {
            let error = refused(&whole[..length], &format!("{length} bytes"));
            assert!(error.contains("cannot be unpacked as") && error.contains("cut off"), "{error}");
        }
        // The last bytes are a checksum; before them nearly every bit matters, and what it changes
        // must not become a bundle.
        for place in (10..whole.len()).step_by(13) {
            let mut bent = whole.clone();
            bent[place] ^= 0x10;
            refused(&bent, &format!("byte {place}"));
        }
        refused(&[&whole[..], b"and more"].concat(), "something behind it");
    }
}

#[test]
fn a_small_file_does_not_fill_the_disk() {
    let desk = Desk::new();
    let bomb = zstandard("1,2\n".repeat(20 << 20).as_bytes());
    assert!(bomb.len() < 100_000);
    let options = desk.options(&desk.write("data.csv.zst", bomb));
    let error = quietly(&options).unwrap_err().to_string();
    assert!(error.contains("data.csv.zst: it unpacks to more than 100 times its size"), "{error}");
    assert_eq!(desk.names(), ["data.csv.zst"]);
}

#[test]
fn other_packings_are_called_by_their_name() {
    let desk = Desk::new();
    for (bytes, words) in [
        (&b"PK\x03\x04rest"[..], "spreadsheet"),
        (b"BZh91AY", "bunzip2"),
        (b"\xfd7zXZ\x00rest", "unxz"),
        (&gzip(&gzip(b"a,b\n1,2\n")), "neither CSV nor Parquet"),
    ] {
        let error = quietly(&desk.options(&desk.write("data.csv", bytes))).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn one_row_of_a_table_can_be_read_by_itself() {
    let desk = Desk::new();
    let path = desk.write("people.csv.gz", gzip(b"age;name\n41; Ann \n17;Bob\nbroken\n"));
    let row = |number| Input::open(&path, &mut |_| {}).and_then(|input| input.row(number));
    let text = |pairs: Vec<(String, String)>| pairs.into_iter().map(|(name, value)| format!("{name}={value}"));
    assert_eq!(text(row(1).unwrap()).collect::<Vec<_>>(), ["age=41", "name=Ann"]);
    // What is wrong behind it does not matter.
    assert_eq!(text(row(2).unwrap()).collect::<Vec<_>>(), ["age=17", "name=Bob"]);
    assert!(row(3).unwrap_err().to_string().contains("line 4"));
    let short = desk.write("short.csv", "age\n1\n");
    let error = Input::open(&short, &mut |_| {}).and_then(|input| input.row(2)).unwrap_err().to_string();
    assert!(error.contains("row 2: there is no such row; the table has 1"), "{error}");
}
