//! `vectors/sealed-machine.json`: whole sessions, frame by frame, for other implementations. This test runs them anew and
//! compares; `IFONLY_BLESS=1 cargo test -p ifonly-sealed --test vectors` writes them. `vectors/check_sealed.py` recomputes them
//! without this crate.

mod common;

use common::{answers, pair_key, record};
use ifonly_algebra::random::{Random, SeededRandom};
use ifonly_sealed::{Circuit, Party, Peer, Randomness, Shape, combine, share, simulate};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Seeded, and remembers what it gave.
struct Recorder {
    source: SeededRandom,
    given: Vec<Vec<u8>>,
}

impl Random for Recorder {
    fn fill(&mut self, bytes: &mut [u8]) {
        self.source.fill(bytes);
        self.given.push(bytes.to_vec());
    }
}

fn session(shape: Shape, cost_bits: usize, values: &[u64], keyed: bool, seed: u64) -> Value {
    let circuit = Arc::new(Circuit::new(&shape));
    let mut random = SeededRandom::new(seed);
    let shares = share(shape.bits(), values, &mut random);
    let mut id = [0; 32];
    random.fill(&mut id);
    let mut recorder = Recorder { source: random, given: vec![] };
    let mut parties = [1, 2, 3].map(|n| {
        let randomness = match keyed {
            false => Randomness::Drawn,
            true => Randomness::Keyed { with_previous: pair_key((n + 1) % 3 + 1, id), with_next: pair_key(n, id) },
        };
        Party::new(&circuit, n, randomness, |row| shares[n - 1][row], &mut recorder).unwrap()
    });
    let mut frames = [(); 6].map(|()| vec![]);
    let results = simulate::run(&mut parties, &mut recorder, |letter| {
        frames[2 * letter.from - 2 + usize::from(letter.to == Peer::Previous)].push(hex(&letter.frame));
        vec![letter]
    });
    assert_eq!(results, [Ok(()), Ok(()), Ok(())]);
    let selections: Vec<Vec<String>> = parties
        .iter()
        .map(|party| (0..shape.ranks()).map(|rank| hex(&party.selection(rank).unwrap())).collect())
        .collect();
    let answers = answers(&circuit, parties);
    let found = combine(&shape, [&answers[0], &answers[1], &answers[2]]).unwrap();
    let frames: Vec<Value> =
        frames.chunks(2).map(|pair| json!({ "to_next": pair[0], "to_previous": pair[1] })).collect();
    // In this order three parties in one thread draw: the masks of 1, 2, 3, then r of 1, 2, 3.
    // Of masks only the lanes in use count.
    let lanes = shape.rows().div_ceil(shape.rows().div_ceil(64)) as u32;
    for masks in recorder.given.iter_mut().take(3) {
        for word in masks.as_chunks_mut().0 {
            *word = (u64::from_le_bytes(*word) & (u64::MAX >> (64 - lanes))).to_le_bytes();
        }
    }
    let given: Vec<String> = recorder.given.iter().map(|bytes| hex(bytes)).collect();
    let pair_keys = [1, 2, 3].map(|n| hex(&[n; 32]));
    let randomness = match keyed {
        false => json!({ "masks": given[..3], "ahead": given[3..] }),
        true => json!({ "pair_keys": pair_keys, "epoch": 1, "session": hex(&id) }),
    };
    let records: String = (0..shape.rows()).map(|row| hex(&record(&shape, row))).collect();
    let shares = shares.map(|share| share.iter().map(|value| hex(&value.to_le_bytes())).collect::<String>());
    let found: Vec<Value> = found
        .iter()
        .map(|found| found.as_ref().map_or(Value::Null, |row| json!({ "cost": row.cost, "record": hex(&row.record) })))
        .collect();
    let answers: Vec<String> = answers.iter().map(|answer| hex(answer)).collect();
    json!({
        "rows": shape.rows(), "bits": shape.bits(), "cost_bits": cost_bits, "top": shape.ranks(),
        "record_bytes": record(&shape, 0).len(),
        "shares": shares, "records": records, "randomness": randomness,
        "frames": frames, "selections": selections, "answers": answers, "found": found,
    })
}

#[test]
fn sessions_are_as_written_down() {
    let mut random = SeededRandom::new(21);
    let mut cases = vec![];
    for (rows, bits, cost_bits, top, keyed) in [
        (1, 1, 0, 1, false),
        (5, 4, 2, 1, false),
        (67, 5, 3, 1, false),
        (3, 3, 2, 2, false),
        (66, 8, 6, 1, true),
    ] {
        let shape = Shape::new(rows, bits, cost_bits).unwrap().top(top).unwrap().record_bytes(3).unwrap();
        let values: Vec<u64> = (0..rows).map(|_| random.below(1 << bits)).collect();
        cases.push(session(shape, cost_bits, &values, keyed, 30 + cases.len() as u64));
    }
    let value = json!({ "scheme": "sealed-machine", "cases": cases });
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vectors/sealed-machine.json");
    if std::env::var_os("IFONLY_BLESS").is_some() {
        std::fs::write(&path, serde_json::to_string_pretty(&value).unwrap() + "\n").unwrap();
        return;
    }
    let kept: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert!(kept == value, "sealed-machine.json differs; if the machine was meant to change, bless it");
}
