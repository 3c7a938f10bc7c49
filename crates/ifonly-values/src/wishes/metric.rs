//! The cost of changing one feature, and the levels that its wishes permit.
//!
//! Costs compare values, not levels: the user's own value counts exactly, a level as the middle of
//! its interval. Differences are divided by the public value range or deviation of the feature, so
//! that costs of different features are comparable.
//!
//! A change of a one-hot column changes two features: the old and the new category. Only the old
//! category has a cost, so that the change costs as much as in other categorical columns.

use crate::schema::{EncodedValue, Feature, Interval, Value};
use crate::wishes::{Wish, WishError};
use zeroize::DefaultIsZeroes;

/// How the change of a feature becomes a cost, before its weight. Categorical values are compared
/// by equality: a mismatch counts as the full value range. In schemes without cost tables, `L2` is
/// the squared difference of levels, and there is no other metric.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// The square of: change / value range.
    #[default]
    L2,
    /// Change / value range.
    L1,
    /// Change / deviation of the accepted rows.
    Mad,
    /// 1 for any change, so that the sum is the number of changed features.
    Count,
}

impl DefaultIsZeroes for Metric {}

impl Metric {
    /// All metrics with their names.
    pub const NAMED: [(&'static str, Metric); 4] =
        [("l2", Metric::L2), ("l1", Metric::L1), ("mad", Metric::Mad), ("count", Metric::Count)];
}

/// The name of a metric is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be one of {}", Metric::NAMED.map(|(name, _)| name).join(", "))]
pub struct UnknownMetric;

impl std::str::FromStr for Metric {
    type Err = UnknownMetric;

    fn from_str(name: &str) -> Result<Metric, UnknownMetric> {
        let named = Metric::NAMED.into_iter().find(|(known, _)| *known == name);
        named.map(|(_, metric)| metric).ok_or(UnknownMetric)
    }
}

/// The weights of increases and decreases of a feature.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weight {
    up: f64,
    down: f64,
}

impl Default for Weight {
    fn default() -> Weight {
        Weight { up: 1.0, down: 1.0 }
    }
}

impl DefaultIsZeroes for Weight {}

impl Weight {
    const MIN: f64 = 0.01;
    const MAX: f64 = 1000.0;

    pub(super) fn new(up: f64, down: f64) -> Weight {
        Weight { up, down }
    }

    pub(super) fn check(self, feature: &str) -> Result<(), WishError> {
        let fits = |weight: &f64| (Weight::MIN..=Weight::MAX).contains(weight);
        match [self.up, self.down].into_iter().find(|weight| !fits(weight)) {
            Some(weight) => Err(WishError::Weight {
                feature: feature.into(),
                weight: weight.to_string(),
                least: Weight::MIN.to_string(),
                most: "1,000".into(),
                integer: false,
            }),
            None => Ok(()),
        }
    }

    /// The weight as one integer, if it is one. Schemes without cost tables support no other
    /// weights.
    pub(super) fn integer(self) -> Option<u64> {
        (self.up == self.down && self.up.fract() == 0.0 && self.up >= 1.0).then_some(self.up as u64)
    }
}

/// Whether the change of a one-hot column is counted in another feature: in the category of the
/// user's own value.
pub(super) fn counted_elsewhere(feature: &Feature, own: u32) -> bool {
    feature.one_hot.is_some() && own == 0
}

/// The number of a value, or the rank of a word.
fn number_or_rank(encoded: &EncodedValue) -> f64 {
    encoded.number.unwrap_or(encoded.level.into())
}

/// A tolerance in the unit of a number; `None` if it is not valid. A percentage is one of the value
/// range.
pub(super) fn tolerance(feature: &Feature, tolerance: &Value) -> Option<f64> {
    const LARGEST_SHARE: f64 = 0.5;
    let text = tolerance.to_string();
    let share = text.trim().strip_suffix('%').map(|percent| percent.trim().parse::<f64>().ok());
    let number = match (share, tolerance) {
        (Some(percent), _) => percent? / 100.0 * feature.value_range(),
        (None, Value::Number(number)) => *number,
        (None, Value::Text(text)) => text.trim().parse().ok()?,
    };
    let largest = if feature.words().is_empty() { LARGEST_SHARE * feature.value_range() } else { 0.0 };
    (0.0..=largest).contains(&number).then_some(number)
}

impl Wish {
    /// The tolerance that loosens constraints.
    pub(super) fn named_tolerance(&self) -> f64 {
        if self.is_tolerance_named { self.tolerance } else { 0.0 }
    }

    /// Whether a value of this level counts as the user's own: it has the same level, or the number
    /// that the level counts as is within the tolerance.
    pub(super) fn is_unchanged(&self, feature: &Feature, own: &EncodedValue, level: u32) -> bool {
        // Half a billionth, because numbers such as 0.1 have no exact binary form.
        const ROUNDING: f64 = 1.0 + 5e-10;
        let distance = |number: f64| (feature.middle(level) - feature.bounded(number)).abs();
        own.level == level
            || self.tolerance > 0.0 && own.number.is_some_and(|number| distance(number) <= self.tolerance * ROUNDING)
    }

    /// Permits only levels that are permitted already and in `levels`.
    pub(super) fn permit(&mut self, levels: &[bool]) {
        let before = self.permitted.get_or_insert_with(|| vec![true; levels.len()]);
        before.iter_mut().zip(levels).for_each(|(before, &now)| *before &= now);
    }

    /// Whether all values of a level are permitted to a user with this value. An immutable feature
    /// may change within its level.
    pub(super) fn permits(&self, feature: &Feature, own: &EncodedValue, level: u32) -> bool {
        let is_free = !self.immutable && !self.held && !self.only_up && !self.only_down && self.permitted.is_none();
        if feature.is_mixed(level) && !(is_free || feature.one_hot.is_some() && own.level == level) {
            return false;
        }
        let listed = self.permitted.as_ref().is_none_or(|levels| levels.get(level as usize) == Some(&true));
        let Some(Interval { low, high }) = feature.interval(level) else { return false };
        let (named, is_unchanged) = (self.named_tolerance(), self.is_unchanged(feature, own, level));
        listed
            && (!self.immutable || level == own.level || named > 0.0 && is_unchanged)
            && (!self.held || is_unchanged)
            && (!self.only_up || low >= number_or_rank(own) - named)
            && (!self.only_down || high <= number_or_rank(own) + named)
    }

    /// The cost of a change from one value to another; within the tolerance, that of no change.
    pub(super) fn cost(&self, feature: &Feature, own: &EncodedValue, other: &EncodedValue) -> Result<f64, WishError> {
        if self.tolerance > 0.0 && self.is_unchanged(feature, own, other.level) {
            self.cost_without_tolerance(feature, own, own)
        } else {
            self.cost_without_tolerance(feature, own, other)
        }
    }

    /// The cost of a level in a search. Within the tolerance a small part of the full cost is left,
    /// so that of equally near rows the one with the smaller differences is nearest.
    pub(super) fn cost_of_level(&self, feature: &Feature, own: &EncodedValue, level: u32) -> Result<f64, WishError> {
        const TIE_BREAK: f64 = 1e-6;
        let other = feature.at_level(level);
        let (counted, full) = (self.cost(feature, own, &other)?, self.cost_without_tolerance(feature, own, &other)?);
        Ok(counted + TIE_BREAK * (full - counted).max(0.0))
    }

    fn cost_without_tolerance(
        &self,
        feature: &Feature,
        own: &EncodedValue,
        other: &EncodedValue,
    ) -> Result<f64, WishError> {
        if counted_elsewhere(feature, own.level) {
            return Ok(0.0);
        }
        // A value outside the bounds costs as much as the bound. Otherwise its cost could exceed
        // that of all other features.
        let (from, to) = (feature.bounded(number_or_rank(own)), feature.bounded(number_or_rank(other)));
        let weight = if to >= from { self.weight.up } else { self.weight.down };
        if let Some(points) = &self.costs {
            return Ok(weight * interpolated(points, to));
        }
        let changed = own.level != other.level;
        let share = if feature.is_categorical() {
            f64::from(u8::from(changed))
        } else {
            (to - from).abs() / feature.value_range()
        };
        Ok(weight
            * match self.metric {
                Metric::L2 => share * share,
                Metric::L1 => share,
                Metric::Count => f64::from(u8::from(changed)),
                Metric::Mad if feature.is_categorical() => share,
                Metric::Mad => {
                    let deviation = feature.deviation;
                    let deviation =
                        deviation.ok_or_else(|| WishError::NoDeviation { feature: feature.name.clone() })?;
                    (to - from).abs() / deviation.value
                }
            })
    }
}

/// Linear interpolation between points. Beyond the first and the last point, the cost is constant.
fn interpolated(points: &[(f64, f64)], at: f64) -> f64 {
    let above = points.partition_point(|(number, _)| *number < at);
    match (above.checked_sub(1).and_then(|below| points.get(below)), points.get(above)) {
        (Some((low, from)), Some((high, to))) => from + (to - from) * (at - low) / (high - low),
        (Some((_, cost)), None) | (None, Some((_, cost))) => *cost,
        (None, None) => 0.0,
    }
}
