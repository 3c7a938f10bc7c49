//! Two-Phase I-PCR(+): first `ρ_i·‖Q1∘y_i − Q2‖²` shows Θ and nothing else, then h2 = 1[i ∈ Θ]
//! selects whose distance shows.
//!
//! x and w of the second phase are promised in the first, so that for one order of the rows there
//! is one x ([`crate::share_commitment`]).
//!
//! The paper lets the user stop when |Θ| ≤ 1; that would tell the servers, so both phases always
//! run. Its four-server Remark multiplies a term that only the user could cancel by a secret ρ_i;
//! the form here has the same N and cost.

use crate::field::{Field, FieldElement};
use crate::row_function::{OutputExpr, RowFunction, RowProgram};
use crate::scheme::SlotLength::{Features, Rows};
use crate::scheme::{ConstraintKind, CostModel, DecodeRule, Origin, Phase, PhaseContext, PhaseSecrets, Scheme, Slot};
use crate::secret_query::SecretQuery;
use crate::share::SlotVectors;

fn theta_symbols(field: &Field, theta: &[bool]) -> Vec<FieldElement> {
    theta.iter().map(|&selected| field.reduce(selected.into())).collect()
}

/// `s²·U + s·V + c` for the forms `U = Σ a·y²` and `V = Σ b·y`.
fn selected(
    square: RowFunction,
    linear: RowFunction,
    constant: FieldElement,
    row_shares: &[FieldElement],
) -> RowProgram {
    let output = OutputExpr::Selected { square: 0, linear: 1, constant };
    RowProgram { row_shares: row_shares.to_vec(), ..RowProgram::new([square, linear], [output]) }
}

/// Shares h1 and x∘h1; zero exactly where a row agrees with x on I.
const MATCH: Phase = Phase {
    slots: &[Slot::fresh("h1", Features), Slot::fresh("x∘h1", Features)],
    degree: |_| 2,
    secrets: |secret, setting, _| {
        let h1 = secret.h(setting.field);
        let xh1 = setting.times(&h1, &secret.x(setting.field));
        PhaseSecrets::new([h1, xh1])
    },
    program: |setting, q, _| {
        let (h1, xh1) = (q.slot(0), q.slot(1));
        let linear = setting.scaled(-2, &setting.times(h1, xh1));
        let function = setting.quadratic(setting.times(h1, h1), linear, setting.field.dot(xh1, xh1));
        RowProgram::new([function], [OutputExpr::Blinded(0)])
    },
    decode_rule: DecodeRule::Zeros,
};

/// `‖s·y − Q‖²` with the slots h2, x.
fn select_distance(setting: &PhaseContext<'_>, q: &SlotVectors, one: FieldElement) -> RowProgram {
    let zeros = vec![FieldElement::ZERO; setting.params.features()];
    let square = setting.distance(&zeros, one);
    let linear = RowFunction { constant: FieldElement::ZERO, ..setting.distance(q.slot(1), FieldElement::ZERO) };
    selected(square, linear, setting.field.dot(q.slot(1), q.slot(1)), q.slot(0))
}

fn select_secrets(secret: &SecretQuery, setting: &PhaseContext<'_>, theta: &[bool]) -> PhaseSecrets {
    PhaseSecrets::new([theta_symbols(setting.field, theta), secret.x(setting.field).to_vec()])
}

/// Three servers, two rounds.
pub(crate) const TWO_PHASE: Scheme = Scheme {
    name: "two-phase",
    origin: Origin::Paper,
    learns: "which rows qualify, and their distances",
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

/// Four servers, then three: x is shared once, `ρ_i·Σ Q1(y − Q2)²` in the first phase.
pub(crate) const FOUR_SERVERS: Scheme = Scheme {
    name: "two-phase-4",
    origin: Origin::Paper,
    learns: "which rows qualify, and their distances",
    cost_model: CostModel::Squared,
    constraint: ConstraintKind::Zeros,
    bound: |params| params.delta(),
    phases: &[
        Phase {
            slots: &[Slot::fresh("h1", Features), Slot::fresh("x", Features)],
            degree: |_| 3,
            secrets: |secret, setting, _| {
                PhaseSecrets::new([secret.h(setting.field), secret.x(setting.field).to_vec()])
            },
            program: |setting, q, _| {
                RowProgram::new([setting.weighted_distance(q.slot(1), q.slot(0))], [OutputExpr::Blinded(0)])
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

/// With weights: `Σ Q3(s·y − Q2)²` in the second phase.
pub(crate) const PLUS: Scheme = Scheme {
    name: "two-phase+",
    origin: Origin::Paper,
    learns: "which rows qualify, and their weighted distances",
    cost_model: CostModel::Weighted,
    constraint: ConstraintKind::Zeros,
    bound: |params| params.weighted_delta(),
    phases: &[
        MATCH,
        Phase {
            slots: &[Slot::fresh("h2", Rows), Slot::committed("x", Features), Slot::committed("w", Features)],
            degree: |_| 3,
            secrets: |secret, setting, theta| {
                let field = setting.field;
                PhaseSecrets::new([theta_symbols(field, theta), secret.x(field).to_vec(), secret.w_with(field, 1)])
            },
            program: |setting, q, _| {
                let (x, w) = (q.slot(1), q.slot(2));
                let zeros = vec![FieldElement::ZERO; setting.params.features()];
                let square = setting.quadratic(w.to_vec(), zeros.clone(), FieldElement::ZERO);
                let linear = setting.quadratic(zeros, setting.scaled(-2, &setting.times(w, x)), FieldElement::ZERO);
                selected(square, linear, setting.weighted_norm(w, x), q.slot(0))
            },
            decode_rule: DecodeRule::Selected,
        },
    ],
};
