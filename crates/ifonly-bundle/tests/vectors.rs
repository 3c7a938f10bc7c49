//! `vectors/bundle.json`: the manifest, rows and signed records that a build makes from a small CSV
//! file. Written by `IFONLY_BLESS=1 cargo test -p ifonly-bundle --test vectors`;
//! `vectors/bundle.py` checks it from docs/protocol.md alone.

mod common;

use common::{TestDir, build_quietly, levels, signing_key};
use ifonly_bundle::{BuildOptions, Bundle};
use serde_json::{Value, json};
use std::path::PathBuf;

const CSV: &str = "\
age,income,joined,housing,members,decision
23,\"$1,250.50\",2019-03-01,rent,1,no
31,\"$2,100.00\",2018-07-15,own,2,yes
44,\"$3,480.25\",2012-01-30,own,4,yes
52,$990.00,2020-11-02,parents,1,no
29,\"$1,875.75\",2017-05-20,rent,3,yes
61,\"$2,640.10\",2009-09-09,own,2,yes
38,\"$4,015.00\",2015-12-24,rent,5,yes
27,\"$1,500.00\",2021-02-28,parents,1,yes
";

fn vector() -> Value {
    let dir = TestDir::new();
    let mut options = BuildOptions { signing_key: Some(signing_key(&dir)), ..dir.csv(CSV, "") };
    options.target = Some("decision".into());
    options.accept = vec!["yes".into()];
    build_quietly(&options).unwrap();
    let bundle = Bundle::open(&options.output).unwrap();
    json!({
        "csv": CSV,
        "signing_key": hex::encode([8; 32]),
        "target": "decision",
        "accept": "yes",
        "manifest": bundle.manifest().json(),
        "digest": hex::encode(bundle.manifest().digest()),
        "rows": levels(&bundle),
        "records": bundle.records().map(hex::encode).collect::<Vec<_>>(),
    })
}

#[test]
fn a_bundle_is_built_as_in_the_vector() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vectors/bundle.json");
    let vector = vector();
    if std::env::var_os("IFONLY_BLESS").is_some() {
        return std::fs::write(&path, serde_json::to_string_pretty(&vector).unwrap() + "\n").unwrap();
    }
    let stored: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert!(stored == vector, "bundle.json differs; if the change is intended, write it again with IFONLY_BLESS=1");
}
