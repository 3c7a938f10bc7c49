//! Truncated, damaged and inconsistent bundles are refused with a reason.

mod common;

use common::*;
use ifonly_bundle::{Bundle, OpenError};

const CSV: &str = "a,b\n1,x\n2,y\n5,z\n4,z\n";
const FILES: [&str; 4] = ["manifest.json", "rows", "records", "checksums"];

#[test]
fn every_flipped_bit_is_detected() {
    let dir = TestDir::new();
    let options = dir.csv(CSV, "");
    build_quietly(&options).unwrap();
    for file in FILES {
        let path = options.output.join(file);
        let whole = std::fs::read(&path).unwrap();
        for offset in 0..whole.len() {
            let mut changed = whole.clone();
            changed[offset] ^= 1 << (offset % 8);
            std::fs::write(&path, &changed).unwrap();
            let error = Bundle::open(&options.output).expect_err(file);
            assert!(
                matches!(error, OpenError::Checksum { .. } | OpenError::Malformed { .. }),
                "{file}, byte {offset}: {error}"
            );
        }
        std::fs::write(&path, &whole).unwrap();
    }
    Bundle::open(&options.output).unwrap();
}

#[test]
fn every_truncated_file_is_detected() {
    let dir = TestDir::new();
    let options = dir.csv(CSV, "");
    build_quietly(&options).unwrap();
    for file in FILES {
        let path = options.output.join(file);
        let whole = std::fs::read(&path).unwrap();
        for length in [0, 1, whole.len() / 2, whole.len() - 1] {
            std::fs::write(&path, &whole[..length]).unwrap();
            let error = Bundle::open(&options.output).unwrap_err().to_string();
            assert!(error.contains(file) || error.contains("checksum"), "{file} truncated to {length} bytes: {error}");
        }
        let longer = [whole.as_slice(), b"\0"].concat();
        std::fs::write(&path, longer).unwrap();
        assert!(Bundle::open(&options.output).is_err(), "{file}");
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(Bundle::open(&options.output), Err(OpenError::Io { .. })), "{file}");
        std::fs::write(&path, &whole).unwrap();
        #[cfg(unix)]
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    }
}

/// Replaces one file and updates the checksums: a deliberate change instead of a damaged disk.
fn forge(bundle: &std::path::Path, file: &str, bytes: &[u8]) {
    std::fs::write(bundle.join(file), bytes).unwrap();
    let line = |name: &str| format!("{}  {name}\n", blake3::hash(&std::fs::read(bundle.join(name)).unwrap()).to_hex());
    let text: String = FILES[..3].iter().map(|name| line(name)).collect();
    std::fs::write(bundle.join("checksums"), text).unwrap();
}

#[test]
fn invalid_files_with_valid_checksums_are_refused() {
    let dir = TestDir::new();
    let options = dir.csv(CSV, "");
    build_quietly(&options).unwrap();
    let read = |file: &str| std::fs::read(options.output.join(file)).unwrap();
    let (manifest, rows) = (read("manifest.json"), read("rows"));
    let error = || Bundle::open(&options.output).unwrap_err().to_string();

    // After the header of 64 bytes, each row has four bytes: two levels and padding.
    let with = |offset: usize, byte: u8| {
        let mut changed = rows.clone();
        changed[offset] = byte;
        forge(&options.output, "rows", &changed);
        error()
    };
    assert!(
        with(64 + 3 * 4 + 1, 200).contains("row 4, feature \"b\": level 200 is above the max level 2"),
        "{}",
        error()
    );
    assert!(with(64 + 3 * 4 + 2, 1).contains("padding"), "{}", error());
    assert!(with(64 + 4 * 4, 1).contains("padding"), "{}", error());

    // The fields of the header: magic value, format, bytes per level, rows, features, block length,
    // max level of a feature, padding.
    assert!(with(0, b'i').contains("build the bundle again"), "{}", error());
    assert!(with(8, 2).contains("build the bundle again"), "{}", error());
    assert!(with(12, 2).contains("bytes per level"), "{}", error());
    assert!(with(16, 5).contains("contradicts the manifest"), "{}", error());
    assert!(with(24, 1).contains("padding"), "{}", error());
    assert!(with(28, 32).contains("block length 32"), "{}", error());
    assert!(with(32, rows[32] + 1).contains("contradicts the manifest"), "{}", error());
    assert!(with(63, 1).contains("padding"), "{}", error());

    forge(&options.output, "rows", &rows);

    let records = read("records");
    for offset in [0, 8, 16, 20, 31] {
        let mut header = records.clone();
        header[offset] ^= 1;
        forge(&options.output, "records", &header);
        assert!(error().contains("contradicts the manifest"), "{}", error());
    }
    forge(&options.output, "records", &records);

    forge(&options.output, "rows", &rows[..rows.len() - 1]);
    assert!(error().contains("bytes instead of"), "{}", error());
    forge(&options.output, "rows", &rows);

    // A manifest with a huge number of rows must not cause an allocation of that size.
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
fn the_data_digest_differs_for_other_rows_with_the_same_manifest() {
    let open = |csv: &str| bundle(csv, "[features.a]\nmin = 0\nmax = 9\n").1;
    let (one, two) = (open("a,b\n1,x\n2,y\n3,z\n"), open("a,b\n2,y\n1,x\n3,z\n"));
    assert_eq!(one.manifest().digest(), two.manifest().digest());
    assert_ne!(one.data_digest(), two.data_digest());
}
