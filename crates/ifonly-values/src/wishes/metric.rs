//! How one feature's change is priced, in values, and which of its levels are permitted.
//!
//! A price compares values, divided by the feature's public spread, so that features compare: a
//! level counts as the middle of its numbers, the person's own value as itself. A one-hot column
//! changes in two features at once, the category that goes and the one that comes; only the one
//! that goes is charged, so that it costs what other categorical columns cost.

use crate::schema::{EncodedValue, Feature, Interval};
use crate::wishes::{Wish, WishError};
use zeroize::DefaultIsZeroes;

/// How the change of a feature is priced, before its weight. Words without an order are compared by
/// equality: a mismatch is one full spread. Schemes without tables know only the squared number of
/// levels, which is what `L2` means there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// The square of the change as a share of the spread.
    #[default]
    L2,
    /// The change as a share of the spread.
    L1,
    /// The change in typical deviations of the accepted.
    Mad,
    /// 1 for any change: the sum is the number of changed features.
    Count,
}

impl DefaultIsZeroes for Metric {}

impl Metric {
    /// All of them, by their names.
    pub const NAMED: [(&'static str, Metric); 4] =
        [("l2", Metric::L2), ("l1", Metric::L1), ("mad", Metric::Mad), ("count", Metric::Count)];
}

/// A name that no pricing has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is one of {}", Metric::NAMED.map(|(name, _)| name).join(", "))]
pub struct UnknownMetric;

impl std::str::FromStr for Metric {
    type Err = UnknownMetric;

    fn from_str(name: &str) -> Result<Metric, UnknownMetric> {
        let named = Metric::NAMED.into_iter().find(|(known, _)| *known == name);
        named.map(|(_, pricing)| pricing).ok_or(UnknownMetric)
    }
}

/// How much changes count, upwards and downwards.
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
    const LEAST: f64 = 0.01;
    const MOST: f64 = 1000.0;

    pub(super) fn new(up: f64, down: f64) -> Weight {
        Weight { up, down }
    }

    pub(super) fn check(self, feature: &str) -> Result<(), WishError> {
        let fits = |weight: &f64| (Weight::LEAST..=Weight::MOST).contains(weight);
        match [self.up, self.down].into_iter().find(|weight| !fits(weight)) {
            Some(weight) => Err(WishError::Weight {
                feature: feature.into(),
                weight: weight.to_string(),
                least: Weight::LEAST.to_string(),
                most: "1,000".into(),
                whole: false,
            }),
            None => Ok(()),
        }
    }

    /// As one whole number, if it is one: all that weighted schemes can carry.
    pub(super) fn whole(self) -> Option<u64> {
        (self.up == self.down && self.up.fract() == 0.0 && self.up >= 1.0).then_some(self.up as u64)
    }
}

/// Whether a change shows in another feature of the same one-hot column: in the category that the
/// person has.
pub(super) fn counted_elsewhere(feature: &Feature, own: u32) -> bool {
    feature.one_hot.is_some() && own == 0
}

/// Where a value stands on its feature's line: the number itself, or the rank.
fn place(encoded: &EncodedValue) -> f64 {
    encoded.number.unwrap_or(encoded.level.into())
}

impl Wish {
    /// Keeps only the levels that are permitted here too.
    pub(super) fn permit(&mut self, levels: &[bool]) {
        let before = self.permitted.get_or_insert_with(|| vec![true; levels.len()]);
        before.iter_mut().zip(levels).for_each(|(before, &now)| *before &= now);
    }

    /// Whether all values of a level are permitted to somebody with this value. "Stays" means:
    /// within its level.
    pub(super) fn permits(&self, feature: &Feature, own: &EncodedValue, level: u32) -> bool {
        let listed = self.permitted.as_ref().is_none_or(|levels| levels.get(level as usize) == Some(&true));
        let Some(Interval { low, high }) = feature.interval(level) else { return false };
        listed
            && (!self.immutable || level == own.level)
            && (!self.only_up || low >= place(own))
            && (!self.only_down || high <= place(own))
    }

    /// What a change from one value to another costs.
    pub(super) fn cost(&self, feature: &Feature, own: &EncodedValue, other: &EncodedValue) -> Result<f64, WishError> {
        if counted_elsewhere(feature, own.level) {
            return Ok(0.0);
        }
        // What lies beyond the bounds costs what the bound costs; otherwise it would drown every
        // other feature.
        let (from, to) = (feature.bounded(place(own)), feature.bounded(place(other)));
        let weight = if to >= from { self.weight.up } else { self.weight.down };
        if let Some(points) = &self.costs {
            return Ok(weight * on_line(points, to));
        }
        let changed = own.level != other.level;
        let share = match feature.is_categorical() {
            true => f64::from(u8::from(changed)),
            false => (to - from).abs() / feature.value_range(),
        };
        Ok(weight
            * match self.pricing {
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

/// The cost at a place between points: straight lines, and level beyond the ends.
fn on_line(points: &[(f64, f64)], at: f64) -> f64 {
    let above = points.partition_point(|(place, _)| *place < at);
    match (above.checked_sub(1).and_then(|below| points.get(below)), points.get(above)) {
        (Some((low, from)), Some((high, to))) => from + (to - from) * (at - low) / (high - low),
        (Some((_, cost)), None) | (None, Some((_, cost))) => *cost,
        (None, None) => 0.0,
    }
}
