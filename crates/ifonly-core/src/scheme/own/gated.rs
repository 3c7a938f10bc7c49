//! Gated PCR: one phase, T + 1 servers, and rows that violate the secret constraints reveal
//! nothing.
//!
//! Two row functions are shared: cost C and violations E, both linear in the shares. For every row
//! i the servers answer `ρ_i·E_i` and `C_i + σ_i·E_i`. E_i is an integer in [0, q) and zero exactly
//! for matching rows. For a matching row the second element is the cost; for all other rows both
//! elements are uniform. The constant of E is shared because ρ_i and σ_i multiply it, so the user
//! cannot subtract it. Cost and gate are quadratic (few elements up) or tables (any separable
//! function).

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
const GATE: Slot = Slot::gate("gate");

const LEARNS: &str = "which rows match, and their costs";

// The three kinds of cost, each with the user's vectors and the servers' row function.

fn plain_cost(secret: &SecretQuery, context: &PhaseContext<'_>) -> PhaseSecrets {
    let x = secret.x(context.field);
    let offset = context.field.dot(&x, &x);
    PhaseSecrets::new([x.to_vec()]).with_offset(offset)
}

fn plain_function(context: &PhaseContext<'_>, q: &SlotVectors, one: FieldElement) -> RowFunction {
    RowFunction { constant: FieldElement::ZERO, ..context.distance(q.slot(0), one) }
}

fn weighted_cost(secret: &SecretQuery, context: &PhaseContext<'_>) -> PhaseSecrets {
    linear::secrets(context, &secret.x(context.field), secret.w(context.field))
}

fn weighted_function(context: &PhaseContext<'_>, q: &SlotVectors, _: FieldElement) -> RowFunction {
    linear::function(context, q.slot(0), q.slot(1))
}

fn table_cost(secret: &SecretQuery, context: &PhaseContext<'_>) -> PhaseSecrets {
    PhaseSecrets::new([secret.cost(context.field, context.params)])
}

fn table_function(context: &PhaseContext<'_>, q: &SlotVectors, _: FieldElement) -> RowFunction {
    context.table(q.slot(0))
}

// The two kinds of gate. Their slots follow those of the cost.

fn immutable_gate(mut secrets: PhaseSecrets, secret: &SecretQuery, context: &PhaseContext<'_>) -> PhaseSecrets {
    let (h, x) = (secret.h(context.field), secret.x(context.field));
    let hx = context.times(&h, &x);
    let constant = context.field.dot(&hx, &x);
    for vector in [h, hx, vec![constant]] {
        secrets.vectors.push(vector);
    }
    secrets
}

fn table_gate(mut secrets: PhaseSecrets, secret: &SecretQuery, context: &PhaseContext<'_>) -> PhaseSecrets {
    secrets.vectors.push(secret.gate(context.field, context.params));
    secrets
}

fn immutable_function(context: &PhaseContext<'_>, q: &SlotVectors) -> RowFunction {
    let first = q.iter().len() - 3;
    let constant = q.slot(first + 2)[0];
    RowFunction { constant, ..linear::function(context, q.slot(first), q.slot(first + 1)) }
}

fn program(cost: RowFunction, gate: RowFunction) -> RowProgram {
    RowProgram::new([cost, gate], [OutputExpr::Blinded(1), OutputExpr::Hidden { cost: 0, gate: 1 }])
}

/// The number of violations of a table gate is at most the number of features.
fn with_violations(params: &Params, most: u128) -> u128 {
    most.max(params.features() as u128)
}

macro_rules! gated {
    ($(#[$doc:meta])* $id:ident, $name:literal, $cost_model:ident, $constraint:ident, [$($slot:expr),*], $bound:expr,
     $cost:ident, $cost_function:ident, $add_gate:ident, |$context:ident, $q:ident| $gate_function:expr) => {
        $(#[$doc])*
        pub(crate) const $id: Scheme = Scheme {
            name: $name,
            origin: Origin::Ours,
            learns: LEARNS,
            cost_model: CostModel::$cost_model,
            constraint: ConstraintKind::$constraint,
            bound: $bound,
            phases: &[Phase {
                slots: &[$($slot),*],
                degree: |_| 1,
                secrets: |secret, context, _| $add_gate($cost(secret, context), secret, context),
                program: |$context, $q, one| program($cost_function($context, $q, one), $gate_function),
                decode_rule: DecodeRule::Gated,
            }],
        };
    };
}

gated!(
    /// Squared distance, immutable features.
    GATED, "gated", Squared, Zeros, [X, H, HX, HXX], |params| params.delta(),
    plain_cost, plain_function, immutable_gate, |context, q| immutable_function(context, q)
);
gated!(
    /// Weighted squared distance, immutable features.
    PLUS, "gated+", Weighted, Zeros, [W, WX, H, HX, HXX], |params| params.weighted_delta(),
    weighted_cost, weighted_function, immutable_gate, |context, q| immutable_function(context, q)
);
gated!(
    /// Squared distance, permitted sets.
    RANGES, "gated-ranges", Squared, Table, [X, GATE], |params| with_violations(params, params.delta()),
    plain_cost, plain_function, table_gate, |context, q| context.table(q.slot(1))
);
gated!(
    /// Weighted squared distance, permitted sets.
    RANGES_PLUS, "gated-ranges+", Weighted, Table, [W, WX, GATE],
    |params| with_violations(params, params.weighted_delta()),
    weighted_cost, weighted_function, table_gate, |context, q| context.table(q.slot(2))
);
gated!(
    /// Any cost, immutable features.
    COSTS, "gated-costs", Table, Zeros, [COST, H, HX, HXX], |params| params.table_bound().max(params.delta()),
    table_cost, table_function, immutable_gate, |context, q| immutable_function(context, q)
);
gated!(
    /// Any cost, permitted sets.
    TABLES, "gated-tables", Table, Table, [COST, GATE], |params| with_violations(params, params.table_bound()),
    table_cost, table_function, table_gate, |context, q| context.table(q.slot(1))
);
