//! The parts of a split bundle have its rows, records and data digest. Other directories are
//! refused.
#![cfg(feature = "build")]

use ifonly_bundle::{BuildOptions, Bundle, BundleMetadata, BundlePart, OpenError, SplitError, build};
use std::fs;
use std::path::{Path, PathBuf};

fn bundle(folder: &Path) -> PathBuf {
    let income = |row| 900 + row;
    bundle_of(folder, income)
}

fn bundle_of(folder: &Path, income: impl Fn(usize) -> usize) -> PathBuf {
    let (data, output) = (folder.join("loans.csv"), folder.join("loans.bundle"));
    let rows: String = (0..200).map(|row| format!("{},{},yes\n", income(row), ["nurse", "baker"][row % 2])).collect();
    fs::write(&data, format!("income,job,approved\n{rows}")).unwrap();
    let (target, accept) = (Some("approved".into()), vec!["yes".into()]);
    build(
        &BuildOptions {
            data: vec![data],
            output: output.clone(),
            target,
            accept,
            bundle_id: Some(Default::default()),
            ..BuildOptions::default()
        },
        &mut |_| {},
    )
    .unwrap();
    output
}

#[test]
fn all_parts_together_have_the_rows_of_the_bundle() {
    let dir = tempfile::tempdir().unwrap();
    let whole_at = bundle(dir.path());
    let whole = Bundle::open(&whole_at).unwrap();
    let (levels, records): (Vec<_>, Vec<_>) = (whole.rows().levels().collect(), whole.records().collect());
    for parts in [1, 3, 7] {
        let output = dir.path().join(format!("parts-{parts}"));
        let parts_written = Bundle::split(&whole_at, parts, &output, false).unwrap();
        assert_eq!(parts_written.len(), parts + 1);
        let mut next = 0;
        for (name, rows) in &parts_written[..parts] {
            // A part that was split off, and the same rows taken from the complete bundle.
            let cut = BundlePart::open(&whole_at, Some(rows.clone())).unwrap();
            for part in [BundlePart::open(&output.join(name), None).unwrap(), cut] {
                assert_eq!((part.rows(), part.rows().start), (rows.clone(), next));
                assert_eq!(part.store().levels().collect::<Vec<_>>(), levels[rows.clone()]);
                assert_eq!(part.records().collect::<Vec<_>>(), records[rows.clone()]);
                assert_eq!(
                    (part.manifest().digest(), part.data_digest()),
                    (whole.manifest().digest(), whole.data_digest())
                );
            }
            next = rows.end;
        }
        assert_eq!(next, 200);
        let frontend = BundleMetadata::open(&output.join("frontend")).unwrap();
        assert_eq!(
            (frontend.manifest().digest(), frontend.data_digest()),
            (whole.manifest().digest(), whole.data_digest())
        );
        let refused = |name: &str| Bundle::open(&output.join(name)).unwrap_err().to_string();
        assert!(
            refused("frontend").contains("frontend with shards") && refused("part-0").contains("one part of a bundle")
        );
        assert!(BundlePart::open(&output.join("frontend"), None).is_err());
    }
    for parts in [0, 201] {
        let refused = Bundle::split(&whole_at, parts, &dir.path().join("none"), false);
        assert!(matches!(refused, Err(SplitError::Count { rows: 200, .. })));
    }
}

#[test]
fn only_the_output_of_an_earlier_split_is_replaced_on_request() {
    let dir = tempfile::tempdir().unwrap();
    let whole = bundle(dir.path());
    let output = dir.path().join("parts");
    let names = |folder: &Path| {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = entries.collect();
        names.sort();
        names
    };
    Bundle::split(&whole, 3, &output, false).unwrap();
    let refused = |output: &Path, replace| Bundle::split(&whole, 2, output, replace).unwrap_err().to_string();
    assert!(refused(&output, false).contains("already exists"));
    assert_eq!(names(&output), ["frontend", "part-0", "part-1", "part-2"]);
    Bundle::split(&whole, 2, &output, true).unwrap();
    assert_eq!(names(&output), ["frontend", "part-0", "part-1"]);
    assert_eq!(BundlePart::open(&output.join("part-1"), None).unwrap().rows(), 100..200);
    // Too many parts: the earlier split remains.
    assert!(Bundle::split(&whole, 201, &output, true).is_err());
    // Neither a bundle nor a directory with additional files is replaced.
    assert!(refused(&whole, true).contains("not replaced"));
    fs::write(output.join("notes"), "mine").unwrap();
    assert!(refused(&output, true).contains("not replaced"));
    assert_eq!(names(&output), ["frontend", "notes", "part-0", "part-1"]);
    let beside: Vec<String> = names(dir.path()).into_iter().filter(|name| name.starts_with('.')).collect();
    assert!(beside.is_empty(), "{beside:?}");
    // The directory of all parts is not a bundle.
    for error in [
        Bundle::open(&output).unwrap_err().to_string(),
        BundlePart::open(&output, None).unwrap_err().to_string(),
        BundleMetadata::open(&output).unwrap_err().to_string(),
        Bundle::split(&output, 2, &dir.path().join("again"), false).unwrap_err().to_string(),
    ] {
        assert!(error.contains("parts/part-0") && error.contains("parts/frontend"), "{error}");
    }
}

#[test]
fn damaged_parts_and_other_rows_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let whole = bundle(dir.path());
    for rows in [5..201, 200..300, 7..7] {
        assert!(BundlePart::open(&whole, Some(rows)).unwrap_err().to_string().contains("rows 0:200"));
    }
    let output = dir.path().join("parts");
    Bundle::split(&whole, 2, &output, false).unwrap();
    let part = output.join("part-1");
    let other = BundlePart::open(&part, Some(0..100)).unwrap_err().to_string();
    assert!(other.contains("100:200") && other.contains("0:100"), "{other}");
    assert_eq!(BundlePart::open(&part, Some(100..200)).unwrap().rows(), 100..200);
    for name in ["rows", "records", "manifest.json"] {
        let original = fs::read(part.join(name)).unwrap();
        let mut changed = original.clone();
        *changed.last_mut().unwrap() ^= 1;
        fs::write(part.join(name), &changed).unwrap();
        assert!(matches!(BundlePart::open(&part, None), Err(OpenError::Checksum { .. })), "{name}");
        fs::write(part.join(name), &original[..original.len() - 1]).unwrap();
        assert!(BundlePart::open(&part, None).is_err(), "{name}");
        fs::write(part.join(name), &original).unwrap();
    }
    let label = fs::read_to_string(part.join("part")).unwrap();
    let huge = format!("\"first\": {}", usize::MAX);
    for (from, to) in [
        ("\"first\": 100", "\"first\": 101"),
        ("\"first\": 100", &huge),
        ("\"count\": 100", "\"count\": 99"),
        ("{", ""),
    ] {
        assert!(label.contains(from), "{label}");
        fs::write(part.join("part"), label.replace(from, to)).unwrap();
        assert!(BundlePart::open(&part, None).is_err(), "{to}");
    }
}

#[test]
fn a_mixture_of_two_splits_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let key = dir.path().join("key");
    // The incomes of rows 10 and 11 are swapped in the second table, so all public data is the
    // same.
    let split = |name: &str, income: fn(usize) -> usize| {
        let folder = dir.path().join(name);
        fs::create_dir(&folder).unwrap();
        // The same key, because the public key of the signer is in the manifest.
        if key.exists() {
            fs::copy(&key, folder.join("loans.bundle.signing.key")).unwrap();
        }
        let whole = bundle_of(&folder, income);
        fs::copy(folder.join("loans.bundle.signing.key"), &key).unwrap();
        Bundle::split(&whole, 2, &folder.join("parts"), false).unwrap();
        (whole, folder.join("parts"))
    };
    let (old, old_parts) = split("old", |row| 900 + 7 * row % 200);
    let (new, new_parts) = split("new", |row| 900 + 7 * if row / 2 == 5 { row ^ 1 } else { row } % 200);
    let [old_whole, new_whole] = [&old, &new].map(|whole| Bundle::open(whole).unwrap());
    assert_eq!(old_whole.manifest().digest(), new_whole.manifest().digest());
    assert_ne!(old_whole.data_digest(), new_whole.data_digest());
    // Every combination of old and new files, as after an interrupted copy of the new part over the
    // old one.
    const FILES: [&str; 5] = ["manifest.json", "checksums", "rows", "records", "part"];
    let mixed = dir.path().join("mixed");
    for number in 0..2 {
        let part = format!("part-{number}");
        for copied in 0u32..1 << FILES.len() {
            let _ = fs::remove_dir_all(&mixed);
            fs::create_dir(&mixed).unwrap();
            for (index, file) in FILES.into_iter().enumerate() {
                let from = if copied >> index & 1 == 1 { &new_parts } else { &old_parts };
                fs::copy(from.join(&part).join(file), mixed.join(file)).unwrap();
            }
            let whole = [&old_whole, &new_whole].map(|whole| whole.data_digest());
            let rows: Vec<_> = [&old_whole, &new_whole]
                .map(|whole| whole.rows().levels().skip(100 * number).take(100).collect::<Vec<_>>())
                .into();
            match BundlePart::open(&mixed, None) {
                // A part that opens has the rows of the bundle to which its checksums belong.
                Ok(part) => {
                    let which = whole.iter().position(|digest| *digest == part.data_digest()).unwrap();
                    assert_eq!(part.store().levels().collect::<Vec<_>>(), rows[which], "{copied:05b}");
                }
                Err(OpenError::Mixed { path }) => assert_eq!(path, mixed),
                Err(OpenError::Checksum { .. }) => {}
                Err(error) => panic!("{copied:05b}: {error}"),
            }
        }
    }
    fs::copy(old_parts.join("part-0/checksums"), new_parts.join("part-0/checksums")).unwrap();
    let error = BundlePart::open(&new_parts.join("part-0"), None).unwrap_err().to_string();
    assert!(error.contains("new/parts/part-0") && error.contains("copy the whole part again"), "{error}");
    // All files of a complete bundle are checked, also if only some rows are wanted.
    fs::copy(old.join("checksums"), new.join("checksums")).unwrap();
    assert!(matches!(BundlePart::open(&new, Some(0..50)), Err(OpenError::Checksum { .. })));
}
