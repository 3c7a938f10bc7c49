//! Database leakage: how many bits about the rows a user learns from one search,
//! `I(y_1..y_M; decoded | x, I)`.
//!
//! Rows that decode to the same value form a class, and only the sizes of the classes matter. For
//! all schemes except Diff and Mask, the entropy of a tuple of classes has a closed form
//! (`closed`). Diff needs a sum over shifts (`differences`), Mask a sum over windows (`masks`).
//! Both sums are over multisets of classes instead of tuples of rows. If even that takes too long,
//! `monte_carlo` estimates the same quantity with its standard error.
//!
//! [`exact`] and [`estimate`] do not count the record that the user fetches. [`with_record`] does.
//! [`maximal`] needs no prior and adds over searches. The population is the synthetic grid (`grid`)
//! or a list of rows.

mod classes;
mod closed;
mod differences;
mod grid;
mod masks;
mod maximal;
mod model;
mod monte_carlo;
mod multisets;
mod nearest;

use rayon::prelude::*;

pub use maximal::{MaximalLeakage, maximal};
pub use model::{Decoded, FeatureCost, LeakageModel, LeakageScheme, RowOrder, SamplingRule};
pub use monte_carlo::{Estimate, Sampling, estimate};

use crate::LabError;
use classes::{Classes, Rule};
use nearest::Ranking;

/// The populations of rows and queries.
#[derive(Debug, Clone, Copy)]
pub enum Population<'a> {
    /// Rows from `[0:R]^d` without x; x is uniform on `[0:R]^d`.
    Grid,
    /// Rows from one list; x is uniform on another list.
    Rows {
        /// The rows from which databases are drawn.
        rows: &'a [Vec<u32>],
        /// The queries.
        queries: &'a [Vec<u32>],
    },
}

/// The exact leakage in bits.
pub fn exact(model: &LeakageModel, population: Population) -> Result<f64, LabError> {
    check(model, population)?;
    let cases = cases(model, population)?;
    check_effort(model, &cases)?;
    // The sum is sequential, because a parallel sum rounds differently in every run.
    let parts: Vec<f64> =
        cases.par_iter().map(|(probability, classes)| probability * exact_for(model, classes)).collect();
    Ok(parts.iter().sum())
}

/// The exact leakage with the record that the user fetches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LeakageWithRecord {
    /// In bits.
    pub bits: f64,
    /// Whether this is an upper bound, not exact: masks in random order.
    pub is_bound: bool,
}

/// The exact leakage of the decoded values and the fetched record.
pub fn with_record(model: &LeakageModel, population: Population) -> Result<LeakageWithRecord, LabError> {
    // From differences and the cost of one record, all costs follow.
    let model = &match model.scheme.decoded {
        Decoded::Differences => {
            let decoded = Decoded::Values;
            LeakageModel { scheme: LeakageScheme { decoded, ..model.scheme }, ..model.clone() }
        }
        _ => model.clone(),
    };
    let without = exact(model, population)?;
    let is_masked = model.scheme.decoded == Decoded::Masked && model.d_min > 1;
    let cases = cases(model, population)?;
    let (m, drawing) = (model.m, model.drawing);
    // In sealed search the first of the tied rows wins, in the order of the bundle.
    let order = if model.scheme.decoded == Decoded::Nearest { RowOrder::Fixed } else { model.order };
    let record = |classes: &Classes| match (is_masked, drawing) {
        (false, _) => Ranking::new(model, classes).record_bits(m, drawing, order),
        (true, SamplingRule::WithReplacement) => {
            Ranking::masked(classes, model.d_min).record_bits(m, drawing, RowOrder::Fixed)
        }
        (true, SamplingRule::WithoutReplacement) => masks::record_bits(classes, m, model.d_min),
    };
    let parts: Vec<f64> = cases.par_iter().map(|(probability, classes)| probability * record(classes)).collect();
    let is_bound = is_masked && order == RowOrder::Shuffled;
    Ok(LeakageWithRecord { bits: without + parts.iter().sum::<f64>(), is_bound })
}

/// The exact leakage in bits for given class sizes.
fn exact_for(model: &LeakageModel, classes: &Classes) -> f64 {
    let (m, drawing) = (model.m, model.drawing);
    let tuple = match model.scheme.decoded {
        Decoded::Masked if model.d_min > 1 => {
            return masks::leakage(classes, m, model.d_min, drawing, model.order);
        }
        Decoded::Differences => {
            let mut sum = 0.0;
            multisets::visit_multisets(classes, m, drawing, &mut |counts, probability| {
                sum -= probability * differences::log2_probability(classes, counts, m, drawing);
            });
            sum
        }
        Decoded::Nearest => return Ranking::new(model, classes).cost_entropy(m, drawing),
        _ => closed::tuple_entropy(classes, m, drawing),
    };
    match model.order {
        RowOrder::Fixed => tuple,
        RowOrder::Shuffled => tuple - closed::order_entropy(classes, m, drawing),
    }
}

/// The class sizes of all queries that can differ, with their probabilities.
fn cases(model: &LeakageModel, population: Population) -> Result<Vec<(f64, Classes)>, LabError> {
    let rules = model.rules(matches!(population, Population::Grid))?;
    let share = 1.0 / rules.len() as f64;
    let mut cases = Vec::new();
    for rule in &rules {
        match population {
            Population::Grid => cases.extend(grid::classes_of_all_queries(rule, model.r)?),
            Population::Rows { rows, queries } => {
                cases.extend(queries.iter().map(|x| (1.0 / queries.len() as f64, classes_of_rows(rule, x, rows))))
            }
        }
    }
    Ok(cases.into_iter().map(|(probability, classes)| (probability * share, classes)).collect())
}

fn classes_of_rows(rule: &Rule, x: &[u32], rows: &[Vec<u32>]) -> Classes {
    Classes::new(rows.iter().map(|y| (rule.class_of(x, y), 1.0)))
}

fn check(model: &LeakageModel, population: Population) -> Result<(), LabError> {
    match population {
        Population::Grid => model.check(grid::population(model.r, model.d)),
        Population::Rows { rows, queries } => {
            if queries.is_empty() {
                return Err(LabError::parameter("queries", "the list of queries is empty"));
            }
            for (name, list) in [("row", rows), ("query", queries)] {
                for (i, values) in list.iter().enumerate() {
                    if values.len() != model.d as usize || values.iter().any(|&v| v > model.r) {
                        return Err(LabError::parameter(
                            "rows",
                            format!("{name} {} must have {} levels from 0 to {}", i + 1, model.d, model.r),
                        ));
                    }
                }
            }
            model.check(rows.len() as f64)
        }
    }
}

fn check_effort(model: &LeakageModel, cases: &[(f64, Classes)]) -> Result<(), LabError> {
    let masked = model.scheme.decoded == Decoded::Masked && model.d_min > 1;
    let kinds =
        |classes: &Classes| if masked { masks::kinds(classes, model.d_min) } else { classes.sizes.len() as f64 };
    if has_closed_form(model) {
        return Ok(());
    }
    let largest = cases.iter().map(|(_, classes)| kinds(classes)).fold(0.0, f64::max);
    multisets::check_count(largest, model.m, cases.len() as f64)
}

/// Whether the leakage for one query needs no enumeration.
fn has_closed_form(model: &LeakageModel) -> bool {
    match model.scheme.decoded {
        Decoded::Differences => false,
        Decoded::Masked if model.d_min > 1 => {
            model.drawing == SamplingRule::WithReplacement && model.order == RowOrder::Fixed
        }
        _ => true,
    }
}
