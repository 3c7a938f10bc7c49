//! Whole searches: every message and response as sent over HTTP, and the result.
//!
//! Servers may be silent or lie in a step. The kinds of lies are fixed, so that the checker can
//! recompute wrong responses too.

use super::super::common::TestCase;
use super::{compare, hex, numbers, schemes};
use crate::candidates::DecodedCost;
use crate::cost_check::{CostCheck, check_cost};
use crate::decode::DecodeError;
use crate::field::ModulusRule;
use crate::keys::RootKey;
use crate::params::Params;
use crate::phase::PhaseError;
use crate::random::SeededRandom;
use crate::scheme::instance::SchemeInstance;
use crate::search::{HeaderContext, Search, SearchError, SearchResult};
use crate::server_protocol::ServerProtocol;
use crate::signature::{BundleId, RecordVerifier, SignatureContext, SigningKey};
use crate::transcript::{Message, MessageKind};
use crate::{scheme, shuffle};
use serde_json::{Value, json};

/// The texts of a record need three bytes per feature; the last byte is always zero.
const TEXT_LENGTH: usize = 10;
const SCHEMA: &str = r#"{"features":[]}"#;
const RANGES: [u32; 3] = [3, 2, 4];
const ROWS: [[u16; 3]; 6] = [[3, 0, 1], [2, 1, 4], [0, 2, 3], [2, 0, 0], [1, 1, 2], [2, 2, 2]];

/// What a server does in a step, by step (from 0) and server (from 1).
type Behaviour = fn(usize, usize) -> &'static str;

struct Setup {
    scheme: &'static str,
    /// (T, S, B)
    faults: (usize, usize, usize),
    shuffle: bool,
    verified: bool,
    k: usize,
    immutable: [bool; 3],
    /// Forbids all levels of the first feature.
    no_match: bool,
    signed: bool,
    /// The record of row 0, the only row, has a signature of another text.
    forged: bool,
    behaviour: Behaviour,
}

const HONEST: Setup = Setup {
    scheme: "baseline",
    faults: (1, 0, 0),
    shuffle: false,
    verified: false,
    k: 1,
    immutable: [true, false, false],
    no_match: false,
    signed: false,
    forged: false,
    behaviour: |_, _| "honest",
};

fn case(setup: &Setup) -> TestCase {
    let rows: Vec<Vec<u16>> = ROWS.iter().map(|row| row.to_vec()).collect();
    let rows = if setup.forged { rows[..1].to_vec() } else { rows };
    let scheme = scheme::named(setup.scheme).unwrap();
    let (threshold, silent, lying) = setup.faults;
    let params = Params {
        threshold,
        silent,
        lying,
        shuffle: setup.shuffle,
        verified: setup.verified,
        weight_limit: 4,
        immutable_limit: RANGES.len(),
        cost_limit: 50,
        ..Params::new(RANGES.to_vec(), rows.len())
    };
    let gated = scheme.supports_constraint(scheme::ConstraintKind::Zeros);
    let tables = scheme.constraint == scheme::ConstraintKind::Table;
    let weighted = scheme.cost_model == scheme::CostModel::Weighted;
    let cost = vec![vec![20, 10, 0, 10], vec![7, 0, 30], vec![1, 0, 2, 50, 9]];
    let gate = [vec![setup.no_match; 4], vec![false; 3], vec![false, false, false, true, false]];
    TestCase {
        max_levels: RANGES.to_vec(),
        rows,
        x: vec![2, 1, 1],
        immutable: setup.immutable.iter().map(|&fixed| fixed && gated && !tables).collect(),
        weights: if weighted { vec![1, 1, 3] } else { vec![1; 3] },
        cost: (scheme.cost_model == scheme::CostModel::Table).then_some(cost),
        gate: tables.then(|| gate.to_vec()),
        params,
    }
}

/// The levels as texts: one decimal digit each.
fn record_text(row: &[u16]) -> Vec<u8> {
    let mut text: Vec<u8> = row.iter().flat_map(|&level| [1, 0, b'0' + level as u8]).collect();
    text.resize(TEXT_LENGTH, 0);
    text
}

fn levels(text: &[u8]) -> Vec<u16> {
    text[..9].chunks_exact(3).map(|one| u16::from(one[2] - b'0')).collect()
}

/// Changes an honest response without its checksum. `None` is silence.
fn changed(instance: &SchemeInstance, kind: MessageKind, behaviour: &str, mut response: Vec<u8>) -> Option<Vec<u8>> {
    let answer = response.split_off(kind.lead());
    let mut lead = response;
    let answer = match (behaviour, kind) {
        ("silent", _) => return None,
        ("adds 1", MessageKind::Phase(phase)) => {
            let phase = usize::from(phase);
            let elements = instance.unpack_answer(phase, &answer).unwrap();
            instance.pack_answer(&schemes::adds_one(instance, phase, &elements))
        }
        ("adds 1", MessageKind::Record) => answer.iter().map(|byte| byte ^ 1).collect(),
        ("not reduced", _) => vec![0xff; answer.len()],
        ("wrong key check", _) => {
            lead[..16].iter_mut().for_each(|byte| *byte ^= 0xff);
            answer
        }
        ("wrong ticket", _) => {
            lead[16..].iter_mut().for_each(|byte| *byte ^= 0xff);
            answer
        }
        ("honest", _) => answer,
        other => panic!("{other:?}"),
    };
    Some([lead, answer].concat())
}

fn error_name(error: &SearchError) -> &'static str {
    match error {
        SearchError::KeyCheck { .. } => "vote failed",
        SearchError::Decode(DecodeError::TooFewAnswers { .. }) => "too few answers",
        SearchError::Decode(DecodeError::TooManyLies) => "too many wrong answers",
        SearchError::Phase(PhaseError::Unverified { .. }) => "verification failed",
        other => panic!("{other}"),
    }
}

fn result(outcome: &Result<SearchResult, SearchError>, order: Option<&[u32]>) -> Value {
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => return json!({ "error": error_name(error) }),
    };
    let nearest = outcome.found.iter().map(|found| {
        let position = found.position.unwrap();
        let DecodedCost::Exactly(cost) = found.cost else { panic!("all schemes here reveal costs") };
        let row = order.map_or(position, |order| order[position] as usize);
        json!({ "position": position, "row": row, "cost": cost, "record": hex(&found.record) })
    });
    json!({
        "matching_rows": outcome.matching_rows,
        "lying_servers": outcome.lying_servers,
        "doubtful": outcome.is_doubtful,
        "nearest": nearest.collect::<Vec<_>>(),
    })
}

fn vector(number: u8, setup: &Setup) -> Value {
    let (case, scheme) = (case(setup), scheme::named(setup.scheme).unwrap());
    let instance = case.instance(scheme, ModulusRule::Deployment);
    let root = RootKey::new(40 + u32::from(number), [0x50 + number; 32]);
    let key = SigningKey::new(&[0x90 + number; 32]);
    let subject = SignatureContext::new("loans", "3", BundleId([0x33; 16]), SCHEMA);
    let record = |row: &Vec<u16>| {
        let text = record_text(row);
        let mut signed = text.clone();
        signed[TEXT_LENGTH - 1] ^= u8::from(setup.forged);
        let signature = key.sign(&subject, &signed);
        [text, if setup.signed { signature.to_vec() } else { vec![] }].concat()
    };
    let records: Vec<Vec<u8>> = case.rows.iter().map(record).collect();
    let context = HeaderContext {
        digest: [0xd0 + number; 32],
        epoch: root.epoch(),
        record_length: records[0].len(),
        signer: setup.signed.then(|| RecordVerifier { key: key.public(), subject }),
    };
    let protocols: Vec<ServerProtocol> = (1..=instance.servers() as u8)
        .map(|index| {
            ServerProtocol::new(index, context.digest, [instance.clone()], vec![root.clone()], context.record_length)
        })
        .collect();
    let encoded = protocols[0].encode_records(&root, records.iter().map(Vec::as_slice));
    let rows = case.rows();
    let mut search = Search::nearest(instance.clone(), case.secret(), context, setup.k).unwrap();
    let mut random = SeededRandom::new(3000 + u64::from(number));
    let mut steps: Vec<Value> = vec![];
    let (mut order, mut ticket) = (None, None);
    while let Some(step) = search.next(&mut random) {
        let first = Message::decode(&step.messages[0]).unwrap();
        let tau = first.tau();
        if steps.is_empty() {
            order = setup.shuffle.then(|| shuffle::permutation(&root.transcript(&tau), case.rows.len()));
            ticket = Some(root.ticket(setup.scheme, &tau));
        }
        let mut behaviour = vec![];
        let responses: Vec<Option<Vec<u8>>> = (1..)
            .zip(&step.messages)
            .map(|(server, message)| {
                let does = (setup.behaviour)(steps.len(), server);
                behaviour.push(does);
                let response = protocols[server - 1].respond(message, &rows, &encoded);
                // A server refuses a message only if no server gave a ticket.
                assert_eq!(response.is_err(), does == "refuses", "{}, server {server}", setup.scheme);
                changed(&instance, first.header.kind, does, response.ok()?)
            })
            .collect();
        let with_checksum = |response: &Vec<u8>| hex(response) + &hex(&blake3::hash(response).as_bytes()[..16]);
        steps.push(json!({
            "path": step.route.path(),
            "messages": step.messages.iter().map(|message| hex(message)).collect::<Vec<_>>(),
            "tau": hex(&tau),
            "behaviour": behaviour,
            "responses": responses.iter().map(|response| response.as_ref().map(with_checksum)).collect::<Vec<_>>(),
        }));
        search.receive(responses);
    }
    // The checks of docs/protocol.md, 6.5: the true cost is shown.
    let outcome = search.finish().map(|mut outcome| {
        let mut is_doubtful = outcome.is_doubtful;
        outcome.found.retain_mut(|found| {
            let check = check_cost(scheme, &case.params, &case.secret(), found, &levels(&found.record));
            is_doubtful |= !matches!(check, CostCheck::Equal(_));
            match check {
                CostCheck::Equal(_) => true,
                CostCheck::Differs(cost) => {
                    found.cost = DecodedCost::Exactly(cost);
                    setup.signed
                }
                CostCheck::NoMatch => false,
            }
        });
        outcome.is_doubtful = is_doubtful;
        outcome
    });
    let mut vector = json!({
        "scheme": setup.scheme,
        "params": schemes::params(scheme, &case.params),
        "k": setup.k,
        "bound": (scheme.bound)(&case.params) as u64,
        "q": instance.field().q(),
        "alphas": numbers(instance.points()),
        "rows": case.rows,
        "records": records.iter().map(|record| hex(record)).collect::<Vec<_>>(),
        "root_key": hex(&[0x50 + number; 32]),
        "key_epoch": root.epoch(),
        "manifest_digest": hex(&context.digest),
        "order": order,
        "ticket": hex(&ticket.unwrap()),
        "steps": steps,
        "result": result(&outcome, order.as_deref()),
    });
    if let Some(format) = instance.lifted() {
        vector["p"] = json!(format.gate_field().q());
    }
    vector.as_object_mut().unwrap().extend(schemes::secret_fields(scheme, &case));
    if setup.signed {
        vector["signer"] = json!({
            "signing_key": hex(key.expose()), "public_key": key.public().to_string(),
            "name": "loans", "version": "3", "bundle_id": "33".repeat(16), "schema": SCHEMA, "forged": setup.forged,
        });
    }
    vector
}

#[test]
fn search_vectors_are_what_clients_and_servers_send() {
    let setups = [
        Setup { scheme: "gated-tables", shuffle: true, signed: true, ..HONEST },
        Setup { scheme: "gated", faults: (2, 0, 0), shuffle: true, k: 2, ..HONEST },
        Setup {
            scheme: "gated+",
            faults: (1, 1, 1),
            behaviour: |step, server| match (step, server) {
                (0, 1) | (1, 2) => "silent",
                (0, 3) => "adds 1",
                (1, 5) => "wrong key check",
                _ => "honest",
            },
            ..HONEST
        },
        Setup {
            scheme: "single-phase",
            faults: (1, 1, 1),
            behaviour: |step, server| match (step, server) {
                (0, 2) => "wrong ticket",
                (0, 5) => "not reduced",
                (1, 6) => "silent",
                (1, 1) => "adds 1",
                _ => "honest",
            },
            ..HONEST
        },
        Setup { scheme: "gated", verified: true, signed: true, ..HONEST },
        Setup {
            scheme: "gated",
            verified: true,
            behaviour: |step, server| if (step, server) == (0, 2) { "adds 1" } else { "honest" },
            ..HONEST
        },
        Setup { scheme: "two-phase+", immutable: [true, true, false], k: 2, ..HONEST },
        Setup { scheme: "two-phase-4", shuffle: true, ..HONEST },
        Setup {
            scheme: "gated-tables",
            no_match: true,
            k: 2,
            behaviour: |step, server| if (step, server) == (2, 2) { "silent" } else { "honest" },
            ..HONEST
        },
        Setup { behaviour: |step, server| if (step, server) == (0, 2) { "wrong ticket" } else { "honest" }, ..HONEST },
        Setup {
            signed: true,
            behaviour: |step, server| if (step, server) == (0, 1) { "adds 1" } else { "honest" },
            ..HONEST
        },
        Setup { behaviour: |step, server| if (step, server) == (1, 2) { "adds 1" } else { "honest" }, ..HONEST },
        Setup { behaviour: |step, _| if step == 0 { "silent" } else { "refuses" }, ..HONEST },
        Setup {
            faults: (1, 1, 0),
            behaviour: |step, server| if (step, server) == (0, 3) { "adds 1" } else { "honest" },
            ..HONEST
        },
        Setup {
            scheme: "table",
            behaviour: |step, server| if (step, server) == (0, 1) { "adds 1" } else { "honest" },
            ..HONEST
        },
        Setup { scheme: "table", signed: true, forged: true, ..HONEST },
        Setup { scheme: "gated-tables", no_match: true, k: 2, ..HONEST },
        Setup {
            scheme: "gated-tables",
            no_match: true,
            behaviour: |step, server| if (step, server) == (1, 2) { "adds 1" } else { "honest" },
            ..HONEST
        },
    ];
    let searches: Vec<Value> = (0..).zip(&setups).map(|(number, setup)| vector(number, setup)).collect();
    compare("searches", &json!({ "searches": searches }));
}
