//! Several files and directories are one table: the bundle is that of one file with all their rows,
//! and errors name the file and its row.

mod common;

use common::*;
use ifonly_bundle::{BuildOptions, BuildProgress, BuildStage, Bundle, build};
use std::path::PathBuf;

const HEAD: &str = "age,debt,job,ok\n";

fn rows(range: std::ops::Range<u64>) -> String {
    let job = |n: u64| ["baker", "pilot", "nurse"][(n * n % 3) as usize];
    range.map(|n| format!("{},{}.5,{},{}\n", 18 + n * 7 % 60, n * 31 % 17, job(n), n % 4)).collect()
}

fn options(desk: &Desk, data: Vec<PathBuf>, output: &str) -> BuildOptions {
    BuildOptions {
        data,
        output: desk.path(output),
        name: Some("people".into()),
        signing_key: Some(desk.path("key")),
        target: Some("ok".into()),
        accept: vec![">=1".into()],
        ..BuildOptions::default()
    }
}

fn built(options: &BuildOptions) -> (String, [u8; 32]) {
    quietly(options).unwrap_or_else(|error| panic!("{error}"));
    let bundle = Bundle::open(&options.output).unwrap();
    (bundle.manifest().json().to_owned(), bundle.data_digest())
}

#[test]
fn files_and_directories_are_one_table_in_the_order_of_their_names() {
    let desk = Desk::new();
    signing_key(&desk);
    let whole = desk.write("whole.csv", format!("{HEAD}{}", rows(0..300)));
    let right = built(&options(&desk, vec![whole], "whole"));

    let first = desk.write("z.csv", format!("{HEAD}{}", rows(0..77)));
    std::fs::create_dir(desk.path("more")).unwrap();
    // Names decide, not the time of writing; what other programs leave behind is passed over; an
    // empty table adds nothing.
    desk.write("more/b.tsv", format!("{HEAD}{}", rows(150..151)).replace(',', "\t"));
    desk.write("more/a.csv", format!("{HEAD}{}", rows(77..150)).replace('\n', "\r\n"));
    desk.write("more/aa.csv", HEAD);
    desk.write("more/_SUCCESS", "");
    desk.write("more/.a.csv.crc", "x");
    let last = desk.write("last", format!("{HEAD}{}", rows(151..300)));
    assert_eq!(built(&options(&desk, vec![first.clone(), desk.path("more"), last.clone()], "several")), right);
    // Another order is another table.
    assert_ne!(built(&options(&desk, vec![last, desk.path("more"), first], "other")), right);
}

#[test]
fn a_table_may_have_more_files_than_a_process_may_open() {
    let desk = Desk::new();
    signing_key(&desk);
    let whole = desk.write("whole.csv", format!("{HEAD}{}", rows(0..600)));
    let right = built(&options(&desk, vec![whole], "whole"));
    std::fs::create_dir(desk.path("parts")).unwrap();
    for part in 0..200 {
        desk.write(&format!("parts/{part:03}.csv"), format!("{HEAD}{}", rows(3 * part..3 * part + 3)));
    }
    assert_eq!(built(&options(&desk, vec![desk.path("parts")], "several")), right);
}

#[test]
fn names_come_from_the_only_input_or_else_from_the_bundle() {
    let desk = Desk::new();
    signing_key(&desk);
    std::fs::create_dir(desk.path("loans")).unwrap();
    let a = desk.write("loans/a.csv", format!("{HEAD}{}", rows(0..50)));
    let b = desk.write("loans/b.csv", format!("{HEAD}{}", rows(50..99)));
    for (data, output, name) in [
        (vec![desk.path("loans")], "x.bundle", "loans"),
        (vec![a.clone()], "y.bundle", "a"),
        (vec![a, b], "z.bundle", "z"),
    ] {
        let report = quietly(&BuildOptions { name: None, ..options(&desk, data, output) }).unwrap();
        assert_eq!(report.manifest.fields().dataset.name, name);
    }
}

#[test]
fn faults_name_the_file_and_its_row() {
    let desk = Desk::new();
    signing_key(&desk);
    let good = desk.write("good.csv", format!("{HEAD}{}", rows(0..60)));
    let refused = |name: &str, text: String| {
        let bad = desk.write(name, text);
        let options = options(&desk, vec![good.clone(), bad], "bundle");
        let error = quietly(&options).unwrap_err().to_string();
        assert!(!options.output.exists());
        error.replace(&format!("{}/", desk.path("").display().to_string().trim_end_matches('/')), "")
    };
    let error = refused("few.csv", "age,job,ok\n1,x,1\n".into());
    assert!(error.starts_with("few.csv: its columns are not those of good.csv: it has no column \"debt\""), "{error}");
    let error = refused("many.csv", "age,debt,job,ok,more\n1,2,x,1,2\n".into());
    assert!(error.contains("many.csv") && error.contains("it has a column \"more\" too"), "{error}");
    let error = refused("mixed.csv", "debt,age,job,ok\n1,2,x,1\n".into());
    assert!(error.contains("mixed.csv") && error.contains("another order"), "{error}");
    let error = refused("lacking.csv", format!("{HEAD}20,1.5,pilot,1\n21,,pilot,1\n"));
    assert!(error.starts_with("lacking.csv, line 3, column \"debt\": the value is missing"), "{error}");
    let error = refused("word.csv", format!("{HEAD}20,1.5,pilot,1\n21,1.5,pilot,sure\n"));
    assert!(error.starts_with("word.csv, line 3, column \"ok\": \"sure\" is not a number"), "{error}");
    let error = refused("ragged.csv", format!("{HEAD}20,1.5\n"));
    assert!(error.starts_with("ragged.csv, line 2: 2 fields instead of 4"), "{error}");
}

#[test]
fn what_is_no_table_in_a_directory_is_named() {
    for (name, words) in [("notes.md", "no table"), ("inner/", "a directory in a directory"), ("", "no tables")] {
        let desk = Desk::new();
        signing_key(&desk);
        std::fs::create_dir(desk.path("data")).unwrap();
        let path = desk.path("data").join(name);
        match name.strip_suffix('/') {
            Some(_) => std::fs::create_dir(path).unwrap(),
            None if name.is_empty() => {}
            None => std::fs::write(path, "x").unwrap(),
        }
        let error = quietly(&options(&desk, vec![desk.path("data")], "bundle")).unwrap_err().to_string();
        assert!(error.contains(words) && error.contains(name.trim_end_matches('/')), "{error}");
    }
    let desk = Desk::new();
    signing_key(&desk);
    let twice = options(&desk, vec!["-".into(), "-".into()], "bundle");
    assert!(quietly(&twice).unwrap_err().to_string().contains("give - once"));
    assert!(quietly(&options(&desk, vec![], "bundle")).unwrap_err().to_string().contains("no data"));
}

#[test]
fn progress_runs_through_all_files() {
    let desk = Desk::new();
    signing_key(&desk);
    let data: Vec<PathBuf> = (0..3)
        .map(|part| desk.write(&format!("{part}.csv"), format!("{HEAD}{}", rows(5000 * part..5000 * part + 5000))))
        .collect();
    let bytes: u64 = data.iter().map(|path| path.metadata().unwrap().len()).sum();
    let mut seen: Vec<BuildProgress> = vec![];
    build(&options(&desk, data, "bundle"), &mut |progress| seen.push(progress)).unwrap();
    for stage in [BuildStage::Learning, BuildStage::Encoding] {
        let of_stage: Vec<&BuildProgress> = seen.iter().filter(|progress| progress.stage == stage).collect();
        assert!(of_stage.len() >= 4 && of_stage.windows(2).all(|pair| pair[0].done <= pair[1].done));
        assert!(of_stage.iter().all(|progress| progress.total == bytes && progress.done <= bytes));
        assert!(of_stage.last().is_some_and(|last| last.done == bytes));
    }
}
