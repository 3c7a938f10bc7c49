//! What is computed: a scheme by name, the size of its world, and how the database is assumed to be
//! drawn.
//!
//! A scheme enters the leakage only through what the user decodes from it ([`Decoded`]) and the
//! cost it measures ([`Metric`]). The number of servers and the threshold T decide who may collude,
//! not what is decoded, so they do not change a single number here.

use crate::LabError;
use crate::leakage::classes::{ObservedFeature, Rule};
use ifonly_core::scheme::{self, ConstraintKind, CostModel as Cost, DecodeRule, Origin, Scheme as Described, sealed};

/// What the user holds at the end of the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decoded {
    /// The cost of every row.
    Values,
    /// The differences of consecutive rows' costs.
    Differences,
    /// The cost of every row plus a uniform mask on `0..d_min`.
    Masked,
    /// `L·A + B`: the immutable and the mutable part of every row's distance, both exactly.
    Partials,
    /// The cost of the rows that satisfy the user's constraints, and nothing about the others.
    Gated,
    /// The nearest record that satisfies them, or that there is none.
    Nearest,
}

/// The cost of moving one feature from x to y; a row's cost is the weighted sum over its features.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeatureCost {
    /// `|y − x|^p`.
    Power(u32),
    /// `x·y`.
    Dot,
    /// 1 if the feature changes.
    Changes,
}

/// One scheme, as far as leakage is concerned: all of it follows from the engine's description.
#[derive(Debug, Clone, Copy)]
pub struct LeakageScheme {
    /// The engine's description.
    pub described: &'static Described,
    /// Its name, the same everywhere.
    pub name: &'static str,
    /// What the user decodes.
    pub decoded: Decoded,
    /// The cost when none is asked for.
    pub metric: FeatureCost,
}

impl From<&'static Described> for LeakageScheme {
    fn from(described: &'static Described) -> LeakageScheme {
        let decoded = match described.phases.last().map(|phase| phase.decode_rule) {
            Some(DecodeRule::Cost | DecodeRule::Gain) => Decoded::Values,
            Some(DecodeRule::Difference) => Decoded::Differences,
            Some(DecodeRule::Masked) => Decoded::Masked,
            Some(DecodeRule::Scaled(_)) => Decoded::Partials,
            Some(DecodeRule::Zeros | DecodeRule::Selected | DecodeRule::Gated) => Decoded::Gated,
            None => Decoded::Nearest,
        };
        let metric = match described.cost_model {
            Cost::Squared | Cost::Weighted | Cost::Table => FeatureCost::Power(2),
            Cost::Power => FeatureCost::Power(4),
            Cost::Product => FeatureCost::Dot,
        };
        LeakageScheme { described, name: described.name, decoded, metric }
    }
}

impl LeakageScheme {
    /// The scheme with this name.
    pub fn named(name: &str) -> Result<LeakageScheme, LabError> {
        LeakageScheme::all().find(|scheme| scheme.name == name).ok_or_else(|| {
            let names: Vec<&str> = LeakageScheme::all().map(|scheme| scheme.name).collect();
            LabError::flag("--scheme", format!("there is no scheme {name:?}; there are {}", names.join(", ")))
        })
    }

    /// All schemes in the order of the documentation.
    pub fn all() -> impl Iterator<Item = LeakageScheme> {
        scheme::ALL.iter().copied().chain([sealed::SCHEME]).map(LeakageScheme::from)
    }

    /// The paper's scheme with these costs that lets the user decode this; the first where the
    /// paper has two.
    pub fn published(cost: Cost, decoded: Decoded) -> Result<LeakageScheme, LabError> {
        let described = |scheme: &LeakageScheme| (scheme.described.origin, scheme.described.cost_model, scheme.decoded);
        let found = LeakageScheme::all().find(|scheme| described(scheme) == (Origin::Paper, cost, decoded));
        found.ok_or_else(|| LabError::flag("--scheme", format!("the paper has none for {cost:?} and {decoded:?}")))
    }

    /// Whether the user may hold features immutable.
    pub fn has_constraints(&self) -> bool {
        self.described.constraint != ConstraintKind::None
    }

    /// Whether permitted ranges wider than one value are possible.
    pub fn has_ranges(&self) -> bool {
        self.described.constraint == ConstraintKind::Table
    }

    /// Whether the user may choose weights.
    pub fn has_weights(&self) -> bool {
        matches!(self.described.cost_model, Cost::Weighted | Cost::Table)
    }
}

/// Whether the rows come in the database's order or in a fresh random one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowOrder {
    /// Row i is row i in every session.
    Fixed,
    /// The servers permute the rows anew for every query.
    Shuffled,
}

/// How the rows of the database are drawn from the population.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SamplingRule {
    /// M distinct members in order: the paper's model.
    WithoutReplacement,
    /// M independent members.
    WithReplacement,
}

/// A question to the leakage computation.
#[derive(Debug, Clone)]
pub struct LeakageModel {
    /// The scheme.
    pub scheme: LeakageScheme,
    /// The largest level R; every feature is in `0..=r`.
    pub r: u32,
    /// The number of features.
    pub d: u32,
    /// The number of rows.
    pub m: u32,
    /// The masks are uniform on `0..d_min`.
    pub d_min: u32,
    /// How many features are constrained; averaged over all sets of that size.
    pub immutable: u32,
    /// A constrained feature may move by at most this much (0: immutable).
    pub within: u32,
    /// One weight per feature; empty means 1 everywhere.
    pub weights: Vec<u32>,
    /// The cost, if it is not the scheme's own.
    pub metric: Option<FeatureCost>,
    /// The order of the rows.
    pub order: RowOrder,
    /// How the database is drawn.
    pub drawing: SamplingRule,
}

impl LeakageModel {
    /// The paper's model of a scheme: fixed order, drawn without replacement, no masks, no
    /// constraints, no weights.
    pub fn new(scheme: LeakageScheme, r: u32, d: u32, m: u32) -> Self {
        LeakageModel {
            scheme,
            r,
            d,
            m,
            d_min: 1,
            immutable: 0,
            within: 0,
            weights: Vec::new(),
            metric: None,
            order: RowOrder::Fixed,
            drawing: SamplingRule::WithoutReplacement,
        }
    }

    /// Checks that the parts fit together; `population` is the number of members that rows are
    /// drawn from.
    pub(crate) fn check(&self, population: f64) -> Result<(), LabError> {
        let scheme = &self.scheme;
        let refuse = |flag, reason: String| Err(LabError::flag(flag, reason));
        if !(1..=65_535).contains(&self.r) {
            return refuse("--r", format!("{} is not in 1..=65535", self.r));
        }
        if !(1..=4096).contains(&self.d) {
            return refuse("--d", format!("{} is not in 1..=4096", self.d));
        }
        if !(1..=100_000).contains(&self.m) {
            return refuse("--m", format!("{} is not in 1..=100000", self.m));
        }
        if self.drawing == SamplingRule::WithoutReplacement && f64::from(self.m) > population {
            return refuse("--m", format!("{} distinct rows cannot be drawn from {population} candidates", self.m));
        }
        if self.d_min == 0 || self.d_min > 1 << 20 {
            return refuse("--dmin", format!("{} is not in 1..=1048576", self.d_min));
        }
        if self.d_min != 1 && scheme.decoded != Decoded::Masked {
            return refuse("--dmin", format!("{} has no masks; only mask schemes take it", scheme.name));
        }
        if self.immutable > self.d {
            return refuse("--immutable", format!("{} of {} features", self.immutable, self.d));
        }
        if self.immutable > 0 && !scheme.has_constraints() {
            return refuse("--immutable", format!("{} knows no immutable features", scheme.name));
        }
        if self.within > 0 && !scheme.has_ranges() {
            return refuse("--within", format!("{} knows no permitted ranges", scheme.name));
        }
        if !self.weights.is_empty() && !scheme.has_weights() {
            return refuse("--weights", format!("{} knows no weights", scheme.name));
        }
        if !self.weights.is_empty() && self.weights.len() != self.d as usize {
            return refuse("--weights", format!("{} weights for {} features", self.weights.len(), self.d));
        }
        if let Some(w) = self.weights.iter().find(|&&w| w == 0 || w > 65_535) {
            return refuse("--weights", format!("{w} is not in 1..=65535"));
        }
        let power_scheme = scheme.described.cost_model == Cost::Power;
        match self.metric {
            Some(metric) if metric == scheme.metric => {}
            Some(FeatureCost::Power(p)) if power_scheme && p % 2 == 0 && p > 0 => {}
            Some(FeatureCost::Power(p)) if power_scheme => {
                return refuse("--p", format!("{p} is not a positive even power"));
            }
            Some(_) if scheme.described.cost_model != Cost::Table => {
                return refuse("--metric", format!("{} has a cost of its own", scheme.name));
            }
            _ => {}
        }
        let weight: f64 = (0..self.d as usize).map(|k| f64::from(self.weight(k))).sum();
        let largest = match self.metric() {
            FeatureCost::Power(p) => f64::from(self.r).powi(p as i32),
            FeatureCost::Dot => f64::from(self.r).powi(2),
            FeatureCost::Changes => 1.0,
        };
        if (weight * largest).powi(2) >= 2f64.powi(62) {
            return refuse("--r", "the largest distance does not fit: lower --r, --p, --d or the weights".into());
        }
        Ok(())
    }

    /// The rules by which rows fall into classes, one for each set of constrained features that
    /// matters: with equal weights all sets of one size look the same on the grid.
    pub(crate) fn rules(&self, features_alike: bool) -> Result<Vec<Rule>, LabError> {
        let (d, size) = (self.d as usize, self.immutable as usize);
        let equal = self.weights.windows(2).all(|pair| pair[0] == pair[1]);
        let sets = if features_alike && equal { vec![(0..size).collect()] } else { subsets(d, size)? };
        Ok(sets
            .into_iter()
            .map(|set: Vec<usize>| {
                let features = (0..d)
                    .map(|k| ObservedFeature { weight: u64::from(self.weight(k)), constrained: set.contains(&k) })
                    .collect();
                Rule::new(features, self.metric(), self.scheme.decoded, self.within, self.r)
            })
            .collect())
    }

    /// The cost that is measured.
    pub fn metric(&self) -> FeatureCost {
        self.metric.unwrap_or(self.scheme.metric)
    }

    fn weight(&self, k: usize) -> u32 {
        self.weights.get(k).copied().unwrap_or(1)
    }
}

/// All subsets of `0..d` with this many members.
fn subsets(d: usize, size: usize) -> Result<Vec<Vec<usize>>, LabError> {
    const LIMIT: f64 = 1e4;
    let count: f64 = (0..size).map(|j| (d - j) as f64 / (j + 1) as f64).product();
    if count > LIMIT {
        return Err(LabError::TooLarge {
            what: "averaging over the sets of constrained features",
            steps: count,
            limit: LIMIT,
        });
    }
    let mut found = vec![Vec::new()];
    for k in 0..d {
        let longer: Vec<Vec<usize>> = found
            .iter()
            .filter(|set| set.len() < size)
            .map(|set: &Vec<usize>| set.iter().copied().chain([k]).collect())
            .collect();
        found.extend(longer);
        found.retain(|set| set.len() + (d - 1 - k) >= size);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_subsets_as_the_binomial_says() {
        for (d, size, count) in [(5, 0, 1), (5, 2, 10), (5, 5, 1), (7, 3, 35)] {
            let mut sets = subsets(d, size).unwrap();
            assert!(sets.iter().all(|set| set.len() == size));
            sets.sort();
            sets.dedup();
            assert_eq!(sets.len(), count);
        }
    }

    #[test]
    fn names_are_distinct_and_found() {
        let mut names: Vec<&str> = LeakageScheme::all().map(|scheme| scheme.name).collect();
        assert!(names.iter().all(|name| LeakageScheme::named(name).is_ok()));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), LeakageScheme::all().count());
        assert!(LeakageScheme::named("none").unwrap_err().to_string().contains("--scheme"));
    }

    #[test]
    fn the_papers_schemes_are_found_by_what_they_do() {
        for (cost, decoded, name) in [
            (Cost::Squared, Decoded::Values, "baseline"),
            (Cost::Squared, Decoded::Masked, "mask"),
            (Cost::Squared, Decoded::Gated, "two-phase"),
            (Cost::Weighted, Decoded::Partials, "single-phase+"),
        ] {
            assert_eq!(LeakageScheme::published(cost, decoded).unwrap().name, name);
        }
        assert!(LeakageScheme::published(Cost::Table, Decoded::Values).is_err());
    }

    #[test]
    fn what_a_scheme_cannot_do_is_refused_by_flag() {
        let baseline = LeakageModel::new(LeakageScheme::named("baseline").unwrap(), 3, 3, 3);
        let complaint = |setting: LeakageModel| setting.check(63.0).unwrap_err().to_string();
        assert!(complaint(LeakageModel { d_min: 2, ..baseline.clone() }).starts_with("--dmin"));
        assert!(complaint(LeakageModel { immutable: 1, ..baseline.clone() }).starts_with("--immutable"));
        assert!(complaint(LeakageModel { m: 64, ..baseline.clone() }).starts_with("--m"));
        assert!(complaint(LeakageModel { weights: vec![1; 3], ..baseline.clone() }).starts_with("--weights"));
        assert!(baseline.check(63.0).is_ok());
    }
}
