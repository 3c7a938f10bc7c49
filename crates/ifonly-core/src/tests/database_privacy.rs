//! Database privacy by exhaustive enumeration on tiny fields. Over all randomness of the servers,
//! everything that the user sees beside the decoded values is uniform given these values. Every pad
//! coefficient of every row is needed for that.

use super::common::{answer, for_all_schemes};
use crate::field::{Field, FieldElement, ModulusRule};
use crate::params::Params;
use crate::phase::PhaseState;
use crate::random::{ExhaustiveRandom, RandomSource, SeededRandom};
use crate::row_function::{OutputExpr, RowRandomness, Rows};
use crate::scheme::instance::SchemeInstance;
use crate::scheme::{ConstraintKind, DecodeRule, Scheme};
use crate::secret_query::SecretQuery;
use std::collections::BTreeMap;

/// The servers' randomness as a table, optionally with a defect.
struct TableRandomness {
    pads: Vec<FieldElement>,
    kappa: usize,
    outputs: usize,
    rho: Vec<FieldElement>,
    sigma: Vec<FieldElement>,
    mu: Vec<FieldElement>,
    defect: Defect,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Defect {
    None,
    /// This pad is zero in all rows.
    Pad(usize, usize),
    /// Row 1 uses the pads of row 0, as in the paper's appendix.
    SharedPads,
}

impl TableRandomness {
    fn draw(
        instance: &SchemeInstance,
        phase: usize,
        rows: usize,
        defect: Defect,
        all: &mut ExhaustiveRandom,
    ) -> TableRandomness {
        let pads = pads_of(instance, phase, rows, all);
        TableRandomness { pads, ..TableRandomness::draw_secrets(instance, phase, rows, defect, all) }
    }

    /// Draws everything except the pads.
    fn draw_secrets(
        instance: &SchemeInstance,
        phase: usize,
        rows: usize,
        defect: Defect,
        all: &mut ExhaustiveRandom,
    ) -> TableRandomness {
        let (field, kappa, outputs) = (instance.field(), instance.kappa(phase), instance.outputs(phase));
        let gate_field = instance.output_field(0);
        let uses = |wanted: fn(&OutputExpr) -> bool| {
            let length = |slot: &usize| vec![FieldElement::ZERO; *slot];
            let vectors =
                crate::share::SlotVectors::new(instance.slot_lengths(phase).iter().map(length).collect::<Vec<_>>());
            if instance.program(phase, &vectors).outputs.iter().any(wanted) { rows } else { 0 }
        };
        TableRandomness {
            pads: vec![],
            kappa,
            outputs,
            rho: (0..uses(|output| matches!(output, OutputExpr::Blinded(_))))
                .map(|_| gate_field.sample_nonzero(all))
                .collect(),
            sigma: (0..uses(|output| matches!(output, OutputExpr::Hidden { .. }))).map(|_| field.sample(all)).collect(),
            mu: (0..uses(|output| matches!(output, OutputExpr::Masked { .. })))
                .map(|_| field.reduce(all.below(instance.params().d_min)))
                .collect(),
            defect,
        }
    }
}

/// One pad per row, output and coefficient, in the field of the output.
fn pads_of(instance: &SchemeInstance, phase: usize, rows: usize, random: &mut impl RandomSource) -> Vec<FieldElement> {
    let (outputs, kappa) = (instance.outputs(phase), instance.kappa(phase));
    let output = |index: usize| index / kappa % outputs;
    (0..rows * outputs * kappa).map(|index| instance.output_field(output(index)).sample(random)).collect()
}

impl RowRandomness for TableRandomness {
    fn pad(&self, output: usize, j: usize, position: usize) -> FieldElement {
        let row = if self.defect == Defect::SharedPads { 0 } else { position };
        if self.defect == Defect::Pad(output, j) {
            return FieldElement::ZERO;
        }
        self.pads[(row * self.outputs + output) * self.kappa + j - 1]
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

fn tiny(scheme: &Scheme, rows: usize, threshold: usize, verified: bool) -> Params {
    let d_min = if matches!(scheme.phases[0].decode_rule, DecodeRule::Masked) { 2 } else { 1 };
    Params { weight_limit: 2, cost_limit: 2, exponent: 4, d_min, threshold, verified, ..Params::new(vec![1], rows) }
}

fn query(scheme: &Scheme) -> SecretQuery {
    SecretQuery::new(vec![1]).immutable(vec![scheme.constraint != ConstraintKind::None])
}

/// Whether each row of the database with one feature matches `query`.
fn theta(scheme: &Scheme, rows: &Rows) -> Vec<bool> {
    rows.iter().map(|row| scheme.constraint == ConstraintKind::None || row[0] == 1).collect()
}

type Answers = Vec<u64>;
/// How often each vector of answers occurs, by decoded values.
type Views = BTreeMap<Vec<u64>, BTreeMap<Answers, u64>>;

fn views(instance: &SchemeInstance, phase: usize, rows: &Rows, defect: Defect) -> Views {
    let scheme = instance.scheme();
    let theta = theta(scheme, rows);
    // The user's draws are fixed; the statement holds for each of them.
    let random = &mut SeededRandom::new(11);
    let secret = query(scheme);
    let mut states: Vec<PhaseState> = vec![];
    for phase in 0..=phase {
        states.push(PhaseState::new(instance, phase, &secret, &theta, states.last(), random));
    }
    let state = &states[phase];
    let answered = instance.answer_length(phase) / instance.outputs(phase);
    let mut views = Views::new();
    let mut all = ExhaustiveRandom::default();
    while all.next_run() {
        let randomness = TableRandomness::draw(instance, phase, answered, defect, &mut all);
        let answers: Vec<Vec<FieldElement>> = (0..instance.responders(phase))
            .map(|server| answer(instance, phase, server, state, rows, &randomness))
            .collect();
        let seen = answers.iter().flatten().map(|element| element.value()).collect();
        let decoded = state.decode(instance, answers.into_iter().map(Some).collect(), random).unwrap();
        let values = decoded.values.iter().map(|value| value.value()).collect();
        *views.entry(values).or_default().entry(seen).or_default() += 1;
    }
    views
}

/// Whether, given the decoded values, all q^(κ·outputs·rows) consistent vectors of answers occur
/// equally often.
fn is_uniform(instance: &SchemeInstance, phase: usize, views: &Views) -> bool {
    let rows = instance.answer_length(phase) / instance.outputs(phase);
    let free = (instance.kappa(phase) * rows) as u32;
    let possible: u64 =
        (0..instance.outputs(phase)).map(|output| instance.output_field(output).q().pow(free)).product();
    views.values().all(|seen| {
        let count = seen.values().next();
        seen.len() as u64 == possible && seen.values().all(|other| Some(other) == count)
    })
}

/// Two rows if they can be enumerated, else one (three and two for differences).
fn instances(scheme: &'static Scheme) -> Vec<(SchemeInstance, Rows)> {
    let extra = usize::from(matches!(scheme.phases[0].decode_rule, DecodeRule::Difference));
    [(2, 1, false), (1, 2, false), (1, 1, true)]
        .into_iter()
        .filter_map(|(rows, threshold, verified)| {
            let rows: Vec<[u16; 1]> = (0..rows + extra).map(|row| [row as u16 % 2]).collect();
            let instance =
                SchemeInstance::new(scheme, tiny(scheme, rows.len(), threshold, verified), ModulusRule::Paper).ok()?;
            Some((instance, Rows::new(&[1], rows).unwrap()))
        })
        .filter(|(instance, _)| {
            let size = |phase| instance.kappa(phase) * instance.answer_length(phase);
            let q = instance.field().q() as f64;
            (0..instance.phases()).all(|phase| q.powi(size(phase) as i32) < 1e6)
        })
        .collect()
}

#[test]
fn beside_the_decoded_values_everything_is_uniform() {
    for_all_schemes(|scheme| {
        let instances = instances(scheme);
        assert!(!instances.is_empty(), "{}", scheme.name);
        for (instance, rows) in instances {
            for phase in 0..instance.phases() {
                let views = views(&instance, phase, &rows, Defect::None);
                assert!(is_uniform(&instance, phase, &views), "{} phase {phase}", scheme.name);
            }
        }
    });
}

#[test]
fn every_pad_is_needed_and_every_row_needs_its_own() {
    for_all_schemes(|scheme| {
        let (instance, rows) = instances(scheme).remove(0);
        for phase in 0..instance.phases() {
            let mut defects: Vec<Defect> = (0..instance.outputs(phase))
                .flat_map(|output| (1..=instance.kappa(phase)).map(move |j| Defect::Pad(output, j)))
                .collect();
            if instance.answer_length(phase) > instance.outputs(phase) {
                defects.push(Defect::SharedPads);
            }
            for defect in defects {
                let views = views(&instance, phase, &rows, defect);
                assert!(
                    !is_uniform(&instance, phase, &views),
                    "{} phase {phase}: {defect:?} makes no difference",
                    scheme.name
                );
            }
        }
    });
}

/// The distribution of everything that the user sees in all phases, with the row `hidden`, which
/// does not match.
fn gated_views(scheme: &'static Scheme, hidden: [u16; 2]) -> Vec<Views> {
    // Feature 0 is immutable, so a row with another level there does not match, whatever the level
    // of feature 1 is.
    let params = Params { weight_limit: 1, cost_limit: 1, ..Params::new(vec![1, 1], 2) };
    let instance = SchemeInstance::new(scheme, params, ModulusRule::Paper).unwrap();
    let rows = Rows::new(&[1, 1], [[1, 0], hidden]).unwrap();
    let secret = SecretQuery::new(vec![1, 1]).immutable(vec![true, false]);
    let random = &mut SeededRandom::new(12);
    let mut states: Vec<PhaseState> = vec![];
    (0..instance.phases())
        .map(|phase| {
            states.push(PhaseState::new(&instance, phase, &secret, &[true, false], states.last(), random));
            let mut views = Views::new();
            let mut all = ExhaustiveRandom::default();
            while all.next_run() {
                let randomness = TableRandomness::draw(&instance, phase, 2, Defect::None, &mut all);
                let answers = (0..instance.responders(phase))
                    .flat_map(|server| answer(&instance, phase, server, &states[phase], &rows, &randomness))
                    .map(|element| element.value())
                    .collect();
                *views.entry(vec![]).or_default().entry(answers).or_default() += 1;
            }
            views
        })
        .collect()
}

#[test]
fn rows_outside_the_gate_reveal_nothing() {
    for_all_schemes(|scheme| {
        if scheme.name == "two-phase+" {
            // Four servers and κ = 3 need q = 5 and take 5^6 times as long. Phase 0 is that of
            // two-phase.
            return;
        }
        match scheme.constraint {
            ConstraintKind::Zeros | ConstraintKind::Table => {
                assert!(gated_views(scheme, [0, 0]) == gated_views(scheme, [0, 1]), "{}", scheme.name);
            }
            ConstraintKind::Scaled => {
                assert!(gated_views(scheme, [0, 0]) != gated_views(scheme, [0, 1]), "{}", scheme.name);
            }
            ConstraintKind::None => {}
        }
    });
}

#[test]
fn a_gated_row_that_does_not_match_is_uniform_by_itself() {
    // One row that does not match: its two decoded elements are uniform on F_p\{0} × F_q.
    for name in ["gated", "gated+", "gated-ranges", "gated-ranges+", "gated-costs", "gated-tables"] {
        let scheme = crate::scheme::named(name).unwrap();
        let instance = SchemeInstance::new(scheme, tiny(scheme, 1, 1, false), ModulusRule::Paper).unwrap();
        let rows = Rows::new(&[1], [[0]]).unwrap();
        let views = views(&instance, 0, &rows, Defect::None);
        let (p, q) = (instance.output_field(0).q(), instance.field().q());
        assert_eq!(views.len() as u64, (p - 1) * q, "{name}");
        let weights: Vec<u64> = views.values().map(|seen| seen.values().sum()).collect();
        assert!(weights.iter().all(|&weight| weight == weights[0]), "{name}");
    }
}

/// How often each value of the only row is decoded in phase 0, over all ρ, σ and μ of the servers.
fn decoded(scheme: &'static Scheme, params: &Params, row: u16, secret: &SecretQuery) -> BTreeMap<Vec<u64>, u64> {
    let instance = SchemeInstance::new(scheme, params.clone(), ModulusRule::Paper).unwrap();
    let rows = Rows::new(&params.max_levels, [[row]]).unwrap();
    let random = &mut SeededRandom::new(13);
    let state = PhaseState::new(&instance, 0, secret, &[false], None, random);
    let mut counts = BTreeMap::new();
    let mut all = ExhaustiveRandom::default();
    while all.next_run() {
        // Pads cancel in decoding, so they are not enumerated.
        let mut pads = SeededRandom::new(14);
        let randomness = TableRandomness {
            pads: pads_of(&instance, 0, 1, &mut pads),
            ..TableRandomness::draw_secrets(&instance, 0, 1, Defect::None, &mut all)
        };
        let answers = (0..instance.responders(0))
            .map(|server| Some(answer(&instance, 0, server, &state, &rows, &randomness)))
            .collect();
        let values = state.decode(&instance, answers, random).unwrap();
        *counts.entry(values.values.iter().map(|value| value.value()).collect()).or_default() += 1;
    }
    counts
}

#[test]
fn phase_0_reveals_of_a_row_only_whether_it_matches() {
    // A row that differs by one or two levels decodes to every non-zero value equally often;
    // without ρ it would decode to 1 or 4.
    for name in ["two-phase", "two-phase-4", "two-phase+"] {
        let scheme = crate::scheme::named(name).unwrap();
        let params = Params::new(vec![2], 1);
        let q = SchemeInstance::new(scheme, params.clone(), ModulusRule::Paper).unwrap().field().q();
        let uniform: BTreeMap<Vec<u64>, u64> = (1..q).map(|value| (vec![value], 1)).collect();
        let secret = SecretQuery::new(vec![2]).immutable(vec![true]);
        for row in [0, 1] {
            assert_eq!(decoded(scheme, &params, row, &secret), uniform, "{name}");
        }
        assert_eq!(decoded(scheme, &params, 2, &secret), BTreeMap::from([(vec![0], q - 1)]), "{name}");
    }
}

#[test]
fn gated_outputs_of_every_row_that_does_not_match_are_uniform() {
    for_all_schemes(|scheme| {
        if !matches!(scheme.phases[0].decode_rule, DecodeRule::Gated) {
            return;
        }
        let params = Params::new(vec![2], 1);
        let instance = SchemeInstance::new(scheme, params.clone(), ModulusRule::Paper).unwrap();
        let (p, q) = (instance.output_field(0).q(), instance.field().q());
        let pairs = (1..p).flat_map(|gate| (0..q).map(move |cost| (vec![gate, cost], 1)));
        let uniform: BTreeMap<Vec<u64>, u64> = pairs.collect();
        let secret = SecretQuery::new(vec![2]).immutable(vec![true]);
        for row in [0, 1] {
            assert_eq!(decoded(scheme, &params, row, &secret), uniform, "{}", scheme.name);
        }
        assert_eq!(
            decoded(scheme, &params, 2, &secret),
            BTreeMap::from([(vec![0, 0], q * (p - 1))]),
            "{}",
            scheme.name
        );
    });
}

#[test]
fn masked_costs_are_uniform_below_the_mask() {
    for_all_schemes(|scheme| {
        if !matches!(scheme.phases[0].decode_rule, DecodeRule::Masked) {
            return;
        }
        let params = Params { d_min: 5, ..Params::new(vec![3], 1) };
        for (row, cost) in [(0, 4), (1, 1), (2, 0), (3, 1)] {
            let masked: BTreeMap<Vec<u64>, u64> = (0..5).map(|mu| (vec![cost + mu], 1)).collect();
            assert_eq!(decoded(scheme, &params, row, &SecretQuery::new(vec![2])), masked, "{}", scheme.name);
        }
    });
}

#[test]
fn a_verified_lie_passes_with_probability_one_in_q_minus_one_at_most() {
    // One server adds a fixed lie to the two elements of one row. Over all r and all shares it is
    // accepted with probability at most 1/(q − 1).
    let scheme = crate::scheme::named("baseline").unwrap();
    let params = Params { verified: true, ..Params::new(vec![1], 1) };
    let instance = SchemeInstance::new(scheme, params, ModulusRule::Deployment).unwrap();
    let field: &Field = instance.field();
    let q = field.q();
    let rows = Rows::new(&[1], [[1]]).unwrap();
    let zero = TableRandomness {
        pads: vec![FieldElement::ZERO; 2],
        kappa: 1,
        outputs: 2,
        rho: vec![],
        sigma: vec![],
        mu: vec![],
        defect: Defect::None,
    };
    for (first, second) in (0..q).flat_map(|a| (0..q).map(move |b| (a, b))).filter(|&lie| lie != (0, 0)) {
        let (mut passed, mut total) = (0, 0);
        let mut all = ExhaustiveRandom::default();
        while all.next_run() {
            let state = PhaseState::new(&instance, 0, &SecretQuery::new(vec![0]), &[false], None, &mut all);
            let mut answers: Vec<Option<Vec<FieldElement>>> =
                (0..2).map(|server| Some(answer(&instance, 0, server, &state, &rows, &zero))).collect();
            let lying = answers[1].as_mut().unwrap();
            lying[0] = field.add(lying[0], field.reduce(first));
            lying[1] = field.add(lying[1], field.reduce(second));
            passed += u64::from(state.decode(&instance, answers, &mut SeededRandom::new(0)).is_ok());
            total += 1;
        }
        assert!(passed * (q - 1) <= total, "lie ({first}, {second}): {passed} of {total}");
    }
}
