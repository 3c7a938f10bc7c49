//! Builds from a program: an accept mask instead of a target, settings instead of a schema file,
//! and a callback that stops the build.

#![allow(clippy::needless_update, reason = "with the feature `arrow`, `BuildInputs` has one more field")]

mod common;

use common::*;
use ifonly_bundle::{AcceptMask, BuildError, BuildInputs, BuildOptions, BuildReport, Bundle, SchemaFile, build_from};
use std::ops::ControlFlow;

const TABLE: &str = "age,job,decision\n31,baker,yes\n45,pilot,no\n28,nurse,yes\n60,baker,no\n39,pilot,yes\n";

fn mask(rows: &[bool]) -> Option<AcceptMask> {
    Some(AcceptMask { rows: rows.to_vec(), definition: "a model says so".into() })
}

fn masked(options: &BuildOptions, inputs: BuildInputs) -> Result<BuildReport, BuildError> {
    build_from(options, inputs, &mut |_| ControlFlow::Continue(()))
}

#[test]
fn a_mask_gives_the_rows_of_the_same_target_and_its_definition_is_in_the_manifest() {
    let dir = TestDir::new();
    let data = dir.write("data.csv", TABLE);
    let settings = SchemaFile::parse("exclude = ['decision']").unwrap();
    let options = BuildOptions { signing_key: Some(signing_key(&dir)), ..dir.options(&data) };
    let accepted = [true, false, true, false, true];
    masked(&options, BuildInputs { mask: mask(&accepted), settings: Some(settings), ..BuildInputs::default() })
        .unwrap();
    let by_mask = Bundle::open(&options.output).unwrap();
    assert_eq!(by_mask.manifest().fields().dataset.accepted.as_deref(), Some("a model says so"));

    let (target, accept) = (Some("decision".into()), vec!["yes".into()]);
    let output = dir.path("other.bundle");
    let options = BuildOptions { target, accept, output, ..options };
    build_quietly(&options).unwrap();
    let by_target = Bundle::open(&options.output).unwrap();
    assert_eq!(by_target.manifest().fields().dataset.accepted.as_deref(), Some("decision is yes"));
    for file in ["rows", "records"] {
        let read = |bundle: &str| std::fs::read(dir.path(bundle).join(file)).unwrap();
        assert!(read("bundle") == read("other.bundle"), "{file}");
    }
    assert_eq!(by_mask.manifest().schema(), by_target.manifest().schema());
}

#[test]
fn a_feature_that_determines_the_mask_is_reported() {
    let dir = TestDir::new();
    let options = dir.options(&dir.write("data.csv", TABLE));
    let inputs = BuildInputs { mask: mask(&[true, false, true, false, true]), ..BuildInputs::default() };
    let report = masked(&options, inputs).unwrap();
    assert_eq!(report.telling, ["decision"]);
    assert!(report.warnings().iter().any(|warning| warning.contains("\"decision\" determines the target exactly")));
}

#[test]
fn masks_that_do_not_fit_are_refused_and_nothing_is_written() {
    let dir = TestDir::new();
    let options = dir.options(&dir.write("data.csv", TABLE));
    let target = BuildOptions { target: Some("decision".into()), accept: vec!["yes".into()], ..options.clone() };
    for (options, rows, complaint) in [
        (&options, &[true; 4][..], "the mask has 4 values, but the table has 5 rows"),
        (&options, &[true; 6], "the mask has 6 values, but the table has 5 rows"),
        (&options, &[false; 5], "the mask is false everywhere"),
        (&target, &[true; 5], "both a target and a mask"),
    ] {
        let error =
            masked(options, BuildInputs { mask: mask(rows), ..BuildInputs::default() }).unwrap_err().to_string();
        assert!(error.contains(complaint), "{error}");
        assert!(!options.output.exists());
    }
}

#[test]
fn a_build_that_is_stopped_leaves_nothing_behind() {
    // The number of progress reports of a build. Then a build is stopped at each of them.
    let reports = {
        let dir = TestDir::new();
        let mut reports = 0;
        let count = &mut |_| {
            reports += 1;
            ControlFlow::Continue(())
        };
        build_from(&dir.options(&dir.write("data.csv", TABLE)), BuildInputs::default(), count).unwrap();
        reports
    };
    assert!(reports > 3);
    for stop in 0..reports {
        let dir = TestDir::new();
        let mut received = 0;
        let stopped = build_from(&dir.options(&dir.write("data.csv", TABLE)), BuildInputs::default(), &mut |_| {
            received += 1;
            if received > stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert!(matches!(stopped, Err(BuildError::Stopped)), "{stop} of {reports}");
        assert_eq!(dir.names(), ["data.csv"], "stopped at {stop} of {reports}");
    }
}
