//! One file of vectors per scheme: a small field, a higher threshold with all options, silent and
//! lying servers with many levels, and a field near 2^61.

use super::super::common::TestCase;
use super::{compare, numbers};
use crate::candidates::{Candidates, DecodedCost};
use crate::field::{FieldElement, ModulusRule};
use crate::keys::RootKey;
use crate::params::Params;
use crate::phase::PhaseState;
use crate::random::{RandomSource, SeededRandom};
use crate::row_function::{OutputExpr, RowRandomness};
use crate::scheme::instance::SchemeInstance;
use crate::scheme::{self, ConstraintKind, CostModel, DecodeRule, Phase, Scheme, SlotLength};
use crate::share::SlotVectors;
use crate::shuffle;
use serde_json::{Map, Value, json};

/// Records every draw.
struct Recorder {
    source: SeededRandom,
    draws: Vec<u64>,
}

impl RandomSource for Recorder {
    fn fill(&mut self, bytes: &mut [u8]) {
        self.source.fill(bytes);
    }
    fn below(&mut self, n: u64) -> u64 {
        self.draws.push(self.source.below(n));
        *self.draws.last().unwrap()
    }
}

/// The servers' randomness of a phase, by position, or by stored row if the gate is lifted; empty
/// where the phase does not use it.
struct TableRandomness {
    pads: Vec<Vec<Vec<FieldElement>>>,
    rho: Vec<FieldElement>,
    sigma: Vec<FieldElement>,
    mu: Vec<FieldElement>,
}

impl TableRandomness {
    fn draw(
        instance: &SchemeInstance,
        phase: usize,
        share: &SlotVectors,
        random: &mut SeededRandom,
    ) -> TableRandomness {
        let (field, gate_field) = (instance.field(), instance.output_field(0));
        let (outputs, kappa) = (instance.outputs(phase), instance.kappa(phase));
        let positions = instance.answer_length(phase) / outputs;
        let program = instance.program(phase, share);
        let used = |wanted: fn(&OutputExpr) -> bool| if program.outputs.iter().any(wanted) { positions } else { 0 };
        let mut each = |count: usize, draw: &mut dyn FnMut(&mut SeededRandom) -> FieldElement| {
            (0..count).map(|_| draw(random)).collect::<Vec<FieldElement>>()
        };
        TableRandomness {
            rho: each(used(|output| matches!(output, OutputExpr::Blinded(_))), &mut |random| {
                gate_field.sample_nonzero(random)
            }),
            sigma: each(used(|output| matches!(output, OutputExpr::Hidden { .. })), &mut |random| field.sample(random)),
            mu: each(used(|output| matches!(output, OutputExpr::Masked { .. })), &mut |random| {
                field.reduce(random.below(instance.params().d_min))
            }),
            pads: (0..positions)
                .map(|_| {
                    let pads = |output| (0..kappa).map(|_| instance.output_field(output).sample(random)).collect();
                    (0..outputs).map(pads).collect()
                })
                .collect(),
        }
    }

    fn json(&self) -> Value {
        let pads: Vec<Vec<Vec<u64>>> =
            self.pads.iter().map(|row| row.iter().map(|pads| numbers(pads)).collect()).collect();
        let mut all = Map::from_iter([("pads".to_string(), json!(pads))]);
        for (name, elements) in [("rho", &self.rho), ("sigma", &self.sigma), ("mu", &self.mu)] {
            if !elements.is_empty() {
                all.insert(name.into(), json!(numbers(elements)));
            }
        }
        all.into()
    }
}

impl RowRandomness for TableRandomness {
    fn pad(&self, output: usize, j: usize, position: usize) -> FieldElement {
        self.pads[position][output][j - 1]
    }
    fn rho(&self, position: usize) -> FieldElement {
        self.rho[position]
    }
    fn sigma(&self, position: usize) -> FieldElement {
        self.sigma[position]
    }
    fn mu(&self, position: usize) -> FieldElement {
        self.mu[position]
    }
}

/// How q and the points are chosen.
#[derive(Clone, Copy)]
enum Choice {
    Rule(ModulusRule),
    /// 2^61 − 1 and unusual points.
    Given,
}

const GIVEN: u64 = (1 << 61) - 1;
const UNUSUAL: [i64; 8] = [5, -7, 1 << 40, 3, -2, 11, 4, -100];

struct Setup {
    choice: Choice,
    /// (T, S, B)
    faults: (usize, usize, usize),
    shuffle: bool,
    verified: bool,
    widest: u32,
    exponent: u32,
    k: usize,
}

fn has_tables(scheme: &Scheme) -> bool {
    scheme.phases.iter().flat_map(|phase| phase.slots).any(|slot| slot.length == SlotLength::Levels)
}

/// Two features, four rows. One row equals x on the immutable feature, and one does not. With a
/// limit of immutable features there are four of one range, so that q depends on the limit.
fn case(scheme: &Scheme, setup: &Setup, random: &mut SeededRandom) -> TestCase {
    let max_levels = match scheme.constraint {
        ConstraintKind::Scaled => vec![setup.widest; 4],
        _ => vec![setup.widest, setup.widest - 1],
    };
    let features = max_levels.len();
    let level = |random: &mut SeededRandom, k: usize| random.below(u64::from(max_levels[k]) + 1) as u32;
    let mut rows: Vec<Vec<u16>> = (0..4).map(|_| (0..features).map(|k| level(random, k) as u16).collect()).collect();
    let mut x: Vec<u32> = (0..features).map(|k| level(random, k)).collect();
    rows[2][0] = x[0] as u16;
    rows[3][0] = (x[0] as u16 + 1) % (setup.widest as u16 + 1);
    let mut immutable = vec![false; features];
    immutable[0] = matches!(scheme.constraint, ConstraintKind::Zeros | ConstraintKind::Scaled);
    let limit = 5;
    let mut weights: Vec<u64> = (0..features)
        .map(|_| if scheme.cost_model == CostModel::Weighted { 2 + random.below(limit - 1) } else { 1 })
        .collect();
    // Values that a scheme does not use are constant: weights of immutable features, and x if only
    // cost tables count.
    if immutable[0] && scheme.name != "gated+" {
        weights[0] = 1;
    }
    if scheme.cost_model == CostModel::Table {
        x[1] = 0;
    }
    let cost_limit = 2 * u64::from(setup.widest).pow(2);
    let tables = |random: &mut SeededRandom, most: u64| -> Vec<Vec<u64>> {
        max_levels.iter().map(|&range| (0..=range).map(|_| random.below(most)).collect()).collect()
    };
    let cost = (scheme.cost_model == CostModel::Table).then(|| tables(random, cost_limit));
    let gate = (scheme.constraint == ConstraintKind::Table)
        .then(|| tables(random, 3).iter().map(|table| table.iter().map(|&draw| draw == 0).collect()).collect());
    let (threshold, silent, lying) = setup.faults;
    let params = Params {
        threshold,
        silent,
        lying,
        weight_limit: limit,
        immutable_limit: 1,
        d_min: 3,
        exponent: setup.exponent,
        cost_limit,
        shuffle: setup.shuffle,
        verified: setup.verified,
        ..Params::new(max_levels.clone(), rows.len())
    };
    TestCase { max_levels, rows, x, immutable, weights, cost, gate, params }
}

/// The answer of a server that adds 1 to every element.
pub(super) fn adds_one(instance: &SchemeInstance, phase: usize, answer: &[FieldElement]) -> Vec<FieldElement> {
    let outputs = instance.outputs(phase);
    let field = |index: usize| instance.output_field(index % outputs);
    answer.iter().enumerate().map(|(index, &element)| field(index).add(element, FieldElement::ONE)).collect()
}

/// The parameters that the scheme uses.
pub(super) fn params(scheme: &Scheme, params: &Params) -> Value {
    let mut all = serde_json::to_value(params).unwrap();
    let masked = scheme.phases.iter().any(|phase| matches!(phase.decode_rule, DecodeRule::Masked));
    for (name, used) in [
        ("weight_limit", scheme.cost_model == CostModel::Weighted),
        ("immutable_limit", scheme.constraint == ConstraintKind::Scaled),
        ("d_min", masked),
        ("exponent", scheme.cost_model == CostModel::Power),
        ("cost_limit", scheme.cost_model == CostModel::Table),
    ] {
        if !used {
            all.as_object_mut().unwrap().remove(name);
        }
    }
    all
}

/// The fields of the user's secret that the scheme uses.
pub(super) fn secret_fields(scheme: &Scheme, case: &TestCase) -> Map<String, Value> {
    let forbidden = case.gate.as_ref().map(|gate| {
        gate.iter().map(|table| table.iter().map(|&forbidden| u8::from(forbidden)).collect()).collect::<Vec<Vec<u8>>>()
    });
    let fields = [
        ("x", scheme.cost_model != CostModel::Table || scheme.constraint == ConstraintKind::Zeros, json!(case.x)),
        (
            "immutable",
            matches!(scheme.constraint, ConstraintKind::Zeros | ConstraintKind::Scaled),
            json!(case.immutable),
        ),
        ("weights", scheme.cost_model == CostModel::Weighted, json!(case.weights)),
        ("cost_tables", scheme.cost_model == CostModel::Table, json!(case.cost)),
        ("gate_tables", scheme.constraint == ConstraintKind::Table, json!(forbidden)),
    ];
    let used = fields.into_iter().filter(|(_, used, _)| *used);
    used.map(|(name, _, value)| (name.to_string(), value)).collect()
}

fn vector(scheme: &'static Scheme, setup: &Setup, random: &mut SeededRandom) -> Value {
    let case = case(scheme, setup, random);
    let (instance, chosen) = match setup.choice {
        Choice::Rule(rule) => {
            let name = if rule == ModulusRule::Paper { "smallest" } else { "largest" };
            (SchemeInstance::new(scheme, case.params.clone(), rule).unwrap(), name)
        }
        Choice::Given => {
            let any = SchemeInstance::new(scheme, case.params.clone(), ModulusRule::Deployment).unwrap();
            let alphas = &UNUSUAL[..any.servers()];
            (SchemeInstance::with_field(scheme, case.params.clone(), GIVEN, alphas).unwrap(), "given")
        }
    };
    let (rows, secret) = (case.rows(), case.secret());
    let order: Option<Vec<u32>> = setup.shuffle.then(|| {
        let mut tau = [0; 32];
        random.fill(&mut tau);
        shuffle::permutation(&RootKey::new(0, [0; 32]).transcript(&tau), rows.iter().len())
    });
    // The first servers are silent, the next ones add 1 to every element.
    let (_, silent, lying) = setup.faults;
    let behaviour = |server: usize| match server {
        n if n < silent => "silent",
        n if n < silent + lying => "adds 1",
        _ => "honest",
    };
    let mut theta = vec![false; rows.iter().len()];
    let mut states: Vec<PhaseState> = vec![];
    let [mut client, mut server, mut queries, mut answers, mut decoded] = [const { Vec::<Value>::new() }; 5];
    let mut lying_servers = vec![];
    let mut last = Candidates::default();
    for phase in 0..instance.phases() {
        let mut recorder = Recorder { source: SeededRandom::new(random.below(1 << 32)), draws: vec![] };
        let state = PhaseState::new(&instance, phase, &secret, &theta, states.last(), &mut recorder);
        client.push(json!(recorder.draws));
        let randomness = TableRandomness::draw(&instance, phase, &state.shares()[0], random);
        let responses: Vec<Vec<FieldElement>> = state
            .shares()
            .iter()
            .enumerate()
            .map(|(server, share)| {
                let program = instance.program(phase, share);
                instance.answer(phase, server, &program, &rows, &randomness, order.as_deref())
            })
            .collect();
        let shares = state.shares().iter().map(|share| share.iter().map(numbers).collect::<Vec<_>>());
        queries.push(json!(shares.collect::<Vec<_>>()));
        answers.push(json!(responses.iter().map(|response| numbers(response)).collect::<Vec<_>>()));
        server.push(randomness.json());
        let received = |(server, answer): (usize, Vec<FieldElement>)| match behaviour(server) {
            "silent" => None,
            "adds 1" => Some(adds_one(&instance, phase, &answer)),
            _ => Some(answer),
        };
        let received = responses.into_iter().enumerate().map(received).collect();
        let values = state.decode(&instance, received, random).unwrap();
        decoded.push(json!(numbers(&values.values)));
        lying_servers = values.lying_servers.iter().map(|server| server - 1).collect();
        last = Candidates::read(&instance, phase, &values, &theta, setup.k);
        theta = last.take_theta();
        states.push(state);
    }
    let mut nearest: Vec<Value> = last
        .nearest(setup.k)
        .into_iter()
        .map(|(position, cost)| match cost {
            DecodedCost::Exactly(cost) | DecodedCost::AtMost(cost) => json!({ "position": position, "cost": cost }),
            DecodedCost::Unknown => json!({ "position": position }),
        })
        .collect();
    nearest.resize(setup.k, Value::Null);
    let mut vector = json!({
        "bound": (scheme.bound)(&case.params) as u64,
        "field": chosen,
        "q": instance.field().q(),
        "alphas": numbers(instance.points()),
        "params": params(scheme, &case.params),
        "rows": case.rows,
        "order": order,
        "client_randomness": client,
        "server_randomness": server,
        "queries": queries,
        "answers": answers,
        "behaviour": (0..instance.servers()).map(behaviour).collect::<Vec<_>>(),
        "decoded": decoded,
        "lying_servers": lying_servers,
        "matching_rows": last.count(),
        "nearest": nearest,
    });
    if let Some(format) = instance.lifted() {
        vector["p"] = json!(format.gate_field().q());
    }
    vector.as_object_mut().unwrap().extend(secret_fields(scheme, &case));
    vector
}

#[test]
fn scheme_vectors_are_what_the_engine_computes() {
    use Choice::{Given, Rule};
    for (number, &scheme) in scheme::ALL.iter().enumerate() {
        // With this seed every draw of a server counts: in a gate field of 3 elements, the shares
        // of a row can be 0 at both servers, and then no answer depends on its draws.
        let mut random = SeededRandom::new(2007 + number as u64);
        let exponent = 4;
        let params = Params { exponent, ..Params::new(vec![1], 1) };
        // A client could remove verified masks.
        let masked = |phase: &Phase| matches!(phase.decode_rule, DecodeRule::Masked);
        let verified = scheme.phases.iter().all(|phase| (phase.degree)(&params) == 1 && !masked(phase));
        let tables = has_tables(scheme);
        // Levels of two bytes. If they make long tables, they are in a case with two servers at the
        // end, to keep the files small.
        let wide = if tables { 3 } else { 300 };
        let plain = Setup {
            choice: Rule(ModulusRule::Paper),
            faults: (1, 0, 0),
            shuffle: false,
            verified: false,
            widest: 3,
            exponent,
            k: 1,
        };
        let mut setups = vec![
            Setup { choice: Rule(ModulusRule::Deployment), faults: (2, 0, 0), shuffle: true, verified, k: 2, ..plain },
            Setup {
                choice: Rule(ModulusRule::Deployment),
                faults: (1, 1, 1),
                shuffle: true,
                widest: wide,
                k: 3,
                ..plain
            },
            Setup { choice: Given, exponent: 6, ..plain },
        ];
        if tables {
            setups.push(Setup { choice: Rule(ModulusRule::Deployment), widest: 257, ..plain });
        }
        setups.insert(0, plain);
        let cases: Vec<Value> = setups.iter().map(|setup| vector(scheme, setup, &mut random)).collect();
        compare(scheme.name, &json!({ "scheme": scheme.name, "cases": cases }));
    }
}
