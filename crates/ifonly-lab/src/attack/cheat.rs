//! The vectors that a cheating client shares.
//!
//! Servers see only shares, so a client can share any vectors. With every gate open and every row
//! selected, all schemes then decode `Σ_k y_k^p + Σ_k c_k·y_k`, with coefficients c that the client
//! chooses. In linearised schemes, table schemes and the dot product the client also chooses the
//! coefficients of the powers and sets them to 0, so the first sum is absent.

use ifonly_algebra::field::FieldElement;
use ifonly_core::scheme::instance::SchemeInstance;
use ifonly_core::scheme::{ConstraintKind, CostModel, Scheme};

/// The exponent p if every decoded value contains `Σ y^p`, whatever the client shares.
pub(super) fn fixed_power(instance: &SchemeInstance) -> Option<u32> {
    let scheme = instance.scheme();
    match scheme.cost_model {
        CostModel::Product | CostModel::Table => None,
        CostModel::Power => Some(instance.params().exponent),
        CostModel::Squared | CostModel::Weighted => (!has(scheme, "w∘x")).then_some(2),
    }
}

/// Whether [`vectors`] exist for the scheme. In the ℓ_p scheme of the paper with p > 2 the
/// coefficients depend on each other. That scheme computes nothing that linear-lp cannot compute in
/// the same field.
pub(super) fn is_linear_in_levels(instance: &SchemeInstance) -> bool {
    let paper_lp = has(instance.scheme(), "x") && instance.scheme().cost_model == CostModel::Power;
    !paper_lp || instance.params().exponent == 2
}

/// The vectors of a phase for which level y_k enters the decoded value with coefficient c_k.
pub(super) fn vectors(
    instance: &SchemeInstance,
    phase: usize,
    coefficients: &[FieldElement],
) -> Vec<Vec<FieldElement>> {
    let (scheme, params, field) = (instance.scheme(), instance.params(), instance.field());
    let divided = |by: i64| {
        // The divisors are −2 and −p, not 0 modulo the prime q, so the inverse exists.
        let inverse = field.inverse(field.reduce_signed(by)).unwrap_or(FieldElement::ONE);
        coefficients.iter().map(|&c| field.mul(c, inverse)).collect::<Vec<_>>()
    };
    let mut vectors: Vec<Vec<FieldElement>> =
        instance.slot_lengths(phase).into_iter().map(|n| vec![FieldElement::ZERO; n]).collect();
    for (vector, slot) in vectors.iter_mut().zip(scheme.phases[phase].slots) {
        let length = vector.len();
        match slot.name {
            "x" if scheme.cost_model == CostModel::Product => vector.copy_from_slice(coefficients),
            "x" | "w∘x" => vector.copy_from_slice(&divided(-2)),
            "w" if !has(scheme, "w∘x") => vector.fill(FieldElement::ONE),
            "h" if scheme.constraint == ConstraintKind::Scaled => vector.fill(FieldElement::ONE),
            "h2" => vector.fill(FieldElement::ONE),
            // The coefficient of y is −p times the entry of x^{p−1}, which is the last entry.
            "x, x², …" => {
                vector[length - coefficients.len()..].copy_from_slice(&divided(-i64::from(params.exponent)))
            }
            "cost" => {
                let levels = |(&c, &range): (&FieldElement, &u32)| {
                    (0..=range).map(move |v| field.mul(c, field.reduce(v.into())))
                };
                let entries = coefficients.iter().zip(&params.max_levels).flat_map(levels);
                vector.iter_mut().zip(entries).for_each(|(target, entry)| *target = entry);
            }
            // All zeros: the gate is open.
            _ => {}
        }
    }
    vectors
}

fn has(scheme: &Scheme, name: &str) -> bool {
    scheme.phases.iter().flat_map(|phase| phase.slots).any(|slot| slot.name == name)
}
