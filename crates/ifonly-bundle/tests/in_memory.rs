//! A bundle from values in memory equals the bundle that is built from a file with the same values.

mod common;

use common::*;
use ifonly_bundle::{BuildOptions, Bundle, save_key};
use ifonly_core::signature::SigningKey;
use ifonly_scan::RowStore;
use ifonly_values::manifest::{Manifest, ManifestFields};

const CSV: &str = "a,b\n1,x\n2,y\n5,z\n4,z\n3,y\n";

#[test]
fn values_in_memory_give_the_same_bundle_as_a_file() {
    let (dir, key) = (TestDir::new(), SigningKey::new(&[4; 32]));
    let options = BuildOptions { signing_key: Some(dir.path("key")), ..dir.csv(CSV, "") };
    save_key(&dir.path("key"), &key).unwrap();
    build_quietly(&options).unwrap();
    let built = Bundle::open(&options.output).unwrap();
    let rows: Vec<Vec<&str>> = CSV.lines().skip(1).map(|line| line.split(',').collect()).collect();
    let fields = ManifestFields { signer: None, ..built.manifest().fields().clone() };
    let bare = {
        let mut features = fields.schema.features().to_vec();
        features.iter_mut().for_each(|feature| feature.deviation = None);
        ifonly_values::schema::Schema::new(features).unwrap()
    };
    let manifest =
        |schema, rows, record_length| Manifest::new(ManifestFields { schema, rows, record_length, ..fields });
    let made = Bundle::of_values(&bare, &rows, manifest).unwrap().signed(&key).unwrap();
    assert!(made.signed(&key).unwrap_err().to_string().contains("already signed"));
    assert_eq!(made.manifest().json(), built.manifest().json());
    assert!(made.records().eq(built.records()));
    assert!(made.rows().levels().eq(built.rows().levels()));
    assert_eq!(made.data_digest(), built.data_digest());
    check_records(&made);
}

#[test]
fn components_of_different_bundles_are_refused() {
    let (_, built) = bundle(CSV, "");
    let store =
        |max_levels: &[u32], rows: usize| RowStore::build(max_levels, vec![vec![0; max_levels.len()]; rows]).unwrap();
    let max_levels = built.manifest().schema().max_levels();
    let records = built.records().flatten().copied().collect::<Vec<u8>>();
    let refused = |rows: RowStore, records: &[u8]| {
        Bundle::in_memory(built.manifest().clone(), rows, records.to_vec()).unwrap_err().to_string()
    };
    assert!(refused(store(&max_levels, 4), &records).starts_with("the bundle has 4 rows, but its manifest says 5"));
    assert!(refused(store(&[9, 9, 9], 5), &records).contains("max levels"));
    assert!(refused(store(&max_levels, 5), &records[1..]).contains("but 5 records of"));
    assert!(Bundle::in_memory(built.manifest().clone(), store(&max_levels, 5), records).is_ok());
}

#[test]
fn an_invalid_value_is_reported_with_row_and_column() {
    let (_, built) = bundle(CSV, "");
    let fields = ManifestFields { signer: None, ..built.manifest().fields().clone() };
    let make = |rows: &[Vec<&str>]| {
        let fields = fields.clone();
        Bundle::of_values(&fields.schema.clone(), rows, |schema, rows, record_length| {
            Manifest::new(ManifestFields { schema, rows, record_length, ..fields })
        })
        .unwrap_err()
        .to_string()
    };
    let error = make(&[vec!["1", "x"], vec!["2", "w"]]);
    assert!(error.starts_with("the given rows, row 2, column \"b\": "), "{error}");
    assert_eq!(make(&[vec!["1"]]), "the given rows, row 1: 1 value for 2 columns");
}
