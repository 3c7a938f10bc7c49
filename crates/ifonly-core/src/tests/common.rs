//! Common parts of the tests: random cases, an independent brute force, and a search in field
//! elements.

use crate::candidates::{Candidates, DecodedCost};
use crate::field::{FieldElement, ModulusRule};
use crate::keys::RootKey;
use crate::params::Params;
use crate::phase::PhaseState;
use crate::random::{RandomSource, SeededRandom};
use crate::row_function::{RowRandomness, Rows};
use crate::scheme::instance::SchemeInstance;
use crate::scheme::{ConstraintKind, CostModel, Scheme};
use crate::search::SearchError;
use crate::secret_query::SecretQuery;

/// (T, S, B).
pub(super) type Faults = (usize, usize, usize);

/// A database and a query, in plain numbers.
pub(super) struct TestCase {
    pub(super) max_levels: Vec<u32>,
    pub(super) rows: Vec<Vec<u16>>,
    pub(super) x: Vec<u32>,
    pub(super) immutable: Vec<bool>,
    pub(super) weights: Vec<u64>,
    pub(super) cost: Option<Vec<Vec<u64>>>,
    pub(super) gate: Option<Vec<Vec<bool>>>,
    pub(super) params: Params,
}

pub(super) fn chance(random: &mut SeededRandom, percent: u64) -> bool {
    random.below(100) < percent
}

impl TestCase {
    /// A random case with small numbers, so that ties, x in D, R = 1, d = 1, M = 1, empty Θ and
    /// "all immutable" are frequent.
    pub(super) fn random(
        scheme: &Scheme,
        faults: Faults,
        widest: u32,
        most_rows: u64,
        random: &mut SeededRandom,
    ) -> TestCase {
        let d = 1 + random.below(4) as usize;
        let same = chance(random, 50).then(|| 1 + random.below(widest.into()) as u32);
        let max_levels: Vec<u32> =
            (0..d).map(|_| same.unwrap_or_else(|| 1 + random.below(widest.into()) as u32)).collect();
        let level = |random: &mut SeededRandom, k: usize| random.below(u64::from(max_levels[k]) + 1) as u32;
        let mut rows: Vec<Vec<u16>> =
            (0..1 + random.below(most_rows)).map(|_| (0..d).map(|k| level(random, k) as u16).collect()).collect();
        let x: Vec<u32> = (0..d).map(|k| level(random, k)).collect();
        if chance(random, 20) {
            let row = random.below(rows.len() as u64) as usize;
            rows[row] = x.iter().map(|&level| level as u16).collect();
        }
        let gated = scheme.constraint != ConstraintKind::None;
        let everything = chance(random, 10);
        let immutable = (0..d).map(|_| gated && (everything || chance(random, 40))).collect();
        let limit = 1 + random.below(6);
        let weighted = matches!(scheme.cost_model, CostModel::Weighted | CostModel::Table);
        let weights = (0..d).map(|_| if weighted { 1 + random.below(limit) } else { 1 }).collect();
        let cost_limit = u64::from(widest).pow(2) * 6;
        let tables = |random: &mut SeededRandom| {
            max_levels.iter().map(|&range| (0..=range).map(|_| random.below(5)).collect()).collect::<Vec<Vec<u64>>>()
        };
        let cost = (scheme.cost_model == CostModel::Table && chance(random, 70)).then(|| tables(random));
        let gate = (scheme.constraint == ConstraintKind::Table && chance(random, 70))
            .then(|| tables(random).iter().map(|table| table.iter().map(|&draw| draw == 0).collect()).collect());
        let params = Params {
            threshold: faults.0,
            silent: faults.1,
            lying: faults.2,
            weight_limit: limit,
            exponent: if chance(random, 50) { 2 } else { 4 },
            cost_limit,
            ..Params::new(max_levels.clone(), rows.len())
        };
        let mut case = TestCase { max_levels, rows, x, immutable, weights, cost, gate, params };
        // The largest d_min that keeps the distances of this query in order (masks may change the
        // order of ties).
        let mut values: Vec<i128> = case.brute_force(scheme).into_iter().flatten().collect();
        values.sort_unstable();
        values.dedup();
        let gap = values.windows(2).map(|pair| pair[1] - pair[0]).min().unwrap_or(3);
        case.params.d_min = 1 + random.below(gap as u64);
        case
    }

    pub(super) fn secret(&self) -> SecretQuery {
        let mut secret =
            SecretQuery::new(self.x.clone()).immutable(self.immutable.clone()).weights(self.weights.clone());
        if let Some(cost) = &self.cost {
            secret = secret.cost_tables(cost.clone());
        }
        if let Some(gate) = &self.gate {
            secret = secret.gate_tables(gate.clone());
        }
        secret
    }

    pub(super) fn rows(&self) -> Rows {
        Rows::new(&self.max_levels, &self.rows).unwrap()
    }

    pub(super) fn instance(&self, scheme: &'static Scheme, rule: ModulusRule) -> SchemeInstance {
        SchemeInstance::new(scheme, self.params.clone(), rule).unwrap()
    }

    /// The cost of each row, computed from the definitions without the code under test. Smaller is
    /// better; `None` if the row does not match.
    pub(super) fn brute_force(&self, scheme: &Scheme) -> Vec<Option<i128>> {
        let p = self.params.exponent;
        self.rows
            .iter()
            .map(|y| {
                let mut total = 0i128;
                for (k, &level) in y.iter().enumerate() {
                    let gap = i128::from(level) - i128::from(self.x[k]);
                    let forbidden = self.gate.as_ref().is_some_and(|gate| gate[k][usize::from(level)]);
                    if scheme.constraint != ConstraintKind::None && ((self.immutable[k] && gap != 0) || forbidden) {
                        return None;
                    }
                    let weight = i128::from(self.weights[k]);
                    total += match (scheme.cost_model, &self.cost) {
                        (CostModel::Product, _) => -i128::from(level) * i128::from(self.x[k]),
                        (CostModel::Power, _) => gap.pow(p),
                        (CostModel::Table, Some(cost)) => i128::from(cost[k][usize::from(level)]),
                        (CostModel::Squared, _) => gap * gap,
                        (CostModel::Weighted | CostModel::Table, _) => weight * gap * gap,
                    };
                }
                Some(total)
            })
            .collect()
    }
}

/// The first of the best rows.
pub(super) fn best(costs: &[Option<i128>]) -> Option<(usize, i128)> {
    let each = costs.iter().enumerate().filter_map(|(row, cost)| Some((row, (*cost)?)));
    each.min_by_key(|&(row, cost)| (cost, row))
}

/// Runs one search in field elements. `spoil` may change or drop the answers of a phase.
pub(super) fn play(
    instance: &SchemeInstance,
    secret: &SecretQuery,
    rows: &Rows,
    random: &mut SeededRandom,
    mut spoil: impl FnMut(&mut Vec<Option<Vec<FieldElement>>>, &mut SeededRandom),
) -> Result<(Candidates, Vec<usize>), SearchError> {
    let mut theta = vec![false; rows.iter().len()];
    let mut states: Vec<PhaseState> = vec![];
    let mut result = None;
    let mut lying_servers = vec![];
    for phase in 0..instance.phases() {
        let state = PhaseState::new(instance, phase, secret, &theta, states.last(), random);
        let mut tau = [0; 32];
        random.fill(&mut tau);
        let keys = RootKey::new(0, [1; 32]).transcript(&tau);
        let mut answers: Vec<Option<Vec<FieldElement>>> = (0..instance.responders(phase))
            .map(|server| {
                if let Some(format) = instance.lifted() {
                    return Some(answer(instance, phase, server, &state, rows, &keys.lifted(format)));
                }
                let program = instance.program(phase, &state.shares()[server]);
                let kappa = instance.kappa(phase);
                let outputs = program.outputs.len();
                let randomness = keys.rows(instance.field(), outputs, kappa, instance.params().d_min);
                Some(answer(instance, phase, server, &state, rows, &randomness))
            })
            .collect();
        spoil(&mut answers, random);
        let values = state.decode(instance, answers, random)?;
        lying_servers.extend(&values.lying_servers);
        let mut candidates = Candidates::read(instance, phase, &values, &theta, rows.iter().len());
        theta = candidates.take_theta();
        result = Some(candidates);
        states.push(state);
    }
    lying_servers.sort_unstable();
    lying_servers.dedup();
    Ok((result.unwrap(), lying_servers))
}

/// The answer of one server, counted from 0.
pub(super) fn answer(
    instance: &SchemeInstance,
    phase: usize,
    server: usize,
    state: &PhaseState,
    rows: &Rows,
    randomness: &impl RowRandomness,
) -> Vec<FieldElement> {
    let program = instance.program(phase, &state.shares()[server]);
    instance.answer(phase, server, &program, rows, randomness, None)
}

/// Compares a decoded search with brute force. With masks, any of the tied rows may win.
pub(super) fn assert_nearest(scheme: &Scheme, case: &TestCase, candidates: &Candidates, context: &str) {
    let costs = case.brute_force(scheme);
    let nearest = candidates.nearest(1);
    assert_eq!(candidates.count(), costs.iter().flatten().count(), "{}: {context}", scheme.name);
    match best(&costs) {
        None => assert!(nearest.is_empty(), "{}: {context}", scheme.name),
        Some((row, cost)) => {
            let (position, decoded) = nearest[0];
            assert_eq!(costs[position], Some(cost), "{}: {context}", scheme.name);
            match decoded {
                DecodedCost::Exactly(decoded) => {
                    assert_eq!(i128::from(decoded), cost.abs(), "{}: {context}", scheme.name)
                }
                DecodedCost::AtMost(decoded) => {
                    let noise = i128::from(decoded) - cost;
                    assert!((0..i128::from(case.params.d_min)).contains(&noise), "{}: {context}", scheme.name);
                }
                DecodedCost::Unknown => {}
            }
            if !matches!(decoded, DecodedCost::AtMost(_)) {
                assert_eq!(position, row, "{}: ties go to the first row: {context}", scheme.name);
            }
        }
    }
}

/// Runs `test` for all schemes, with one thread per core.
pub(super) fn for_all_schemes(test: impl Fn(&'static Scheme) + Sync) {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let all = crate::scheme::ALL;
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while let Some(scheme) = all.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                    test(scheme);
                }
            });
        }
    });
}
