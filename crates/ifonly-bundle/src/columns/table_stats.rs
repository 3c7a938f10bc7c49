//! What the first pass over the data finds, of a part or of everything. It travels between
//! processes, and parts put together in their order are exactly what one process would have found.

use crate::build::accept::TargetLeakDetector;
use crate::columns::stats::ColumnStats;
use ifonly_values::schema::Schema;

/// What the first pass found in some rows.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
pub struct TableStats {
    pub(crate) rows: u64,
    pub(crate) accepted: u64,
    pub(crate) stats: Vec<ColumnStats>,
    /// Per column, where there is a mask.
    pub(crate) telltales: Vec<TargetLeakDetector>,
}

impl std::fmt::Debug for TableStats {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The values of people are nobody's business in a log.
        write!(f, "Learnt({} rows, {} columns)", self.rows, self.stats.len())
    }
}

impl TableStats {
    /// Takes what was found in the rows behind. Both are about the same columns.
    pub fn merge(&mut self, behind: TableStats) {
        self.rows += behind.rows;
        self.accepted += behind.accepted;
        self.stats.iter_mut().zip(behind.stats).for_each(|(stats, behind)| stats.merge(behind));
        self.telltales.iter_mut().zip(behind.telltales).for_each(|(telltale, behind)| telltale.merge(behind));
    }

    /// The features that alone say whom the mask accepts.
    pub(crate) fn telling(&self, columns: &[String], schema: &Schema) -> Vec<String> {
        let tell = columns.iter().zip(&self.telltales).filter(|(_, telltale)| telltale.tells());
        let features = schema.columns();
        let is_feature = |name: &&String| features.iter().any(|column| column.name == *name);
        tell.map(|(name, _)| name).filter(is_feature).cloned().collect()
    }
}
