//! Trilateration: reading rows off their distances to a few chosen points, when row i is row i in
//! every session.
//!
//! Baseline and Diff: one session at the origin gives ‖y‖², each further one two features (module
//! `pairs`), the norm the last: `1 + ⌈(d−1)/2⌉` sessions. (Diff's differences become distances by
//! the one record that each session fetches anyway.) Mask: the corners `R·e_k`, one feature each,
//! `d + 1` sessions; a mask moves the estimate of y_k by less than `d_min/(2R)`, and if that is too
//! much, repeating the sessions averages it away.

use ifonly_core::scheme::CostModel as Cost;

use super::sessions::{SearchOracle, UniformDatabase, costs_from_differences};
use super::{EngineOracle, RecoveredFraction, pairs};
use crate::LabError;
use crate::leakage::{Decoded, LeakageScheme, RowOrder};
use crate::plot::{AxisScale, Curve, Plot};
use crate::report::{ReportItem, cells, percent};

type Concluded = Vec<Vec<Option<u32>>>;

/// What is recovered after 1, 2, … sessions of Baseline or Diff.
pub fn distances(
    world: &UniformDatabase,
    decoded: Decoded,
    sessions: &mut dyn SearchOracle,
) -> Result<Vec<RecoveredFraction>, LabError> {
    let d = world.d();
    let plan = pairs::pair_up(0..d - 1);
    let free = vec![false; d];
    let mut ask = |x: &[u32]| -> Result<Vec<i64>, LabError> {
        let session = sessions.ask(x, &free)?;
        Ok(if decoded == Decoded::Differences { costs_from_differences(&session, x) } else { session.values })
    };
    let norms = ask(&vec![0; d])?;
    let mut seen: Vec<Vec<pairs::PairCandidates>> = vec![Vec::new(); norms.len()];
    let mut shares = vec![RecoveredFraction { rows: 0.0, values: 0.0 }];
    for (number, &pair) in plan.iter().enumerate() {
        let x = pairs::query(d, world.r, pair.0, pair.1);
        let length: i64 = x.iter().map(|&v| i64::from(v).pow(2)).sum();
        let costs = ask(&x)?;
        for (row, (norm, cost)) in norms.iter().zip(&costs).enumerate() {
            let double = norm - cost + length;
            let found = if double % 2 == 0 { pairs::candidates(world.r, double / 2, pair) } else { Vec::new() };
            seen[row].push((pair, found));
        }
        let last = number + 1 == plan.len();
        let concluded: Concluded =
            seen.iter().zip(&norms).map(|(seen, &norm)| conclude(world, seen, last.then_some(norm))).collect();
        shares.push(RecoveredFraction::of(&concluded, &world.rows));
    }
    Ok(shares)
}

/// The values that are certain: with the norm in play, those of the only row that fits; before,
/// those of the only pair.
fn conclude(world: &UniformDatabase, seen: &[pairs::PairCandidates], norm: Option<i64>) -> Vec<Option<u32>> {
    let d = world.d();
    let mut values = vec![None; d];
    if let Some(norm) = norm {
        if let [only] = pairs::solve(world.r, seen, Some(d - 1), norm).as_slice() {
            only.iter().for_each(|&(feature, value)| values[feature] = Some(value));
        }
        return values;
    }
    for ((a, b), candidates) in seen {
        if let [(value_a, value_b)] = candidates.as_slice() {
            values[*a] = Some(*value_a as u32);
            if let Some(b) = b {
                values[*b] = Some(*value_b as u32);
            }
        }
    }
    values
}

/// What is recovered after 1, 2, … sessions of Mask, going round the corners again and again.
pub fn masked(
    world: &UniformDatabase,
    rounds: usize,
    sessions: &mut dyn SearchOracle,
) -> Result<Vec<RecoveredFraction>, LabError> {
    let (d, m, r) = (world.d(), world.rows.len(), f64::from(world.r));
    let free = vec![false; d];
    let mut sums = vec![vec![0i64; m]; d + 1];
    let mut times = vec![0usize; d + 1];
    let mut shares = Vec::new();
    for _ in 0..rounds {
        for corner in 0..=d {
            let mut x = vec![0; d];
            if corner > 0 {
                x[corner - 1] = world.r;
            }
            let values = sessions.ask(&x, &free)?.values;
            sums[corner].iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
            times[corner] += 1;
            let mean = |corner: usize, row: usize| sums[corner][row] as f64 / times[corner] as f64;
            let value = |row: usize, feature: usize| {
                let seen = times[0] > 0 && times[feature + 1] > 0;
                seen.then(|| {
                    // ‖y‖² − ‖y − R·e_k‖² + R² = 2R·y_k; the masks have the same mean and cancel.
                    let estimate = (mean(0, row) - mean(feature + 1, row) + r * r) / (2.0 * r);
                    estimate.round().clamp(0.0, r) as u32
                })
            };
            let concluded: Concluded = (0..m).map(|row| (0..d).map(|k| value(row, k)).collect()).collect();
            shares.push(RecoveredFraction::of(&concluded, &world.rows));
        }
    }
    Ok(shares)
}

/// The attack at one size, against each scheme, with rows in order and shuffled, through the real
/// protocol.
pub fn run(r: u32, d: usize, m: usize, seed: u64) -> Result<ReportItem, LabError> {
    let world = UniformDatabase::uniform(r, d, m, seed);
    let engine = |decoded, d_min, order| {
        EngineOracle::new(&world, LeakageScheme::published(Cost::Squared, decoded)?, d_min, order, seed)
    };
    let mut curves: Vec<(String, Vec<RecoveredFraction>)> = Vec::new();
    for (order, suffix) in [(RowOrder::Fixed, ""), (RowOrder::Shuffled, ", shuffled")] {
        for (label, decoded) in [("Baseline", Decoded::Values), ("Diff", Decoded::Differences)] {
            curves.push((format!("{label}{suffix}"), distances(&world, decoded, &mut engine(decoded, 1, order)?)?));
        }
        let masks: &[(u32, usize)] = if order == RowOrder::Fixed { &[(2, 1), (50, 1), (200, 3)] } else { &[(2, 1)] };
        for &(d_min, rounds) in masks {
            let mut sessions = engine(Decoded::Masked, d_min, order)?;
            curves.push((format!("Mask {d_min}{suffix}"), masked(&world, rounds, &mut sessions)?));
        }
        let shares = super::partials::run_sessions(&world, order, &mut engine(Decoded::Partials, 1, order)?)?;
        curves.push((format!("Single-Phase{suffix}"), shares));
    }
    Ok(outcome(r, d, m, &curves))
}

fn outcome(r: u32, d: usize, m: usize, curves: &[(String, Vec<RecoveredFraction>)]) -> ReportItem {
    let rows = curves
        .iter()
        .map(|(name, shares)| {
            let full = shares.iter().position(|share| share.rows == 1.0).map(|at| (at + 1).to_string());
            let last = shares.last().copied().unwrap_or(RecoveredFraction { rows: 0.0, values: 0.0 });
            let full = full.unwrap_or_else(|| "—".into());
            vec![name.clone(), shares.len().to_string(), percent(last.rows), percent(last.values), full]
        })
        .collect();
    let shown =
        curves.iter().filter(|(name, _)| !matches!(name.as_str(), "Diff, shuffled" | "Mask 2, shuffled" | "Mask 2"));
    let curve = |(name, shares): &(String, Vec<RecoveredFraction>)| {
        let points = shares.iter().zip(1..).map(|(share, n)| (f64::from(n), 100.0 * share.rows)).collect();
        Curve { name: name.clone(), points, errors: Vec::new() }
    };
    ReportItem {
        name: "trilateration",
        title: format!("Trilateration, R={r}, d={d}, M={m}"),
        text: "One user asks a few times with queries of their choice, each of them a valid profile. As long as row i \
             stays row i, the distances to a handful of points give the whole database. Every session ran through the \
             real protocol. With a fresh order in every session the same arithmetic yields nothing, except against \
             Single-Phase, whose two partial distances let the rows be recognised; see the linking attack for what \
             shuffling does and does not prevent."
            .into(),
        columns: cells(["scheme", "sessions", "rows recovered", "values recovered", "all rows after"]),
        rows,
        plot: Some(Plot {
            title: format!("Trilateration by one user (R={r}, d={d}, M={m})"),
            x: "sessions used".into(),
            y: "rows recovered (%)".into(),
            x_scale: AxisScale::Linear,
            y_range: Some((0.0, 105.0)),
            curves: shown.map(curve).collect(),
        }),
    }
}
