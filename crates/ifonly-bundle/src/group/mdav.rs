//! MDAV (maximum distance to average vector): divides the rows of a leaf into groups of k to 2k − 1
//! rows.
//!
//! While at least 3k rows are left: the row farthest from the mean and its k − 1 nearest rows are a
//! group, and so are the row farthest from that one and its k − 1 nearest rows. If 2k to 3k − 1
//! rows are left, the row farthest from the mean and its k − 1 nearest are a group, and the others
//! too. The mean of words is the most frequent word. Of equally far rows, the first one counts.

use super::GroupRequest;
use super::table::{GroupColumnKind, GroupTable};

/// The groups of these rows, of which there are at least k, with enough sensitive values in each.
pub(crate) fn groups(table: &GroupTable, request: &GroupRequest, rows: &[u32]) -> Vec<Vec<u32>> {
    request.diversity.merge(table, split(table, request.k, rows))
}

/// The groups of these rows, of which there are at least k.
pub(crate) fn split(table: &GroupTable, k: usize, rows: &[u32]) -> Vec<Vec<u32>> {
    if rows.len() < 2 * k {
        return vec![rows.to_vec()];
    }
    let leaf = LeafRows::new(table, rows);
    let mut left: Vec<usize> = (0..rows.len()).collect();
    let mut groups: Vec<Vec<usize>> = vec![];
    while left.len() >= 2 * k {
        let again = left.len() >= 3 * k;
        let mean = leaf.mean(&left);
        let extreme = farthest(&left, |row| leaf.distance_to(&mean, row));
        let (group, rest) = nearest(left, k, extreme, |row| leaf.distance(extreme, row));
        groups.push(group);
        left = rest;
        if again {
            let opposite = farthest(&left, |row| leaf.distance(extreme, row));
            let (group, rest) = nearest(left, k, opposite, |row| leaf.distance(opposite, row));
            groups.push(group);
            left = rest;
        }
    }
    if left.len() >= k {
        groups.push(left);
    } else if let Some(last) = groups.last_mut() {
        last.extend(left);
    }
    groups.into_iter().map(|group| group.into_iter().map(|row| rows[row]).collect()).collect()
}

fn farthest(rows: &[usize], distance: impl Fn(usize) -> f64) -> usize {
    let mut best = (f64::NEG_INFINITY, rows[0]);
    for &row in rows {
        let distance = distance(row);
        if distance > best.0 {
            best = (distance, row);
        }
    }
    best.1
}

/// The k rows nearest to `around`, which is one of them, and the others, both in order.
fn nearest(rows: Vec<usize>, k: usize, around: usize, distance: impl Fn(usize) -> f64) -> (Vec<usize>, Vec<usize>) {
    let mut near: Vec<(f64, usize)> =
        rows.into_iter().map(|row| (if row == around { -1.0 } else { distance(row) }, row)).collect();
    near.select_nth_unstable_by(k - 1, |a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let sorted = |entries: &[(f64, usize)]| {
        let mut rows: Vec<usize> = entries.iter().map(|(_, row)| *row).collect();
        rows.sort_unstable();
        rows
    };
    (sorted(&near[..k]), sorted(&near[k..]))
}

/// The rows of a leaf as positions and words, in consecutive memory.
struct LeafRows {
    ordered: usize,
    positions: Vec<f64>,
    /// The number of words of each column of words.
    sizes: Vec<usize>,
    words: Vec<u16>,
}

struct Mean {
    positions: Vec<f64>,
    words: Vec<u16>,
}

impl LeafRows {
    fn new(table: &GroupTable, rows: &[u32]) -> LeafRows {
        let mut leaf = LeafRows { ordered: 0, positions: vec![], sizes: vec![], words: vec![] };
        for column in table.columns() {
            match &column.kind {
                GroupColumnKind::Ordered { .. } => leaf.ordered += 1,
                GroupColumnKind::Words { words } => leaf.sizes.push(words.len()),
            }
        }
        for &row in rows {
            for (column, &code) in table.columns().iter().zip(table.row(row as usize)) {
                match &column.kind {
                    GroupColumnKind::Ordered { positions, .. } => leaf.positions.push(positions[usize::from(code)]),
                    GroupColumnKind::Words { .. } => leaf.words.push(code),
                }
            }
        }
        leaf
    }

    fn positions(&self, row: usize) -> &[f64] {
        &self.positions[row * self.ordered..][..self.ordered]
    }

    fn words(&self, row: usize) -> &[u16] {
        &self.words[row * self.sizes.len()..][..self.sizes.len()]
    }

    fn distance(&self, a: usize, b: usize) -> f64 {
        cost(self.positions(a), self.words(a), self.positions(b), self.words(b))
    }

    fn distance_to(&self, mean: &Mean, row: usize) -> f64 {
        cost(&mean.positions, &mean.words, self.positions(row), self.words(row))
    }

    fn mean(&self, rows: &[usize]) -> Mean {
        let mut positions = vec![0.0; self.ordered];
        for &row in rows {
            positions.iter_mut().zip(self.positions(row)).for_each(|(sum, position)| *sum += position);
        }
        positions.iter_mut().for_each(|sum| *sum /= rows.len() as f64);
        let mode = |(column, &size): (usize, &usize)| {
            let mut counts = vec![0u32; size];
            rows.iter().for_each(|&row| counts[usize::from(self.words(row)[column])] += 1);
            let most = counts.iter().copied().max().unwrap_or(0);
            counts.iter().position(|count| *count == most).unwrap_or(0) as u16
        };
        Mean { positions, words: self.sizes.iter().enumerate().map(mode).collect() }
    }
}

fn cost(positions: &[f64], words: &[u16], others: &[f64], other_words: &[u16]) -> f64 {
    let squares: f64 = positions.iter().zip(others).map(|(a, b)| (a - b) * (a - b)).sum();
    squares + words.iter().zip(other_words).filter(|(a, b)| a != b).count() as f64
}
