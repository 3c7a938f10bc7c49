//! Linearised schemes: `Σ w(y − x)² = ⟨w, y²⟩ − 2⟨w∘x, y⟩ + const`. The user shares w and w∘x
//! instead of x and w. The answer is then linear in the shares and needs T + 1 servers, where the
//! published schemes need 2T + 1. The user adds the constant, which is never shared.

use crate::field::FieldElement;
use crate::row_function::{OutputExpr, RowFunction, RowProgram};
use crate::scheme::SlotLength::{Features, Powers};
use crate::scheme::paper::{norms, single_phase};
use crate::scheme::{ConstraintKind, CostModel, DecodeRule, Origin, Phase, PhaseContext, PhaseSecrets, Scheme, Slot};
use crate::secret_query::SecretQuery;
use crate::share::SlotVectors;

/// The slots of a weighted distance.
pub(crate) const W_WX: [Slot; 2] = [Slot::fresh("w", Features), Slot::fresh("w∘x", Features)];

/// Shares w and w∘x; Σ w·x² is the offset.
pub(crate) fn secrets(context: &PhaseContext<'_>, x: &[FieldElement], w: Vec<FieldElement>) -> PhaseSecrets {
    let wx = context.times(&w, x);
    let offset = context.field.dot(&wx, x);
    PhaseSecrets::new([w, wx]).with_offset(offset)
}

/// ⟨w, y²⟩ − 2⟨w∘x, y⟩.
pub(crate) fn function(context: &PhaseContext<'_>, w: &[FieldElement], wx: &[FieldElement]) -> RowFunction {
    context.quadratic(w.to_vec(), context.scaled(-2, wx), FieldElement::ZERO)
}

fn weighted(secret: &SecretQuery, context: &PhaseContext<'_>, _: &[bool]) -> PhaseSecrets {
    secrets(context, &secret.x(context.field), secret.w(context.field))
}

fn scaled(secret: &SecretQuery, context: &PhaseContext<'_>, weight_limit: u64) -> PhaseSecrets {
    let (most, scale) = single_phase::scale(secret, context, weight_limit);
    secrets(context, &secret.x(context.field), secret.w_with(context.field, scale)).with_most(most)
}

fn plain(context: &PhaseContext<'_>, q: &SlotVectors, _: FieldElement) -> RowProgram {
    RowProgram::new([function(context, q.slot(0), q.slot(1))], [OutputExpr::Plain(0)])
}

/// Baseline PCR+ with two servers.
pub(crate) const BASELINE: Scheme = Scheme {
    name: "linear-baseline+",
    origin: Origin::Ours,
    learns: "every weighted distance",
    cost_model: CostModel::Weighted,
    constraint: ConstraintKind::None,
    bound: |params| params.weighted_delta(),
    phases: &[Phase { slots: &W_WX, degree: |_| 1, secrets: weighted, program: plain, decode_rule: DecodeRule::Cost }],
};

/// Diff-PCR+ with two servers.
pub(crate) const DIFF: Scheme = Scheme {
    name: "linear-diff+",
    origin: Origin::Ours,
    learns: "every difference of weighted distances",
    cost_model: CostModel::Weighted,
    constraint: ConstraintKind::None,
    bound: |params| params.weighted_delta().saturating_mul(2),
    phases: &[Phase {
        slots: &W_WX,
        degree: |_| 1,
        // The constant cancels in differences.
        secrets: |secret, context, theta| weighted(secret, context, theta).with_offset(FieldElement::ZERO),
        program: |context, q, _| {
            RowProgram::new([function(context, q.slot(0), q.slot(1))], [OutputExpr::Difference(0)])
        },
        decode_rule: DecodeRule::Difference,
    }],
};

/// Mask-PCR+ with two servers.
pub(crate) const MASK: Scheme = Scheme {
    name: "linear-mask+",
    origin: Origin::Ours,
    learns: "every weighted distance plus a mask below d_min",
    cost_model: CostModel::Weighted,
    constraint: ConstraintKind::None,
    bound: |params| params.weighted_delta().saturating_add(params.d_min.into()) - 1,
    phases: &[Phase {
        slots: &W_WX,
        degree: |_| 1,
        secrets: weighted,
        program: |context, q, one| {
            RowProgram::new([function(context, q.slot(0), q.slot(1))], [OutputExpr::Masked { function: 0, unit: one }])
        },
        decode_rule: DecodeRule::Masked,
    }],
};

/// Single-Phase I-PCR with two servers.
pub(crate) const SINGLE_PHASE: Scheme = Scheme {
    name: "linear-single-phase",
    origin: Origin::Ours,
    learns: "two distances of every row: over immutable and over mutable features",
    cost_model: CostModel::Squared,
    constraint: ConstraintKind::Scaled,
    bound: |params| params.scaled_bound(1),
    phases: &[Phase {
        slots: &W_WX,
        degree: |_| 1,
        secrets: |secret, context, _| scaled(secret, context, 1),
        program: plain,
        decode_rule: DecodeRule::Scaled,
    }],
};

/// Single-Phase I-PCR+ with two servers.
pub(crate) const SINGLE_PHASE_PLUS: Scheme = Scheme {
    name: "linear-single-phase+",
    origin: Origin::Ours,
    learns: "two distances of every row: over immutable and, weighted, over mutable features",
    cost_model: CostModel::Weighted,
    constraint: ConstraintKind::Scaled,
    bound: |params| params.scaled_bound(params.weight_limit),
    phases: &[Phase {
        slots: &W_WX,
        degree: |_| 1,
        secrets: |secret, context, _| scaled(secret, context, context.params.weight_limit),
        program: plain,
        decode_rule: DecodeRule::Scaled,
    }],
};

/// ℓ_p with two servers: x, x², …, x^{p−1} are shared.
pub(crate) const LP: Scheme = Scheme {
    name: "linear-lp",
    origin: Origin::Ours,
    learns: "every distance",
    cost_model: CostModel::Power,
    constraint: ConstraintKind::None,
    bound: |params| params.power_bound(params.exponent),
    phases: &[Phase {
        slots: &[Slot::fresh("x, x², …", Powers)],
        degree: |_| 1,
        secrets: |secret, context, _| {
            let (x, field, p) = (secret.x(context.field), context.field, context.params.exponent);
            let power = |exponent: u32| x.iter().map(move |&x| field.pow(x, exponent.into()));
            let offset = power(p).fold(FieldElement::ZERO, |sum, x| field.add(sum, x));
            PhaseSecrets::new([(1..p).flat_map(power).collect()]).with_offset(offset)
        },
        program: |context, q, one| {
            let d = context.params.features();
            let function = norms::powers(context, one, |i| q.slot(0)[(i as usize - 1) * d..i as usize * d].to_vec());
            RowProgram::new([function], [OutputExpr::Plain(0)])
        },
        decode_rule: DecodeRule::Cost,
    }],
};
