//! Limits: which parameters, secret queries, numbers of servers and record costs are accepted, and
//! which are refused.

use crate::candidates::DecodedCost;
use crate::cost_check::confirm_under;
use crate::error::RecordRefusal;
use crate::field::ModulusRule;
use crate::params::Params;
use crate::scheme::instance::{SchemeInstance, SchemeInstanceError};
use crate::scheme::{self, Scheme};
use crate::search::NearestRow;
use crate::secret_query::{SecretQuery, SecretQueryError};

fn named(name: &str) -> &'static Scheme {
    scheme::named(name).unwrap()
}

#[test]
fn parameters_are_accepted_up_to_their_limits() {
    let check = |change: &dyn Fn(&mut Params)| {
        let mut params = Params::new(vec![3, 3, 3], 5);
        change(&mut params);
        params.check().map_err(|error| error.parameter)
    };
    for features in [1, 4096] {
        assert_eq!(Params::new(vec![1; features], 1).check(), Ok(()));
    }
    for features in [0, 4097, 5000] {
        assert_eq!(Params::new(vec![1; features], 1).check().unwrap_err().parameter, "features");
    }
    type Set = fn(&mut Params, u64);
    let limits: [(&str, Set, &[u64], &[u64]); 11] = [
        ("max_levels", |params, n| params.max_levels[1] = n as u32, &[1, 65_535], &[0, 65_536, 70_000]),
        ("rows", |params, n| params.rows = n as usize, &[1, u32::MAX as u64], &[0, 1 << 32, 1 << 33]),
        ("threshold", |params, n| params.threshold = n as usize, &[1, 16], &[0, 17, 20]),
        ("silent or lying", |params, n| params.silent = n as usize, &[0, 16], &[17, 20]),
        ("silent or lying", |params, n| params.lying = n as usize, &[0, 16], &[17, 20]),
        ("weight_limit", |params, n| params.weight_limit = n, &[1, u64::MAX], &[0]),
        ("immutable_limit", |params, n| params.immutable_limit = n as usize, &[0, 3], &[4, 9]),
        ("d_min", |params, n| params.d_min = n, &[1, u64::MAX], &[0]),
        ("exponent", |params, n| params.exponent = n as u32, &[2, 4, 16], &[0, 1, 3, 15, 17, 18, 20]),
        ("cost_limit", |params, n| params.cost_limit = n, &[1, u64::MAX], &[0]),
        ("max_levels", |params, n| params.max_levels[2] = n as u32, &[2], &[0]),
    ];
    for (parameter, set, accepted, refused) in limits {
        for &value in accepted {
            assert_eq!(check(&|params| set(params, value)), Ok(()), "{parameter} = {value}");
        }
        for &value in refused {
            assert_eq!(check(&|params| set(params, value)), Err(parameter), "{parameter} = {value}");
        }
    }
}

#[test]
fn server_indices_fit_into_a_byte() {
    // κ = 15·16, plus S spare servers.
    let with = |silent| {
        let params = Params { threshold: 16, exponent: 16, silent, ..Params::new(vec![2], 3) };
        SchemeInstance::new(named("lp"), params, ModulusRule::Deployment).map(|instance| instance.servers())
    };
    assert_eq!(with(14), Ok(255));
    for silent in [15, 16] {
        let error = SchemeInstanceError::TooManyServers { scheme: "lp", servers: 241 + silent };
        assert_eq!(with(silent), Err(error));
    }
}

#[test]
fn secret_queries_are_accepted_up_to_their_limits() {
    let params = Params { weight_limit: 4, cost_limit: 9, immutable_limit: 1, ..Params::new(vec![3, 2], 5) };
    let check = |scheme: &str, secret: SecretQuery| secret.check(named(scheme), &params);
    let ok = || SecretQuery::new(vec![3, 2]);
    let length = |what, have| Err(SecretQueryError::Length { what, have, need: 2 });
    assert_eq!(check("gated", ok()), Ok(()));
    assert_eq!(check("gated", SecretQuery::new(vec![3])), length("x", 1));
    assert_eq!(check("gated", ok().immutable(vec![true])), length("the immutable set", 1));
    assert_eq!(check("gated+", ok().weights(vec![1; 3])), length("the weights", 3));
    assert_eq!(check("gated", SecretQuery::new(vec![3, 3])), Err(SecretQueryError::Level { feature: 1 }));
    assert_eq!(check("gated+", ok().weights(vec![1, 4])), Ok(()));
    for weight in [0, 5, 6] {
        let error = SecretQueryError::Weight { feature: 1, limit: 4 };
        assert_eq!(check("gated+", ok().weights(vec![4, weight])), Err(error), "{weight}");
    }
    // F limits only the schemes with the constraint `Scaled`.
    assert_eq!(check("single-phase", ok().immutable(vec![false, true])), Ok(()));
    let error = SecretQueryError::TooManyImmutable { limit: 1 };
    assert_eq!(check("single-phase", ok().immutable(vec![true, true])), Err(error));
    assert_eq!(check("gated", ok().immutable(vec![true, true])), Ok(()));
    // Cost tables and gate tables.
    let tables = scheme::DEFAULT.name;
    let costs = |first: Vec<u64>| ok().cost_tables(vec![first, vec![0, 9, 1]]);
    assert_eq!(check(tables, costs(vec![0, 1, 9, 3])), Ok(()));
    for first in [vec![0, 1, 10, 3], vec![0, 1, 11, 3], vec![0, 1, 2], vec![0; 5]] {
        let error = SecretQueryError::Table { feature: 0, table: "cost", entries: 4, limit: 9 };
        assert_eq!(check(tables, costs(first)), Err(error));
    }
    assert_eq!(check(tables, ok().cost_tables(vec![])), length("the cost tables", 0));
    let gates = |second: usize| ok().gate_tables(vec![vec![false; 4], vec![true; second]]);
    assert_eq!(check(tables, gates(3)), Ok(()));
    for second in [2, 4] {
        let error = SecretQueryError::Table { feature: 1, table: "gate", entries: 3, limit: 1 };
        assert_eq!(check(tables, gates(second)), Err(error));
    }
    assert_eq!(check(tables, ok().gate_tables(vec![])), length("the gate tables", 0));
    // A query that a scheme does not support is refused, and the error names a scheme that supports
    // it.
    for (scheme, secret, what) in [
        ("baseline", ok().immutable(vec![true, false]), "immutable features"),
        ("gated", ok().weights(vec![1, 2]), "weights"),
        ("gated+", ok().cost_tables(vec![vec![0; 4], vec![0; 3]]), "cost tables"),
        ("gated+", ok().gate_tables(vec![vec![false; 4], vec![false; 3]]), "permitted sets"),
    ] {
        let refused = secret.check(named(scheme), &params).unwrap_err();
        let SecretQueryError::Unsupported { needs, instead, .. } = refused else { panic!("{scheme}: {refused}") };
        assert_eq!(needs.to_string(), what);
        assert_eq!(secret.check(named(instead), &params), Ok(()), "{instead} for {what}");
    }
}

#[test]
fn a_record_is_confirmed_only_with_its_decoded_cost() {
    let params = Params { d_min: 5, weight_limit: 3, ..Params::new(vec![9, 9], 4) };
    let secret = SecretQuery::new(vec![2, 3]).immutable(vec![false, true]);
    let confirm = |scheme, cost, levels: &[u16]| {
        let found = NearestRow { position: Some(0), cost, record: vec![] };
        confirm_under(named(scheme), &params, &secret, &found, levels)
    };
    let wrong = Err(RecordRefusal::WrongCost);
    assert_eq!(confirm("gated", DecodedCost::Exactly(16), &[6, 3]), Ok(16));
    for decoded in [0, 1, 15, 17] {
        assert_eq!(confirm("gated", DecodedCost::Exactly(decoded), &[6, 3]), wrong, "{decoded}");
    }
    // A row that does not match, levels that are not a row, and levels out of range.
    for levels in [&[2, 4][..], &[2], &[2, 3, 3], &[10, 3], &[2, 300]] {
        assert_eq!(confirm("gated", DecodedCost::Unknown, levels), wrong, "{levels:?}");
    }
    assert_eq!(confirm("gated", DecodedCost::Unknown, &[9, 3]), Ok(49));
    // The dot product has no gate.
    assert_eq!(confirm("dot", DecodedCost::Exactly(21), &[6, 3]), Ok(21));
    assert_eq!(confirm("dot", DecodedCost::Exactly(4), &[6, 3]), wrong);
    // Masks are below 5, so the cost is at most the decoded value and at least 4 less.
    for (decoded, confirmed) in [(15, false), (16, true), (17, true), (20, true), (21, false), (22, false)] {
        let expected = if confirmed { Ok(16) } else { wrong };
        assert_eq!(confirm("mask", DecodedCost::AtMost(decoded), &[6, 3]), expected, "{decoded}");
    }
}
