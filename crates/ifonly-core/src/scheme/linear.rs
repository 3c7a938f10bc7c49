//! Linearised schemes: `Σ w(y − x)² = ⟨w, y²⟩ − 2⟨w∘x, y⟩ + const`. Sharing w and w∘x instead of x and w makes the answer
//! linear in the shares, so T + 1 servers do what the published schemes do with 2T + 1. The constant stays with the user.

use super::Length::{Features, Powers};
use super::{Gate, Metric, Opening, Origin, Phase, Reading, Scheme, Setting, Slot, norms, single_phase};
use crate::field::Symbol;
use crate::form::{Form, Output, Program};
use crate::secret::Secret;
use crate::share::Vectors;

/// The slots of a weighted distance.
pub(super) const W_WX: [Slot; 2] = [Slot::fresh("w", Features), Slot::fresh("w∘x", Features)];

/// w and w∘x, with Σ w·x² kept back.
pub(super) fn open(setting: &Setting<'_>, x: &[Symbol], w: Vec<Symbol>) -> Opening {
    let wx = setting.times(&w, x);
    let offset = setting.field.dot(&wx, x);
    Opening::new([w, wx]).with_offset(offset)
}

/// ⟨w, y²⟩ − 2⟨w∘x, y⟩.
pub(super) fn form(setting: &Setting<'_>, w: &[Symbol], wx: &[Symbol]) -> Form {
    setting.quadratic(w.to_vec(), setting.scaled(-2, wx), Symbol::ZERO)
}

fn weighted(secret: &Secret, setting: &Setting<'_>, _: &[bool]) -> Opening {
    open(setting, &secret.x(setting.field), secret.w(setting.field))
}

fn scaled(secret: &Secret, setting: &Setting<'_>, most: u128) -> Opening {
    open(setting, &secret.x(setting.field), secret.w_with(setting.field, single_phase::scale(most)))
}

fn plain(setting: &Setting<'_>, q: &Vectors, _: Symbol) -> Program {
    Program::new([form(setting, q.slot(0), q.slot(1))], [Output::Plain(0)])
}

/// Baseline PCR+ with two servers.
pub(super) const BASELINE: Scheme = Scheme {
    name: "linear-baseline+",
    origin: Origin::Ours,
    learns: "every weighted distance",
    metric: Metric::Weighted,
    gate: Gate::None,
    bound: |params| params.weighted_delta(),
    phases: &[Phase { slots: &W_WX, degree: |_| 1, secrets: weighted, program: plain, reading: Reading::Cost }],
};

/// Diff-PCR+ with two servers.
pub(super) const DIFF: Scheme = Scheme {
    name: "linear-diff+",
    origin: Origin::Ours,
    learns: "every difference of weighted distances",
    metric: Metric::Weighted,
    gate: Gate::None,
    bound: |params| params.weighted_delta().saturating_mul(2),
    phases: &[Phase {
        slots: &W_WX,
        degree: |_| 1,
        // Differences need no constant.
        secrets: |secret, setting, theta| weighted(secret, setting, theta).with_offset(Symbol::ZERO),
        program: |setting, q, _| Program::new([form(setting, q.slot(0), q.slot(1))], [Output::Difference(0)]),
        reading: Reading::Difference,
    }],
};

/// Mask-PCR+ with two servers.
pub(super) const MASK: Scheme = Scheme {
    name: "linear-mask+",
    origin: Origin::Ours,
    learns: "every weighted distance up to d_min − 1",
    metric: Metric::Weighted,
    gate: Gate::None,
    bound: |params| params.weighted_delta().saturating_add(params.mask.into()) - 1,
    phases: &[Phase {
        slots: &W_WX,
        degree: |_| 1,
        secrets: weighted,
        program: |setting, q, one| {
            Program::new([form(setting, q.slot(0), q.slot(1))], [Output::Masked { form: 0, unit: one }])
        },
        reading: Reading::Masked,
    }],
};

/// Single-Phase I-PCR with two servers.
pub(super) const SINGLE_PHASE: Scheme = Scheme {
    name: "linear-single-phase",
    origin: Origin::Ours,
    learns: "both partial distances of every row",
    metric: Metric::Squared,
    gate: Gate::Scaled,
    bound: |params| params.scaled_bound(params.delta()),
    phases: &[Phase {
        slots: &W_WX,
        degree: |_| 1,
        secrets: |secret, setting, _| scaled(secret, setting, setting.params.delta()),
        program: plain,
        reading: Reading::Scaled(|params| params.delta()),
    }],
};

/// Single-Phase I-PCR+ with two servers.
pub(super) const SINGLE_PHASE_PLUS: Scheme = Scheme {
    name: "linear-single-phase+",
    origin: Origin::Ours,
    learns: "both partial distances of every row, weighted where mutable",
    metric: Metric::Weighted,
    gate: Gate::Scaled,
    bound: |params| params.scaled_bound(params.weighted_delta()),
    phases: &[Phase {
        slots: &W_WX,
        degree: |_| 1,
        secrets: |secret, setting, _| scaled(secret, setting, setting.params.weighted_delta()),
        program: plain,
        reading: Reading::Scaled(|params| params.weighted_delta()),
    }],
};

/// ℓ_p with two servers: x, x², …, x^{p−1} are shared.
pub(super) const LP: Scheme = Scheme {
    name: "linear-lp",
    origin: Origin::Ours,
    learns: "every distance",
    metric: Metric::Power,
    gate: Gate::None,
    bound: |params| params.power_bound(params.exponent),
    phases: &[Phase {
        slots: &[Slot::fresh("x, x², …", Powers)],
        degree: |_| 1,
        secrets: |secret, setting, _| {
            let (x, field, p) = (secret.x(setting.field), setting.field, setting.params.exponent);
            let power = |exponent: u32| x.iter().map(move |&x| field.pow(x, exponent.into()));
            let offset = power(p).fold(Symbol::ZERO, |sum, x| field.add(sum, x));
            Opening::new([(1..p).flat_map(power).collect()]).with_offset(offset)
        },
        program: |setting, q, one| {
            let d = setting.params.features();
            let form = norms::powers(setting, one, |i| q.slot(0)[(i as usize - 1) * d..i as usize * d].to_vec());
            Program::new([form], [Output::Plain(0)])
        },
        reading: Reading::Cost,
    }],
};
