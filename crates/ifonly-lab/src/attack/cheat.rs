//! What a cheating client can make a scheme compute.
//!
//! Servers cannot see a query, so its vectors may be any. With every gate open and every row
//! selected, all schemes then decode `Σ_k y_k^p + Σ_k c_k·y_k` with coefficients c of the client's
//! choice; where it also chooses the coefficients of the powers (linearised and table schemes, the
//! inner product), the first sum is absent.

use ifonly_algebra::field::FieldElement;
use ifonly_core::scheme::instance::SchemeInstance;
use ifonly_core::scheme::{ConstraintKind, CostModel, Scheme};

/// p, if `Σ y^p` stands in every value whatever is shared.
pub(super) fn fixed_power(instance: &SchemeInstance) -> Option<u32> {
    let scheme = instance.scheme();
    match scheme.cost_model {
        CostModel::Product | CostModel::Table => None,
        CostModel::Power => Some(instance.params().exponent),
        CostModel::Squared | CostModel::Weighted => (!has(scheme, "w∘x")).then_some(2),
    }
}

/// Whether the vectors below exist. Published ℓ_p with p > 2 ties the coefficients to one another;
/// what it can be made to compute, linear-lp can too, in the same field.
pub(super) fn is_linear_in_levels(instance: &SchemeInstance) -> bool {
    let published = has(instance.scheme(), "x") && instance.scheme().cost_model == CostModel::Power;
    !published || instance.params().exponent == 2
}

/// The vectors of a phase that give the levels these coefficients.
pub(super) fn vectors(
    instance: &SchemeInstance,
    phase: usize,
    coefficients: &[FieldElement],
) -> Vec<Vec<FieldElement>> {
    let (scheme, params, field) = (instance.scheme(), instance.params(), instance.field());
    let divided = |by: i64| {
        // q is a prime above 2, or there would be nothing to divide: 1 keeps the shape.
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
            // The coefficient of y is −p times the entry of x^{p−1}, which is the last.
            "x, x², …" => {
                vector[length - coefficients.len()..].copy_from_slice(&divided(-i64::from(params.exponent)))
            }
            "cost" => {
                let levels = |(&c, &range): (&FieldElement, &u32)| {
                    (0..=range).map(move |v| field.mul(c, field.reduce(v.into())))
                };
                let entries = coefficients.iter().zip(&params.ranges).flat_map(levels);
                vector.iter_mut().zip(entries).for_each(|(place, entry)| *place = entry);
            }
            // Open gates.
            _ => {}
        }
    }
    vectors
}

fn has(scheme: &Scheme, name: &str) -> bool {
    scheme.phases.iter().flat_map(|phase| phase.slots).any(|slot| slot.name == name)
}
