//! Baseline, Diff and Mask PCR+ as published: x and w are shared, and each server answers `Σ Q2(y −
//! Q1)²`.
//!
//! Mask-PCR+ is exact only for weights under which distances still differ by d_min. Weights can
//! shrink differences; the paper's Lemma 2 says otherwise.

use crate::row_function::{OutputExpr, RowFunction, RowProgram};
use crate::scheme::SlotLength::Features;
use crate::scheme::{ConstraintKind, CostModel, DecodeRule, Origin, Phase, PhaseContext, PhaseSecrets, Scheme, Slot};
use crate::secret_query::SecretQuery;
use crate::share::SlotVectors;

const X_W: &[Slot] = &[Slot::fresh("x", Features), Slot::fresh("w", Features)];

fn secrets(secret: &SecretQuery, context: &PhaseContext<'_>, _: &[bool]) -> PhaseSecrets {
    PhaseSecrets::new([secret.x(context.field).to_vec(), secret.w(context.field)])
}

fn function(context: &PhaseContext<'_>, q: &SlotVectors) -> RowFunction {
    context.weighted_distance(q.slot(0), q.slot(1))
}

/// Every weighted distance is decoded.
pub(crate) const BASELINE: Scheme = Scheme {
    name: "baseline+",
    origin: Origin::Paper,
    learns: "every weighted distance",
    cost_model: CostModel::Weighted,
    constraint: ConstraintKind::None,
    bound: |params| params.weighted_delta(),
    phases: &[Phase {
        slots: X_W,
        degree: |_| 2,
        secrets,
        program: |context, q, _| RowProgram::new([function(context, q)], [OutputExpr::Plain(0)]),
        decode_rule: DecodeRule::Cost,
    }],
};

/// Only differences of neighbouring rows are decoded.
pub(crate) const DIFF: Scheme = Scheme {
    name: "diff+",
    origin: Origin::Paper,
    learns: "every difference of weighted distances",
    cost_model: CostModel::Weighted,
    constraint: ConstraintKind::None,
    bound: |params| params.weighted_delta().saturating_mul(2),
    phases: &[Phase {
        slots: X_W,
        degree: |_| 2,
        secrets,
        program: |context, q, _| RowProgram::new([function(context, q)], [OutputExpr::Difference(0)]),
        decode_rule: DecodeRule::Difference,
    }],
};

/// Weighted distances plus masks below d_min are decoded.
pub(crate) const MASK: Scheme = Scheme {
    name: "mask+",
    origin: Origin::Paper,
    learns: "every weighted distance plus a mask below d_min",
    cost_model: CostModel::Weighted,
    constraint: ConstraintKind::None,
    bound: |params| params.weighted_delta().saturating_add(params.d_min.into()) - 1,
    phases: &[Phase {
        slots: X_W,
        degree: |_| 2,
        secrets,
        program: |context, q, one| {
            RowProgram::new([function(context, q)], [OutputExpr::Masked { function: 0, unit: one }])
        },
        decode_rule: DecodeRule::Masked,
    }],
};
