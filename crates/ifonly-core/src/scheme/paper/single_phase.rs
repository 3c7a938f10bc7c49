//! Single-Phase I-PCR(+) as published: x and h are shared, with h = L on I and 1 (or w) elsewhere.
//!
//! L is larger than any cost of the mutable features, so a value below L belongs to a matching row.
//! Of all other rows the user learns value div L and value mod L, which are the exact distances
//! over the immutable and over the mutable features.

use crate::field::FieldElement;
use crate::row_function::{OutputExpr, RowProgram};
use crate::scheme::SlotLength::Features;
use crate::scheme::{ConstraintKind, CostModel, DecodeRule, Origin, Phase, PhaseContext, PhaseSecrets, Scheme, Slot};
use crate::secret_query::SecretQuery;
use crate::share::SlotVectors;

const SLOTS: &[Slot] = &[Slot::fresh("x", Features), Slot::fresh("h", Features)];

/// L = most + 1. It fits because the field holds it.
pub(crate) fn scale(most: u128) -> u64 {
    u64::try_from(most).unwrap_or(u64::MAX - 1) + 1
}

fn secrets(secret: &SecretQuery, context: &PhaseContext<'_>, most: u128) -> PhaseSecrets {
    PhaseSecrets::new([secret.x(context.field).to_vec(), secret.w_with(context.field, scale(most))])
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
    bound: |params| params.scaled_bound(params.delta()),
    phases: &[Phase {
        slots: SLOTS,
        degree: |_| 2,
        secrets: |secret, context, _| secrets(secret, context, context.params.delta()),
        program,
        decode_rule: DecodeRule::Scaled(|params| params.delta()),
    }],
};

/// With weights.
pub(crate) const PLUS: Scheme = Scheme {
    name: "single-phase+",
    origin: Origin::Paper,
    learns: "two distances of every row: over immutable and, weighted, over mutable features",
    cost_model: CostModel::Weighted,
    constraint: ConstraintKind::Scaled,
    bound: |params| params.scaled_bound(params.weighted_delta()),
    phases: &[Phase {
        slots: SLOTS,
        degree: |_| 2,
        secrets: |secret, context, _| secrets(secret, context, context.params.weighted_delta()),
        program,
        decode_rule: DecodeRule::Scaled(|params| params.weighted_delta()),
    }],
};
