//! Classes of rows that the user cannot tell apart.
//!
//! Given x, a scheme maps each row to a class; all that matters of the population is how many
//! members each class has. With `A` the part of the cost on the constrained features (or, behind a
//! gate, the number of violations) and `B` the rest, the class is `B` for plain schemes, `A·L + B`
//! for Single-Phase, and for gated ones `B` if `A = 0`, else one class [`BEHIND_THE_GATE`] for all.

use std::collections::BTreeMap;

use crate::leakage::model::{Decoded, FeatureCost};

/// The class of every row that violates a constraint of a gated scheme.
pub(crate) const BEHIND_THE_GATE: i64 = -1;

/// A feature as the user sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ObservedFeature {
    pub(crate) weight: u64,
    pub(crate) constrained: bool,
}

/// The map from rows to classes for one user's wishes.
#[derive(Debug, Clone)]
pub(crate) struct Rule {
    pub(crate) features: Vec<ObservedFeature>,
    metric: FeatureCost,
    decoded: Decoded,
    within: u32,
    /// One more than the largest `B`: Single-Phase's L.
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
        let largest = weight * cost(metric, r, 0).max(cost(metric, r, r));
        Rule { features, metric, decoded, within, scale: largest as i64 + 1 }
    }

    /// Feature k's share of (A, B) for moving from x to y.
    pub(crate) fn parts(&self, k: usize, x: u32, y: u32) -> (u64, u64) {
        let ObservedFeature { weight, constrained } = self.features[k];
        let cost = weight * cost(self.metric, x, y);
        match self.decoded {
            Decoded::Gated | Decoded::Nearest if constrained => (u64::from(x.abs_diff(y) > self.within), cost),
            // The immutable part is scaled by L alone, not by a weight.
            Decoded::Partials if constrained => (cost / weight, 0),
            _ => (0, cost),
        }
    }

    /// Sums of parts, without telling apart what no class tells apart.
    pub(crate) fn add(&self, left: (u64, u64), right: (u64, u64)) -> (u64, u64) {
        match self.decoded {
            Decoded::Gated | Decoded::Nearest if left.0 + right.0 > 0 => (1, 0),
            _ => (left.0 + right.0, left.1 + right.1),
        }
    }

    /// The class of a row from its (A, B).
    pub(crate) fn class(&self, (a, b): (u64, u64)) -> i64 {
        match self.decoded {
            Decoded::Gated | Decoded::Nearest if a > 0 => BEHIND_THE_GATE,
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

/// How many members of the population fall into each class.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Classes {
    /// (class, number of members), ascending, none empty.
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

    /// The number of members in one class.
    pub(crate) fn size(&self, class: i64) -> f64 {
        self.sizes.binary_search_by_key(&class, |&(c, _)| c).map_or(0.0, |i| self.sizes[i].1)
    }
}
