//! The synthetic population: all points of `[0:R]^d` except x, with x uniform on the grid.
//!
//! Class sizes are convolutions of one histogram per feature; points are never enumerated. Queries
//! with the same class sizes are computed once: features with equal weights and constraints are
//! interchangeable, and so are values of x with the same histogram (such as 3 and R − 3 for a
//! distance). What remains to enumerate is one multiset of histograms per group of features.

use std::collections::BTreeMap;

use super::classes::{Classes, ObservedFeature, Rule};
use crate::LabError;

/// The largest number of distinct queries.
const QUERY_LIMIT: f64 = 2e5;
/// The largest number of class sizes over all queries, 16 bytes each.
const ENTRY_LIMIT: usize = 5_000_000;

type Parts = BTreeMap<(u64, u64), f64>;

/// The contributions of one feature for one value of x.
#[derive(Debug, Clone, PartialEq)]
struct FeatureHistogram {
    /// Over all y.
    histogram: Parts,
    /// At y = x.
    own: (u64, u64),
    /// The number of values of x with these contributions.
    values: f64,
}

/// Interchangeable features.
struct Group {
    features: usize,
    histograms: Vec<FeatureHistogram>,
}

/// The class sizes of all distinct queries, with their probabilities.
pub(crate) fn classes_of_all_queries(rule: &Rule, r: u32) -> Result<Vec<(f64, Classes)>, LabError> {
    let what = "the mean over the queries of the grid";
    let groups = groups(rule, r);
    let count: f64 = groups.iter().map(|group| multisets(group.histograms.len(), group.features)).product();
    if count > QUERY_LIMIT {
        return Err(LabError::TooLarge { what, steps: count, limit: QUERY_LIMIT });
    }
    let mut found: Vec<(f64, Classes)> = Vec::new();
    let mut entries = 0;
    visit(rule, r, &Partial::start(), &groups, &mut |partial| {
        let (probability, classes) = (partial.probability, partial.classes(rule));
        entries += classes.sizes.len();
        found.push((probability, classes));
        if entries > ENTRY_LIMIT {
            let steps = count * entries as f64 / found.len() as f64;
            return Err(LabError::TooLarge { what, steps, limit: ENTRY_LIMIT as f64 });
        }
        Ok(())
    })?;
    Ok(found)
}

/// The class sizes of one query.
pub(crate) fn classes_of(rule: &Rule, r: u32, x: &[u32]) -> Classes {
    let partial = x
        .iter()
        .enumerate()
        .fold(Partial::start(), |partial, (k, &value)| partial.with(rule, &histogram(rule, r, k, value), 1.0));
    partial.classes(rule)
}

/// The number of grid points without x.
pub(crate) fn population(r: u32, d: u32) -> f64 {
    (f64::from(r) + 1.0).powi(d as i32) - 1.0
}

fn groups(rule: &Rule, r: u32) -> Vec<Group> {
    let mut groups: Vec<(ObservedFeature, Group)> = Vec::new();
    for (k, feature) in rule.features.iter().enumerate() {
        if let Some((_, group)) = groups.iter_mut().find(|(other, _)| other == feature) {
            group.features += 1;
            continue;
        }
        let mut histograms: Vec<FeatureHistogram> = Vec::new();
        for x in 0..=r {
            let new = histogram(rule, r, k, x);
            match histograms.iter_mut().find(|old| old.histogram == new.histogram && old.own == new.own) {
                Some(old) => old.values += 1.0,
                None => histograms.push(new),
            }
        }
        groups.push((*feature, Group { features: 1, histograms }));
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

fn histogram(rule: &Rule, r: u32, k: usize, x: u32) -> FeatureHistogram {
    let mut histogram = Parts::new();
    for y in 0..=r {
        *histogram.entry(rule.add(rule.parts(k, x, y), (0, 0))).or_default() += 1.0;
    }
    FeatureHistogram { histogram, own: rule.parts(k, x, x), values: 1.0 }
}

/// Class sizes over the features processed so far.
#[derive(Clone)]
struct Partial {
    sizes: Parts,
    own: (u64, u64),
    probability: f64,
}

impl Partial {
    fn start() -> Partial {
        Partial { sizes: Parts::from([((0, 0), 1.0)]), own: (0, 0), probability: 1.0 }
    }

    fn with(&self, rule: &Rule, feature_histogram: &FeatureHistogram, probability: f64) -> Partial {
        let sizes = convolve_dense(&self.sizes, &feature_histogram.histogram).unwrap_or_else(|| {
            let mut sizes = Parts::new();
            for (&left, &l) in &self.sizes {
                for (&right, &r) in &feature_histogram.histogram {
                    *sizes.entry(rule.add(left, right)).or_default() += l * r;
                }
            }
            sizes
        });
        Partial { sizes, own: rule.add(self.own, feature_histogram.own), probability: self.probability * probability }
    }

    fn classes(self, rule: &Rule) -> Classes {
        let own = (rule.class(self.own), -1.0);
        Classes::new(self.sizes.into_iter().map(|(parts, size)| (rule.class(parts), size)).chain([own]))
    }
}

/// The convolution in an array, which is many times faster. `None` if a feature is constrained or
/// the costs are too large.
fn convolve_dense(left: &Parts, right: &Parts) -> Option<Parts> {
    const LENGTH_LIMIT: u64 = 1 << 22;
    let is_unconstrained = |parts: &Parts| parts.keys().all(|&(a, _)| a == 0);
    let largest = |parts: &Parts| parts.keys().map(|&(_, b)| b).max();
    let length =
        largest(left)?.checked_add(largest(right)?)?.checked_add(1).filter(|&length| length <= LENGTH_LIMIT)?;
    if !is_unconstrained(left) || !is_unconstrained(right) {
        return None;
    }
    let mut sizes = vec![0.0; length as usize];
    for (&(_, b), &l) in left {
        for (&(_, c), &r) in right {
            sizes[(b + c) as usize] += l * r;
        }
    }
    Some((0..).zip(sizes).filter(|&(_, size)| size > 0.0).map(|(b, size)| ((0, b), size)).collect())
}

/// Calls `found` with every assignment of histograms to the features of the groups.
fn visit(
    rule: &Rule,
    r: u32,
    partial: &Partial,
    groups: &[Group],
    found: &mut dyn FnMut(Partial) -> Result<(), LabError>,
) -> Result<(), LabError> {
    match groups.split_first() {
        None => found(partial.clone()),
        Some((group, rest)) => {
            fill(rule, r, partial, group, 0, group.features, &mut |partial| visit(rule, r, &partial, rest, found))
        }
    }
}

/// Calls `found` with every assignment of the histograms `from` and above to `left` features of a
/// group, with its probability.
fn fill(
    rule: &Rule,
    r: u32,
    partial: &Partial,
    group: &Group,
    from: usize,
    left: usize,
    found: &mut dyn FnMut(Partial) -> Result<(), LabError>,
) -> Result<(), LabError> {
    if left == 0 {
        return found(partial.clone());
    }
    let Some(feature_histogram) = group.histograms.get(from) else { return Ok(()) };
    let share = feature_histogram.values / (f64::from(r) + 1.0);
    let mut current = partial.clone();
    for used in 0..=left {
        if used > 0 {
            // The product of these factors is the binomial coefficient (left choose used).
            let choices = (left - used + 1) as f64 / used as f64;
            current = current.with(rule, feature_histogram, share * choices);
        }
        fill(rule, r, &current, group, from + 1, left - used, found)?;
    }
    Ok(())
}

fn multisets(kinds: usize, members: usize) -> f64 {
    (0..members).map(|j| (kinds + j) as f64 / (j + 1) as f64).product()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leakage::model::{LeakageModel, LeakageScheme};

    /// Counts the points for every x, and compares with the convolutions.
    #[test]
    fn class_sizes_equal_those_of_enumerated_points() {
        let (r, d) = (3u32, 3u32);
        let points: Vec<Vec<u32>> =
            (0..(r + 1).pow(d)).map(|i| (0..d).map(|k| i / (r + 1).pow(k) % (r + 1)).collect()).collect();
        for (name, immutable, weights) in
            [("baseline", 0, vec![]), ("dot", 0, vec![]), ("single-phase+", 2, vec![1, 2, 2]), ("gated", 1, vec![])]
        {
            let model =
                LeakageModel { immutable, weights, ..LeakageModel::new(LeakageScheme::named(name).unwrap(), r, d, 2) };
            for rule in model.rules(true).unwrap() {
                let mut expected: Vec<(Vec<(i64, u64)>, f64)> = Vec::new();
                for x in &points {
                    let rows = points.iter().filter(|y| *y != x);
                    let classes = Classes::new(rows.map(|y| (rule.class_of(x, y), 1.0)));
                    assert_eq!(classes, classes_of(&rule, r, x), "{name} at {x:?}");
                    tally(&mut expected, &classes, 1.0 / points.len() as f64);
                }
                let mut found = Vec::new();
                for (probability, classes) in classes_of_all_queries(&rule, r).unwrap() {
                    tally(&mut found, &classes, probability);
                }
                expected.sort_by(|a, b| a.0.cmp(&b.0));
                found.sort_by(|a, b| a.0.cmp(&b.0));
                assert_eq!(expected.len(), found.len());
                for (left, right) in expected.iter().zip(&found) {
                    assert_eq!(left.0, right.0);
                    assert!((left.1 - right.1).abs() < 1e-12);
                }
            }
        }
    }

    fn tally(into: &mut Vec<(Vec<(i64, u64)>, f64)>, classes: &Classes, probability: f64) {
        let key: Vec<(i64, u64)> = classes.sizes.iter().map(|&(class, size)| (class, size as u64)).collect();
        match into.iter_mut().find(|(other, _)| *other == key) {
            Some((_, sum)) => *sum += probability,
            None => into.push((key, probability)),
        }
    }
}
