//! Maximal leakage: `max_x log₂ Σ_v max_y P(v | y)` over the views v of the user.
//!
//! It bounds, for every prior of the database and every question about it, by which factor one
//! search raises the chance of a right guess. It needs no prior, and it adds over searches. For a
//! deterministic view it is the logarithm of the number of possible views. With masks, every view
//! has at most the probability `d_min^−M`.
//!
//! The views are counted for rows drawn with replacement. Databases of distinct rows have no more
//! views, so the result is then an upper bound. Diff is bounded by Baseline and by its differences;
//! a shuffle of masked costs is bounded by their fixed order.

use super::classes::Classes;
use super::nearest::Ranking;
use super::{Population, cases, check};
use crate::LabError;
use crate::leakage::model::{Decoded, LeakageModel, RowOrder, SamplingRule};

/// The maximal leakage of one search in bits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MaximalLeakage {
    /// Without the record.
    pub bits: f64,
    /// With the record.
    pub with_record: f64,
    /// Whether the values are upper bounds, not exact.
    pub is_bound: bool,
}

/// The maximal leakage of one search.
pub fn maximal(model: &LeakageModel, population: Population) -> Result<MaximalLeakage, LabError> {
    check(model, population)?;
    let is_masked = model.scheme.decoded == Decoded::Masked && model.d_min > 1;
    let mut largest = (0.0f64, 0.0f64);
    let mut repeats = false;
    for (_, classes) in cases(model, population)? {
        let (bits, with_record) = of_query(model, &classes, is_masked);
        largest = (largest.0.max(bits), largest.1.max(with_record));
        repeats |= classes.sizes.iter().any(|&(_, size)| size < f64::from(model.m));
    }
    let is_bound = match model.scheme.decoded {
        Decoded::Nearest => false,
        Decoded::Differences => true,
        _ => {
            (model.drawing == SamplingRule::WithoutReplacement && repeats)
                || (model.order == RowOrder::Shuffled
                    && (is_masked || model.drawing == SamplingRule::WithoutReplacement))
        }
    };
    Ok(MaximalLeakage { bits: largest.0, with_record: largest.1, is_bound })
}

/// The maximal leakage of one query: without and with the record.
fn of_query(model: &LeakageModel, classes: &Classes, is_masked: bool) -> (f64, f64) {
    let m = model.m;
    let ranking = if is_masked { Ranking::masked(classes, model.d_min) } else { Ranking::new(model, classes) };
    let (matching, others) = (ranking.matching.len() as f64, ranking.others.len() as f64);
    if model.scheme.decoded == Decoded::Nearest {
        let members: f64 = ranking.matching.iter().sum();
        return ((matching + others).log2(), (members + others).log2());
    }
    let order = if is_masked { RowOrder::Fixed } else { model.order };
    let masks = if is_masked { f64::from(m) * f64::from(model.d_min).log2() } else { 0.0 };
    let mut bits = log2_views(matching + others, m, order) - masks;
    let mut terms: Vec<f64> = Vec::with_capacity(ranking.matching.len() + 1);
    for (rank, size) in ranking.matching.iter().enumerate() {
        let kinds = matching + others - rank as f64;
        terms.push(size.log2() + log2_views_with(kinds, m, order));
    }
    if others > 0.0 {
        terms.push(log2_views(others, m, order));
    }
    let with_record = log2_sum(&terms) - masks;
    if model.scheme.decoded == Decoded::Differences {
        let mut differences: Vec<i64> =
            classes.sizes.iter().flat_map(|&(a, _)| classes.sizes.iter().map(move |&(b, _)| a - b)).collect();
        differences.sort_unstable();
        differences.dedup();
        bits = bits.min(f64::from(m - 1) * (differences.len() as f64).log2());
    }
    (bits, with_record)
}

/// `log₂` of the number of views of M rows in so many classes.
fn log2_views(kinds: f64, m: u32, order: RowOrder) -> f64 {
    match order {
        RowOrder::Fixed => f64::from(m) * kinds.log2(),
        RowOrder::Shuffled => (0..m).map(|j| ((kinds + f64::from(j)) / f64::from(j + 1)).log2()).sum(),
    }
}

/// `log₂` of the number of these views in which the first class occurs.
fn log2_views_with(kinds: f64, m: u32, order: RowOrder) -> f64 {
    match order {
        // k^M − (k − 1)^M.
        RowOrder::Fixed if kinds <= 1.0 => 0.0,
        RowOrder::Fixed => {
            let ratio = f64::from(m) * ((kinds - 1.0) / kinds).ln();
            log2_views(kinds, m, order) + (-ratio.exp()).ln_1p() / std::f64::consts::LN_2
        }
        RowOrder::Shuffled => log2_views(kinds, m - 1, order),
    }
}

fn log2_sum(logs: &[f64]) -> f64 {
    let peak = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    peak + logs.iter().map(|log| (log - peak).exp2()).sum::<f64>().log2()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leakage::model::LeakageScheme;
    use std::collections::BTreeSet;

    fn model(name: &str, r: u32, d: u32, m: u32) -> LeakageModel {
        let scheme = LeakageScheme::named(name).unwrap();
        LeakageModel { drawing: SamplingRule::WithReplacement, ..LeakageModel::new(scheme, r, d, m) }
    }

    #[test]
    fn maximal_leakage_of_the_documentation() {
        for (name, immutable, expected, with_record) in
            [("baseline", 0, 900.0, false), ("gated", 2, 826.68, false), ("sealed", 0, 20.757, true)]
        {
            let found = maximal(&LeakageModel { immutable, ..model(name, 10, 6, 100) }, Population::Grid).unwrap();
            let bits = if with_record { found.with_record } else { found.bits };
            assert!((bits - expected).abs() < 0.005 && !found.is_bound, "{name}: {found:?}");
        }
    }

    /// All databases of two rows on a small grid, with replacement.
    #[test]
    fn maximal_leakage_equals_the_number_of_views() {
        let points: Vec<[i64; 2]> = (0..3).flat_map(|a| (0..3).map(move |b| [a, b])).collect();
        let mut largest = (0, 0);
        for x in &points {
            let distance = |y: &[i64; 2]| (x[0] - y[0]).pow(2) + (x[1] - y[1]).pow(2);
            let rows: Vec<&[i64; 2]> = points.iter().filter(|y| *y != x).collect();
            let pairs = rows.iter().flat_map(|a| rows.iter().map(move |b| (*a, *b)));
            let (mut views, mut records) = (BTreeSet::new(), BTreeSet::new());
            for (a, b) in pairs {
                let view = (distance(a), distance(b));
                views.insert(view);
                records.insert((view, if view.0 <= view.1 { a } else { b }));
            }
            largest = (largest.0.max(views.len()), largest.1.max(records.len()));
        }
        let found = maximal(&model("baseline", 2, 2, 2), Population::Grid).unwrap();
        assert!((found.bits - (largest.0 as f64).log2()).abs() < 1e-9, "{found:?} {largest:?}");
        assert!((found.with_record - (largest.1 as f64).log2()).abs() < 1e-9, "{found:?} {largest:?}");
        // Gated views of one row: every distance, or no match.
        let gated = maximal(&LeakageModel { immutable: 1, ..model("gated", 2, 2, 1) }, Population::Grid).unwrap();
        assert!((gated.bits - 3f64.log2()).abs() < 1e-9, "{gated:?}");
    }

    #[test]
    fn masks_and_shuffles_do_not_raise_it() {
        let fixed = maximal(&model("baseline", 4, 2, 5), Population::Grid).unwrap();
        for d_min in [2, 3, 10] {
            let masked = maximal(&LeakageModel { d_min, ..model("mask", 4, 2, 5) }, Population::Grid).unwrap();
            assert!(masked.bits < fixed.bits && masked.with_record < fixed.with_record);
        }
        let shuffled = LeakageModel { order: RowOrder::Shuffled, ..model("baseline", 4, 2, 5) };
        assert!(maximal(&shuffled, Population::Grid).unwrap().bits < fixed.bits);
    }
}
