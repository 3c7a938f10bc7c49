//! The fraction of a database that an attack recovers.

use serde::Serialize;

/// The fraction of a database that an attack recovered, from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RecoveredFraction {
    /// Rows recovered in full.
    pub rows: f64,
    /// Values recovered, in any row.
    pub values: f64,
}

impl RecoveredFraction {
    /// Compares the conclusions of the attacker with the true rows. An unknown value is `None`.
    pub(crate) fn of(concluded: &[Vec<Option<u32>>], truth: &[Vec<u32>]) -> RecoveredFraction {
        let (mut rows, mut values, mut all) = (0usize, 0usize, 0usize);
        for (found, row) in concluded.iter().zip(truth) {
            let correct = found.iter().zip(row).filter(|(found, value)| **found == Some(**value)).count();
            values += correct;
            all += row.len();
            rows += usize::from(correct == row.len());
        }
        RecoveredFraction { rows: rows as f64 / truth.len().max(1) as f64, values: values as f64 / all.max(1) as f64 }
    }
}
