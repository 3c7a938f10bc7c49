//! Other comparisons of the paper's appendix: `Σ (y − Q)^p` for even p, and the dot product, whose
//! largest value wins.

use crate::field::FieldElement;
use crate::row_function::{OutputExpr, RowFunction, RowFunctionKind, RowProgram};
use crate::scheme::SlotLength::Features;
use crate::scheme::{ConstraintKind, CostModel, DecodeRule, Origin, Phase, PhaseContext, PhaseSecrets, Scheme, Slot};

const X: &[Slot] = &[Slot::fresh("x", Features)];

/// Σ (y − x)^p without its constant: `one·Σ y^p + Σ_{j=1..p-1} C(p,j)·(−1)^{p−j}·⟨power(p−j),
/// y^j⟩`, where `power(i)` is x^i.
pub(crate) fn powers(
    context: &PhaseContext<'_>,
    one: FieldElement,
    power: impl Fn(u32) -> Vec<FieldElement>,
) -> RowFunction {
    let p = context.params.exponent;
    let coefficient = |j: u32| {
        let sign = if (p - j).is_multiple_of(2) { 1 } else { -1 };
        context.scaled(sign * binomial(p, j), &power(p - j))
    };
    let mut coefficients: Vec<Vec<FieldElement>> = (1..p).map(coefficient).collect();
    coefficients.push(vec![one; context.params.features()]);
    RowFunction { kind: RowFunctionKind::Polynomial(coefficients), constant: FieldElement::ZERO }
}

fn binomial(n: u32, k: u32) -> i64 {
    (0..i64::from(k)).fold(1, |product, i| product * (i64::from(n) - i) / (i + 1))
}

/// κ = p − 1, because the user cancels the term without y.
pub(crate) const LP: Scheme = Scheme {
    name: "lp",
    origin: Origin::Paper,
    learns: "every distance",
    cost_model: CostModel::Power,
    constraint: ConstraintKind::None,
    bound: |params| params.power_bound(params.exponent),
    phases: &[Phase {
        slots: X,
        degree: |params| params.exponent as usize - 1,
        secrets: |secret, context, _| PhaseSecrets::new([secret.x(context.field).to_vec()]),
        program: |context, q, one| {
            let field = context.field;
            let power = |exponent| q.slot(0).iter().map(|&x| field.pow(x, exponent)).collect::<Vec<_>>();
            let constant =
                power(context.params.exponent.into()).into_iter().fold(FieldElement::ZERO, |a, b| field.add(a, b));
            let function = powers(context, one, |exponent| power(exponent.into()));
            RowProgram::new([RowFunction { constant, ..function }], [OutputExpr::Plain(0)])
        },
        decode_rule: DecodeRule::Cost,
    }],
};

/// The most similar row by inner product.
pub(crate) const DOT: Scheme = Scheme {
    name: "dot",
    origin: Origin::Paper,
    learns: "every inner product",
    cost_model: CostModel::Product,
    constraint: ConstraintKind::None,
    bound: |params| params.delta(),
    phases: &[Phase {
        slots: X,
        degree: |_| 1,
        secrets: |secret, context, _| PhaseSecrets::new([secret.x(context.field).to_vec()]),
        program: |_, q, _| {
            let kind = RowFunctionKind::Linear { norm: FieldElement::ZERO, slope: q.slot(0).to_vec() };
            RowProgram::new([RowFunction { kind, constant: FieldElement::ZERO }], [OutputExpr::Plain(0)])
        },
        decode_rule: DecodeRule::Gain,
    }],
};
