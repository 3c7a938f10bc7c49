//! Baseline, Diff and Mask PCR+ as published: x and w are shared, each server answers with `Σ Q2(y
//! − Q1)²`.
//!
//! Mask-PCR+ is exact only for weights under which distances still differ by d_min: weights do
//! shrink gaps (the paper's Lemma 2 says otherwise).

use crate::row_function::{OutputExpr, RowFunction, RowProgram};
use crate::scheme::SlotLength::Features;
use crate::scheme::{ConstraintKind, CostModel, DecodeRule, Origin, Phase, PhaseContext, PhaseSecrets, Scheme, Slot};
use crate::secret_query::SecretQuery;
use crate::share::SlotVectors;

const X_W: &[Slot] = &[Slot::fresh("x", Features), Slot::fresh("w", Features)];

fn secrets(secret: &SecretQuery, setting: &PhaseContext<'_>, _: &[bool]) -> PhaseSecrets {
    PhaseSecrets::new([secret.x(setting.field).to_vec(), secret.w(setting.field)])
}

fn function(setting: &PhaseContext<'_>, q: &SlotVectors) -> RowFunction {
    setting.weighted_distance(q.slot(0), q.slot(1))
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
        program: |setting, q, _| RowProgram::new([function(setting, q)], [OutputExpr::Plain(0)]),
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
        program: |setting, q, _| RowProgram::new([function(setting, q)], [OutputExpr::Difference(0)]),
        decode_rule: DecodeRule::Difference,
    }],
};

/// Weighted distances are decoded with noise below d_min.
pub(crate) const MASK: Scheme = Scheme {
    name: "mask+",
    origin: Origin::Paper,
    learns: "every weighted distance up to d_min − 1",
    cost_model: CostModel::Weighted,
    constraint: ConstraintKind::None,
    bound: |params| params.weighted_delta().saturating_add(params.d_min.into()) - 1,
    phases: &[Phase {
        slots: X_W,
        degree: |_| 2,
        secrets,
        program: |setting, q, one| {
            RowProgram::new([function(setting, q)], [OutputExpr::Masked { function: 0, unit: one }])
        },
        decode_rule: DecodeRule::Masked,
    }],
};
