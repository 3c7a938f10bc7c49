//! A build from arbitrary bytes ends with a valid bundle, or with an error that leaves no files
//! behind.

mod common;

use common::*;
use ifonly_algebra::random::{RandomSource, SeededRandom};
use ifonly_bundle::Bundle;

const CSV: &str = "\u{feff}age,debt,\"the job\",risk,ok\n23,0.5,baker,low,1\n31,,pilot,high,0\n45,1e2,\"pi,lot\",low,1\n52,-3,x,medium,1\n";
const SCHEMA: &str = "target = 'ok'\naccept = ['>=1']\ncontinuous = ['age']\nimmutable = ['age']\nlevels = 50\n\
    [features.debt]\nmin = -5\nmax = 200\ndefault = 0\nquantiser = 'floor'\n[features.risk]\nranks = ['low', 'medium', 'high']\n";

/// Applies one or two random mutations: changes, removes, inserts or repeats bytes. Prefers bytes
/// that have a meaning in CSV or TOML.
fn mutate(text: &str, random: &mut SeededRandom) -> Vec<u8> {
    const SYNTAX: &[u8] = b"\0\n\r\",;\t-.eE0123456789'=[]{}\xff\xfe";
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..1 + random.below(2) {
        let offset = random.below(bytes.len() as u64) as usize;
        match random.below(5) {
            0 => bytes[offset] = random.below(256) as u8,
            1 => bytes[offset] = SYNTAX[random.below(SYNTAX.len() as u64) as usize],
            2 => drop(bytes.remove(offset)),
            3 => bytes.insert(offset, SYNTAX[random.below(SYNTAX.len() as u64) as usize]),
            _ => bytes.extend_from_within(offset..),
        }
        if bytes.is_empty() {
            bytes.push(b'a');
        }
    }
    bytes
}

#[test]
fn mutated_data_and_schema_files_never_crash_a_build() {
    const SEED: u64 = 77;
    let mut random = SeededRandom::new(SEED);
    let (mut built, mut refused) = (0, 0);
    for number in 0..900 {
        let dir = TestDir::new();
        let csv = if number % 3 == 2 { CSV.as_bytes().to_vec() } else { mutate(CSV, &mut random) };
        let mut options = dir.csv(csv, "x");
        let schema = if number % 3 == 0 { SCHEMA.as_bytes().to_vec() } else { mutate(SCHEMA, &mut random) };
        options.schema = Some(dir.write("schema.toml", schema));
        match build_quietly(&options) {
            Ok(_) => {
                check_records(&Bundle::open(&options.output).unwrap_or_else(|e| panic!("seed {SEED}, {number}: {e}")));
                built += 1;
            }
            Err(error) => {
                assert!(error.to_string().len() < 2000, "seed {SEED}, {number}: {error}");
                assert_eq!(dir.names(), ["data.csv", "schema.toml"], "seed {SEED}, {number}");
                refused += 1;
            }
        }
    }
    // Both outcomes must be frequent, otherwise the mutations test too little.
    assert!(built > 50 && refused > 50, "{built} built, {refused} refused");
}
