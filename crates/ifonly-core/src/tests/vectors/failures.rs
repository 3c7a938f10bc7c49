//! Vectors that every implementation must refuse.

use super::{compare, hex};
use crate::field::{Field, FieldElement};
use crate::params::Params;
use crate::scheme::instance::SchemeInstance;
use crate::{scheme, wire};
use serde_json::{Value, json};

/// Packed field elements, from the definition: bit i of element s is bit s·b + i of the stream.
fn pack(bits: u32, elements: &[u64]) -> Vec<u8> {
    let bits = bits as usize;
    let mut bytes = vec![0; (elements.len() * bits).div_ceil(8)];
    for bit in 0..elements.len() * bits {
        bytes[bit / 8] |= ((elements[bit / bits] >> (bit % bits) & 1) as u8) << (bit % 8);
    }
    bytes
}

#[test]
fn failing_cases_are_refused() {
    let mut failures: Vec<Value> = vec![];
    for (q, elements) in [(2039, 3), (2_147_483_647, 5), ((1 << 61) - 1, 2)] {
        let field = Field::new(q).unwrap();
        let mut largest = vec![0; elements];
        largest[elements - 1] = (1 << field.bits()) - 1;
        let good = pack(field.bits(), &vec![0; elements]);
        assert_eq!(good, wire::pack(&field, &vec![FieldElement::ZERO; elements]));
        let (mut long, mut filled) = (good.clone(), good.clone());
        long.push(0);
        *filled.last_mut().unwrap() |= 0x80;
        let short = good[1..].to_vec();
        let not_reduced = pack(field.bits(), &largest);
        for (kind, payload) in
            [("non-reduced element", not_reduced), ("too long", long), ("too short", short), ("filling", filled)]
        {
            assert!(wire::unpack(&field, &payload, elements).is_err(), "{kind}");
            failures.push(json!({ "kind": kind, "q": q, "elements": elements, "payload": hex(&payload) }));
        }
    }
    let baseline = scheme::named("baseline").unwrap();
    let instance = |q, alphas: &[i64]| SchemeInstance::with_field(baseline, Params::new(vec![9, 9], 3), q, alphas);
    assert!(instance(251, &[1, -1]).is_ok());
    for (kind, alphas) in [("alpha zero", [0, 250]), ("alpha zero", [1, 251]), ("alpha repeated", [250, -1])] {
        assert!(instance(251, &alphas).is_err(), "{kind}");
        failures.push(json!({ "kind": kind, "q": 251, "alphas": alphas }));
    }
    let q = (1 << 40) + 1;
    assert!(instance(q, &[1, -1]).is_err());
    failures.push(json!({ "kind": "composite q", "q": q, "factors": [257, 4_278_255_361u64] }));
    compare("failures", &json!({ "failures": failures }));
}
