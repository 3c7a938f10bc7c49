//! Single-Phase I-PCR(+) as published: x and h are shared, h = L on I and 1 (or w) elsewhere.
//!
//! L is larger than any cost of the mutable features, so a value below L belongs to a row that qualifies. For all other
//! rows the user learns value div L and value mod L: *both* partial distances, exactly.

use super::Length::Features;
use super::{Gate, Metric, Opening, Origin, Phase, Reading, Scheme, Setting, Slot};
use crate::field::Symbol;
use crate::form::{Output, Program};
use crate::secret::Secret;
use crate::share::Vectors;

const SLOTS: &[Slot] = &[Slot::fresh("x", Features), Slot::fresh("h", Features)];

/// L = most + 1; the field holds it, so it fits.
pub(super) fn scale(most: u128) -> u64 {
    u64::try_from(most).unwrap_or(u64::MAX - 1) + 1
}

fn secrets(secret: &Secret, setting: &Setting<'_>, most: u128) -> Opening {
    Opening::new([secret.x(setting.field).to_vec(), secret.w_with(setting.field, scale(most))])
}

fn program(setting: &Setting<'_>, q: &Vectors, _: Symbol) -> Program {
    Program::new([setting.weighted_distance(q.slot(0), q.slot(1))], [Output::Plain(0)])
}

/// Without weights.
pub(super) const SINGLE_PHASE: Scheme = Scheme {
    name: "single-phase",
    origin: Origin::Paper,
    learns: "both partial distances of every row",
    metric: Metric::Squared,
    gate: Gate::Scaled,
    bound: |params| params.scaled_bound(params.delta()),
    phases: &[Phase {
        slots: SLOTS,
        degree: |_| 2,
        secrets: |secret, setting, _| secrets(secret, setting, setting.params.delta()),
        program,
        reading: Reading::Scaled(|params| params.delta()),
    }],
};

/// With weights.
pub(super) const PLUS: Scheme = Scheme {
    name: "single-phase+",
    origin: Origin::Paper,
    learns: "both partial distances of every row, weighted where mutable",
    metric: Metric::Weighted,
    gate: Gate::Scaled,
    bound: |params| params.scaled_bound(params.weighted_delta()),
    phases: &[Phase {
        slots: SLOTS,
        degree: |_| 2,
        secrets: |secret, setting, _| secrets(secret, setting, setting.params.weighted_delta()),
        program,
        reading: Reading::Scaled(|params| params.weighted_delta()),
    }],
};
