//! Any separable cost: the tables `T_k[v]`, the cost of moving feature k to level v, are shared; `v_i = Σ T_k[y_ik]` is linear.

use super::Length::Levels;
use super::{Gate, Metric, Opening, Origin, Phase, Reading, Scheme, Slot};
use crate::form::{Output, Program};

/// Every cost is decoded.
pub(super) const TABLE: Scheme = Scheme {
    name: "table",
    origin: Origin::Ours,
    learns: "every cost",
    metric: Metric::Table,
    gate: Gate::None,
    bound: |params| params.table_bound(),
    phases: &[Phase {
        slots: &[Slot::fresh("cost", Levels)],
        degree: |_| 1,
        secrets: |secret, setting, _| Opening::new([secret.cost(setting.field, setting.params)]),
        program: |setting, q, _| Program::new([setting.table(q.slot(0))], [Output::Plain(0)]),
        reading: Reading::Cost,
    }],
};
