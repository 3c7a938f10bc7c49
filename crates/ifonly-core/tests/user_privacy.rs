//! User privacy by exhaustive enumeration on tiny fields: over all of the user's random draws, the joint distribution of
//! everything that one server (for T = 2: any two servers) receives is the same for every secret.
//!
//! The header does not depend on the secret (tests/search.rs), the commitments hide perfectly (transcript's own test), and
//! the record query is enumerated beside its definition (spir's own tests). What is left, the shares, is enumerated here.

mod common;

use common::for_all_schemes;
use ifonly_core::deployment::Deployment;
use ifonly_core::params::Params;
use ifonly_core::prime::FieldRule;
use ifonly_core::random::{Exhaustive, Random};
use ifonly_core::round::Round;
use ifonly_core::scheme::{Gate, Metric, Opening, Scheme};
use ifonly_core::secret::Secret;
use ifonly_core::share::Vectors;

/// Everybody who could ask a database with these ranges: all x, all I, all weights that the scheme carries, and some tables.
fn everybody(scheme: &Scheme, params: &Params) -> Vec<(Secret, Vec<bool>)> {
    let d = params.features();
    let digits = |count: usize, base: u64| -> Vec<Vec<u64>> {
        let (mut all, mut found) = (Exhaustive::default(), vec![]);
        while all.turn() {
            found.push((0..count).map(|_| all.below(base)).collect());
        }
        found
    };
    let gated = scheme.gate != Gate::None;
    let weighted = matches!(scheme.metric, Metric::Weighted | Metric::Table);
    let mut people = vec![];
    for x in digits(d, 2) {
        for immutable in digits(d, if gated { 2 } else { 1 }) {
            for weights in digits(d, if weighted { 2 } else { 1 }) {
                let x: Vec<u32> = x.iter().map(|&level| level as u32).collect();
                let fixed: Vec<bool> = immutable.iter().map(|&bit| bit == 1).collect();
                // The database holds a row of zeros, then rows of ones.
                let theta = (0..params.rows)
                    .map(|row| x.iter().zip(&fixed).all(|(&level, &fixed)| !fixed || level == u32::from(row > 0)))
                    .collect();
                let secret = Secret::new(x).immutable(fixed).weights(weights.iter().map(|weight| weight + 1).collect());
                people.push((secret, theta));
            }
        }
    }
    if scheme.metric == Metric::Table {
        let cost = vec![vec![2, 1]; d];
        people.push((Secret::new(vec![0; d]).cost_tables(cost), vec![true; params.rows]));
    }
    if scheme.gate == Gate::Table {
        let gate = vec![vec![true, true]; d];
        people.push((Secret::new(vec![1; d]).gate_tables(gate), vec![false; params.rows]));
    }
    people
}

fn tiny(d: usize, rows: usize, threshold: usize, verified: bool) -> Params {
    Params { weight_limit: 2, exponent: 4, cost_limit: 2, threshold, verified, ..Params::new(vec![1; d], rows) }
}

/// Draws of the phases that are enumerated together.
fn draws(deployment: &Deployment, phases: std::ops::Range<usize>) -> u32 {
    let fresh = |phase: usize| {
        let slots = deployment.scheme().phases[phase].slots.iter().filter(|slot| !slot.carried);
        let symbols: usize = slots.map(|slot| slot.length.symbols(deployment.params())).sum();
        (if deployment.params().verified { 2 * symbols + 2 } else { symbols }) as u32
    };
    phases.map(fresh).sum::<u32>() * deployment.params().threshold as u32
}

/// How often each group of T servers sees each view, over all draws of the given phases. A carried share repeats bytes that
/// the server knows already, so it is left out of the view.
fn views(deployment: &Deployment, secret: &Secret, theta: &[bool], phases: std::ops::Range<usize>) -> Vec<Vec<u32>> {
    let q = deployment.field().q() as usize;
    let together = deployment.params().threshold;
    let servers = deployment.servers();
    let groups: Vec<Vec<usize>> = match together {
        1 => (0..servers).map(|n| vec![n]).collect(),
        _ => (0..servers).flat_map(|n| (0..n).map(move |m| vec![m, n])).collect(),
    };
    let carried =
        |phase: usize, slot: usize| deployment.scheme().phases[phase].slots.get(slot).is_some_and(|slot| slot.carried);
    let lengths = phases.clone().flat_map(|phase| {
        let lengths = deployment.slot_lengths(phase).into_iter().enumerate();
        lengths.filter(move |&(slot, _)| !carried(phase, slot)).map(|(_, length)| length)
    });
    let symbols: usize = lengths.sum();
    let mut counts = vec![vec![0u32; q.pow((symbols * together) as u32)]; groups.len()];
    let mut all = Exhaustive::default();
    let mut rounds: Vec<Vec<Vectors>> = Vec::with_capacity(2);
    let plain: Vec<Opening> = phases.clone().map(|phase| deployment.open(phase, secret, theta, None)).collect();
    while all.turn() {
        rounds.clear();
        for (phase, plain) in phases.clone().zip(&plain) {
            let shares = if deployment.params().verified {
                Round::new(deployment, phase, secret, theta, None, &mut all).shares().to_vec()
            } else {
                deployment.share(phase, &plain.vectors, rounds.last().map(Vec::as_slice), &mut all)
            };
            rounds.push(shares);
        }
        for (group, counts) in groups.iter().zip(&mut counts) {
            let mut view = 0;
            for &server in group {
                for (round, phase) in rounds.iter().zip(phases.clone()) {
                    let Some(share) = round.get(server) else { continue };
                    for (_, vector) in share.iter().enumerate().filter(|&(slot, _)| !carried(phase, slot)) {
                        view = vector.iter().fold(view, |view, symbol| view * q + symbol.value() as usize);
                    }
                }
            }
            counts[view] += 1;
        }
    }
    counts
}

fn assert_private(deployment: &Deployment, phases: std::ops::Range<usize>, at_most: usize) {
    let people = everybody(deployment.scheme(), deployment.params());
    // All of them, or evenly spread ones and the last.
    let step = people.len().div_ceil(at_most).max(1);
    let chosen = people.iter().step_by(step).chain(people.last());
    let mut reference = None;
    for (secret, theta) in chosen {
        secret.check(deployment.scheme(), deployment.params()).unwrap();
        let views = views(deployment, secret, theta, phases.clone());
        let same = reference.get_or_insert_with(|| views.clone());
        assert!(*same == views, "{}: a server can tell two people apart", deployment.scheme().name);
    }
}

#[test]
fn one_server_sees_the_same_whoever_asks() {
    for_all_schemes(|scheme| {
        // The largest of these databases whose draws can be enumerated for everybody.
        let fits = |&(d, rows): &(usize, usize)| {
            let deployment = Deployment::new(scheme, tiny(d, rows, 1, false), FieldRule::Paper).unwrap();
            deployment.field().q().pow(draws(&deployment, 0..deployment.phases())) <= 20_000
        };
        let (d, rows) = [(2, 2), (1, 2), (1, 1)].into_iter().find(fits).expect(scheme.name);
        let deployment = Deployment::new(scheme, tiny(d, rows, 1, false), FieldRule::Paper).unwrap();
        assert_private(&deployment, 0..deployment.phases(), usize::MAX);
    });
}

#[test]
fn two_servers_together_see_the_same_whoever_asks() {
    for_all_schemes(|scheme| {
        let deployment = Deployment::new(scheme, tiny(1, 1, 2, false), FieldRule::Paper).unwrap();
        // Phases draw apart from each other, so that each may be enumerated by itself.
        for phase in 0..deployment.phases() {
            let carried = scheme.phases[phase].slots.iter().any(|slot| slot.carried);
            let phases = if carried { phase - 1..phase + 1 } else { phase..phase + 1 };
            // Everybody where that takes seconds, else the two who differ most.
            let runs = deployment.field().q().pow(draws(&deployment, phases.clone()));
            assert_private(&deployment, phases, if runs < 500_000 { usize::MAX } else { 1 });
        }
    });
}

#[test]
fn verified_queries_are_as_private() {
    for_all_schemes(|scheme| {
        if let Ok(deployment) = Deployment::new(scheme, tiny(1, 1, 1, true), FieldRule::Paper) {
            assert_private(&deployment, 0..1, usize::MAX);
        }
    });
}

#[test]
#[should_panic(expected = "can tell two people apart")]
fn the_proof_notices_a_share_without_noise() {
    // T = 1 noise against two servers together must fail.
    let baseline = ifonly_core::scheme::named("baseline").unwrap();
    let deployment = Deployment::new(baseline, tiny(1, 1, 1, false), FieldRule::Paper).unwrap();
    let mut reference = None;
    for (secret, theta) in everybody(baseline, deployment.params()) {
        let mut pairs = std::collections::BTreeMap::new();
        let mut all = Exhaustive::default();
        while all.turn() {
            let round = Round::new(&deployment, 0, &secret, &theta, None, &mut all);
            let pair = (round.shares()[0].slot(0)[0].value(), round.shares()[1].slot(0)[0].value());
            *pairs.entry(pair).or_insert(0) += 1;
        }
        let same = reference.get_or_insert_with(|| pairs.clone());
        assert!(*same == pairs, "two servers can tell two people apart");
    }
}
