//! Trilateration: computing rows from their distances to a few chosen points, if all searches have
//! the same row order.
//!
//! * Baseline and Diff: the search at the origin gives ‖y‖², each further search two features
//!   (module `pairs`), and the norm the last feature. That takes `1 + ⌈(d−1)/2⌉` searches. With
//!   Diff, the record of each search turns the differences into distances.
//! * Mask: the search at corner `R·e_k` gives feature k, so `d + 1` searches are needed. A mask
//!   changes the estimate of y_k by less than `d_min/(2R)`. If that is too much, the attacker
//!   repeats the searches and takes means.

use ifonly_core::scheme::CostModel as Cost;

use super::oracle::{SearchOracle, UniformDatabase, costs_from_differences};
use super::{EngineOracle, RecoveredFraction, pairs};
use crate::LabError;
use crate::leakage::{Decoded, LeakageScheme, RowOrder};
use crate::plot::{AxisScale, Curve, Plot};
use crate::report::{ReportItem, cells, percent};

/// The known values of every row.
type Concluded = Vec<Vec<Option<u32>>>;

/// The recovered fraction after 1, 2, … searches of Baseline or Diff.
pub fn distances(
    database: &UniformDatabase,
    decoded: Decoded,
    oracle: &mut dyn SearchOracle,
) -> Result<Vec<RecoveredFraction>, LabError> {
    let d = database.d();
    let plan = pairs::pair_up(0..d - 1);
    let free = vec![false; d];
    let mut distances = |x: &[u32]| -> Result<Vec<i64>, LabError> {
        let search = oracle.search(x, &free)?;
        Ok(if decoded == Decoded::Differences { costs_from_differences(&search, x) } else { search.values })
    };
    let norms = distances(&vec![0; d])?;
    let mut candidates: Vec<Vec<pairs::PairCandidates>> = vec![Vec::new(); norms.len()];
    let mut fractions = vec![RecoveredFraction { rows: 0.0, values: 0.0 }];
    for (number, &pair) in plan.iter().enumerate() {
        let x = pairs::query(d, database.r, pair.0, pair.1);
        let length: i64 = x.iter().map(|&v| i64::from(v).pow(2)).sum();
        let costs = distances(&x)?;
        for (row, (norm, cost)) in norms.iter().zip(&costs).enumerate() {
            let double = norm - cost + length;
            let found = if double % 2 == 0 { pairs::candidates(database.r, double / 2, pair) } else { Vec::new() };
            candidates[row].push((pair, found));
        }
        let last = number + 1 == plan.len();
        let concluded: Concluded = candidates
            .iter()
            .zip(&norms)
            .map(|(pairs, &norm)| conclude(database, pairs, last.then_some(norm)))
            .collect();
        fractions.push(RecoveredFraction::of(&concluded, &database.rows));
    }
    Ok(fractions)
}

/// The values that are certain. With the norm, these are the values of the only consistent row;
/// without it, the values of every pair with one candidate.
fn conclude(database: &UniformDatabase, pairs: &[pairs::PairCandidates], norm: Option<i64>) -> Vec<Option<u32>> {
    let d = database.d();
    let mut values = vec![None; d];
    if let Some(norm) = norm {
        if let [only] = pairs::solve(database.r, pairs, Some(d - 1), norm).as_slice() {
            only.iter().for_each(|&(feature, value)| values[feature] = Some(value));
        }
        return values;
    }
    for ((a, b), candidates) in pairs {
        if let [(value_a, value_b)] = candidates.as_slice() {
            values[*a] = Some(*value_a as u32);
            if let Some(b) = b {
                values[*b] = Some(*value_b as u32);
            }
        }
    }
    values
}

/// The recovered fraction after 1, 2, … searches of Mask, in `rounds` rounds over all corners.
pub fn masked(
    database: &UniformDatabase,
    rounds: usize,
    oracle: &mut dyn SearchOracle,
) -> Result<Vec<RecoveredFraction>, LabError> {
    let (d, m, r) = (database.d(), database.rows.len(), f64::from(database.r));
    let free = vec![false; d];
    let mut sums = vec![vec![0i64; m]; d + 1];
    let mut searches = vec![0usize; d + 1];
    let mut fractions = Vec::new();
    for _ in 0..rounds {
        for corner in 0..=d {
            let mut x = vec![0; d];
            if corner > 0 {
                x[corner - 1] = database.r;
            }
            let values = oracle.search(&x, &free)?.values;
            sums[corner].iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
            searches[corner] += 1;
            let mean = |corner: usize, row: usize| sums[corner][row] as f64 / searches[corner] as f64;
            let value = |row: usize, feature: usize| {
                let is_known = searches[0] > 0 && searches[feature + 1] > 0;
                is_known.then(|| {
                    // ‖y‖² − ‖y − R·e_k‖² + R² = 2R·y_k; the masks have the same mean and cancel.
                    let estimate = (mean(0, row) - mean(feature + 1, row) + r * r) / (2.0 * r);
                    estimate.round().clamp(0.0, r) as u32
                })
            };
            let concluded: Concluded = (0..m).map(|row| (0..d).map(|k| value(row, k)).collect()).collect();
            fractions.push(RecoveredFraction::of(&concluded, &database.rows));
        }
    }
    Ok(fractions)
}

/// The report item: the attack on each scheme, with fixed and with shuffled row order, through the
/// real protocol.
pub fn run(r: u32, d: usize, m: usize, seed: u64) -> Result<ReportItem, LabError> {
    let database = UniformDatabase::uniform(r, d, m, seed);
    let engine = |decoded, d_min, order| {
        EngineOracle::new(&database, LeakageScheme::published(Cost::Squared, decoded)?, d_min, order, seed)
    };
    let mut curves: Vec<(String, Vec<RecoveredFraction>)> = Vec::new();
    for (order, suffix) in [(RowOrder::Fixed, ""), (RowOrder::Shuffled, ", shuffled")] {
        for (label, decoded) in [("Baseline", Decoded::Values), ("Diff", Decoded::Differences)] {
            curves.push((format!("{label}{suffix}"), distances(&database, decoded, &mut engine(decoded, 1, order)?)?));
        }
        let masks: &[(u32, usize)] = if order == RowOrder::Fixed { &[(2, 1), (50, 1), (200, 3)] } else { &[(2, 1)] };
        for &(d_min, rounds) in masks {
            let mut oracle = engine(Decoded::Masked, d_min, order)?;
            curves.push((format!("Mask {d_min}{suffix}"), masked(&database, rounds, &mut oracle)?));
        }
        let fractions = super::partials::attack(&database, order, &mut engine(Decoded::Partials, 1, order)?)?;
        curves.push((format!("Single-Phase{suffix}"), fractions));
    }
    Ok(outcome(r, d, m, &curves))
}

fn outcome(r: u32, d: usize, m: usize, curves: &[(String, Vec<RecoveredFraction>)]) -> ReportItem {
    let rows = curves
        .iter()
        .map(|(name, fractions)| {
            let full = fractions.iter().position(|fraction| fraction.rows == 1.0).map(|index| (index + 1).to_string());
            let last = fractions.last().copied().unwrap_or(RecoveredFraction { rows: 0.0, values: 0.0 });
            let full = full.unwrap_or_else(|| "—".into());
            vec![name.clone(), fractions.len().to_string(), percent(last.rows), percent(last.values), full]
        })
        .collect();
    let shown =
        curves.iter().filter(|(name, _)| !matches!(name.as_str(), "Diff, shuffled" | "Mask 2, shuffled" | "Mask 2"));
    let curve = |(name, fractions): &(String, Vec<RecoveredFraction>)| {
        let points = fractions.iter().zip(1..).map(|(fraction, n)| (f64::from(n), 100.0 * fraction.rows)).collect();
        Curve { name: name.clone(), points, errors: Vec::new() }
    };
    ReportItem {
        name: "trilateration",
        title: format!("Trilateration, R={r}, d={d}, M={m}"),
        text: "One user searches a few times with chosen profiles, each of them valid. If all searches have the same \
             row order, the distances to a handful of points give the whole database. Every search ran through the real \
             protocol. With a fresh row order in every search this attack recovers nothing, except with Single-Phase, \
             whose two partial distances identify the rows. The linking attack shows what shuffling does not prevent."
            .into(),
        columns: cells(["scheme", "searches", "rows recovered", "values recovered", "all rows after"]),
        rows,
        figure: Some(Plot {
            title: format!("Trilateration by one user (R={r}, d={d}, M={m})"),
            x: "searches".into(),
            y: "rows recovered (%)".into(),
            x_scale: AxisScale::Linear,
            y_range: Some((0.0, 105.0)),
            curves: shown.map(curve).collect(),
        }.into()),
    }
}
