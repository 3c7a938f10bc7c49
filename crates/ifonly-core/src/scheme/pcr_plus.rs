//! Baseline, Diff and Mask PCR+ as published: x and w are shared, each server answers with `Σ Q2(y − Q1)²`.
//!
//! Mask-PCR+ is exact only for weights under which distances still differ by d_min: weights do shrink gaps (the
//! paper's Lemma 2 says otherwise).

use super::Length::Features;
use super::{Gate, Metric, Opening, Origin, Phase, Reading, Scheme, Setting, Slot};
use crate::form::{Form, Output, Program};
use crate::secret::Secret;
use crate::share::Vectors;

const X_W: &[Slot] = &[Slot::fresh("x", Features), Slot::fresh("w", Features)];

fn secrets(secret: &Secret, setting: &Setting<'_>, _: &[bool]) -> Opening {
    Opening::new([secret.x(setting.field).to_vec(), secret.w(setting.field)])
}

fn form(setting: &Setting<'_>, q: &Vectors) -> Form {
    setting.weighted_distance(q.slot(0), q.slot(1))
}

/// Every weighted distance is decoded.
pub(super) const BASELINE: Scheme = Scheme {
    name: "baseline+",
    origin: Origin::Paper,
    learns: "every weighted distance",
    metric: Metric::Weighted,
    gate: Gate::None,
    bound: |params| params.weighted_delta(),
    phases: &[Phase {
        slots: X_W,
        degree: |_| 2,
        secrets,
        program: |setting, q, _| Program::new([form(setting, q)], [Output::Plain(0)]),
        reading: Reading::Cost,
    }],
};

/// Only differences of neighbouring rows are decoded.
pub(super) const DIFF: Scheme = Scheme {
    name: "diff+",
    origin: Origin::Paper,
    learns: "every difference of weighted distances",
    metric: Metric::Weighted,
    gate: Gate::None,
    bound: |params| params.weighted_delta().saturating_mul(2),
    phases: &[Phase {
        slots: X_W,
        degree: |_| 2,
        secrets,
        program: |setting, q, _| Program::new([form(setting, q)], [Output::Difference(0)]),
        reading: Reading::Difference,
    }],
};

/// Weighted distances are decoded with noise below d_min.
pub(super) const MASK: Scheme = Scheme {
    name: "mask+",
    origin: Origin::Paper,
    learns: "every weighted distance up to d_min − 1",
    metric: Metric::Weighted,
    gate: Gate::None,
    bound: |params| params.weighted_delta().saturating_add(params.mask.into()) - 1,
    phases: &[Phase {
        slots: X_W,
        degree: |_| 2,
        secrets,
        program: |setting, q, one| Program::new([form(setting, q)], [Output::Masked { form: 0, unit: one }]),
        reading: Reading::Masked,
    }],
};
