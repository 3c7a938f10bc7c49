//! The two public datasets of the experiments. A test is skipped if its dataset is not available.

mod common;

use common::*;
use ifonly_bundle::Bundle;
use ifonly_values::schema::FeatureKind;
use std::collections::HashSet;

#[test]
fn wine_has_the_documented_rows() {
    let Some(data) = shared("wine-white.csv") else { return };
    let dir = TestDir::new();
    let mut options = dir.options(&data);
    (options.target, options.accept) = (Some("quality".into()), vec![">=5".into()]);
    let report = build_quietly(&options).unwrap();
    println!("{report}");
    assert_eq!((report.rows_read, report.rows_accepted, report.features.len()), (4898, 4715, 11));
    assert!(report.features.iter().all(|feature| feature.kind == "numeric" && feature.range <= 1000));
    let bundle = Bundle::open(&options.output).unwrap();
    check_records(&bundle);
    let distinct: HashSet<&[u8]> = bundle.texts().collect();
    assert_eq!(distinct.len(), 3788);
}

#[test]
fn compas_is_inferred_and_one_hot_on_request() {
    let Some(data) = shared("compas.csv") else { return };
    let dir = TestDir::new();
    let mut options = dir.options(&data);
    (options.target, options.accept) = (Some("is_recid".into()), vec!["0".into()]);
    let report = build_quietly(&options).unwrap();
    println!("{report}");
    assert_eq!((report.rows_read, report.rows_accepted), (6172, 3182));
    let kind = |name: &str| report.features.iter().find(|feature| feature.name == name).unwrap();
    assert_eq!(kind("age_cat").values, "Less than 25 < 25 - 45 < Greater than 45");
    assert_eq!((kind("sex").kind, kind("sex").range), ("categorical", 100));
    assert_eq!((kind("race").kind, kind("race").range), ("categorical", 5));
    assert_eq!((kind("age").kind, kind("age").range), ("numeric", 78));
    check_records(&Bundle::open(&options.output).unwrap());

    options.schema =
        Some(dir.write("schema.toml", "one_hot = true\ncategorical = ['age_cat']\nimmutable = ['race']\n"));
    options.replace = true;
    let report = build_quietly(&options).unwrap();
    assert_eq!(report.features.len(), 7 + 1 + 6 + 3 + 1, "a column with two categories is one feature");
    let bundle = Bundle::open(&options.output).unwrap();
    check_records(&bundle);
    let schema = bundle.manifest().schema();
    assert!(schema.feature("race=Other").unwrap().suggest_immutable && !schema.needs_tables());
    assert!(
        matches!(&schema.feature("priors_count").unwrap().kind, FeatureKind::Numeric { scale, .. } if scale.max_level() == 38)
    );
    println!("{}", ifonly_bundle::summarise(bundle.manifest()));
}
