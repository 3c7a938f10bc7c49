//! Database leakage: how many bits about the rows a user learns from one search, `I(y_1..y_M;
//! decoded | x, I)`.
//!
//! Rows that decode to the same value form a class, and only class sizes matter. For all schemes
//! but Diff and Mask the entropy of a tuple of classes has a closed form (`closed`); Diff needs a
//! sum over shifts (`differences`) and Mask one over windows (`masks`), both over multisets of
//! classes instead of tuples of rows. Where even that is too much, `monte_carlo` estimates the same
//! quantity with its standard error.
//!
//! The population is the synthetic grid (`grid`) or given rows. What is computed is the leakage of
//! the search alone; the record that the user then fetches is theirs to see. A sealed search has
//! nothing but its record, so there it is the record.

mod classes;
mod closed;
mod differences;
mod grid;
mod masks;
mod model;
mod monte_carlo;
mod multisets;

use rayon::prelude::*;

pub use model::{Decoded, FeatureCost, LeakageModel, LeakageScheme, RowOrder, SamplingRule};
pub use monte_carlo::{Estimate, Sampling, estimate};

use crate::LabError;
use classes::{Classes, Rule};

/// What rows can be, and what queries are asked.
#[derive(Debug, Clone, Copy)]
pub enum Population<'a> {
    /// Rows from `[0:R]^d` without x; x uniform on the grid.
    Grid,
    /// Rows from a list; x uniform on another.
    Rows {
        /// The candidates for the database.
        rows: &'a [Vec<u32>],
        /// The queries.
        queries: &'a [Vec<u32>],
    },
}

/// The exact leakage in bits.
pub fn exact(setting: &LeakageModel, population: Population) -> Result<f64, LabError> {
    check(setting, population)?;
    let cases = cases(setting, population)?;
    check_effort(setting, &cases)?;
    // Summed in their order: a parallel sum rounds differently from run to run.
    let parts: Vec<f64> =
        cases.par_iter().map(|(probability, classes)| probability * exact_for(setting, classes)).collect();
    Ok(parts.iter().sum())
}

/// The exact leakage for given class sizes.
fn exact_for(setting: &LeakageModel, classes: &Classes) -> f64 {
    let (m, drawing) = (setting.m, setting.drawing);
    let tuple = match setting.scheme.decoded {
        Decoded::Masked if setting.d_min > 1 => {
            return masks::leakage(classes, m, setting.d_min, drawing, setting.order);
        }
        Decoded::Differences => {
            let mut sum = 0.0;
            multisets::visit_multisets(classes, m, drawing, &mut |counts, probability| {
                sum -= probability * differences::log2_probability(classes, counts, m, drawing);
            });
            sum
        }
        // The order of the rows decides nothing but ties.
        Decoded::Nearest => return closed::nearest_entropy(classes, m, drawing),
        _ => closed::tuple_entropy(classes, m, drawing),
    };
    match setting.order {
        RowOrder::Fixed => tuple,
        RowOrder::Shuffled => tuple - closed::order_entropy(classes, m, drawing),
    }
}

/// The class sizes of every query that matters, with its probability.
fn cases(setting: &LeakageModel, population: Population) -> Result<Vec<(f64, Classes)>, LabError> {
    let rules = setting.rules(matches!(population, Population::Grid))?;
    let share = 1.0 / rules.len() as f64;
    let mut cases = Vec::new();
    for rule in &rules {
        match population {
            Population::Grid => cases.extend(grid::classes_of_all_queries(rule, setting.r)?),
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

fn check(setting: &LeakageModel, population: Population) -> Result<(), LabError> {
    match population {
        Population::Grid => setting.check(grid::population(setting.r, setting.d)),
        Population::Rows { rows, queries } => {
            if queries.is_empty() {
                return Err(LabError::flag("--queries", "there is no query"));
            }
            for (name, list) in [("row", rows), ("query", queries)] {
                for (i, values) in list.iter().enumerate() {
                    if values.len() != setting.d as usize || values.iter().any(|&v| v > setting.r) {
                        return Err(LabError::flag(
                            "--rows",
                            format!("{name} {} is not {} values in 0..={}", i + 1, setting.d, setting.r),
                        ));
                    }
                }
            }
            setting.check(rows.len() as f64)
        }
    }
}

fn check_effort(setting: &LeakageModel, cases: &[(f64, Classes)]) -> Result<(), LabError> {
    let masked = setting.scheme.decoded == Decoded::Masked && setting.d_min > 1;
    let kinds =
        |classes: &Classes| if masked { masks::kinds(classes, setting.d_min) } else { classes.sizes.len() as f64 };
    if has_closed_form(setting) {
        return Ok(());
    }
    let most = cases.iter().map(|(_, classes)| kinds(classes)).fold(0.0, f64::max);
    multisets::check_count(most, setting.m, cases.len() as f64)
}

/// Whether nothing has to be enumerated for one query.
fn has_closed_form(setting: &LeakageModel) -> bool {
    match setting.scheme.decoded {
        Decoded::Differences => false,
        Decoded::Masked if setting.d_min > 1 => {
            setting.drawing == SamplingRule::WithReplacement && setting.order == RowOrder::Fixed
        }
        _ => true,
    }
}
