//! The nearest matching row: its class, its record, and what the record adds to the decoded values.
//!
//! Classes are ranked from the nearest to the farthest. The nearest row is in class c if all M rows
//! are in c or behind it, but not all are behind it. Given the decoded values, the nearest row is
//! uniform over the members of its class, so the record adds `E log₂ n_c` bits. With a shuffle the
//! choice among tied rows is random, and the record says less about the database: the entropy of
//! that choice is subtracted.
//!
//! All probabilities are logarithms, so that subnormal ones do not overflow.

use super::classes::{Classes, EXCLUDED};
use super::closed::{log2_falling, row_counts};
use crate::leakage::model::{Decoded, FeatureCost, LeakageModel, RowOrder, SamplingRule};

/// The classes of the rows that match, from the nearest to the farthest, and the others.
#[derive(Debug, Clone)]
pub(crate) struct Ranking {
    /// The number of members of each matching class.
    pub(crate) matching: Vec<f64>,
    /// The number of members of each class that does not match.
    pub(crate) others: Vec<f64>,
    pub(crate) total: f64,
}

impl Ranking {
    pub(crate) fn new(model: &LeakageModel, classes: &Classes) -> Ranking {
        let limit = match model.scheme.decoded {
            // Single-Phase: a row matches if its immutable part is 0.
            Decoded::Partials => model.partial_scale(),
            _ => i64::MAX,
        };
        let (matching, others): (Vec<_>, Vec<_>) =
            classes.sizes.iter().partition(|&&(class, _)| class != EXCLUDED && class < limit);
        let sizes = |list: Vec<(i64, f64)>| list.into_iter().map(|(_, size)| size).collect::<Vec<f64>>();
        let mut matching = sizes(matching);
        if model.metric() == FeatureCost::Dot && model.scheme.metric == FeatureCost::Dot {
            // The largest product wins.
            matching.reverse();
        }
        Ranking { matching, others: sizes(others), total: classes.total }
    }

    /// The ranking of masked costs: each class contributes its members to the d_min values from its
    /// cost on. The rows must be drawn with replacement.
    pub(crate) fn masked(classes: &Classes, d_min: u32) -> Ranking {
        let spread = |&(class, size): &(i64, f64)| (0..i64::from(d_min)).map(move |mask| (class + mask, size));
        let masked = Classes::new(classes.sizes.iter().flat_map(spread));
        Ranking { matching: masked.sizes.iter().map(|&(_, size)| size).collect(), others: vec![], total: masked.total }
    }

    /// The entropy of the cost of the nearest row, or of the fact that no row matches.
    pub(crate) fn cost_entropy(&self, m: u32, drawing: SamplingRule) -> f64 {
        let nearest = self.nearest(m, drawing);
        // If no row matches, all M rows are among the others.
        let none = log2_all_among(self.others.iter().sum(), self.total, m, drawing);
        let bits = |log: f64| if log.is_finite() { -log.exp2() * log } else { 0.0 };
        nearest.map(|(log, _, _)| bits(log)).sum::<f64>() + bits(none)
    }

    /// What the record adds to the decoded values.
    pub(crate) fn record_bits(&self, m: u32, drawing: SamplingRule, order: RowOrder) -> f64 {
        let of_class = |(log, size, left): (f64, f64, f64)| match order {
            RowOrder::Fixed => log.exp2() * size.log2(),
            RowOrder::Shuffled => log.exp2() * size.log2() - self.tie_bits(size, left, m, drawing),
        };
        self.nearest(m, drawing).map(of_class).sum()
    }

    /// For each matching class that can contain the nearest row: `log₂` of the probability, the
    /// number of members, and the number of members from this class on.
    fn nearest(&self, m: u32, drawing: SamplingRule) -> impl Iterator<Item = (f64, f64, f64)> {
        let mut left = self.total;
        self.matching.iter().filter_map(move |&size| {
            let (here, behind) =
                (log2_all_among(left, self.total, m, drawing), log2_all_among(left - size, self.total, m, drawing));
            left -= size;
            // 2^here − 2^behind.
            let log = here + (-(behind - here).exp2()).ln_1p() / std::f64::consts::LN_2;
            log.is_finite().then_some((log, size, left + size))
        })
    }

    /// The expected entropy of the choice among tied nearest rows, if they are in a class with
    /// `size` of the `left` members from it on.
    fn tie_bits(&self, size: f64, left: f64, m: u32, drawing: SamplingRule) -> f64 {
        let (lowest, counts) = row_counts(size, left, m, drawing);
        let choice = |rows: u32| match drawing {
            SamplingRule::WithoutReplacement => f64::from(rows).log2(),
            SamplingRule::WithReplacement => f64::from(rows).log2() - repeated_bits(size, rows),
        };
        let ties = counts.iter().zip(lowest..).filter(|&(_, rows)| rows > 1);
        let mean: f64 = ties.map(|(probability, rows)| probability * choice(rows)).sum();
        log2_all_among(left, self.total, m, drawing).exp2() * mean
    }
}

/// `n/j · E K log₂ K` for K ~ Bin(j, 1/n): by this much the entropy of a choice among j draws with
/// replacement from n members is less than `log₂ j`.
fn repeated_bits(members: f64, draws: u32) -> f64 {
    let j = f64::from(draws);
    if members <= 1.0 {
        return j.log2();
    }
    let (mut log, mut sum) = (j * (1.0 - 1.0 / members).log2(), 0.0);
    for k in 1..=draws {
        let count = f64::from(k);
        log += ((j - count + 1.0) / count / (members - 1.0)).log2();
        let term = log.exp2() * count * count.log2();
        sum += term;
        if k > 2 && term < 1e-18 {
            break;
        }
    }
    members / j * sum
}

/// `log₂` of the probability that all M rows are among the given number of members.
fn log2_all_among(members: f64, total: f64, m: u32, drawing: SamplingRule) -> f64 {
    match drawing {
        _ if members <= 0.0 => f64::NEG_INFINITY,
        SamplingRule::WithReplacement => f64::from(m) * (members / total).log2(),
        SamplingRule::WithoutReplacement if members < f64::from(m) => f64::NEG_INFINITY,
        SamplingRule::WithoutReplacement => log2_falling(members, m) - log2_falling(total, m),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leakage::model::LeakageScheme;
    use std::collections::BTreeMap;

    /// Seven members in four classes; one class is excluded by the constraints.
    const MEMBERS: [i64; 7] = [4, 0, EXCLUDED, 4, 9, EXCLUDED, 4];

    fn databases(m: u32, drawing: SamplingRule) -> Vec<Vec<usize>> {
        let all = (0..7usize.pow(m)).map(|i| (0..m).map(|digit| i / 7usize.pow(digit) % 7).collect::<Vec<usize>>());
        let distinct = |rows: &Vec<usize>| rows.iter().enumerate().all(|(i, row)| !rows[..i].contains(row));
        all.filter(|rows| drawing == SamplingRule::WithReplacement || distinct(rows)).collect()
    }

    /// The mutual information of the database and the view, given the views of each database with
    /// their probabilities.
    fn information(databases: &[Vec<usize>], view: impl Fn(&[usize]) -> Vec<(String, f64)>) -> f64 {
        let share = 1.0 / databases.len() as f64;
        let mut all: BTreeMap<String, f64> = BTreeMap::new();
        let mut given = 0.0;
        for rows in databases {
            let mut own: BTreeMap<String, f64> = BTreeMap::new();
            view(rows).into_iter().for_each(|(key, probability)| *own.entry(key).or_default() += probability);
            given -= own.values().map(|p| share * p * p.log2()).sum::<f64>();
            own.into_iter().for_each(|(key, p)| *all.entry(key).or_default() += share * p);
        }
        -all.values().map(|p| p * p.log2()).sum::<f64>() - given
    }

    #[test]
    fn records_add_what_they_add_over_all_databases() {
        let classes = Classes::new(MEMBERS.iter().map(|&class| (class, 1.0)));
        let scheme = LeakageScheme::named("gated").unwrap();
        for drawing in [SamplingRule::WithReplacement, SamplingRule::WithoutReplacement] {
            for m in 1..=3u32 {
                let model = LeakageModel { drawing, immutable: 1, ..LeakageModel::new(scheme, 1, 3, m) };
                let ranking = Ranking::new(&model, &classes);
                let databases = databases(m, drawing);
                let matching = |rows: &[usize]| -> Vec<usize> {
                    let lowest = rows.iter().map(|&row| MEMBERS[row]).filter(|&class| class != EXCLUDED).min();
                    rows.iter().copied().filter(|&row| Some(MEMBERS[row]) == lowest).collect()
                };
                let near = |found: f64, expected: f64, what: &str| {
                    assert!((found - expected).abs() < 1e-12, "{what}, {drawing:?}, M = {m}: {found}, not {expected}");
                };
                // Sealed: the first of the tied rows, or only its cost.
                let record = information(&databases, |rows| vec![(format!("{:?}", matching(rows).first()), 1.0)]);
                let cost = |rows: &[usize]| matching(rows).first().map(|&row| MEMBERS[row]);
                let cost = information(&databases, |rows| vec![(format!("{:?}", cost(rows)), 1.0)]);
                near(ranking.cost_entropy(m, drawing), cost, "the cost");
                near(
                    ranking.cost_entropy(m, drawing) + ranking.record_bits(m, drawing, RowOrder::Fixed),
                    record,
                    "the record",
                );
                // Gated, in order and shuffled.
                let view = |rows: &[usize], shuffled: bool| -> Vec<i64> {
                    let mut view: Vec<i64> = rows.iter().map(|&row| MEMBERS[row]).collect();
                    if shuffled {
                        view.sort_unstable();
                    }
                    view
                };
                for (order, shuffled) in [(RowOrder::Fixed, false), (RowOrder::Shuffled, true)] {
                    let without = information(&databases, |rows| vec![(format!("{:?}", view(rows, shuffled)), 1.0)]);
                    let with = information(&databases, |rows| {
                        let tied = matching(rows);
                        let tied = if shuffled { &tied[..] } else { &tied[..tied.len().min(1)] };
                        let view = view(rows, shuffled);
                        if tied.is_empty() {
                            return vec![(format!("{view:?}"), 1.0)];
                        }
                        let of = |row: &usize| (format!("{view:?} {row}"), 1.0 / tied.len() as f64);
                        tied.iter().map(of).collect()
                    });
                    near(ranking.record_bits(m, drawing, order), with - without, "gated");
                }
            }
        }
    }

    #[test]
    fn tiny_probabilities_do_not_overflow() {
        let classes = Classes::new((0..600).map(|class| (class, 3000.0)));
        let scheme = LeakageScheme::named("sealed").unwrap();
        for m in [1, 70, 100, 1000, 100_000] {
            let ranking = Ranking::new(&LeakageModel::new(scheme, 10, 6, m), &classes);
            let bits = ranking.cost_entropy(m, SamplingRule::WithReplacement)
                + ranking.record_bits(m, SamplingRule::WithReplacement, RowOrder::Fixed);
            assert!(bits.is_finite() && bits >= 0.0 && bits <= classes.total.log2() + 1e-9, "M = {m}: {bits}");
        }
    }
}
