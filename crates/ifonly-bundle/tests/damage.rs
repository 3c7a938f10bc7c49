//! A bundle that was cut, bent or mixed is refused with a reason.

mod common;

use common::*;
use ifonly_bundle::{Bundle, OpenError};

const CSV: &str = "a,b\n1,x\n2,y\n5,z\n4,z\n";
const FILES: [&str; 4] = ["manifest.json", "rows", "records", "checksums"];

#[test]
fn every_flipped_bit_is_noticed() {
    let desk = Desk::new();
    let options = desk.csv(CSV, "");
    quietly(&options).unwrap();
    for file in FILES {
        let path = options.output.join(file);
        let whole = std::fs::read(&path).unwrap();
        for place in 0..whole.len() {
            let mut bent = whole.clone();
            bent[place] ^= 1 << (place % 8);
            std::fs::write(&path, &bent).unwrap();
            let error = Bundle::open(&options.output).expect_err(file);
            assert!(
                matches!(error, OpenError::Checksum { .. } | OpenError::Malformed { .. }),
                "{file}, byte {place}: {error}"
            );
        }
        std::fs::write(&path, &whole).unwrap();
    }
    Bundle::open(&options.output).unwrap();
}

#[test]
fn every_cut_file_is_noticed() {
    let desk = Desk::new();
    let options = desk.csv(CSV, "");
    quietly(&options).unwrap();
    for file in FILES {
        let path = options.output.join(file);
        let whole = std::fs::read(&path).unwrap();
        for length in [0, 1, whole.len() / 2, whole.len() - 1] {
            std::fs::write(&path, &whole[..length]).unwrap();
            let error = Bundle::open(&options.output).unwrap_err().to_string();
            assert!(error.contains(file) || error.contains("checksum"), "{file} cut to {length}: {error}");
        }
        let longer = [whole.as_slice(), b"\0"].concat();
        std::fs::write(&path, longer).unwrap();
        assert!(Bundle::open(&options.output).is_err(), "{file}");
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(Bundle::open(&options.output), Err(OpenError::Io { .. })), "{file}");
        std::fs::write(&path, &whole).unwrap();
    }
}

/// Replaces one file and writes checksums that agree with it: somebody who means it, not a broken
/// disk.
fn forge(bundle: &std::path::Path, file: &str, bytes: &[u8]) {
    std::fs::write(bundle.join(file), bytes).unwrap();
    let line = |name: &str| format!("{}  {name}\n", blake3::hash(&std::fs::read(bundle.join(name)).unwrap()).to_hex());
    let text: String = FILES[..3].iter().map(|name| line(name)).collect();
    std::fs::write(bundle.join("checksums"), text).unwrap();
}

#[test]
fn right_checksums_do_not_make_wrong_files_right() {
    let desk = Desk::new();
    let options = desk.csv(CSV, "");
    quietly(&options).unwrap();
    let read = |file: &str| std::fs::read(options.output.join(file)).unwrap();
    let (manifest, rows) = (read("manifest.json"), read("rows"));
    let error = || Bundle::open(&options.output).unwrap_err().to_string();

    // Behind the header of 64 bytes, the two levels of a row stand in four bytes.
    let with = |place: usize, byte: u8| {
        let mut bent = rows.clone();
        bent[place] = byte;
        forge(&options.output, "rows", &bent);
        error()
    };
    assert!(with(64 + 3 * 4 + 1, 200).contains("row 4, feature \"b\": level 200 is above 2"), "{}", error());
    assert!(with(64 + 3 * 4 + 2, 1).contains("padding"), "{}", error());
    assert!(with(64 + 4 * 4, 1).contains("padding"), "{}", error());

    // Another magic, format, width of levels, number of rows and of features, block, range of a
    // feature, padding.
    assert!(with(0, b'i').contains("build the bundle again"), "{}", error());
    assert!(with(8, 2).contains("build the bundle again"), "{}", error());
    assert!(with(12, 2).contains("bytes per level"), "{}", error());
    assert!(with(16, 5).contains("contradicts the manifest"), "{}", error());
    assert!(with(24, 1).contains("padding"), "{}", error());
    assert!(with(28, 32).contains("blocks of 32"), "{}", error());
    assert!(with(32, rows[32] + 1).contains("contradicts the manifest"), "{}", error());
    assert!(with(63, 1).contains("padding"), "{}", error());

    forge(&options.output, "rows", &rows);

    let records = read("records");
    for place in [0, 8, 16, 20, 31] {
        let mut header = records.clone();
        header[place] ^= 1;
        forge(&options.output, "records", &header);
        assert!(error().contains("contradicts the manifest"), "{}", error());
    }
    forge(&options.output, "records", &records);

    forge(&options.output, "rows", &rows[..rows.len() - 1]);
    assert!(error().contains("bytes instead of"), "{}", error());
    forge(&options.output, "rows", &rows);

    // A manifest that claims more rows than any disk holds must not make anybody allocate them.
    let text = String::from_utf8(manifest.clone()).unwrap();
    forge(&options.output, "manifest.json", text.replace("\"rows\":4,", "\"rows\":4294967295,").as_bytes());
    assert!(error().contains("bytes instead of"), "{}", error());
    forge(&options.output, "manifest.json", text.replace("\"rows\":4,", "\"rows\":9223372036854775807,").as_bytes());
    assert!(error().contains("rows"), "{}", error());
    forge(&options.output, "manifest.json", format!("{text}\n").as_bytes());
    assert!(error().contains("canonical"), "{}", error());
    forge(&options.output, "manifest.json", &manifest);
    Bundle::open(&options.output).unwrap();
}

#[test]
fn other_data_has_another_data_digest_under_the_same_manifest() {
    let open = |csv: &str| bundle(csv, "[features.a]\nmin = 0\nmax = 9\n").1;
    let (one, two) = (open("a,b\n1,x\n2,y\n3,z\n"), open("a,b\n2,y\n1,x\n3,z\n"));
    assert_eq!(one.manifest().digest(), two.manifest().digest());
    assert_ne!(one.data_digest(), two.data_digest());
}
