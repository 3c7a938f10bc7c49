//! COMPAS as the paper prepared it: 20 features after one-hot encoding, scaled within a training
//! split, R = 10.
//!
//! The paper has 560 rejected and 717 accepted rows. They are the result of four steps:
//!
//! 1. The training split has 4937 rows: `numpy.random.RandomState(42).permutation(6172)` without
//!    its first 1235 entries.
//! 2. Each feature is scaled to [0, 1] within the split.
//! 3. A value gets the first bin with `lo ≤ v < lo + step` in floating point.
//! 4. Of equal rows only the first is kept, with its label.

use std::collections::HashSet;
use std::path::Path;

use super::first_bin;
use super::table::Table;
use crate::LabError;
use crate::random::NumpyShuffle;

/// The largest level.
const R: u32 = 10;
const NUMERIC: [&str; 7] = [
    "age",
    "priors_count",
    "juv_fel_count",
    "juv_misd_count",
    "juv_other_count",
    "days_b_screening_arrest",
    "jail_days",
];
const CATEGORICAL: [&str; 4] = ["charge_degree", "race", "age_cat", "sex"];

/// Distinct quantised rows by label.
#[derive(Debug, Clone)]
pub struct CompasSplit {
    /// The largest level.
    pub r: u32,
    /// Rows with `is_recid` 0; they are the queries.
    pub rejected: Vec<Vec<u32>>,
    /// Rows with `is_recid` 1; the databases are drawn from them.
    pub accepted: Vec<Vec<u32>>,
    /// The number of distinct points that occur with both labels.
    pub both: usize,
    /// The number of distinct points with label 0 and with label 1.
    pub of_label: [usize; 2],
}

/// Reads and prepares the file.
pub fn compas(path: &Path) -> Result<CompasSplit, LabError> {
    let table = Table::read(path)?;
    let mut columns: Vec<Vec<f64>> = NUMERIC.iter().map(|name| table.numbers(name)).collect::<Result<_, _>>()?;
    for name in CATEGORICAL {
        let cells: Vec<&str> = table.column(name)?.collect();
        let mut categories = cells.clone();
        categories.sort_unstable();
        categories.dedup();
        let one_hot = |category| cells.iter().map(|cell| f64::from(u8::from(*cell == category))).collect();
        columns.extend(categories.into_iter().map(one_hot));
    }
    let labels = table.numbers("is_recid")?;
    let test_rows = table.len() / 5 + usize::from(table.len() % 5 > 0);
    let split: Vec<usize> = NumpyShuffle::new(42)
        .permutation(table.len() as u32)
        .into_iter()
        .skip(test_rows)
        .map(|row| row as usize)
        .collect();
    let levels: Vec<Vec<u32>> = columns.iter().map(|column| quantise(column, &split)).collect();
    let (mut rejected, mut accepted, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
    let mut labelled = [HashSet::new(), HashSet::new()];
    for (position, &row) in split.iter().enumerate() {
        let values: Vec<u32> = levels.iter().map(|column| column[position]).collect();
        labelled[usize::from(labels[row] == 1.0)].insert(values.clone());
        if seen.insert(values.clone()) {
            if labels[row] == 1.0 { accepted.push(values) } else { rejected.push(values) }
        }
    }
    let both = labelled[0].intersection(&labelled[1]).count();
    let of_label = labelled.map(|points| points.len());
    Ok(CompasSplit { r: R, rejected, accepted, both, of_label })
}

/// The levels of one feature of the split.
fn quantise(column: &[f64], split: &[usize]) -> Vec<u32> {
    let values: Vec<f64> = split.iter().map(|&row| column[row]).collect();
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let range = values.iter().copied().fold(f64::NEG_INFINITY, f64::max) - low;
    let level = |value: f64| first_bin(if range > 0.0 { (value - low) / range } else { 0.0 }, R);
    values.into_iter().map(level).collect()
}
