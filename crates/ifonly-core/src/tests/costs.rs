//! Numbers of servers, κ, field bounds and communication costs follow from the scheme descriptions
//! and equal the published formulas.

use crate::field::ModulusRule;
use crate::params::Params;
use crate::scheme;
use crate::scheme::instance::SchemeInstance;

/// Name, κ per phase, N, cost as a function of d and M, bound as a function of (R, d, L1, F,
/// d_min); written by hand from the tables of the paper, but for Single-Phase (docs/paper.md,
/// Theorem 6).
type Row = (&'static str, &'static [usize], usize, fn(u128, u128) -> u128, fn(u128, u128, u128, u128, u128) -> u128);

const P: u128 = 4;

#[rustfmt::skip]
const TABLE: &[Row] = &[
    ("baseline",             &[1],    2, |d, m| 2*d + 2*m,        |r, d, _, _, _| r*r*d),
    ("diff",                 &[1],    2, |d, m| 2*d + 2*m - 2,    |r, d, _, _, _| 2*r*r*d),
    ("mask",                 &[1],    2, |d, m| 2*d + 2*m,        |r, d, _, _, d_min| r*r*d + d_min - 1),
    ("two-phase",            &[2, 2], 3, |d, m| 9*d + 9*m,        |r, d, _, _, _| r*r*d),
    ("two-phase-4",          &[3, 2], 4, |d, m| 8*d + 10*m,       |r, d, _, _, _| r*r*d),
    ("single-phase",         &[2],    3, |d, m| 6*d + 3*m,        |r, d, _, f, _| largest(r, d, 1, f)),
    ("baseline+",            &[2],    3, |d, m| 6*d + 3*m,        |r, d, l1, _, _| l1*r*r*d),
    ("diff+",                &[2],    3, |d, m| 6*d + 3*m - 3,    |r, d, l1, _, _| 2*l1*r*r*d),
    ("mask+",                &[2],    3, |d, m| 6*d + 3*m,        |r, d, l1, _, d_min| l1*r*r*d + d_min - 1),
    ("two-phase+",           &[2, 3], 4, |d, m| 14*d + 11*m,      |r, d, l1, _, _| l1*r*r*d),
    ("single-phase+",        &[2],    3, |d, m| 6*d + 3*m,        |r, d, l1, f, _| largest(r, d, l1, f)),
    ("lp",                   &[3],    4, |d, m| P*d + P*m,        |r, d, _, _, _| r.pow(P as u32)*d),
    ("dot",                  &[1],    2, |d, m| 2*d + 2*m,        |r, d, _, _, _| r*r*d),
    ("linear-baseline+",     &[1],    2, |d, m| 4*d + 2*m,        |r, d, l1, _, _| l1*r*r*d),
    ("linear-diff+",         &[1],    2, |d, m| 4*d + 2*m - 2,    |r, d, l1, _, _| 2*l1*r*r*d),
    ("linear-mask+",         &[1],    2, |d, m| 4*d + 2*m,        |r, d, l1, _, d_min| l1*r*r*d + d_min - 1),
    ("linear-single-phase",  &[1],    2, |d, m| 4*d + 2*m,        |r, d, _, f, _| largest(r, d, 1, f)),
    ("linear-single-phase+", &[1],    2, |d, m| 4*d + 2*m,        |r, d, l1, f, _| largest(r, d, l1, f)),
    ("linear-lp",            &[1],    2, |d, m| 2*(P-1)*d + 2*m,  |r, d, _, _, _| r.pow(P as u32)*d),
    ("gated",                &[1],    2, |d, m| 6*d + 4*m + 2,    |r, d, _, _, _| r*r*d),
    ("gated+",               &[1],    2, |d, m| 8*d + 4*m + 2,    |r, d, l1, _, _| l1*r*r*d),
];

/// The largest value of Single-Phase with L = L1·R²(d − |I|) + 1 and |I| ≤ F.
fn largest(r: u128, d: u128, l1: u128, f: u128) -> u128 {
    (0..=f).map(|fixed| (r * r * fixed + 1) * (l1 * r * r * (d - fixed) + 1) - 1).max().unwrap()
}

#[test]
fn single_phase_needs_a_smaller_field_than_that_of_the_paper() {
    let field = |levels: Vec<u32>, rule| {
        let params = Params { immutable_limit: levels.len(), ..Params::new(levels, 3) };
        SchemeInstance::new(scheme::named("single-phase").unwrap(), params, rule).unwrap().field().clone()
    };
    // R = d = 3: 757 in the paper. Wine: 34 bits.
    assert_eq!(field(vec![3; 3], ModulusRule::Paper).q(), 191);
    assert_eq!(field(vec![100; 11], ModulusRule::Deployment).bits(), 32);
    // With unequal ranges every set I fits: 3² + 1² and 2² are the partial sums nearest to 7.
    let bound = |levels: Vec<u32>| Params::new(levels, 1).scaled_bound(1);
    assert!(bound(vec![3, 2, 1]) >= 11 * 5 - 1);
}

fn params(r: u32, d: usize, m: usize) -> Params {
    Params { weight_limit: 7, immutable_limit: d / 2, d_min: 5, exponent: P as u32, ..Params::new(vec![r; d], m) }
}

#[test]
fn descriptions_give_the_tables_formulas() {
    for (r, d, m) in [(1, 1, 1), (4, 2, 5), (10, 20, 560), (100, 11, 3788)] {
        for &(name, kappas, servers, cost, bound) in TABLE {
            let params = params(r, d, m);
            let instance =
                SchemeInstance::new(scheme::named(name).unwrap(), params.clone(), ModulusRule::Paper).unwrap();
            let (r, d, m) = (u128::from(r), d as u128, m as u128);
            assert_eq!(instance.cost().total(), cost(d, m), "{name}");
            assert_eq!(instance.servers(), servers, "{name}");
            let found: Vec<usize> = (0..instance.phases()).map(|phase| instance.kappa(phase)).collect();
            assert_eq!(found, kappas, "{name}");
            let bound = bound(r, d, 7, d / 2, 5);
            assert_eq!((instance.scheme().bound)(&params), bound, "{name}");
            assert!(u128::from(instance.field().q()) > bound, "{name}");
        }
    }
}

#[test]
fn tables_cost_one_element_per_level() {
    // Σ(R_k + 1) = 101·11 elements up per table and server.
    for (name, up) in [("table", 1), ("gated-tables", 2)] {
        let instance =
            SchemeInstance::new(scheme::named(name).unwrap(), params(100, 11, 500), ModulusRule::Deployment).unwrap();
        assert_eq!(instance.servers(), 2);
        assert_eq!(instance.cost().up, 2 * up * 101 * 11);
        assert_eq!(instance.cost().down, 2 * up * 500);
    }
}

#[test]
fn every_scheme_is_in_one_of_these_tables() {
    let elsewhere = ["table", "gated-ranges", "gated-ranges+", "gated-costs", "gated-tables"];
    for scheme in scheme::ALL {
        assert!(TABLE.iter().any(|row| row.0 == scheme.name) || elsewhere.contains(&scheme.name), "{}", scheme.name);
    }
}

#[test]
fn thresholds_silence_and_lies_add_the_servers_they_need() {
    for &(name, kappas, ..) in TABLE {
        for (threshold, silent, lying) in [(1, 0, 0), (1, 1, 0), (1, 0, 1), (2, 0, 0), (2, 1, 1)] {
            let params = Params { threshold, silent, lying, ..params(10, 4, 9) };
            let instance = SchemeInstance::new(scheme::named(name).unwrap(), params, ModulusRule::Deployment).unwrap();
            for (phase, kappa) in kappas.iter().enumerate() {
                assert_eq!(instance.responders(phase), kappa * threshold + 1 + silent + 2 * lying, "{name}");
            }
        }
    }
}

#[test]
fn verified_answers_double_the_elements_and_add_one_per_server() {
    for name in ["baseline", "linear-baseline+", "gated", "gated-tables"] {
        let plain =
            SchemeInstance::new(scheme::named(name).unwrap(), params(10, 4, 9), ModulusRule::Deployment).unwrap();
        let verified = Params { verified: true, ..params(10, 4, 9) };
        let verified = SchemeInstance::new(scheme::named(name).unwrap(), verified, ModulusRule::Deployment).unwrap();
        assert_eq!(verified.servers(), plain.servers());
        assert_eq!(verified.cost().up, 2 * plain.cost().up + plain.servers() as u128);
        assert_eq!(verified.cost().down, 2 * plain.cost().down);
    }
}

#[test]
fn declared_degrees_are_the_highest_that_remain() {
    // κ + 1 answers decode (tests/exactness.rs). This test shows that κ answers do not, so no
    // declared degree is too high.
    use crate::phase::PhaseState;
    use crate::random::SeededRandom;
    use crate::row_function::{RowRandomness, Rows, ScanJob, answer};
    use crate::secret_query::SecretQuery;
    struct NoRandomness;
    impl RowRandomness for NoRandomness {
        fn pad(&self, _: usize, _: usize, _: usize) -> crate::field::FieldElement {
            Default::default()
        }
        fn rho(&self, _: usize) -> crate::field::FieldElement {
            crate::field::FieldElement::ONE
        }
        fn sigma(&self, _: usize) -> crate::field::FieldElement {
            crate::field::FieldElement::ONE
        }
        fn mu(&self, _: usize) -> crate::field::FieldElement {
            Default::default()
        }
    }
    for scheme in scheme::ALL {
        // With one spare server, a polynomial of degree κ + 1 is detected as a lie.
        let params = Params { silent: 1, cost_limit: 1000, ..params(9, 2, 4) };
        let instance = SchemeInstance::new(scheme, params, ModulusRule::Deployment).unwrap();
        let rows = Rows::new(&[9, 9], [[1, 2], [9, 0], [3, 3], [7, 8]]).unwrap();
        let secret = SecretQuery::new(vec![3, 5]);
        let mut states: Vec<PhaseState> = vec![];
        let mut random = SeededRandom::new(13);
        for phase in 0..instance.phases() {
            states.push(PhaseState::new(&instance, phase, &secret, &[true; 4], states.last(), &mut random));
            let (field, kappa) = (instance.field(), instance.kappa(phase));
            let columns: Vec<Option<Vec<_>>> = states[phase]
                .shares()
                .iter()
                .zip(instance.points())
                .map(|(share, &alpha)| {
                    let program = instance.program(phase, share);
                    let job = ScanJob { field, alpha, kappa, program: &program };
                    let mut elements = answer(&job, &rows, &NoRandomness, None);
                    let outputs = program.outputs.len();
                    elements
                        .iter_mut()
                        .enumerate()
                        .for_each(|(i, s)| *s = field.sub(*s, program.known_part(i % outputs)));
                    Some(elements)
                })
                .collect();
            let points = instance.points();
            let agrees = |degree: usize| {
                crate::decode::select_consistent(field, points, degree, 0, &columns, &mut SeededRandom::new(1)).is_ok()
            };
            assert!(agrees(kappa), "{} phase {phase}", scheme.name);
            assert!(!agrees(kappa - 1), "{} phase {phase}: κ is declared too high", scheme.name);
        }
    }
}
