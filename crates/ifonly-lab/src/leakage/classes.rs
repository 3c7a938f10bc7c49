//! Classes of rows that the user cannot distinguish.
//!
//! For a given x, a scheme maps each row to a class. The leakage depends only on the number of
//! members of each class. Let `A` be the cost of the constrained features (with a gate: the number
//! of violations) and `B` the cost of the others. The class of a row is
//!
//! * `B` for schemes without constraints,
//! * `A·L + B` for Single-Phase,
//! * `B` for gated schemes if `A = 0`, and otherwise the class [`EXCLUDED`].

use std::collections::BTreeMap;

use crate::leakage::model::{Decoded, FeatureCost};

/// The class of every row that violates a constraint of a gated scheme.
pub(crate) const EXCLUDED: i64 = -1;

/// What the user chose for one feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ObservedFeature {
    pub(crate) weight: u64,
    pub(crate) constrained: bool,
}

/// The map from rows to classes, for one choice of weights and constraints.
#[derive(Debug, Clone)]
pub(crate) struct Rule {
    pub(crate) features: Vec<ObservedFeature>,
    metric: FeatureCost,
    decoded: Decoded,
    within: u32,
    /// The factor L of Single-Phase: the largest `B` plus 1.
    scale: i64,
}

impl Rule {
    pub(crate) fn new(
        features: Vec<ObservedFeature>,
        metric: FeatureCost,
        decoded: Decoded,
        within: u32,
        r: u32,
    ) -> Self {
        let weight: u64 = features.iter().map(|feature| feature.weight).sum();
        Rule { features, metric, decoded, within, scale: Rule::scale(metric, weight, r) }
    }

    /// The largest distance plus 1, for the sum of all weights.
    pub(crate) fn scale(metric: FeatureCost, weight: u64, r: u32) -> i64 {
        (weight * cost(metric, r, 0).max(cost(metric, r, r))) as i64 + 1
    }

    /// The contribution of feature k to (A, B) for a change from x to y.
    pub(crate) fn parts(&self, k: usize, x: u32, y: u32) -> (u64, u64) {
        let ObservedFeature { weight, constrained } = self.features[k];
        let cost = weight * cost(self.metric, x, y);
        match self.decoded {
            Decoded::Gated | Decoded::Nearest if constrained => (u64::from(x.abs_diff(y) > self.within), cost),
            // Single-Phase multiplies the immutable part by L, not by a weight.
            Decoded::Partials if constrained => (cost / weight, 0),
            _ => (0, cost),
        }
    }

    /// The sum of two contributions. Sums that lead to the same class may become equal.
    pub(crate) fn add(&self, left: (u64, u64), right: (u64, u64)) -> (u64, u64) {
        match self.decoded {
            Decoded::Gated | Decoded::Nearest if left.0 + right.0 > 0 => (1, 0),
            _ => (left.0 + right.0, left.1 + right.1),
        }
    }

    /// The class of a row with this (A, B).
    pub(crate) fn class(&self, (a, b): (u64, u64)) -> i64 {
        match self.decoded {
            Decoded::Gated | Decoded::Nearest if a > 0 => EXCLUDED,
            Decoded::Partials => a as i64 * self.scale + b as i64,
            _ => b as i64,
        }
    }

    /// The class of row y for query x.
    pub(crate) fn class_of(&self, x: &[u32], y: &[u32]) -> i64 {
        let parts = (0..self.features.len()).map(|k| self.parts(k, x[k], y[k]));
        self.class(parts.fold((0, 0), |sum, part| self.add(sum, part)))
    }
}

fn cost(metric: FeatureCost, x: u32, y: u32) -> u64 {
    match metric {
        FeatureCost::Power(p) => u64::from(x.abs_diff(y)).pow(p),
        FeatureCost::Dot => u64::from(x) * u64::from(y),
        FeatureCost::Changes => u64::from(x != y),
    }
}

/// The number of members of each class.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Classes {
    /// (class, number of members), in ascending order, without empty classes.
    pub(crate) sizes: Vec<(i64, f64)>,
    /// The number of members of all classes.
    pub(crate) total: f64,
}

impl Classes {
    pub(crate) fn new(sizes: impl IntoIterator<Item = (i64, f64)>) -> Self {
        let mut merged: BTreeMap<i64, f64> = BTreeMap::new();
        for (class, size) in sizes {
            *merged.entry(class).or_default() += size;
        }
        let sizes: Vec<(i64, f64)> = merged.into_iter().filter(|&(_, size)| size > 0.0).collect();
        let total = sizes.iter().map(|&(_, size)| size).sum();
        Classes { sizes, total }
    }

    /// The number of members of one class.
    pub(crate) fn size(&self, class: i64) -> f64 {
        self.sizes.binary_search_by_key(&class, |&(c, _)| c).map_or(0.0, |i| self.sizes[i].1)
    }
}
