//! Bundles of what a program decided: a mask in place of a target, settings in place of a schema
//! file, and a build that is stopped.

#![allow(clippy::needless_update, reason = "with the feature `arrow` inputs have a field more")]

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
fn a_mask_accepts_the_rows_that_a_target_would_and_the_manifest_says_who_decided() {
    let desk = Desk::new();
    let data = desk.write("data.csv", TABLE);
    let settings = SchemaFile::parse("exclude = ['decision']").unwrap();
    let options = BuildOptions { signing_key: Some(signing_key(&desk)), ..desk.options(&data) };
    let mine = [true, false, true, false, true];
    masked(&options, BuildInputs { mask: mask(&mine), settings: Some(settings), ..BuildInputs::default() }).unwrap();
    let by_mask = Bundle::open(&options.output).unwrap();
    assert_eq!(by_mask.manifest().fields().dataset.accepted.as_deref(), Some("a model says so"));

    let (target, accept) = (Some("decision".into()), vec!["yes".into()]);
    let output = desk.path("other.bundle");
    let options = BuildOptions { target, accept, output, ..options };
    quietly(&options).unwrap();
    let by_target = Bundle::open(&options.output).unwrap();
    assert_eq!(by_target.manifest().fields().dataset.accepted.as_deref(), Some("decision is yes"));
    for file in ["rows", "records"] {
        let read = |bundle: &str| std::fs::read(desk.path(bundle).join(file)).unwrap();
        assert!(read("bundle") == read("other.bundle"), "{file}");
    }
    assert_eq!(by_mask.manifest().schema(), by_target.manifest().schema());
}

#[test]
fn a_feature_that_repeats_the_mask_is_reported() {
    let desk = Desk::new();
    let options = desk.options(&desk.write("data.csv", TABLE));
    let inputs = BuildInputs { mask: mask(&[true, false, true, false, true]), ..BuildInputs::default() };
    let report = masked(&options, inputs).unwrap();
    assert_eq!(report.telling, ["decision"]);
    assert!(report.warnings().iter().any(|warning| warning.contains("\"decision\" alone says who was accepted")));
}

#[test]
fn masks_that_do_not_fit_are_refused_and_nothing_is_written() {
    let desk = Desk::new();
    let options = desk.options(&desk.write("data.csv", TABLE));
    let target = BuildOptions { target: Some("decision".into()), accept: vec!["yes".into()], ..options.clone() };
    for (options, rows, complaint) in [
        (&options, &[true; 4][..], "the mask has 4 values, but the table has 5 rows"),
        (&options, &[true; 6], "the mask has 6 values, but the table has 5 rows"),
        (&options, &[false; 5], "the mask is false everywhere"),
        (&target, &[true; 5], "a target and a mask"),
    ] {
        let error =
            masked(options, BuildInputs { mask: mask(rows), ..BuildInputs::default() }).unwrap_err().to_string();
        assert!(error.contains(complaint), "{error}");
        assert!(!options.output.exists());
    }
}

#[test]
fn a_build_that_is_stopped_leaves_nothing_behind() {
    // How often a build tells of itself; then one is stopped at each of these times.
    let told = {
        let desk = Desk::new();
        let mut told = 0;
        let count = &mut |_| {
            told += 1;
            ControlFlow::Continue(())
        };
        build_from(&desk.options(&desk.write("data.csv", TABLE)), BuildInputs::default(), count).unwrap();
        told
    };
    assert!(told > 3);
    for stop in 0..told {
        let desk = Desk::new();
        let mut heard = 0;
        let stopped = build_from(&desk.options(&desk.write("data.csv", TABLE)), BuildInputs::default(), &mut |_| {
            heard += 1;
            if heard > stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert!(matches!(stopped, Err(BuildError::Stopped)), "{stop} of {told}");
        assert_eq!(desk.names(), ["data.csv"], "stopped at {stop} of {told}");
    }
}
