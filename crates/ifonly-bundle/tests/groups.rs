//! Grouped builds: every record stands for at least k accepted people and is computed from their
//! group alone.

mod common;

use common::*;
use ifonly_bundle::{BuildInputs, BuildOptions, BuildReport, Bundle, GroupModel, build_from};
use ifonly_values::record::Record;
use std::ops::ControlFlow;

/// Numbers that look random; the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// A table with all kinds of columns, missing values and duplicates.
fn people(rows: u64, random: &mut Random) -> String {
    let mut csv = "age,income,born,risk,job,owner,ok\n".to_owned();
    let mut line = String::new();
    for row in 0..rows {
        // Some rows repeat the previous one.
        if row == 0 || random.below(8) > 0 {
            let income = if random.below(9) == 0 { String::new() } else { (random.below(9000) * 7).to_string() };
            let job = ["nurse", "baker", "pilot", "clerk", "judge"][random.below(5) as usize];
            let risk = ["low", "medium", "high"][random.below(3) as usize];
            let owner = ["no", "yes"][random.below(2) as usize];
            let born = format!("19{}-0{}-1{}", 50 + random.below(40), 1 + random.below(9), random.below(9));
            let ok = if random.below(3) == 0 { "no" } else { "yes" };
            line = format!("{},{income},{born},{risk},{job},{owner},{ok}\n", 18 + random.below(60));
        }
        csv += &line;
    }
    csv
}

fn options(dir: &TestDir, csv: &str, schema: &str, k: u32) -> BuildOptions {
    let key = dir.path("key");
    let key = if key.exists() { key } else { signing_key(dir) };
    BuildOptions {
        group: Some(k),
        target: Some("ok".into()),
        accept: vec!["yes".into()],
        signing_key: Some(key),
        replace: true,
        ..dir.csv(csv, &format!("missing = 'median'\n{schema}"))
    }
}

fn built(options: &BuildOptions) -> (BuildReport, Bundle) {
    let report = build_quietly(options).unwrap_or_else(|error| panic!("{error}"));
    (report, Bundle::open(&options.output).unwrap())
}

fn records(bundle: &Bundle) -> Vec<Record> {
    bundle.texts().map(|text| Record::of(bundle.manifest(), text).unwrap()).collect()
}

#[test]
fn every_record_stands_for_at_least_k_people_and_every_accepted_row_is_counted() {
    let mut random = Random(27);
    for (rows, k, schema) in
        [(700, 5, ""), (300, 10, "[features.job]\none_hot = true"), (64, 10, ""), (900, 150, ""), (40, 20, "")]
    {
        let dir = TestDir::new();
        let csv = people(rows, &mut random);
        let options = options(&dir, &csv, schema, k);
        let (report, bundle) = built(&options);
        let groups = report.groups.clone().unwrap();
        let terms = bundle.manifest().fields().dataset.groups.clone().unwrap();
        assert_eq!((terms.k, terms.l, groups.groups as usize), (k, 1, bundle.manifest().rows()));
        assert_eq!(groups.people + groups.left_out, report.rows_accepted, "{report}");
        assert_eq!(terms.left_out, groups.left_out.next_multiple_of(k.into()));
        let records = records(&bundle);
        let least: u64 = records.iter().map(|record| u64::from(record.group().unwrap().at_least)).sum();
        assert!(records.iter().all(|record| record.group().unwrap().at_least >= k) && least <= groups.people);
        for (record, row) in records.iter().zip(bundle.rows().levels()) {
            assert_eq!(record.levels(bundle.manifest().schema()).unwrap(), row);
        }
        // The same input gives the same bytes.
        let files =
            || ["manifest.json", "rows", "records"].map(|name| std::fs::read(options.output.join(name)).unwrap());
        let before = files();
        built(&options);
        assert!(files() == before);
    }
}

#[test]
fn values_of_single_people_are_neither_in_records_nor_in_the_manifest() {
    let mut random = Random(3);
    let dir = TestDir::new();
    let csv = people(400, &mut random) + "97,7777777,1901-01-01,low,astronaut,no,yes\n";
    let (_, bundle) = built(&options(&dir, &csv, "", 10));
    let text = bundle.manifest().json();
    for trace in ["7777777", "1901", "astronaut", "\"97\""] {
        assert!(!text.contains(trace), "{trace}");
        let found =
            records(&bundle).iter().any(|record| record.values().iter().any(|(_, value)| value.contains(trace)));
        assert!(!found, "{trace}");
    }
    // Without groups all of them are public.
    let mut ungrouped = options(&dir, &csv, "", 1);
    ungrouped.output = dir.path("ungrouped");
    let (report, bundle) = built(&ungrouped);
    assert!(bundle.manifest().json().contains("astronaut") && bundle.manifest().fields().dataset.groups.is_none());
    assert!(
        !report.warnings().iter().any(|warning| warning.contains("original row")),
        "--group 1 silences the warning"
    );
    ungrouped.group = None;
    assert!(built(&ungrouped).0.warnings().iter().any(|warning| warning.contains("original row")));
}

#[test]
fn kept_columns_stay_exact_and_rare_values_are_left_out_and_counted() {
    let mut random = Random(5);
    let dir = TestDir::new();
    let csv = people(500, &mut random) + &"30,5000,1980-01-11,low,astronaut,no,yes\n".repeat(9);
    let (report, bundle) = built(&options(&dir, &csv, "keep = ['job', 'risk']", 10));
    assert!(report.groups.clone().unwrap().left_out >= 9, "{report}");
    assert_eq!(bundle.manifest().fields().dataset.groups.clone().unwrap().keep, ["job", "risk"]);
    assert!(records(&bundle).iter().all(|record| !["mixed", "astronaut"].contains(&record.value("job").unwrap())));
    let error = refused(&csv, "keep = ['jobs']", |options| options.group = Some(5));
    assert!(error.contains("keep") && error.contains("did you mean \"job\""), "{error}");
}

#[test]
fn groups_have_several_sensitive_values() {
    // The sensitive value follows the age, so that groups without the rule are homogeneous.
    let row = |n: u32| format!("{},{},{},yes\n", n / 10, n % 10, if n < 300 { "flu" } else { "cold" });
    let csv = "age,rest,illness,ok\n".to_owned() + &(0..600).map(row).collect::<String>() + "5,5,flu,no\n";
    let illnesses = |schema: &str| {
        let dir = TestDir::new();
        let (report, bundle) = built(&options(&dir, &csv, schema, 5));
        (report.groups.unwrap().groups, records(&bundle))
    };
    let (free, _) = illnesses("");
    let (diverse, _) = illnesses("sensitive = ['illness']\nl = 2");
    assert!(free > 60 && diverse < free, "{free} {diverse}");
    let refuse = |schema: &str| refused(&csv, schema, |options| options.group = Some(5));
    assert!(refuse("l = 2").contains("needs `sensitive` columns"));
    assert!(refuse("keep = ['illness']\nsensitive = ['illness']").contains("keep and sensitive"));
}

#[test]
fn tables_that_cannot_be_grouped_are_refused_with_the_reason() {
    let one = "a,b,ok\n1,2,yes\n2,3,no\n3,1,no\n";
    let accepted = |options: &mut BuildOptions, k| {
        (options.target, options.accept, options.group) = (Some("ok".into()), vec!["yes".into()], Some(k));
    };
    assert!(refused(one, "", |options| accepted(options, 2)).contains("group = 2: must be 2 to the number of rows"));
    let equal = "a,b,ok\n1,2,yes\n".to_owned() + &"1,2,yes\n".repeat(30) + "2,3,no\n3,1,no\n";
    assert!(refused(&equal, "", |options| accepted(options, 5)).contains("every group has the same value"));
    assert!(refused(&equal, "", |options| accepted(options, 99)).contains("31 accepted rows"));
    let cuts = refused(one, "", |options| options.cuts = Some("old.bundle".into()));
    assert!(cuts.contains("need groups"), "{cuts}");
}

#[test]
fn a_new_version_with_the_old_cuts_changes_only_the_leaf_of_a_new_person() {
    let mut random = Random(11);
    let dir = TestDir::new();
    let csv = people(4000, &mut random);
    let first = options(&dir, &csv, "", 10);
    let (_, before) = built(&first);
    let new = BuildOptions {
        output: dir.path("new"),
        ..options(&dir, &(csv + "44,21000,1970-05-15,low,nurse,no,yes\n"), "", 10)
    };
    let changed = |options: &BuildOptions| {
        let (_, after) = built(options);
        let old: std::collections::HashSet<Vec<u16>> = levels(&before).into_iter().collect();
        levels(&after).iter().filter(|row| !old.contains(*row)).count()
    };
    let with_cuts = changed(&BuildOptions { cuts: Some(first.output.clone()), ..new.clone() });
    // One leaf has at most 256 people.
    assert!(with_cuts <= 26, "{with_cuts}");
}

#[test]
fn representatives_that_a_model_does_not_accept_are_left_out_and_counted() {
    let mut random = Random(13);
    let dir = TestDir::new();
    let options = options(&dir, &people(500, &mut random), "", 10);
    let with = |model: fn(&str) -> bool| {
        let check = move |names: &[String], rows: &[Vec<String>]| {
            let age = names.iter().position(|name| name == "age").unwrap();
            Ok(rows.iter().map(|row| model(&row[age])).collect())
        };
        let inputs = BuildInputs { model: Some(GroupModel(Box::new(check))), ..BuildInputs::default() };
        build_from(&options, inputs, &mut |_| ControlFlow::Continue(()))
    };
    let report = with(|age| age.parse::<f64>().unwrap() < 45.0).unwrap();
    let groups = report.groups.unwrap();
    assert!(groups.refused_by_model.unwrap() > 0 && groups.left_out > 0);
    let bundle = Bundle::open(&options.output).unwrap();
    assert!(records(&bundle).iter().all(|record| record.value("age").unwrap().parse::<f64>().unwrap() < 45.0));
    assert!(with(|_| false).unwrap_err().to_string().contains("accepts no representative"));
}
