//! Diversity of sensitive columns: every group has at least l of their values, and none of them
//! with more than 80 % of its people (distinct l-diversity with a bound on the largest share).

use super::table::{GroupColumnKind, GroupTable};
use std::collections::BTreeMap;

/// The largest share of one sensitive value in a group, in percent.
const MAX_PERCENT: usize = 80;

/// The sensitive columns and the number of values that a group needs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Diversity {
    pub(crate) columns: Vec<usize>,
    pub(crate) l: usize,
}

impl Diversity {
    /// Whether these rows have enough values of every sensitive column.
    pub(crate) fn holds(&self, table: &GroupTable, rows: &[u32]) -> bool {
        self.l < 2
            || self.columns.iter().all(|&column| {
                let mut counts: BTreeMap<u16, usize> = BTreeMap::new();
                rows.iter().for_each(|&row| *counts.entry(table.code(row as usize, column)).or_default() += 1);
                let most = counts.values().copied().max().unwrap_or(0);
                counts.len() >= self.l && most * 100 <= rows.len() * MAX_PERCENT
            })
    }

    /// Merges every group that has too few values with the nearest other group, until all have
    /// enough or one group is left. The rows of all groups together have enough.
    pub(crate) fn merge(&self, table: &GroupTable, mut groups: Vec<Vec<u32>>) -> Vec<Vec<u32>> {
        if self.l < 2 {
            return groups;
        }
        while groups.len() > 1 {
            let Some(poor) = groups.iter().position(|rows| !self.holds(table, rows)) else { break };
            let rows = groups.remove(poor);
            let centre = centre(table, &rows);
            let mut best = (f64::INFINITY, 0);
            for (index, other) in groups.iter().enumerate() {
                let distance = distance(&centre, &self::centre(table, other));
                if distance < best.0 {
                    best = (distance, index);
                }
            }
            groups[best.1].extend(rows);
        }
        groups
    }
}

/// Mean positions and shares of words; their squared differences order groups by nearness.
fn centre(table: &GroupTable, rows: &[u32]) -> Vec<f64> {
    let mut centre = vec![];
    let count = rows.len() as f64;
    for (index, column) in table.columns().iter().enumerate() {
        match &column.kind {
            GroupColumnKind::Ordered { positions, .. } => {
                let position = |&row: &u32| positions[usize::from(table.code(row as usize, index))];
                centre.push(rows.iter().map(position).sum::<f64>() / count);
            }
            GroupColumnKind::Words { words } => {
                let counts = super::cuts::frequencies(table, index, words.len(), rows);
                centre.extend(counts.into_iter().map(|rows| f64::from(rows) / count));
            }
        }
    }
    centre
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}
