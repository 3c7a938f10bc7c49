//! Any separable cost: the tables `T_k[v]`, the cost of level v of feature k, are shared. The
//! answer `v_i = Σ T_k[y_ik]` is linear in the shares.

use crate::row_function::{OutputExpr, RowProgram};
use crate::scheme::SlotLength::Levels;
use crate::scheme::{ConstraintKind, CostModel, DecodeRule, Origin, Phase, PhaseSecrets, Scheme, Slot};

/// Every cost is decoded.
pub(crate) const TABLE: Scheme = Scheme {
    name: "table",
    origin: Origin::Ours,
    learns: "every cost",
    cost_model: CostModel::Table,
    constraint: ConstraintKind::None,
    bound: |params| params.table_bound(),
    phases: &[Phase {
        slots: &[Slot::fresh("cost", Levels)],
        degree: |_| 1,
        secrets: |secret, context, _| PhaseSecrets::new([secret.cost(context.field, context.params)]),
        program: |context, q, _| RowProgram::new([context.table(q.slot(0))], [OutputExpr::Plain(0)]),
        decode_rule: DecodeRule::Cost,
    }],
};
