//! Test vectors for other implementations.
//!
//! `vectors/sealed-machine.json` holds complete sessions of three parties, frame by frame.
//! `vectors/sealed-search.json` holds one complete search, from the cost tables to the result.
//! These tests recompute and compare them; `IFONLY_BLESS=1 cargo test -p ifonly-sealed --test
//! vectors` writes them. `vectors/check_sealed.py` recomputes them without this crate.

mod common;

use common::{answers, pair_key, record};
use ifonly_algebra::keys::RootKey;
use ifonly_algebra::random::{RandomSource, SeededRandom};
use ifonly_core::candidates::DecodedCost;
use ifonly_core::params::Params;
use ifonly_core::scheme::instance::SchemeInstance;
use ifonly_core::scheme::sealed::SealedScheme;
use ifonly_core::search::HeaderContext;
use ifonly_core::secret_query::SecretQuery;
use ifonly_core::server_protocol::{SealedRequest, ServerProtocol};
use ifonly_core::transcript::Message;
use ifonly_sealed::{
    Circuit, Party, PartyRandomness, Peer, RandomnessMode, SealedParams, SealedSearch, SessionContext, combine, share,
    simulate,
};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Seeded random values; records every draw.
struct Recorder {
    source: SeededRandom,
    draws: Vec<Vec<u8>>,
}

impl RandomSource for Recorder {
    fn fill(&mut self, bytes: &mut [u8]) {
        self.source.fill(bytes);
        self.draws.push(bytes.to_vec());
    }
}

/// The frames in the six directions until the session ends.
fn run(parties: &mut [Party; 3], random: &mut dyn RandomSource) -> Vec<Value> {
    let mut frames = [(); 6].map(|()| vec![]);
    let results = simulate::run(parties, random, |frame| {
        frames[2 * frame.from - 2 + usize::from(frame.to == Peer::Previous)].push(hex(&frame.bytes));
        vec![frame]
    });
    assert_eq!(results, [Ok(()), Ok(()), Ok(())]);
    frames.chunks(2).map(|pair| json!({ "to_next": pair[0], "to_previous": pair[1] })).collect()
}

/// Input masks and r of the three servers, in the order in which three parties in one thread draw
/// them. Masks are cut to the lanes in use.
fn drawn(draws: &mut [Vec<u8>], rows: usize) -> [Vec<String>; 2] {
    let lanes = rows.div_ceil(rows.div_ceil(64)) as u32;
    for masks in draws.iter_mut().take(3) {
        for word in masks.as_chunks_mut().0 {
            *word = (u64::from_le_bytes(*word) & (u64::MAX >> (64 - lanes))).to_le_bytes();
        }
    }
    let draws: Vec<String> = draws.iter().map(|bytes| hex(bytes)).collect();
    [draws[..3].to_vec(), draws[3..].to_vec()]
}

fn session(params: SealedParams, cost_bits: usize, floor: usize, values: &[u64], keyed: bool, seed: u64) -> Value {
    let circuit = Arc::new(Circuit::new(&params));
    let mut random = SeededRandom::new(seed);
    let shares = share(params.bits(), values, &mut random);
    let mut id = [0; 32];
    random.fill(&mut id);
    let mut recorder = Recorder { source: random, draws: vec![] };
    let mut parties = [1, 2, 3].map(|n| {
        let randomness = if keyed {
            PartyRandomness::Keyed { with_previous: pair_key((n + 1) % 3 + 1, id), with_next: pair_key(n, id) }
        } else {
            PartyRandomness::Drawn
        };
        Party::new(&circuit, n, randomness, |row| shares[n - 1][row], &mut recorder).unwrap()
    });
    let frames = run(&mut parties, &mut recorder);
    let selections: Vec<Vec<String>> = parties
        .iter()
        .map(|party| (0..params.ranks()).map(|rank| hex(&party.selection(rank).unwrap())).collect())
        .collect();
    let answers = answers(&circuit, parties);
    let found = combine(&params, [&answers[0], &answers[1], &answers[2]]).unwrap();
    let pair_keys = [1, 2, 3].map(|n| hex(&[n; 32]));
    let randomness = if keyed {
        json!({ "pair_keys": pair_keys, "epoch": 1, "session": hex(&id) })
    } else {
        let [masks, words] = drawn(&mut recorder.draws, params.rows());
        json!({ "masks": masks, "ahead": words })
    };
    let records: String = (0..params.rows()).map(|row| hex(&record(&params, row))).collect();
    let shares = shares.map(|share| share.iter().map(|value| hex(&value.to_le_bytes())).collect::<String>());
    let found: Vec<Value> = found
        .iter()
        .map(|found| found.as_ref().map_or(Value::Null, |row| json!({ "cost": row.cost, "record": hex(&row.record) })))
        .collect();
    let answers: Vec<String> = answers.iter().map(|answer| hex(answer)).collect();
    json!({
        "rows": params.rows(), "bits": params.bits(), "cost_bits": cost_bits, "top": params.ranks(), "floor": floor,
        "record_bytes": record(&params, 0).len(),
        "shares": shares, "records": records, "randomness": randomness,
        "frames": frames, "selections": selections, "answers": answers, "found": found,
    })
}

#[test]
fn sessions_equal_their_test_vectors() {
    let mut random = SeededRandom::new(21);
    let mut cases = vec![];
    for (rows, bits, cost_bits, top, floor, keyed) in [
        (1, 1, 0, 1, 1, false),
        (5, 4, 2, 1, 1, false),
        (67, 5, 3, 1, 1, false),
        (3, 3, 2, 2, 1, false),
        (66, 8, 6, 1, 1, true),
        (7, 5, 4, 2, 3, false),
        (67, 5, 3, 1, 67, true),
    ] {
        let params = SealedParams::new(rows, bits, cost_bits).unwrap().top(top).unwrap().record_bytes(3).unwrap();
        let params = params.floor(floor).unwrap();
        let values: Vec<u64> = (0..rows).map(|_| random.below(1 << bits)).collect();
        cases.push(session(params, cost_bits, floor, &values, keyed, 30 + cases.len() as u64));
    }
    let is_found = |case: &Value| !case["found"][0].is_null();
    assert!(is_found(&cases[5]) && !is_found(&cases[6]), "one case reaches the floor, one does not");
    compare("sealed-machine.json", &json!({ "scheme": "sealed-machine", "cases": cases }));
}

fn compare(name: &str, value: &Value) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vectors").join(name);
    if std::env::var_os("IFONLY_BLESS").is_some() {
        std::fs::write(&path, serde_json::to_string_pretty(value).unwrap() + "\n").unwrap();
        return;
    }
    let stored: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert!(stored == *value, "{name} differs; run with IFONLY_BLESS=1 if the change is intended");
}

fn exactly(cost: &DecodedCost) -> u64 {
    match cost {
        DecodedCost::Exactly(cost) => *cost,
        other => panic!("{other:?} in a sealed search"),
    }
}

/// Five rows, two features, two ranks. The row of lowest cost violates a gate; three of the others
/// have equal costs.
#[test]
fn a_complete_search_equals_its_test_vector() {
    let (max_levels, rows) = (vec![3, 2], [[1, 2], [3, 0], [1, 0], [2, 1], [2, 1]]);
    let costs = vec![vec![4, 0, 1, 9], vec![3, 2, 0]];
    let gates = vec![vec![false, false, false, false], vec![false, false, true]];
    let (digest, epoch, root) = ([7; 32], 2, [8; 32]);
    let records: Vec<Vec<u8>> = (0..5).map(|row| vec![row, 0xA0 + row, row, 0xFF]).collect();
    let top = 2;

    let params = Params { cost_limit: 9, ..Params::new(max_levels.clone(), rows.len()) };
    let sealed = Arc::new(SealedScheme::new(params).unwrap());
    let secret = SecretQuery::new(vec![1, 2]).cost_tables(costs.clone()).gate_tables(gates.clone());
    let header_context = HeaderContext { digest, epoch, record_length: 4, signer: None };
    let mut random = SeededRandom::new(40);
    let mut search = SealedSearch::new(sealed.clone(), secret, header_context, top).unwrap();
    let messages = search.next(&mut random).unwrap().messages;

    let key = RootKey::new(epoch, root);
    let protocol = |server: u8| {
        ServerProtocol::new(server, digest, None::<SchemeInstance>, vec![key.clone()], 4)
            .with_sealed(Some(sealed.clone()))
    };
    let requests: Vec<SealedRequest> = (1..)
        .zip(&messages)
        .map(|(server, message)| protocol(server).check_sealed(&Message::decode(message).unwrap()).unwrap())
        .collect();
    let context = |request: &SealedRequest| {
        let key_check = request.keys.check_value();
        SessionContext {
            digest,
            epoch,
            tau: request.tau,
            top: top as u8,
            key_check,
            randomness: RandomnessMode::System,
        }
    };
    let mut nonces = [[0; 32]; 3];
    nonces.iter_mut().for_each(|nonce| random.fill(nonce));
    let greetings: Vec<String> = (1..)
        .zip(&requests)
        .zip(&nonces)
        .map(|((n, request), nonce)| hex(&context(request).greeting(n, nonce)))
        .collect();
    let session = context(&requests[0]).session(&nonces);

    let circuit = Arc::new(Circuit::new(&ifonly_sealed::params_for(&sealed, top, 4).unwrap()));
    let mut recorder = Recorder { source: random, draws: vec![] };
    let mut parties = [1, 2, 3].map(|n| {
        let share = &requests[n - 1].share;
        // The entries of the second feature follow the four entries of the first.
        let value = |row: usize| share[rows[row][0]].wrapping_add(share[4 + rows[row][1]]);
        Party::new(&circuit, n, PartyRandomness::Drawn, value, &mut recorder).unwrap()
    });
    let frames = run(&mut parties, &mut recorder);
    let encoded = protocol(1).encode_records(&key, records.iter().map(Vec::as_slice));
    let responses = parties.map(|party| {
        let sum = |rank: usize| {
            let chosen = party.selection(rank).unwrap();
            let mut sum = vec![0; encoded[0].len()];
            for (row, record) in encoded.iter().enumerate().filter(|(row, _)| chosen[0] >> row & 1 == 1) {
                assert!(row < rows.len());
                sum.iter_mut().zip(record).for_each(|(sum, byte)| *sum ^= byte);
            }
            sum
        };
        let sums: Vec<Vec<u8>> = (0..top).map(sum).collect();
        [&requests[0].keys.check_value()[..], &party.answer(&sums).unwrap()].concat()
    });
    search.receive(responses.iter().cloned().map(Some).collect());
    let found: Vec<Value> = search
        .finish()
        .unwrap()
        .found
        .iter()
        .map(|found| json!({ "cost": exactly(&found.cost), "record": hex(&found.record) }))
        .collect();
    // Row 0 costs 0 but violates a gate. Rows 2, 3 and 4 cost 3; the search finds the lower two.
    assert_eq!(found[1], json!({ "cost": 3, "record": hex(&records[3]) }));
    let hexes = |all: &[Vec<u8>]| all.iter().map(|bytes| hex(bytes)).collect::<Vec<_>>();
    let [masks, words] = drawn(&mut recorder.draws, rows.len());
    let value = json!({
        "scheme": "sealed-search", "max_levels": max_levels, "rows": rows, "cost_limit": 9, "costs": costs, "gates": gates, "top": top,
        "digest": hex(&digest), "epoch": epoch, "root_key": hex(&root), "records": hexes(&records),
        "messages": messages.iter().map(|message| hex(message)).collect::<Vec<_>>(), "tau": hex(&requests[0].tau),
        "greetings": greetings, "session": hex(&session), "masks": masks, "ahead": words, "frames": frames,
        "responses": hexes(&responses), "found": found,
    });
    compare("sealed-search.json", &value);
}
