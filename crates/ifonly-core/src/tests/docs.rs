//! `docs/schemes.md` equals the page that is generated from the scheme descriptions.
//! `IFONLY_BLESS=1 cargo test -p ifonly-core tests::docs` writes it.

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
        "# Schemes\n\n\
         `IFONLY_BLESS=1 cargo test -p ifonly-core tests::docs` generates this page from the scheme\n\
         descriptions in `crates/ifonly-core/src/scheme/`. Do not edit it.\n\n\
         - *Elements* are field elements, over all servers, without record fetches.\n\
         - *Bytes* are packed payloads and answers, over all servers, without headers.\n\
         - A vector in parentheses is sent again in phase 1, because servers keep no state. It counts in the\n  \
           bytes, not in the elements.\n\
         - Two numbers of bits are those of a cost and of a lifted gate. Its answers have one 32-bit word per\n  \
           row ([protocol.md](protocol.md), 5.7).\n\
         - `sealed` has integers mod 2^k of k bits, and 8 bytes down per server without records.\n\
         - Letters are those of [protocol.md](protocol.md); *paper* is [that paper](paper.md).\n\n\
         T = 1 and S = B = 0. Larger values need more servers: N = κ + 1 + S + 2B, and κ grows with T.\n\
         Weights are at most 10, d_min = 10, p = 4, table entries are at most 10·R², and any number of\n\
         features may be immutable.\n\n\
         ## Wine: d = 11, R = 100, M = 500\n\n{}\n\
         ## Large database: d = 32, R = 255, M = 1,000,000\n\n{}\n\
         ## Verified answers: d = 11, R = 100, M = 500\n\n\
         The client shares every vector twice, the second time scaled by a secret r. Rows without numbers\n\
         say why their scheme has no verified variant.\n\n{}",
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
    assert!(
        std::fs::read_to_string(path).unwrap() == page(),
        "docs/schemes.md is out of date; write it again with IFONLY_BLESS=1"
    );
}

#[test]
fn formulas_equal_those_of_the_paper() {
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
