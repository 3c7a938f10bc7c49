//! `docs/schemes.md` is what the scheme descriptions say. `IFONLY_BLESS=1 cargo test -p ifonly-core
//! tests::docs` rewrites it.

use crate::describe::{formula, table};
use crate::field::ModulusRule;
use crate::params::Params;
use crate::scheme;
use crate::scheme::instance::SchemeInstance;

fn page() -> String {
    let params = |r: u32, d: usize, m: usize| Params {
        weight_limit: 10,
        d_min: 10,
        exponent: 4,
        cost_limit: 10 * u64::from(r).pow(2),
        ..Params::new(vec![r; d], m)
    };
    let verified = Params { verified: true, ..params(100, 11, 500) };
    format!(
        "# All schemes\n\n\
         Printed by `IFONLY_BLESS=1 cargo test -p ifonly-core tests::docs` from the scheme descriptions in \
         `crates/ifonly-core/src/scheme/`; nothing on this page is typed in. Symbols count all servers and both \
         directions, without the record; bytes are the packed payloads on the wire, without headers (a carried vector, in \
         parentheses, is sent again because servers keep no state, and counts only there). T = 1, S = B = 0; more of them add \
         servers: N = κ + 1 + S + 2B, κ growing with T. Weights up to 10, d_min = 10, p = 4, any number of immutable features, \
         table entries up to 10·R². \n\n\
         ## Wine: d = 11, R = 100, M = 500\n\n{}\n\
         ## A large database: d = 32, R = 255, M = 1,000,000\n\n{}\n\
         ## Verified answers: d = 11, R = 100, M = 500\n\n\
         Every vector is shared twice, the second time scaled by a secret r. Schemes that are not linear in the shares have \
         no such form, and masks must not: whoever shares r = 0 would take them off.\n\n{}",
        table(&params(100, 11, 500)),
        table(&params(255, 32, 1_000_000)),
        table(&verified),
    )
}

#[test]
fn the_page_of_schemes_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schemes.md");
    if std::env::var_os("IFONLY_BLESS").is_some() {
        std::fs::write(path, page()).unwrap();
    }
    assert!(std::fs::read_to_string(path).unwrap() == page(), "docs/schemes.md is out of date; bless it");
}

#[test]
fn formulas_read_like_the_papers() {
    let instance = |name: &str| {
        let params = Params { exponent: 4, ..Params::new(vec![9; 3], 7) };
        SchemeInstance::new(scheme::named(name).unwrap(), params, ModulusRule::Deployment).unwrap()
    };
    for (name, expected) in [
        ("baseline", "2d+2M"),
        ("diff", "2d+2M−2"),
        ("two-phase", "9d+9M"),
        ("two-phase-4", "8d+10M"),
        ("two-phase+", "14d+11M"),
        ("lp", "4d+4M"),
        ("linear-lp", "6d+2M"),
        ("gated", "6d+4M+2"),
        ("gated+", "8d+4M+2"),
        ("gated-tables", "4(R+1)d+4M"),
    ] {
        assert_eq!(formula(&instance(name)), expected);
    }
}
