//! The parameters of a leakage computation: the scheme, the number of levels, features and rows,
//! and how the database is drawn.
//!
//! The leakage of a scheme depends only on what the user decodes ([`Decoded`]) and on the cost
//! ([`FeatureCost`]). The number of servers and the threshold T do not change the decoded values,
//! so they are not parameters.

use crate::LabError;
use crate::leakage::classes::{ObservedFeature, Rule};
use ifonly_core::scheme::{self, ConstraintKind, CostModel as Cost, DecodeRule, Origin, Scheme, sealed};

/// What the user has at the end of the search.
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
    /// The nearest record that satisfies the constraints, or the fact that there is no such record.
    Nearest,
}

/// The cost of changing one feature from x to y. The cost of a row is the weighted sum over its
/// features.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeatureCost {
    /// `|y − x|^p`.
    Power(u32),
    /// `x·y`.
    Dot,
    /// 1 if the feature changes.
    Changes,
}

/// The properties of a scheme that determine its leakage. All follow from its definition.
#[derive(Debug, Clone, Copy)]
pub struct LeakageScheme {
    /// The definition in `ifonly-core`.
    pub definition: &'static Scheme,
    /// The name of the scheme.
    pub name: &'static str,
    /// What the user decodes.
    pub decoded: Decoded,
    /// The default cost.
    pub metric: FeatureCost,
}

impl From<&'static Scheme> for LeakageScheme {
    fn from(definition: &'static Scheme) -> LeakageScheme {
        let decoded = match definition.phases.last().map(|phase| phase.decode_rule) {
            Some(DecodeRule::Cost | DecodeRule::Gain) => Decoded::Values,
            Some(DecodeRule::Difference) => Decoded::Differences,
            Some(DecodeRule::Masked) => Decoded::Masked,
            Some(DecodeRule::Scaled) => Decoded::Partials,
            Some(DecodeRule::Zeros | DecodeRule::Selected | DecodeRule::Gated) => Decoded::Gated,
            None => Decoded::Nearest,
        };
        let metric = match definition.cost_model {
            Cost::Squared | Cost::Weighted | Cost::Table => FeatureCost::Power(2),
            Cost::Power => FeatureCost::Power(4),
            Cost::Product => FeatureCost::Dot,
        };
        LeakageScheme { definition, name: definition.name, decoded, metric }
    }
}

impl LeakageScheme {
    /// The scheme with this name.
    pub fn named(name: &str) -> Result<LeakageScheme, LabError> {
        LeakageScheme::all().find(|scheme| scheme.name == name).ok_or_else(|| {
            let names: Vec<&str> = LeakageScheme::all().map(|scheme| scheme.name).collect();
            LabError::parameter("scheme", format!("unknown scheme {name:?}; use one of {}", names.join(", ")))
        })
    }

    /// All schemes, in the order of the documentation.
    pub fn all() -> impl Iterator<Item = LeakageScheme> {
        scheme::ALL.iter().copied().chain([sealed::SCHEME]).map(LeakageScheme::from)
    }

    /// The scheme of the paper with this cost model and these decoded values; the first, if the
    /// paper has two.
    pub fn published(cost: Cost, decoded: Decoded) -> Result<LeakageScheme, LabError> {
        let properties =
            |scheme: &LeakageScheme| (scheme.definition.origin, scheme.definition.cost_model, scheme.decoded);
        let found = LeakageScheme::all().find(|scheme| properties(scheme) == (Origin::Paper, cost, decoded));
        found.ok_or_else(|| {
            LabError::parameter("scheme", format!("the paper has no scheme with {cost:?} and {decoded:?}"))
        })
    }

    /// Whether features can be immutable.
    pub fn has_constraints(&self) -> bool {
        self.definition.constraint != ConstraintKind::None
    }

    /// Whether a feature can have a permitted range of several levels.
    pub fn has_ranges(&self) -> bool {
        self.definition.constraint == ConstraintKind::Table
    }

    /// Whether features can have weights.
    pub fn has_weights(&self) -> bool {
        matches!(self.definition.cost_model, Cost::Weighted | Cost::Table)
    }
}

/// The order of the rows in a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowOrder {
    /// The same order in every search.
    Fixed,
    /// A fresh random order for every search.
    Shuffled,
}

/// How the rows of the database are drawn from the population.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SamplingRule {
    /// M distinct members in order, as in the paper.
    WithoutReplacement,
    /// M independent members.
    WithReplacement,
}

/// The parameters of a leakage computation.
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
    /// The number of constrained features; the result is the mean over all sets of that size.
    pub immutable: u32,
    /// The largest permitted change of a constrained feature (0: immutable).
    pub within: u32,
    /// One weight per feature; empty means 1 everywhere.
    pub weights: Vec<u32>,
    /// The cost, if it is not the default of the scheme.
    pub metric: Option<FeatureCost>,
    /// The order of the rows.
    pub order: RowOrder,
    /// How the database is drawn.
    pub drawing: SamplingRule,
}

impl LeakageModel {
    /// The model of the paper: fixed row order, rows drawn without replacement, no masks, no
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

    /// Checks the parameters. `population` is the number of members from which rows are drawn.
    pub(crate) fn check(&self, population: f64) -> Result<(), LabError> {
        let scheme = &self.scheme;
        let refuse = |parameter, reason: String| Err(LabError::parameter(parameter, reason));
        if !(1..=65_535).contains(&self.r) {
            return refuse("r", format!("{} is not from 1 to 65535", self.r));
        }
        if !(1..=4096).contains(&self.d) {
            return refuse("d", format!("{} is not from 1 to 4096", self.d));
        }
        if !(1..=100_000).contains(&self.m) {
            return refuse("m", format!("{} is not from 1 to 100000", self.m));
        }
        if self.drawing == SamplingRule::WithoutReplacement && f64::from(self.m) > population {
            return refuse("m", format!("{} distinct rows cannot be drawn from a population of {population}", self.m));
        }
        if self.d_min == 0 || self.d_min > 1 << 20 {
            return refuse("d_min", format!("{} is not from 1 to 1048576", self.d_min));
        }
        if self.d_min != 1 && scheme.decoded != Decoded::Masked {
            return refuse("d_min", format!("scheme {} has no masks; only mask schemes use d_min", scheme.name));
        }
        if self.immutable > self.d {
            return refuse("immutable", format!("{} is more than the number of features, {}", self.immutable, self.d));
        }
        if self.immutable > 0 && !scheme.has_constraints() {
            return refuse("immutable", format!("scheme {} has no immutable features", scheme.name));
        }
        if self.within > 0 && !scheme.has_ranges() {
            return refuse("within", format!("scheme {} has no permitted ranges", scheme.name));
        }
        if !self.weights.is_empty() && !scheme.has_weights() {
            return refuse("weights", format!("scheme {} has no weights", scheme.name));
        }
        if !self.weights.is_empty() && self.weights.len() != self.d as usize {
            return refuse(
                "weights",
                format!("there must be one weight per feature ({}), not {}", self.d, self.weights.len()),
            );
        }
        if let Some(w) = self.weights.iter().find(|&&w| w == 0 || w > 65_535) {
            return refuse("weights", format!("{w} is not from 1 to 65535"));
        }
        let power_scheme = scheme.definition.cost_model == Cost::Power;
        match self.metric {
            Some(metric) if metric == scheme.metric => {}
            Some(FeatureCost::Power(p)) if power_scheme && p % 2 == 0 && p > 0 => {}
            Some(FeatureCost::Power(p)) if power_scheme => {
                return refuse("p", format!("{p} is not a positive even number"));
            }
            Some(_) if scheme.definition.cost_model != Cost::Table => {
                return refuse("metric", format!("the cost of scheme {} is fixed", scheme.name));
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
            return refuse("r", "the largest distance is 2^31 or more; reduce r, p, d or the weights".into());
        }
        Ok(())
    }

    /// The rules that map rows to classes, one for each set of constrained features. If all
    /// features are alike, as on the grid with equal weights, all sets of one size give the same
    /// result, and there is one rule.
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

    /// The factor L of Single-Phase in [`Rule`]: the largest distance plus 1.
    pub(crate) fn partial_scale(&self) -> i64 {
        let weight: u64 = (0..self.d as usize).map(|k| u64::from(self.weight(k))).sum();
        Rule::scale(self.metric(), weight, self.r)
    }

    /// The cost of a feature.
    pub fn metric(&self) -> FeatureCost {
        self.metric.unwrap_or(self.scheme.metric)
    }

    fn weight(&self, k: usize) -> u32 {
        self.weights.get(k).copied().unwrap_or(1)
    }
}

/// All subsets of `0..d` with `size` members.
fn subsets(d: usize, size: usize) -> Result<Vec<Vec<usize>>, LabError> {
    const LIMIT: f64 = 1e4;
    let count: f64 = (0..size).map(|j| (d - j) as f64 / (j + 1) as f64).product();
    if count > LIMIT {
        return Err(LabError::TooLarge {
            what: "the mean over the sets of constrained features",
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
    fn the_number_of_subsets_is_the_binomial_coefficient() {
        for (d, size, count) in [(5, 0, 1), (5, 2, 10), (5, 5, 1), (7, 3, 35)] {
            let mut sets = subsets(d, size).unwrap();
            assert!(sets.iter().all(|set| set.len() == size));
            sets.sort();
            sets.dedup();
            assert_eq!(sets.len(), count);
        }
    }

    #[test]
    fn scheme_names_are_distinct_and_known() {
        let mut names: Vec<&str> = LeakageScheme::all().map(|scheme| scheme.name).collect();
        assert!(names.iter().all(|name| LeakageScheme::named(name).is_ok()));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), LeakageScheme::all().count());
        assert!(LeakageScheme::named("none").unwrap_err().to_string().contains("unknown scheme"));
    }

    #[test]
    fn schemes_of_the_paper_are_found_by_their_properties() {
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
    fn an_unsupported_parameter_is_refused_by_name() {
        let baseline = LeakageModel::new(LeakageScheme::named("baseline").unwrap(), 3, 3, 3);
        let refusal = |model: LeakageModel| model.check(63.0).unwrap_err().to_string();
        assert!(refusal(LeakageModel { d_min: 2, ..baseline.clone() }).starts_with("d_min:"));
        assert!(refusal(LeakageModel { immutable: 1, ..baseline.clone() }).starts_with("immutable:"));
        assert!(refusal(LeakageModel { m: 64, ..baseline.clone() }).starts_with("m:"));
        assert!(refusal(LeakageModel { weights: vec![1; 3], ..baseline.clone() }).starts_with("weights:"));
        assert!(baseline.check(63.0).is_ok());
    }
}
