//! Gated PCR: one round, T + 1 servers, and rows that violate the user's secret constraints reveal
//! nothing.
//!
//! Two forms are shared, cost C and violations E, both linear in the shares. Per row the servers
//! answer `ρ_i·E_i` and `C_i + σ_i·E_i`. E_i is an integer in [0, q), zero exactly for rows that
//! qualify, whose second symbol is then the cost; for all others both symbols are uniform. The
//! constant of E is multiplied by ρ_i and σ_i, so it is shared, not subtracted. Cost and gate are
//! quadratic (few symbols up) or tables (anything separable).

use crate::field::FieldElement;
use crate::params::Params;
use crate::row_function::{OutputExpr, RowFunction, RowProgram};
use crate::scheme::SlotLength::{Features, Levels, One};
use crate::scheme::own::linear;
use crate::scheme::{ConstraintKind, CostModel, DecodeRule, Origin, Phase, PhaseContext, PhaseSecrets, Scheme, Slot};
use crate::secret_query::SecretQuery;
use crate::share::SlotVectors;

const X: Slot = Slot::fresh("x", Features);
const W: Slot = linear::W_WX[0];
const WX: Slot = linear::W_WX[1];
const COST: Slot = Slot::fresh("cost", Levels);
const H: Slot = Slot::fresh("h", Features);
const HX: Slot = Slot::fresh("h∘x", Features);
const HXX: Slot = Slot::fresh("Σh∘x²", One);
const GATE: Slot = Slot::fresh("gate", Levels);

const LEARNS: &str = "which rows qualify, and their costs";

// The three costs, each with what the user opens and what the servers make of it.

fn plain_cost(secret: &SecretQuery, setting: &PhaseContext<'_>) -> PhaseSecrets {
    let x = secret.x(setting.field);
    let offset = setting.field.dot(&x, &x);
    PhaseSecrets::new([x.to_vec()]).with_offset(offset)
}

fn plain_form(setting: &PhaseContext<'_>, q: &SlotVectors, one: FieldElement) -> RowFunction {
    RowFunction { constant: FieldElement::ZERO, ..setting.distance(q.slot(0), one) }
}

fn weighted_cost(secret: &SecretQuery, setting: &PhaseContext<'_>) -> PhaseSecrets {
    linear::open(setting, &secret.x(setting.field), secret.w(setting.field))
}

fn weighted_form(setting: &PhaseContext<'_>, q: &SlotVectors, _: FieldElement) -> RowFunction {
    linear::function(setting, q.slot(0), q.slot(1))
}

fn table_cost(secret: &SecretQuery, setting: &PhaseContext<'_>) -> PhaseSecrets {
    PhaseSecrets::new([secret.cost(setting.field, setting.params)])
}

fn table_form(setting: &PhaseContext<'_>, q: &SlotVectors, _: FieldElement) -> RowFunction {
    setting.table(q.slot(0))
}

// The two gates, whose slots follow those of the cost.

fn immutable_gate(mut opening: PhaseSecrets, secret: &SecretQuery, setting: &PhaseContext<'_>) -> PhaseSecrets {
    let (h, x) = (secret.h(setting.field), secret.x(setting.field));
    let hx = setting.times(&h, &x);
    let constant = setting.field.dot(&hx, &x);
    for vector in [h, hx, vec![constant]] {
        opening.vectors.push(vector);
    }
    opening
}

fn table_gate(mut opening: PhaseSecrets, secret: &SecretQuery, setting: &PhaseContext<'_>) -> PhaseSecrets {
    opening.vectors.push(secret.gate(setting.field, setting.params));
    opening
}

fn immutable_form(setting: &PhaseContext<'_>, q: &SlotVectors) -> RowFunction {
    let first = q.iter().len() - 3;
    let constant = q.slot(first + 2)[0];
    RowFunction { constant, ..linear::function(setting, q.slot(first), q.slot(first + 1)) }
}

fn program(cost: RowFunction, gate: RowFunction) -> RowProgram {
    RowProgram::new([cost, gate], [OutputExpr::Blinded(1), OutputExpr::Hidden { cost: 0, gate: 1 }])
}

/// Violations of a table gate count features.
fn with_violations(params: &Params, most: u128) -> u128 {
    most.max(params.features() as u128)
}

macro_rules! gated {
    ($(#[$doc:meta])* $id:ident, $name:literal, $metric:ident, $gate:ident, [$($slot:expr),*], $bound:expr,
     $cost:ident, $cost_form:ident, $open_gate:ident, |$setting:ident, $q:ident| $gate_form:expr) => {
        $(#[$doc])*
        pub(crate) const $id: Scheme = Scheme {
            name: $name,
            origin: Origin::Ours,
            learns: LEARNS,
            cost_model: CostModel::$metric,
            constraint: ConstraintKind::$gate,
            bound: $bound,
            phases: &[Phase {
                slots: &[$($slot),*],
                degree: |_| 1,
                secrets: |secret, setting, _| $open_gate($cost(secret, setting), secret, setting),
                program: |$setting, $q, one| program($cost_form($setting, $q, one), $gate_form),
                decode_rule: DecodeRule::Gated,
            }],
        };
    };
}

gated!(
    /// Squared distance, immutable features.
    GATED, "gated", Squared, Zeros, [X, H, HX, HXX], |params| params.delta(),
    plain_cost, plain_form, immutable_gate, |setting, q| immutable_form(setting, q)
);
gated!(
    /// Weighted squared distance, immutable features.
    PLUS, "gated+", Weighted, Zeros, [W, WX, H, HX, HXX], |params| params.weighted_delta(),
    weighted_cost, weighted_form, immutable_gate, |setting, q| immutable_form(setting, q)
);
gated!(
    /// Squared distance, permitted sets.
    RANGES, "gated-ranges", Squared, Table, [X, GATE], |params| with_violations(params, params.delta()),
    plain_cost, plain_form, table_gate, |setting, q| setting.table(q.slot(1))
);
gated!(
    /// Weighted squared distance, permitted sets.
    RANGES_PLUS, "gated-ranges+", Weighted, Table, [W, WX, GATE],
    |params| with_violations(params, params.weighted_delta()),
    weighted_cost, weighted_form, table_gate, |setting, q| setting.table(q.slot(2))
);
gated!(
    /// Any cost, immutable features.
    COSTS, "gated-costs", Table, Zeros, [COST, H, HX, HXX], |params| params.table_bound().max(params.delta()),
    table_cost, table_form, immutable_gate, |setting, q| immutable_form(setting, q)
);
gated!(
    /// Any cost, permitted sets.
    TABLES, "gated-tables", Table, Table, [COST, GATE], |params| with_violations(params, params.table_bound()),
    table_cost, table_form, table_gate, |setting, q| setting.table(q.slot(1))
);
