//! Any separable cost: the tables `T_k[v]`, the cost of moving feature k to level v, are shared;
//! `v_i = Σ T_k[y_ik]` is linear.

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
        secrets: |secret, setting, _| PhaseSecrets::new([secret.cost(setting.field, setting.params)]),
        program: |setting, q, _| RowProgram::new([setting.table(q.slot(0))], [OutputExpr::Plain(0)]),
        decode_rule: DecodeRule::Cost,
    }],
};
