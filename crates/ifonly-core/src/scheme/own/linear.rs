//! Linearised schemes: `Σ w(y − x)² = ⟨w, y²⟩ − 2⟨w∘x, y⟩ + const`. Sharing w and w∘x instead of x
//! and w makes the answer linear in the shares, so T + 1 servers do what the published schemes do
//! with 2T + 1. The constant stays with the user.

use crate::field::FieldElement;
use crate::row_function::{OutputExpr, RowFunction, RowProgram};
use crate::scheme::SlotLength::{Features, Powers};
use crate::scheme::paper::{norms, single_phase};
use crate::scheme::{ConstraintKind, CostModel, DecodeRule, Origin, Phase, PhaseContext, PhaseSecrets, Scheme, Slot};
use crate::secret_query::SecretQuery;
use crate::share::SlotVectors;

/// The slots of a weighted distance.
pub(crate) const W_WX: [Slot; 2] = [Slot::fresh("w", Features), Slot::fresh("w∘x", Features)];

/// w and w∘x, with Σ w·x² kept back.
pub(crate) fn open(setting: &PhaseContext<'_>, x: &[FieldElement], w: Vec<FieldElement>) -> PhaseSecrets {
    let wx = setting.times(&w, x);
    let offset = setting.field.dot(&wx, x);
    PhaseSecrets::new([w, wx]).with_offset(offset)
}

/// ⟨w, y²⟩ − 2⟨w∘x, y⟩.
pub(crate) fn function(setting: &PhaseContext<'_>, w: &[FieldElement], wx: &[FieldElement]) -> RowFunction {
    setting.quadratic(w.to_vec(), setting.scaled(-2, wx), FieldElement::ZERO)
}

fn weighted(secret: &SecretQuery, setting: &PhaseContext<'_>, _: &[bool]) -> PhaseSecrets {
    open(setting, &secret.x(setting.field), secret.w(setting.field))
}

fn scaled(secret: &SecretQuery, setting: &PhaseContext<'_>, most: u128) -> PhaseSecrets {
    open(setting, &secret.x(setting.field), secret.w_with(setting.field, single_phase::scale(most)))
}

fn plain(setting: &PhaseContext<'_>, q: &SlotVectors, _: FieldElement) -> RowProgram {
    RowProgram::new([function(setting, q.slot(0), q.slot(1))], [OutputExpr::Plain(0)])
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
        // Differences need no constant.
        secrets: |secret, setting, theta| weighted(secret, setting, theta).with_offset(FieldElement::ZERO),
        program: |setting, q, _| {
            RowProgram::new([function(setting, q.slot(0), q.slot(1))], [OutputExpr::Difference(0)])
        },
        decode_rule: DecodeRule::Difference,
    }],
};

/// Mask-PCR+ with two servers.
pub(crate) const MASK: Scheme = Scheme {
    name: "linear-mask+",
    origin: Origin::Ours,
    learns: "every weighted distance up to d_min − 1",
    cost_model: CostModel::Weighted,
    constraint: ConstraintKind::None,
    bound: |params| params.weighted_delta().saturating_add(params.d_min.into()) - 1,
    phases: &[Phase {
        slots: &W_WX,
        degree: |_| 1,
        secrets: weighted,
        program: |setting, q, one| {
            RowProgram::new([function(setting, q.slot(0), q.slot(1))], [OutputExpr::Masked { function: 0, unit: one }])
        },
        decode_rule: DecodeRule::Masked,
    }],
};

/// Single-Phase I-PCR with two servers.
pub(crate) const SINGLE_PHASE: Scheme = Scheme {
    name: "linear-single-phase",
    origin: Origin::Ours,
    learns: "both partial distances of every row",
    cost_model: CostModel::Squared,
    constraint: ConstraintKind::Scaled,
    bound: |params| params.scaled_bound(params.delta()),
    phases: &[Phase {
        slots: &W_WX,
        degree: |_| 1,
        secrets: |secret, setting, _| scaled(secret, setting, setting.params.delta()),
        program: plain,
        decode_rule: DecodeRule::Scaled(|params| params.delta()),
    }],
};

/// Single-Phase I-PCR+ with two servers.
pub(crate) const SINGLE_PHASE_PLUS: Scheme = Scheme {
    name: "linear-single-phase+",
    origin: Origin::Ours,
    learns: "both partial distances of every row, weighted where mutable",
    cost_model: CostModel::Weighted,
    constraint: ConstraintKind::Scaled,
    bound: |params| params.scaled_bound(params.weighted_delta()),
    phases: &[Phase {
        slots: &W_WX,
        degree: |_| 1,
        secrets: |secret, setting, _| scaled(secret, setting, setting.params.weighted_delta()),
        program: plain,
        decode_rule: DecodeRule::Scaled(|params| params.weighted_delta()),
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
        secrets: |secret, setting, _| {
            let (x, field, p) = (secret.x(setting.field), setting.field, setting.params.exponent);
            let power = |exponent: u32| x.iter().map(move |&x| field.pow(x, exponent.into()));
            let offset = power(p).fold(FieldElement::ZERO, |sum, x| field.add(sum, x));
            PhaseSecrets::new([(1..p).flat_map(power).collect()]).with_offset(offset)
        },
        program: |setting, q, one| {
            let d = setting.params.features();
            let function = norms::powers(setting, one, |i| q.slot(0)[(i as usize - 1) * d..i as usize * d].to_vec());
            RowProgram::new([function], [OutputExpr::Plain(0)])
        },
        decode_rule: DecodeRule::Cost,
    }],
};
