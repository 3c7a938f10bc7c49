//! Cuts: the accepted rows are divided recursively at the median of the column with the largest
//! variance, until a leaf has at most [`MAX_LEAF`](super::MAX_LEAF) rows.
//!
//! The variance is that of values divided by the spread of their column; for words it is 1 minus
//! the share of the most frequent word. Words are divided into two sets of about equally many rows.
//! The first column for which both sides have at least k rows is cut. Rejected rows follow the
//! cuts, so that each leaf also has the rejected people near its groups.
//!
//! A [`CutFile`] keeps the cuts for the next version of a dataset. It has medians of at least 2k
//! rows each and stays with the institution.

use super::table::{GroupColumnKind, GroupTable};
use super::{GroupRequest, MAX_LEAF, Representative, mdav, representative};
use crate::error::BuildError;
use std::collections::BTreeMap;
use std::path::Path;

/// Maximum depth of a tree. Cuts that leave few rows on one side could make it deep.
const MAX_DEPTH: usize = 40;
/// Below this number of rows, both sides are divided on one thread.
const PARALLEL_ROWS: usize = 1 << 12;

/// The cuts of all partitions of a table, and the spreads with which its groups were computed.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CutFile {
    pub(crate) spreads: BTreeMap<String, f64>,
    /// By the values of the columns that stay exact.
    pub(crate) trees: BTreeMap<String, CutTree>,
}

/// A leaf, or a cut with two trees.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum CutTree {
    Leaf,
    Cut { column: String, first: FirstSide, trees: Box<[CutTree; 2]> },
}

/// The values of the first side of a cut.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FirstSide {
    /// Numbers or ranks below this one.
    Below(f64),
    /// These words.
    Words(Vec<String>),
}

impl CutFile {
    /// Maximum size of a file.
    const MAX_BYTES: u64 = 64 << 20;

    pub(crate) fn read(path: &Path) -> Result<CutFile, BuildError> {
        let io = |source| BuildError::Io { action: "read", path: path.into(), source };
        let refuse = |reason: String| BuildError::File { path: path.into(), reason };
        if std::fs::metadata(path).map_err(io)?.len() > CutFile::MAX_BYTES {
            return Err(refuse(format!("the file of cuts has more than {} bytes", CutFile::MAX_BYTES)));
        }
        let text = std::fs::read_to_string(path).map_err(io)?;
        let file: CutFile =
            serde_json::from_str(&text).map_err(|error| refuse(format!("not a valid file of cuts: {error}")))?;
        if file.spreads.values().all(|spread| spread.is_finite() && *spread > 0.0) {
            Ok(file)
        } else {
            Err(refuse("not a valid file of cuts: a spread is not a number above 0".into()))
        }
    }
}

/// A cut with the codes of its first side.
struct Cut {
    column: usize,
    is_first: Vec<bool>,
}

/// Divides the rows into groups, and returns the cuts with the representatives.
pub(crate) fn divide(
    table: &GroupTable,
    request: &GroupRequest,
    accepted: Vec<u32>,
    rejected: Vec<u32>,
    earlier: Option<&CutTree>,
    depth: usize,
) -> (CutTree, Vec<Representative>) {
    let holds = |cut: &Cut| {
        let sides = sides(table, cut, &accepted);
        let enough = sides.iter().all(|rows| rows.len() >= request.k && request.diversity.holds(table, rows));
        enough.then_some(sides)
    };
    let known = earlier.and_then(|tree| known(table, tree)).and_then(|(cut, trees)| {
        let sides = holds(&cut)?;
        Some((cut, sides, Some(trees)))
    });
    let is_leaf = accepted.len() <= MAX_LEAF || accepted.len() < 2 * request.k || depth >= MAX_DEPTH;
    let found = known.or_else(|| {
        if is_leaf {
            return None;
        }
        by_variance(table, &accepted).into_iter().find_map(|column| {
            let cut = middle(table, column, &accepted)?;
            let sides = holds(&cut)?;
            Some((cut, sides, None))
        })
    });
    let Some((cut, [first, second], trees)) = found else {
        let groups = leaf(table, request, accepted);
        return (CutTree::Leaf, representative::of_leaf(table, request, groups, &rejected));
    };
    let [rejected_first, rejected_second] = sides(table, &cut, &rejected);
    let rows = first.len() + second.len();
    let next = |accepted, rejected, side: usize| {
        divide(table, request, accepted, rejected, trees.map(|trees| &trees[side]), depth + 1)
    };
    let (one, two) = if rows >= PARALLEL_ROWS {
        rayon::join(|| next(first, rejected_first, 0), || next(second, rejected_second, 1))
    } else {
        (next(first, rejected_first, 0), next(second, rejected_second, 1))
    };
    let tree = CutTree::Cut {
        column: table.columns()[cut.column].name.clone(),
        first: first_side(table, &cut),
        trees: Box::new([one.0, two.0]),
    };
    let mut representatives = one.1;
    representatives.extend(two.1);
    (tree, representatives)
}

/// The groups of a leaf. A leaf with too many rows that no cut divides, such as equal rows, is
/// divided in the order of its values.
fn leaf(table: &GroupTable, request: &GroupRequest, mut rows: Vec<u32>) -> Vec<Vec<u32>> {
    if rows.len() <= MAX_LEAF {
        return mdav::groups(table, request, &rows);
    }
    if rows.len() < 2 * request.k {
        return vec![rows];
    }
    rows.sort_by(|&a, &b| table.row(a as usize).cmp(table.row(b as usize)).then(a.cmp(&b)));
    let size = MAX_LEAF.max(request.k);
    let count = (rows.len() / size).max(1);
    let mut groups = vec![];
    for piece in 0..count {
        let (from, to) = (piece * rows.len() / count, (piece + 1) * rows.len() / count);
        groups.extend(mdav::split(table, request.k, &rows[from..to]));
    }
    request.diversity.merge(table, groups)
}

/// The columns by the variance of these rows, largest first; of equal ones, by their order.
fn by_variance(table: &GroupTable, rows: &[u32]) -> Vec<usize> {
    let count = rows.len() as f64;
    let variance = |(column, kind): (usize, &GroupColumnKind)| match kind {
        GroupColumnKind::Ordered { positions, .. } => {
            let first = positions[usize::from(table.code(rows[0] as usize, column))];
            let (mut sum, mut squares) = (0.0, 0.0);
            for &row in rows {
                // Relative to the first row, so that large positions do not cancel.
                let value = positions[usize::from(table.code(row as usize, column))] - first;
                sum += value;
                squares += value * value;
            }
            (squares / count - (sum / count).powi(2)).max(0.0)
        }
        GroupColumnKind::Words { words } => {
            let most = frequencies(table, column, words.len(), rows).into_iter().max().unwrap_or(0);
            1.0 - f64::from(most) / count
        }
    };
    let kinds = table.columns().iter().map(|column| &column.kind).enumerate();
    let mut order: Vec<(usize, f64)> = kinds.map(|entry| (entry.0, variance(entry))).collect();
    order.sort_by(|a, b| b.1.total_cmp(&a.1));
    order.into_iter().filter(|(_, variance)| *variance > 0.0).map(|(column, _)| column).collect()
}

pub(crate) fn frequencies(table: &GroupTable, column: usize, words: usize, rows: &[u32]) -> Vec<u32> {
    let mut counts = vec![0; words];
    rows.iter().for_each(|&row| counts[usize::from(table.code(row as usize, column))] += 1);
    counts
}

/// The cut of a column that divides the rows most evenly, with equal values on one side.
fn middle(table: &GroupTable, column: usize, rows: &[u32]) -> Option<Cut> {
    match &table.columns()[column].kind {
        GroupColumnKind::Ordered { positions, .. } => {
            let mut codes: Vec<u16> = rows.iter().map(|&row| table.code(row as usize, column)).collect();
            let half = codes.len() / 2;
            let median = *codes.select_nth_unstable(half).1;
            let below = codes.iter().filter(|code| **code < median).count();
            let upto = codes.iter().filter(|code| **code <= median).count();
            // The median itself goes to the side that becomes more even.
            let bound = if below.abs_diff(codes.len() - below) <= upto.abs_diff(codes.len() - upto) {
                usize::from(median)
            } else {
                usize::from(median) + 1
            };
            Some(Cut { column, is_first: (0..positions.len()).map(|code| code < bound).collect() })
        }
        GroupColumnKind::Words { words } => {
            let counts = frequencies(table, column, words.len(), rows);
            let mut order: Vec<usize> = (0..counts.len()).filter(|&word| counts[word] > 0).collect();
            order.sort_by_key(|&word| std::cmp::Reverse(counts[word]));
            let (mut is_first, mut sizes) = (vec![false; counts.len()], [0; 2]);
            for word in order {
                let side = usize::from(sizes[1] < sizes[0]);
                sizes[side] += counts[word];
                is_first[word] = side == 0;
            }
            (sizes[1] > 0).then_some(Cut { column, is_first })
        }
    }
}

fn sides(table: &GroupTable, cut: &Cut, rows: &[u32]) -> [Vec<u32>; 2] {
    let is_first = |row: &u32| cut.is_first[usize::from(table.code(*row as usize, cut.column))];
    let (first, second) = rows.iter().partition(|row| is_first(row));
    [first, second]
}

fn first_side(table: &GroupTable, cut: &Cut) -> FirstSide {
    match &table.columns()[cut.column].kind {
        GroupColumnKind::Ordered { positions, spread } => {
            let bound = cut.is_first.iter().filter(|is_first| **is_first).count();
            let at = |code: usize| positions[code.min(positions.len() - 1)] * spread;
            FirstSide::Below((at(bound.saturating_sub(1)) + at(bound)) / 2.0)
        }
        GroupColumnKind::Words { words } => {
            let named = words.iter().zip(&cut.is_first).filter(|(_, is_first)| **is_first);
            FirstSide::Words(named.map(|(word, _)| word.clone()).collect())
        }
    }
}

/// A cut of an earlier version in the codes of this table, and its trees.
fn known<'a>(table: &GroupTable, tree: &'a CutTree) -> Option<(Cut, &'a [CutTree; 2])> {
    let CutTree::Cut { column, first, trees } = tree else { return None };
    let index = table.columns().iter().position(|known| known.name == *column)?;
    let is_first = match (&table.columns()[index].kind, first) {
        (GroupColumnKind::Ordered { positions, spread }, FirstSide::Below(bound)) => {
            positions.iter().map(|position| position * spread < *bound).collect()
        }
        (GroupColumnKind::Words { words }, FirstSide::Words(named)) => {
            words.iter().map(|word| named.contains(word)).collect()
        }
        _ => return None,
    };
    Some((Cut { column: index, is_first }, trees))
}
