//! Baseline, Diff and Mask PCR: x is shared, and each server answers `‖y_i − Q‖²`, the differences
//! of neighbouring rows, or the distance plus a mask.

use crate::row_function::{OutputExpr, RowProgram};
use crate::scheme::SlotLength::Features;
use crate::scheme::{ConstraintKind, CostModel, DecodeRule, Origin, Phase, PhaseSecrets, Scheme, Slot};

const X: &[Slot] = &[Slot::fresh("x", Features)];

/// Every distance is decoded.
pub(crate) const BASELINE: Scheme = Scheme {
    name: "baseline",
    origin: Origin::Paper,
    learns: "every distance",
    cost_model: CostModel::Squared,
    constraint: ConstraintKind::None,
    bound: |params| params.delta(),
    phases: &[Phase {
        slots: X,
        degree: |_| 1,
        secrets: |secret, context, _| PhaseSecrets::new([secret.x(context.field).to_vec()]),
        program: |context, q, one| RowProgram::new([context.distance(q.slot(0), one)], [OutputExpr::Plain(0)]),
        decode_rule: DecodeRule::Cost,
    }],
};

/// Only differences of neighbouring rows are decoded.
pub(crate) const DIFF: Scheme = Scheme {
    name: "diff",
    origin: Origin::Paper,
    learns: "every difference of distances",
    cost_model: CostModel::Squared,
    constraint: ConstraintKind::None,
    bound: |params| 2 * params.delta(),
    phases: &[Phase {
        slots: X,
        degree: |_| 1,
        secrets: |secret, context, _| PhaseSecrets::new([secret.x(context.field).to_vec()]),
        program: |context, q, one| RowProgram::new([context.distance(q.slot(0), one)], [OutputExpr::Difference(0)]),
        decode_rule: DecodeRule::Difference,
    }],
};

/// Distances plus masks below d_min are decoded. The result is exact if distances differ by at
/// least d_min.
pub(crate) const MASK: Scheme = Scheme {
    name: "mask",
    origin: Origin::Paper,
    learns: "every distance plus a mask below d_min",
    cost_model: CostModel::Squared,
    constraint: ConstraintKind::None,
    bound: |params| params.delta() + u128::from(params.d_min) - 1,
    phases: &[Phase {
        slots: X,
        degree: |_| 1,
        secrets: |secret, context, _| PhaseSecrets::new([secret.x(context.field).to_vec()]),
        program: |context, q, one| {
            RowProgram::new([context.distance(q.slot(0), one)], [OutputExpr::Masked { function: 0, unit: one }])
        },
        decode_rule: DecodeRule::Masked,
    }],
};
