//! The sample schema file in `docs/bundles.md` is valid and has every key.

mod common;

use common::*;
use ifonly_bundle::SchemaFile;

const PAGE: &str = include_str!("../../../docs/bundles.md");

fn block(language: &str) -> &'static str {
    let start = format!("```{language}\n");
    PAGE.split_once(&start).unwrap().1.split_once("```").unwrap().0
}

#[test]
fn the_sample_schema_builds_the_sample_table() {
    let (report, bundle) = bundle(block("csv"), block("toml"));
    let names: Vec<&str> = report.features.iter().map(|feature| feature.name.as_str()).collect();
    let housing = ["housing=free", "housing=own", "housing=rent"];
    assert_eq!(names, [&["age", "income", "education", "region"][..], &housing].concat());
    assert_eq!((report.rows_read, report.rows_accepted), (4, 3));
    check_records(&bundle);
}

#[test]
fn the_sample_has_every_key() {
    // The derived `Debug` lists every field. A field that the sample does not set is `None` or
    // empty.
    let settings = SchemaFile::parse(block("toml")).unwrap();
    let lists = [&settings.continuous, &settings.categorical, &settings.immutable, &settings.exclude];
    assert!(lists.iter().all(|list| !list.is_empty()) && settings.target.is_some() && settings.levels.is_some());
    assert!(!settings.accept.is_empty());
    for key in ["one_hot = false", "others = \"infer\"", "exclude = true"] {
        assert!(block("toml").contains(key), "{key}");
    }
    let features: Vec<String> = settings.features.values().map(|feature| format!("{feature:?}")).collect();
    let keys = features[0].split(", ").filter_map(|part| part.rsplit("{ ").next()?.split_once(": "));
    for (key, _) in keys.filter(|(key, _)| *key != "exclude") {
        // The labels of words are a map.
        let set = [format!("{key}: Some("), format!("{key}: {{\"")];
        assert!(features.iter().any(|feature| set.iter().any(|set| feature.contains(set))), "{key} is missing");
    }
}
