//! How much of a database was recovered.

use serde::Serialize;

/// How much of a database was recovered.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RecoveredFraction {
    /// Rows recovered in full.
    pub rows: f64,
    /// Single values recovered, in rows recovered or not.
    pub values: f64,
}

impl RecoveredFraction {
    /// Compares what was concluded (values not concluded are none) with the truth.
    pub(crate) fn of(concluded: &[Vec<Option<u32>>], truth: &[Vec<u32>]) -> RecoveredFraction {
        let (mut rows, mut values, mut all) = (0usize, 0usize, 0usize);
        for (found, row) in concluded.iter().zip(truth) {
            let right = found.iter().zip(row).filter(|(found, value)| **found == Some(**value)).count();
            values += right;
            all += row.len();
            rows += usize::from(right == row.len());
        }
        RecoveredFraction { rows: rows as f64 / truth.len().max(1) as f64, values: values as f64 / all.max(1) as f64 }
    }
}
