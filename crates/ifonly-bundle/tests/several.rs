//! Several files and directories give the bundle of one file with all their rows. Errors name the
//! file and the row in it.

mod common;

use common::*;
use ifonly_bundle::{BuildOptions, BuildProgress, BuildStage, Bundle, build};
use std::path::PathBuf;

const HEAD: &str = "age,debt,job,ok\n";

fn rows(range: std::ops::Range<u64>) -> String {
    let job = |n: u64| ["baker", "pilot", "nurse"][(n * n % 3) as usize];
    range.map(|n| format!("{},{}.5,{},{}\n", 18 + n * 7 % 60, n * 31 % 17, job(n), n % 4)).collect()
}

fn options(dir: &TestDir, data: Vec<PathBuf>, output: &str) -> BuildOptions {
    BuildOptions {
        data,
        output: dir.path(output),
        name: Some("people".into()),
        signing_key: Some(dir.path("key")),
        target: Some("ok".into()),
        accept: vec![">=1".into()],
        bundle_id: Some(Default::default()),
        ..BuildOptions::default()
    }
}

fn built(options: &BuildOptions) -> (String, [u8; 32]) {
    build_quietly(options).unwrap_or_else(|error| panic!("{error}"));
    let bundle = Bundle::open(&options.output).unwrap();
    (bundle.manifest().json().to_owned(), bundle.data_digest())
}

#[test]
fn files_and_directories_are_concatenated_in_the_given_order() {
    let dir = TestDir::new();
    signing_key(&dir);
    let whole = dir.write("whole.csv", format!("{HEAD}{}", rows(0..300)));
    let expected = built(&options(&dir, vec![whole], "whole"));

    let first = dir.write("z.csv", format!("{HEAD}{}", rows(0..77)));
    std::fs::create_dir(dir.path("more")).unwrap();
    // Files of a directory are sorted by name, not by time. Marker files of other programs are
    // skipped. An empty table adds no rows.
    dir.write("more/b.tsv", format!("{HEAD}{}", rows(150..151)).replace(',', "\t"));
    dir.write("more/a.csv", format!("{HEAD}{}", rows(77..150)).replace('\n', "\r\n"));
    dir.write("more/aa.csv", HEAD);
    dir.write("more/_SUCCESS", "");
    dir.write("more/.a.csv.crc", "x");
    let last = dir.write("last", format!("{HEAD}{}", rows(151..300)));
    assert_eq!(built(&options(&dir, vec![first.clone(), dir.path("more"), last.clone()], "several")), expected);
    // The order of the inputs matters.
    assert_ne!(built(&options(&dir, vec![last, dir.path("more"), first], "other")), expected);
}

#[test]
fn a_table_may_have_more_files_than_a_process_may_open() {
    let dir = TestDir::new();
    signing_key(&dir);
    let whole = dir.write("whole.csv", format!("{HEAD}{}", rows(0..600)));
    let expected = built(&options(&dir, vec![whole], "whole"));
    std::fs::create_dir(dir.path("parts")).unwrap();
    for part in 0..200 {
        dir.write(&format!("parts/{part:03}.csv"), format!("{HEAD}{}", rows(3 * part..3 * part + 3)));
    }
    assert_eq!(built(&options(&dir, vec![dir.path("parts")], "several")), expected);
}

#[test]
fn the_default_name_is_that_of_the_only_input_or_of_the_bundle() {
    let dir = TestDir::new();
    signing_key(&dir);
    std::fs::create_dir(dir.path("loans")).unwrap();
    let a = dir.write("loans/a.csv", format!("{HEAD}{}", rows(0..50)));
    let b = dir.write("loans/b.csv", format!("{HEAD}{}", rows(50..99)));
    for (data, output, name) in [
        (vec![dir.path("loans")], "x.bundle", "loans"),
        (vec![a.clone()], "y.bundle", "a"),
        (vec![a, b], "z.bundle", "z"),
    ] {
        let report = build_quietly(&BuildOptions { name: None, ..options(&dir, data, output) }).unwrap();
        assert_eq!(report.manifest.fields().dataset.name, name);
    }
}

#[test]
fn errors_name_the_file_and_the_row() {
    let dir = TestDir::new();
    signing_key(&dir);
    let good = dir.write("good.csv", format!("{HEAD}{}", rows(0..60)));
    let refused = |name: &str, text: String| {
        let bad = dir.write(name, text);
        let options = options(&dir, vec![good.clone(), bad], "bundle");
        let error = build_quietly(&options).unwrap_err().to_string();
        assert!(!options.output.exists());
        error.replace(&format!("{}/", dir.path("").display().to_string().trim_end_matches('/')), "")
    };
    let error = refused("few.csv", "age,job,ok\n1,x,1\n".into());
    assert!(
        error.starts_with("few.csv: its columns differ from those of good.csv: it has no column \"debt\""),
        "{error}"
    );
    let error = refused("many.csv", "age,debt,job,ok,more\n1,2,x,1,2\n".into());
    assert!(error.contains("many.csv") && error.contains("it has an additional column \"more\""), "{error}");
    let error = refused("mixed.csv", "debt,age,job,ok\n1,2,x,1\n".into());
    assert!(error.contains("mixed.csv") && error.contains("a different order"), "{error}");
    let error = refused("missing.csv", format!("{HEAD}20,1.5,pilot,1\n21,,pilot,1\n"));
    assert!(error.starts_with("missing.csv, line 3, column \"debt\": the value is missing"), "{error}");
    let error = refused("word.csv", format!("{HEAD}20,1.5,pilot,1\n21,1.5,pilot,sure\n"));
    assert!(error.starts_with("word.csv, line 3, column \"ok\": \"sure\" is not a number"), "{error}");
    let error = refused("ragged.csv", format!("{HEAD}20,1.5\n"));
    assert!(error.starts_with("ragged.csv, line 2: 2 fields instead of 4"), "{error}");
}

#[test]
fn other_files_in_a_directory_of_tables_are_refused_by_name() {
    for (name, words) in [("notes.md", "not a table"), ("inner/", "subdirectories"), ("", "no tables")] {
        let dir = TestDir::new();
        signing_key(&dir);
        std::fs::create_dir(dir.path("data")).unwrap();
        let path = dir.path("data").join(name);
        match name.strip_suffix('/') {
            Some(_) => std::fs::create_dir(path).unwrap(),
            None if name.is_empty() => {}
            None => std::fs::write(path, "x").unwrap(),
        }
        let error = build_quietly(&options(&dir, vec![dir.path("data")], "bundle")).unwrap_err().to_string();
        assert!(error.contains(words) && error.contains(name.trim_end_matches('/')), "{error}");
    }
    let dir = TestDir::new();
    signing_key(&dir);
    let twice = options(&dir, vec!["-".into(), "-".into()], "bundle");
    assert!(build_quietly(&twice).unwrap_err().to_string().contains("give - only once"));
    assert!(build_quietly(&options(&dir, vec![], "bundle")).unwrap_err().to_string().contains("no data"));
}

#[test]
fn progress_covers_all_files() {
    let dir = TestDir::new();
    signing_key(&dir);
    let data: Vec<PathBuf> = (0..3)
        .map(|part| dir.write(&format!("{part}.csv"), format!("{HEAD}{}", rows(5000 * part..5000 * part + 5000))))
        .collect();
    let bytes: u64 = data.iter().map(|path| path.metadata().unwrap().len()).sum();
    let mut reports: Vec<BuildProgress> = vec![];
    build(&options(&dir, data, "bundle"), &mut |progress| reports.push(progress)).unwrap();
    for stage in [BuildStage::Learning, BuildStage::Encoding] {
        let of_stage: Vec<&BuildProgress> = reports.iter().filter(|progress| progress.stage == stage).collect();
        assert!(of_stage.len() >= 4 && of_stage.windows(2).all(|pair| pair[0].done <= pair[1].done));
        assert!(of_stage.iter().all(|progress| progress.total == bytes && progress.done <= bytes));
        assert!(of_stage.last().is_some_and(|last| last.done == bytes));
    }
}
