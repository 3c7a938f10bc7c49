//! The result of the first pass over a table or a part of it. It can be serialised and sent to
//! another process. The merged results of all parts, in order, equal the result for the whole
//! table.

use crate::build::accept::TargetLeakDetector;
use crate::columns::stats::ColumnStats;
use ifonly_values::schema::Schema;

/// Statistics of all columns over some rows.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
pub struct TableStats {
    pub(crate) rows: u64,
    pub(crate) accepted: u64,
    pub(crate) stats: Vec<ColumnStats>,
    /// One per column if there is an accept mask; otherwise empty.
    pub(crate) leak_detectors: Vec<TargetLeakDetector>,
}

impl std::fmt::Debug for TableStats {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Values are private data and must not appear in a log.
        write!(f, "TableStats({} rows, {} columns)", self.rows, self.stats.len())
    }
}

impl TableStats {
    /// Adds the statistics of the rows that follow. Both must have the same columns.
    pub fn merge(&mut self, next: TableStats) {
        self.rows += next.rows;
        self.accepted += next.accepted;
        self.stats.iter_mut().zip(next.stats).for_each(|(stats, next)| stats.merge(next));
        self.leak_detectors.iter_mut().zip(next.leak_detectors).for_each(|(detector, next)| detector.merge(next));
    }

    /// The features that determine the accept mask (target leakage).
    pub(crate) fn leaking_features(&self, columns: &[String], schema: &Schema) -> Vec<String> {
        let leaking = columns.iter().zip(&self.leak_detectors).filter(|(_, detector)| detector.leaks_target());
        let features = schema.columns();
        let is_feature = |name: &&String| features.iter().any(|column| column.name == *name);
        leaking.map(|(name, _)| name).filter(is_feature).cloned().collect()
    }
}
