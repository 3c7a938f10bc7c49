//! Two-Phase I-PCR(+): phase 0 decodes `ρ_i·‖Q1∘y_i − Q2‖²`, which reveals only Θ. In phase 1, h2 =
//! 1[i ∈ Θ] selects the rows whose distance is decoded.
//!
//! Phase 0 commits to the shares of x and w of phase 1, so that one row order is used with one x
//! only ([`crate::share_commitment`]).
//!
//! In the paper the user may stop if |Θ| ≤ 1. That would reveal |Θ| ≤ 1 to the servers, so both
//! phases always run. The paper's Remark for four servers multiplies a term that only the user
//! could cancel by the secret ρ_i. The version here has the same N and cost.

use crate::field::{Field, FieldElement};
use crate::row_function::{OutputExpr, RowFunction, RowProgram};
use crate::scheme::SlotLength::{Features, Rows};
use crate::scheme::{ConstraintKind, CostModel, DecodeRule, Origin, Phase, PhaseContext, PhaseSecrets, Scheme, Slot};
use crate::secret_query::SecretQuery;
use crate::share::SlotVectors;

fn theta_elements(field: &Field, theta: &[bool]) -> Vec<FieldElement> {
    theta.iter().map(|&selected| field.reduce(selected.into())).collect()
}

/// `s²·U + s·V + c` for the row functions `U = Σ a·y²` and `V = Σ b·y`.
fn selected(
    square: RowFunction,
    linear: RowFunction,
    constant: FieldElement,
    row_shares: &[FieldElement],
) -> RowProgram {
    let output = OutputExpr::Selected { square: 0, linear: 1, constant };
    RowProgram { row_shares: row_shares.to_vec(), ..RowProgram::new([square, linear], [output]) }
}

/// Shares h1 and x∘h1. The value is zero exactly if the row equals x on I.
const MATCH: Phase = Phase {
    slots: &[Slot::fresh("h1", Features), Slot::fresh("x∘h1", Features)],
    degree: |_| 2,
    secrets: |secret, context, _| {
        let h1 = secret.h(context.field);
        let xh1 = context.times(&h1, &secret.x(context.field));
        PhaseSecrets::new([h1, xh1])
    },
    program: |context, q, _| {
        let (h1, xh1) = (q.slot(0), q.slot(1));
        let linear = context.scaled(-2, &context.times(h1, xh1));
        let function = context.quadratic(context.times(h1, h1), linear, context.field.dot(xh1, xh1));
        RowProgram::new([function], [OutputExpr::Blinded(0)])
    },
    decode_rule: DecodeRule::Zeros,
};

/// `‖s·y − Q‖²` with the slots h2 and x.
fn select_distance(context: &PhaseContext<'_>, q: &SlotVectors, one: FieldElement) -> RowProgram {
    let zeros = vec![FieldElement::ZERO; context.params.features()];
    let square = context.distance(&zeros, one);
    let linear = RowFunction { constant: FieldElement::ZERO, ..context.distance(q.slot(1), FieldElement::ZERO) };
    selected(square, linear, context.field.dot(q.slot(1), q.slot(1)), q.slot(0))
}

fn select_secrets(secret: &SecretQuery, context: &PhaseContext<'_>, theta: &[bool]) -> PhaseSecrets {
    PhaseSecrets::new([theta_elements(context.field, theta), secret.x(context.field).to_vec()])
}

/// Three servers, two phases.
pub(crate) const TWO_PHASE: Scheme = Scheme {
    name: "two-phase",
    origin: Origin::Paper,
    learns: "which rows match, and their distances",
    cost_model: CostModel::Squared,
    constraint: ConstraintKind::Zeros,
    bound: |params| params.delta(),
    phases: &[
        MATCH,
        Phase {
            slots: &[Slot::fresh("h2", Rows), Slot::committed("x", Features)],
            degree: |_| 2,
            secrets: select_secrets,
            program: select_distance,
            decode_rule: DecodeRule::Selected,
        },
    ],
};

/// Four servers, then three. x is shared once; phase 0 computes `ρ_i·Σ Q1(y − Q2)²`.
pub(crate) const FOUR_SERVERS: Scheme = Scheme {
    name: "two-phase-4",
    origin: Origin::Paper,
    learns: "which rows match, and their distances",
    cost_model: CostModel::Squared,
    constraint: ConstraintKind::Zeros,
    bound: |params| params.delta(),
    phases: &[
        Phase {
            slots: &[Slot::fresh("h1", Features), Slot::fresh("x", Features)],
            degree: |_| 3,
            secrets: |secret, context, _| {
                PhaseSecrets::new([secret.h(context.field), secret.x(context.field).to_vec()])
            },
            program: |context, q, _| {
                RowProgram::new([context.weighted_distance(q.slot(1), q.slot(0))], [OutputExpr::Blinded(0)])
            },
            decode_rule: DecodeRule::Zeros,
        },
        Phase {
            slots: &[Slot::fresh("h2", Rows), Slot::carried("x", Features)],
            degree: |_| 2,
            secrets: select_secrets,
            program: select_distance,
            decode_rule: DecodeRule::Selected,
        },
    ],
};

/// With weights: phase 1 computes `Σ Q3(s·y − Q2)²`.
pub(crate) const PLUS: Scheme = Scheme {
    name: "two-phase+",
    origin: Origin::Paper,
    learns: "which rows match, and their weighted distances",
    cost_model: CostModel::Weighted,
    constraint: ConstraintKind::Zeros,
    bound: |params| params.weighted_delta(),
    phases: &[
        MATCH,
        Phase {
            slots: &[Slot::fresh("h2", Rows), Slot::committed("x", Features), Slot::committed("w", Features)],
            degree: |_| 3,
            secrets: |secret, context, theta| {
                let field = context.field;
                PhaseSecrets::new([theta_elements(field, theta), secret.x(field).to_vec(), secret.w_with(field, 1)])
            },
            program: |context, q, _| {
                let (x, w) = (q.slot(1), q.slot(2));
                let zeros = vec![FieldElement::ZERO; context.params.features()];
                let square = context.quadratic(w.to_vec(), zeros.clone(), FieldElement::ZERO);
                let linear = context.quadratic(zeros, context.scaled(-2, &context.times(w, x)), FieldElement::ZERO);
                selected(square, linear, context.weighted_norm(w, x), q.slot(0))
            },
            decode_rule: DecodeRule::Selected,
        },
    ],
};
