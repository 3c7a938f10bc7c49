//! Baseline, Diff and Mask PCR: x is shared and each server answers `‖y_i − Q‖²`, its differences, or with a mask.

use super::Length::Features;
use super::{Gate, Metric, Opening, Origin, Phase, Reading, Scheme, Slot};
use crate::form::{Output, Program};

const X: &[Slot] = &[Slot::fresh("x", Features)];

/// Every distance is decoded.
pub(super) const BASELINE: Scheme = Scheme {
    name: "baseline",
    origin: Origin::Paper,
    learns: "every distance",
    metric: Metric::Squared,
    gate: Gate::None,
    bound: |params| params.delta(),
    phases: &[Phase {
        slots: X,
        degree: |_| 1,
        secrets: |secret, setting, _| Opening::new([secret.x(setting.field).to_vec()]),
        program: |setting, q, one| Program::new([setting.distance(q.slot(0), one)], [Output::Plain(0)]),
        reading: Reading::Cost,
    }],
};

/// Only differences of neighbouring rows are decoded.
pub(super) const DIFF: Scheme = Scheme {
    name: "diff",
    origin: Origin::Paper,
    learns: "every difference of distances",
    metric: Metric::Squared,
    gate: Gate::None,
    bound: |params| 2 * params.delta(),
    phases: &[Phase {
        slots: X,
        degree: |_| 1,
        secrets: |secret, setting, _| Opening::new([secret.x(setting.field).to_vec()]),
        program: |setting, q, one| Program::new([setting.distance(q.slot(0), one)], [Output::Difference(0)]),
        reading: Reading::Difference,
    }],
};

/// Distances are decoded with noise below d_min; exact where distances differ by at least d_min.
pub(super) const MASK: Scheme = Scheme {
    name: "mask",
    origin: Origin::Paper,
    learns: "every distance up to d_min − 1",
    metric: Metric::Squared,
    gate: Gate::None,
    bound: |params| params.delta() + u128::from(params.mask) - 1,
    phases: &[Phase {
        slots: X,
        degree: |_| 1,
        secrets: |secret, setting, _| Opening::new([secret.x(setting.field).to_vec()]),
        program: |setting, q, one| {
            Program::new([setting.distance(q.slot(0), one)], [Output::Masked { form: 0, unit: one }])
        },
        reading: Reading::Masked,
    }],
};
