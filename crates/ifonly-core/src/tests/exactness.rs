//! Every scheme equals brute force: ties, x in D, R = 1, d = 1, M = 1, empty Θ, all features
//! immutable, R per feature, both field rules, verified or not; and every threshold with silent and
//! lying servers.

use super::common::{TestCase, assert_nearest, chance, for_all_schemes, play};
use crate::candidates::DecodedCost;
use crate::cost_check::confirm;
use crate::field::{FieldElement, ModulusRule};
use crate::params::Params;
use crate::random::{ExhaustiveRandom, RandomSource, SeededRandom};
use crate::row_function::Rows;
use crate::scheme::instance::{SchemeInstance, SchemeInstanceError};
use crate::scheme::{ConstraintKind, DecodeRule, Phase};
use crate::search::NearestRow;
use crate::secret_query::SecretQuery;

/// The seed of the tests. `IFONLY_SEED` selects another one.
fn seed() -> u64 {
    std::env::var("IFONLY_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1)
}

#[test]
fn every_scheme_equals_brute_force() {
    let seed = seed();
    for_all_schemes(|scheme| {
        let mut random = SeededRandom::new(seed);
        for number in 0..2_000 {
            let mut case = TestCase::random(scheme, (1, 0, 0), 8, 12, &mut random);
            case.params.verified = chance(&mut random, 30);
            let rule = if chance(&mut random, 50) { ModulusRule::Deployment } else { ModulusRule::Paper };
            let instance = match SchemeInstance::new(scheme, case.params.clone(), rule) {
                Err(SchemeInstanceError::NotVerifiable { .. } | SchemeInstanceError::MaskNotVerifiable { .. }) => {
                    case.params.verified = false;
                    case.instance(scheme, rule)
                }
                instance => instance.unwrap(),
            };
            let context = format!("{}, IFONLY_SEED={seed}, instance {number}", scheme.name);
            let (candidates, lying_servers) =
                play(&instance, &case.secret(), &case.rows(), &mut random, |_, _| {}).expect(&context);
            assert_nearest(scheme, &case, &candidates, &context);
            assert!(lying_servers.is_empty(), "{context}");
        }
    });
}

fn spoil(field: &crate::field::Field, answer: &mut Option<Vec<FieldElement>>, random: &mut SeededRandom) {
    for element in answer.iter_mut().flatten() {
        *element = field.sample(random);
    }
}

#[test]
fn silent_and_lying_servers_are_tolerated_and_one_more_lying_server_is_reported() {
    let seed = seed();
    for_all_schemes(|scheme| {
        let mut random = SeededRandom::new(seed);
        for faults in [(1, 0, 0), (1, 1, 0), (1, 0, 1), (2, 0, 0), (2, 1, 1)] {
            let (_, silent, lying) = faults;
            for number in 0..30 {
                let context = format!("IFONLY_SEED={seed}, {faults:?}, instance {number}");
                // With enough rows and a large field, random lies are not correct by chance.
                let mut case = TestCase::random(scheme, faults, 200, 12, &mut random);
                while case.rows.len() < 6 {
                    case = TestCase::random(scheme, faults, 200, 12, &mut random);
                }
                let instance = case.instance(scheme, ModulusRule::Deployment);
                let field = instance.field().clone();
                let mut shuffled = |n: usize| {
                    let mut servers: Vec<usize> = (0..n).collect();
                    for last in (1..n).rev() {
                        servers.swap(last, random.below(last as u64 + 1) as usize);
                    }
                    servers
                };
                // The same servers misbehave in all phases that query them.
                let least = (0..instance.phases()).map(|phase| instance.responders(phase)).min().unwrap();
                let servers = shuffled(least);
                let mut lying_servers: Vec<usize> =
                    servers[silent..silent + lying].iter().map(|server| server + 1).collect();
                lying_servers.sort_unstable();
                let mut random = SeededRandom::new(seed ^ number);
                let misbehave = |answers: &mut Vec<Option<Vec<FieldElement>>>, random: &mut SeededRandom| {
                    servers[..silent].iter().for_each(|&server| answers[server] = None);
                    servers[silent..silent + lying]
                        .iter()
                        .for_each(|&server| spoil(&field, &mut answers[server], random));
                };
                let (candidates, named) =
                    play(&instance, &case.secret(), &case.rows(), &mut random, misbehave).expect(&context);
                assert_nearest(scheme, &case, &candidates, &context);
                assert_eq!(named, lying_servers, "{context}");
                if silent + lying == 0 {
                    continue; // κ + 1 answers are consistent with any lie; see the next test.
                }
                let too_many = |answers: &mut Vec<Option<Vec<FieldElement>>>, random: &mut SeededRandom| {
                    servers[..=lying].iter().for_each(|&server| spoil(&field, &mut answers[server], random));
                };
                let error = play(&instance, &case.secret(), &case.rows(), &mut random, too_many);
                assert!(error.is_err(), "{}: {context}", scheme.name);
            }
        }
    });
}

#[test]
fn without_spare_servers_no_lie_makes_a_row_seem_nearer() {
    // S = B = 0: every vector of κ + 1 answers lies on a polynomial, so no decoder can detect a lie
    // from the answers alone. Here server 1 adds every possible pair of lies to the last phase, and
    // the client checks the cost of the record. A confirmed row matches and has the decoded cost. A
    // lie that hides rows behind a gate, or that increases the cost of the nearest row (next test),
    // stays undetected; see docs/threat-model.md.
    for_all_schemes(|scheme| {
        let max_levels = vec![2];
        let params = Params { cost_limit: 4, ..Params::new(max_levels.clone(), 3) };
        let instance = SchemeInstance::new(scheme, params.clone(), ModulusRule::Paper).unwrap();
        let rows = [[2], [1], [2]];
        let gated = scheme.constraint != ConstraintKind::None;
        let secret = SecretQuery::new(vec![1]).immutable(vec![gated]);
        let field = instance.field().clone();
        let last = instance.phases() - 1;
        let (mut refused, mut confirmed) = (0, 0);
        let mut all = ExhaustiveRandom::default();
        // Two elements at a time, so that q^2 runs suffice for every scheme.
        for positions in (0..instance.answer_length(last)).collect::<Vec<_>>().windows(2) {
            while all.next_run() {
                let lie: Vec<FieldElement> = positions.iter().map(|_| field.sample(&mut all)).collect();
                let mut phase = 0;
                let spoil = |answers: &mut Vec<Option<Vec<FieldElement>>>, _: &mut SeededRandom| {
                    if phase == last {
                        let answer = answers[0].as_mut().unwrap();
                        positions
                            .iter()
                            .zip(&lie)
                            .for_each(|(&position, &lie)| answer[position] = field.add(answer[position], lie));
                    }
                    phase += 1;
                };
                let row_store = Rows::new(&max_levels, rows).unwrap();
                let played = play(&instance, &secret, &row_store, &mut SeededRandom::new(8), spoil);
                refused += usize::from(played.as_ref().is_ok_and(|(candidates, _)| candidates.has_impossible()));
                let Some(&(position, decoded_cost)) =
                    played.iter().flat_map(|(c, _)| c.nearest(1)).collect::<Vec<_>>().first()
                else {
                    refused += 1;
                    continue;
                };
                let found = NearestRow { position: Some(position), cost: decoded_cost, record: vec![] };
                let cost = u64::from(rows[position][0] - 1);
                let (matches, cost) = (!gated || cost == 0, if scheme.name == "dot" { cost + 1 } else { cost });
                match confirm(&instance, &secret, &found, &rows[position]) {
                    Ok(_) => {
                        assert!(matches, "{}: a row that does not match was confirmed", scheme.name);
                        let decoded = match decoded_cost {
                            DecodedCost::Exactly(decoded) | DecodedCost::AtMost(decoded) => decoded,
                            DecodedCost::Unknown => cost,
                        };
                        assert_eq!(decoded, cost, "{}: a row was confirmed with another cost", scheme.name);
                        confirmed += 1;
                    }
                    Err(_) => refused += 1,
                }
            }
            all = ExhaustiveRandom::default();
        }
        assert!(confirmed > 0, "{}: no honest answer was confirmed", scheme.name);
        assert!(refused > 0, "{}: no lie was detected", scheme.name);
    });
}

#[test]
fn without_spare_servers_a_lie_can_demote_a_row_and_verified_answers_prevent_it() {
    let baseline = crate::scheme::named("baseline").unwrap();
    for verified in [false, true] {
        let params = Params { verified, ..Params::new(vec![9], 2) };
        let instance = SchemeInstance::new(baseline, params, ModulusRule::Deployment).unwrap();
        let rows = Rows::new(&[9], [[5], [7]]).unwrap();
        let secret = SecretQuery::new(vec![5]);
        let field = instance.field().clone();
        // The points are 1 and −1, so half of what server 1 adds reaches the decoded value.
        let demote = |answers: &mut Vec<Option<Vec<FieldElement>>>, _: &mut SeededRandom| {
            let answer = answers[0].as_mut().unwrap();
            answer[0] = field.add(answer[0], field.reduce(18));
        };
        let result = play(&instance, &secret, &rows, &mut SeededRandom::new(1), demote);
        assert_eq!(result.is_err(), verified);
        if let Ok((candidates, _)) = result {
            let (position, decoded_cost) = candidates.nearest(1)[0];
            assert_eq!(position, 1, "the nearest row was demoted");
            let found = NearestRow { position: Some(position), cost: decoded_cost, record: vec![] };
            assert!(confirm(&instance, &secret, &found, &[7]).is_ok());
        }
    }
}

#[test]
fn verified_answers_expose_a_lie_of_one_of_two_servers() {
    let seed = seed();
    for_all_schemes(|scheme| {
        let mut random = SeededRandom::new(seed);
        for number in 0..60 {
            let mut case = TestCase::random(scheme, (1, 0, 0), 200, 12, &mut random);
            case.params.verified = true;
            let Ok(instance) = SchemeInstance::new(scheme, case.params.clone(), ModulusRule::Deployment) else {
                let masked = |phase: &Phase| matches!(phase.decode_rule, DecodeRule::Masked);
                assert!(scheme.phases.iter().any(|phase| (phase.degree)(&case.params) != 1 || masked(phase)));
                continue;
            };
            let answers_something =
                !matches!(scheme.phases[0].decode_rule, DecodeRule::Difference) || case.rows.len() > 1;
            let field = instance.field().clone();
            // A lie in one element of one row is enough.
            let lie = |answers: &mut Vec<Option<Vec<FieldElement>>>, random: &mut SeededRandom| {
                let answer = answers[1].as_mut().unwrap();
                if !answer.is_empty() {
                    let position = random.below(answer.len() as u64) as usize;
                    answer[position] = field.add(answer[position], field.sample_nonzero(random));
                }
            };
            let result = play(&instance, &case.secret(), &case.rows(), &mut random, lie);
            assert_eq!(result.is_err(), answers_something, "{}: IFONLY_SEED={seed}, {number}", scheme.name);
        }
    });
}
