//! Single-Phase I-PCR(+) as published: x and h are shared, with h = L on I and 1 (or w) elsewhere.
//!
//! L is larger than any cost of the user's mutable features, so a value below L belongs to a
//! matching row. Of all other rows the user learns value div L and value mod L, which are the exact
//! distances over the immutable and over the mutable features.
//!
//! The paper has one L > R²d for all users and q > F(L−1)R² + R²d. But L is inside the shared h, so
//! it can depend on I, and the largest value is smaller (docs/paper.md, Theorem 6).

use crate::field::FieldElement;
use crate::row_function::{OutputExpr, RowProgram};
use crate::scheme::SlotLength::Features;
use crate::scheme::{ConstraintKind, CostModel, DecodeRule, Origin, Phase, PhaseContext, PhaseSecrets, Scheme, Slot};
use crate::secret_query::SecretQuery;
use crate::share::SlotVectors;

const SLOTS: &[Slot] = &[Slot::fresh("x", Features), Slot::fresh("h", Features)];

/// The largest cost of the mutable features with weights up to `weight_limit`, and L, which is one
/// more.
pub(crate) fn scale(secret: &SecretQuery, context: &PhaseContext<'_>, weight_limit: u64) -> (u64, u64) {
    // The bound of the field is larger, so this fits.
    let most = u64::try_from(secret.mutable_cost(context.params, weight_limit)).unwrap_or(u64::MAX - 1);
    (most, most + 1)
}

fn secrets(secret: &SecretQuery, context: &PhaseContext<'_>, weight_limit: u64) -> PhaseSecrets {
    let (most, scale) = scale(secret, context, weight_limit);
    PhaseSecrets::new([secret.x(context.field).to_vec(), secret.w_with(context.field, scale)]).with_most(most)
}

fn program(context: &PhaseContext<'_>, q: &SlotVectors, _: FieldElement) -> RowProgram {
    RowProgram::new([context.weighted_distance(q.slot(0), q.slot(1))], [OutputExpr::Plain(0)])
}

/// Without weights.
pub(crate) const SINGLE_PHASE: Scheme = Scheme {
    name: "single-phase",
    origin: Origin::Paper,
    learns: "two distances of every row: over immutable and over mutable features",
    cost_model: CostModel::Squared,
    constraint: ConstraintKind::Scaled,
    bound: |params| params.scaled_bound(1),
    phases: &[Phase {
        slots: SLOTS,
        degree: |_| 2,
        secrets: |secret, context, _| secrets(secret, context, 1),
        program,
        decode_rule: DecodeRule::Scaled,
    }],
};

/// With weights.
pub(crate) const PLUS: Scheme = Scheme {
    name: "single-phase+",
    origin: Origin::Paper,
    learns: "two distances of every row: over immutable and, weighted, over mutable features",
    cost_model: CostModel::Weighted,
    constraint: ConstraintKind::Scaled,
    bound: |params| params.scaled_bound(params.weight_limit),
    phases: &[Phase {
        slots: SLOTS,
        degree: |_| 2,
        secrets: |secret, context, _| secrets(secret, context, context.params.weight_limit),
        program,
        decode_rule: DecodeRule::Scaled,
    }],
};
