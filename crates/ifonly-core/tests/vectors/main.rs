//! Test vectors for other implementations: `vectors/*.json`, one file per scheme, and `vectors/transcript.json` for the keyed
//! derivations. This test computes them anew and compares; `IFONLY_BLESS=1 cargo test --test vectors` writes them.
//! `vectors/check.py` recomputes every number of the scheme files without this crate.

mod common;

use common::Instance;
use ifonly_core::candidates::Candidates;
use ifonly_core::deployment::Deployment;
use ifonly_core::field::{Field, Symbol};
use ifonly_core::form::{self, Job, RowRandomness};
use ifonly_core::keys::{Purpose, RootKey};
use ifonly_core::order;
use ifonly_core::params::Params;
use ifonly_core::prime::FieldRule;
use ifonly_core::random::{Random, SeededRandom};
use ifonly_core::round::Round;
use ifonly_core::scheme::{self, Gate, Metric, Scheme};
use ifonly_core::share::Points;
use ifonly_core::spir::Fetch;
use ifonly_core::transcript::{Header, messages};
use ifonly_core::{package, wire};
use serde_json::{Value, json};
use std::path::PathBuf;

fn compare(name: &str, value: &Value) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vectors").join(format!("{name}.json"));
    let text = serde_json::to_string_pretty(value).unwrap() + "\n";
    if std::env::var_os("IFONLY_BLESS").is_some() {
        std::fs::write(&path, text).unwrap();
        return;
    }
    let kept: Value = serde_json::from_str(&std::fs::read_to_string(&path).expect(name)).expect(name);
    assert!(kept == *value, "{name}.json differs; if the protocol was meant to change, bless it and raise its version");
}

/// Remembers every draw.
struct Recorder {
    source: SeededRandom,
    draws: Vec<u64>,
}

impl Random for Recorder {
    fn fill(&mut self, bytes: &mut [u8]) {
        self.source.fill(bytes);
    }
    fn below(&mut self, n: u64) -> u64 {
        self.draws.push(self.source.below(n));
        *self.draws.last().unwrap()
    }
}

/// The servers' randomness, drawn row by row.
struct Tabled {
    pads: Vec<Vec<Vec<Symbol>>>,
    rho: Vec<Symbol>,
    sigma: Vec<Symbol>,
    mu: Vec<Symbol>,
}

impl Tabled {
    fn draw(deployment: &Deployment, phase: usize, random: &mut SeededRandom) -> Tabled {
        let field = deployment.field();
        let (outputs, kappa, rows) = (deployment.outputs(phase), deployment.kappa(phase), deployment.params().rows);
        let mut each = |draw: &mut dyn FnMut(&mut SeededRandom) -> Symbol| (0..rows).map(|_| draw(random)).collect();
        Tabled {
            rho: each(&mut |random| field.sample_nonzero(random)),
            sigma: each(&mut |random| field.sample(random)),
            mu: each(&mut |random| field.reduce(random.below(deployment.params().mask))),
            pads: (0..rows)
                .map(|_| (0..outputs).map(|_| (0..kappa).map(|_| field.sample(random)).collect()).collect())
                .collect(),
        }
    }
}

impl RowRandomness for Tabled {
    fn pad(&self, output: usize, j: usize, position: usize) -> Symbol {
        self.pads[position][output][j - 1]
    }
    fn rho(&self, position: usize) -> Symbol {
        self.rho[position]
    }
    fn sigma(&self, position: usize) -> Symbol {
        self.sigma[position]
    }
    fn mu(&self, position: usize) -> Symbol {
        self.mu[position]
    }
}

fn numbers(symbols: &[Symbol]) -> Vec<u64> {
    symbols.iter().map(|symbol| symbol.value()).collect()
}

fn case(scheme: &'static Scheme, instance: &Instance, rule: FieldRule, random: &mut SeededRandom) -> Value {
    let deployment = Deployment::new(scheme, instance.params.clone(), rule).unwrap();
    let (rows, secret) = (instance.rows(), instance.secret());
    let order: Option<Vec<u32>> = instance.params.shuffle.then(|| {
        let mut tau = [0; 32];
        random.fill(&mut tau);
        order::permutation(&RootKey::new(0, [0; 32]).transcript(&tau), rows.len())
    });
    let mut theta = vec![false; rows.len()];
    let mut rounds: Vec<Round> = vec![];
    let [mut client, mut server, mut queries, mut answers, mut decoded] = [const { Vec::<Value>::new() }; 5];
    let mut index = None;
    for phase in 0..deployment.phases() {
        let mut recorder = Recorder { source: SeededRandom::new(random.below(1 << 32)), draws: vec![] };
        let round = Round::new(&deployment, phase, &secret, &theta, rounds.last(), &mut recorder);
        client.push(json!(recorder.draws));
        let randomness = Tabled::draw(&deployment, phase, random);
        let responses: Vec<Vec<Symbol>> = round
            .shares()
            .iter()
            .zip(deployment.points().as_slice())
            .map(|(share, &alpha)| {
                let program = deployment.program(phase, share);
                let kappa = deployment.kappa(phase);
                let job = Job { field: deployment.field(), alpha, kappa, program: &program, order: order.as_deref() };
                form::answer(&job, &rows, &randomness)
            })
            .collect();
        let shares = round.shares().iter().map(|share| share.iter().map(numbers).collect::<Vec<_>>());
        queries.push(json!(shares.collect::<Vec<_>>()));
        answers.push(json!(responses.iter().map(|response| numbers(response)).collect::<Vec<_>>()));
        let pads: Vec<Vec<Vec<u64>>> =
            randomness.pads.iter().map(|row| row.iter().map(|pads| numbers(pads)).collect()).collect();
        server.push(json!({
            "pads": pads,
            "rho": numbers(&randomness.rho),
            "sigma": numbers(&randomness.sigma),
            "mu": numbers(&randomness.mu),
        }));
        let values = round.decode(&deployment, responses.into_iter().map(Some).collect(), random).unwrap();
        decoded.push(json!(numbers(&values.values)));
        let candidates = Candidates::read(&deployment, phase, &values, &theta, 1).unwrap();
        theta = candidates.theta();
        index = candidates.nearest(1).first().map(|(position, _)| *position);
        rounds.push(round);
    }
    // Secrets as the scheme takes them: tables are written out even where they follow from x and w.
    let d = instance.ranges.len();
    let cost: Vec<Vec<u64>> = instance.cost.clone().unwrap_or_else(|| {
        let cost = |k: usize, v: u32| instance.weights[k] * u64::from(v.abs_diff(instance.x[k])).pow(2);
        (0..d).map(|k| (0..=instance.ranges[k]).map(|v| cost(k, v)).collect()).collect()
    });
    let forbidden = |k: usize, v: u32| {
        (instance.immutable[k] && v != instance.x[k]) || instance.gate.as_ref().is_some_and(|gate| gate[k][v as usize])
    };
    let gate: Vec<Vec<u8>> =
        (0..d).map(|k| (0..=instance.ranges[k]).map(|v| forbidden(k, v).into()).collect()).collect();
    json!({
        "scheme": scheme.name,
        "q": deployment.field().q(),
        "alphas": numbers(deployment.points().as_slice()),
        "T": instance.params.threshold,
        "rows": instance.rows,
        "x": instance.x,
        "immutable": instance.immutable,
        "weights": instance.weights,
        "cost_tables": (scheme.metric == Metric::Table).then_some(cost),
        "gate_tables": (scheme.gate == Gate::Table).then_some(gate),
        "params": instance.params,
        "order": order,
        "client_randomness": client,
        "server_randomness": server,
        "queries": queries,
        "answers": answers,
        "decoded": decoded,
        "index": index,
    })
}

fn failures(scheme: &'static Scheme) -> Value {
    let params = Params::new(vec![9, 9], 3);
    let deployment = Deployment::new(scheme, params.clone(), FieldRule::Deployment).unwrap();
    let (field, q) = (deployment.field(), deployment.field().q());
    let count: usize = deployment.slot_lengths(0).iter().sum();
    let good = wire::pack(field, &vec![Symbol::ZERO; count]);
    let mut not_reduced = good.clone();
    // The first symbol becomes 2^b − 1, which is q or more.
    for bit in 0..field.bits() as usize {
        not_reduced[bit / 8] |= 1 << (bit % 8);
    }
    let mut long = good.clone();
    long.push(0);
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let unpacked = |bytes: &[u8]| wire::unpack(field, bytes, count).unwrap_err().to_string();
    let mut alphas: Vec<i64> = (1..=deployment.servers() as i64).collect();
    let composite = Deployment::with_field(scheme, params.clone(), (1 << 40) + 1, &alphas).unwrap_err().to_string();
    alphas[0] = 0;
    let zero = Deployment::with_field(scheme, params, q, &alphas).unwrap_err().to_string();
    json!([
        { "kind": "non-reduced symbol", "q": q, "symbols": count, "payload": hex(&not_reduced), "error": unpacked(&not_reduced) },
        { "kind": "wrong length", "q": q, "symbols": count, "payload": hex(&long), "error": unpacked(&long) },
        { "kind": "alpha zero", "q": q, "alphas": alphas, "error": zero },
        { "kind": "composite q", "q": (1u64 << 40) + 1, "error": composite },
    ])
}

#[test]
fn scheme_vectors_are_what_the_engine_computes() {
    for (number, &scheme) in scheme::ALL.iter().enumerate() {
        let mut random = SeededRandom::new(1000 + number as u64);
        let mut cases = vec![];
        for (faults, shuffle, verified, rule) in [
            ((1, 0, 0), false, false, FieldRule::Paper),
            ((1, 0, 0), false, false, FieldRule::Deployment),
            ((1, 0, 0), true, false, FieldRule::Deployment),
            ((2, 0, 0), false, false, FieldRule::Deployment),
            ((1, 0, 0), false, true, FieldRule::Deployment),
        ] {
            let mut instance = Instance::random(scheme, faults, 6, 5, &mut random);
            instance.params.shuffle = shuffle;
            instance.params.verified = verified;
            let linear = scheme.phases.iter().all(|phase| (phase.degree)(&instance.params) == 1);
            if !verified || linear {
                cases.push(case(scheme, &instance, rule, &mut random));
            }
        }
        compare(scheme.name, &json!({ "scheme": scheme.name, "cases": cases, "failures": failures(scheme) }));
    }
}

#[test]
fn transcript_vectors_are_what_the_derivations_give() {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let header = Header {
        scheme: "baseline".into(),
        phase: 0,
        epoch: 7,
        digest: [0xd1; 32],
        responders: vec![1, 2],
        parent: [0; 32],
    };
    let sent = messages(&header, vec![vec![1, 2, 3], vec![4, 5, 6]], &mut SeededRandom::new(77));
    let root = RootKey::new(7, [0x42; 32]);
    let keys = root.transcript(&sent[0].tau());
    let streams: Vec<Value> = [
        Purpose::Pad { output: 0, j: 1 },
        Purpose::Pad { output: 1, j: 2 },
        Purpose::Rho,
        Purpose::Sigma,
        Purpose::Mu,
        Purpose::Order { part: 0 },
        Purpose::RecordPad { j: 0 },
        Purpose::KeyCheck,
    ]
    .into_iter()
    .map(|purpose| {
        let mut bytes = [0; 48];
        keys.stream(purpose).fill(0, &mut bytes);
        json!({ "purpose": format!("{purpose:?}"), "label": hex(&purpose.label()), "bytes": hex(&bytes) })
    })
    .collect();
    let small = Field::new(257).unwrap();
    let symbols = keys.rows(&small, 2, 2, 5);
    let twelve = |draw: &dyn Fn(usize) -> Symbol| (0..12).map(|row| draw(row).value()).collect::<Vec<u64>>();
    let fetch = Fetch::new(&Params::new(vec![1], 5), 3, 6);
    let queries = fetch.queries(Some(3), &mut SeededRandom::new(78));
    compare(
        "transcript",
        &json!({
            "messages": sent.iter().map(|message| hex(&message.encode())).collect::<Vec<_>>(),
            "tau": hex(&sent[0].tau()),
            "root_key": hex(&[0x42; 32]),
            "epoch": 7,
            "key_check": hex(&keys.check_value()),
            "streams": streams,
            "symbols": {
                "q": 257,
                "d_min": 5,
                "pad_0_1": twelve(&|row| symbols.pad(0, 1, row)),
                "pad_1_2": twelve(&|row| symbols.pad(1, 2, row)),
                "rho": twelve(&|row| symbols.rho(row)),
                "sigma": twelve(&|row| symbols.sigma(row)),
                "mu": twelve(&|row| symbols.mu(row)),
            },
            "order_of_10_rows": order::permutation(&keys, 10),
            "order_of_70000_rows_first_8": order::permutation(&keys, 70_000)[..8].to_vec(),
            "sealed_record": {
                "record": hex(b"record"),
                "key": hex(&[9; 16]),
                "sealed": hex(&package::seal(b"record", &[9; 16])),
            },
            "record_query": {
                "rows": 5, "servers": 3, "T": 1, "record_length": 6, "row": 3,
                "stripes": fetch.stripes(), "stripe_length": fetch.stripe_length(),
                "queries": queries.iter().map(|query| hex(query)).collect::<Vec<_>>(),
            },
            "usual_points_q_257": numbers(Points::usual(&small, 5).unwrap().as_slice()),
        }),
    );
}
