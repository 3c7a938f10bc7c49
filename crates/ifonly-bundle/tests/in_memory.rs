//! A bundle from values is the bundle that a build from the same values writes.

mod common;

use common::*;
use ifonly_bundle::{BuildOptions, Bundle, save_key};
use ifonly_core::signature::SigningKey;
use ifonly_scan::RowStore;
use ifonly_values::manifest::{Manifest, ManifestFields};

const CSV: &str = "a,b\n1,x\n2,y\n5,z\n4,z\n3,y\n";

#[test]
fn values_in_memory_and_a_file_of_them_make_the_same_bundle() {
    let (desk, key) = (Desk::new(), SigningKey::new(&[4; 32]));
    let options = BuildOptions { signing_key: Some(desk.path("key")), ..desk.csv(CSV, "") };
    save_key(&desk.path("key"), &key).unwrap();
    quietly(&options).unwrap();
    let built = Bundle::open(&options.output).unwrap();
    let rows: Vec<Vec<&str>> = CSV.lines().skip(1).map(|line| line.split(',').collect()).collect();
    let contents = ManifestFields { signer: None, ..built.manifest().fields().clone() };
    let bare = {
        let mut features = contents.schema.features().to_vec();
        features.iter_mut().for_each(|feature| feature.deviation = None);
        ifonly_values::schema::Schema::new(features).unwrap()
    };
    let manifest =
        |schema, rows, record_length| Manifest::new(ManifestFields { schema, rows, record_length, ..contents });
    let made = Bundle::of_values(&bare, &rows, manifest).unwrap().signed(&key).unwrap();
    assert!(made.signed(&key).unwrap_err().to_string().contains("signed already"));
    assert_eq!(made.manifest().json(), built.manifest().json());
    assert!(made.records().eq(built.records()));
    assert!(made.rows().levels().eq(built.rows().levels()));
    assert_eq!(made.data_digest(), built.data_digest());
    check_records(&made);
}

#[test]
fn parts_of_different_bundles_do_not_make_one() {
    let (_, built) = bundle(CSV, "");
    let store = |ranges: &[u32], rows: usize| RowStore::build(ranges, vec![vec![0; ranges.len()]; rows]).unwrap();
    let ranges = built.manifest().schema().max_levels();
    let records = built.records().flatten().copied().collect::<Vec<u8>>();
    let refused = |rows: RowStore, records: &[u8]| {
        Bundle::in_memory(built.manifest().clone(), rows, records.to_vec()).unwrap_err().to_string()
    };
    assert!(refused(store(&ranges, 4), &records).starts_with("4 rows, and a manifest of 5"));
    assert!(refused(store(&[9, 9, 9], 5), &records).contains("other ranges"));
    assert!(refused(store(&ranges, 5), &records[1..]).contains("not 5 records"));
    assert!(Bundle::in_memory(built.manifest().clone(), store(&ranges, 5), records).is_ok());
}

#[test]
fn a_value_that_does_not_fit_is_named_by_row_and_column() {
    let (_, built) = bundle(CSV, "");
    let contents = ManifestFields { signer: None, ..built.manifest().fields().clone() };
    let make = |rows: &[Vec<&str>]| {
        let contents = contents.clone();
        Bundle::of_values(&contents.schema.clone(), rows, |schema, rows, record_length| {
            Manifest::new(ManifestFields { schema, rows, record_length, ..contents })
        })
        .unwrap_err()
        .to_string()
    };
    let error = make(&[vec!["1", "x"], vec!["2", "w"]]);
    assert!(error.starts_with("the given rows, row 2, column \"b\": "), "{error}");
    assert_eq!(make(&[vec!["1"]]), "the given rows, row 1: 1 values for 2 columns");
}
