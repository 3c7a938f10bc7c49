//! Wishes: the constraints and preferences of a user, in values.
//!
//! Wishes name features: immutable features, weights, permitted ranges and values, directions, and
//! the metric of a change. Constraints hold for *values*: a level is permitted only if all its
//! values are. A [`WishNote`] tells the user which levels this excludes.
//!
//! [`Wishes::compile`] turns wishes and the user's own values into a
//! [`SecretQuery`](ifonly_core::secret_query::SecretQuery) for a given scheme. It refuses
//! impossible wishes before anything is sent.
//!
//! [`Wishes::needs`] says what they need of a scheme. Servers see which scheme is used, so a client
//! must not choose it by the wishes. It uses the default scheme of the deployment or the scheme
//! that the user chose openly.

mod compile;
mod error;
mod metric;
mod note;

pub use compile::CompiledWishes;
pub use error::{CostTableFault, OrderedWish, UnsupportedWish, WishError};
pub use metric::{Metric, UnknownMetric, Weight};
pub use note::{CrossedLimit, WishNote};

use crate::schema::{EncodedValue, Feature, Interval, LevelText, Schema, SchemaError, Value};
use ifonly_core::scheme::{self, ConstraintKind, CostModel, Needs, Scheme};
use std::ops::Range;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// The wishes of one user for one database.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Wishes {
    #[zeroize(skip)]
    schema: Schema,
    features: Vec<Wish>,
    max_changes: Option<u64>,
    has_several_ways: bool,
}

impl std::fmt::Debug for Wishes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Wishes(..)")
    }
}

/// The wishes for one feature.
#[derive(Clone, Zeroize)]
struct Wish {
    immutable: bool,
    only_up: bool,
    only_down: bool,
    /// Permitted levels; `None` permits all.
    permitted: Option<Vec<bool>>,
    /// The permitted ranges, and the levels that are only partly within each.
    across: Vec<(CrossedLimit, Vec<u32>)>,
    weight: Weight,
    metric: Metric,
    /// How far a number may be from the user's and still count as unchanged; 0 for no tolerance.
    tolerance: f64,
    /// Whether the user named this tolerance, which then also loosens constraints.
    is_tolerance_named: bool,
    /// Whether a further way holds the feature, within its tolerance.
    held: bool,
    /// Points (number or rank, cost) of a cost table, which replaces the metric.
    costs: Option<Vec<(f64, f64)>>,
}

impl Wishes {
    /// No constraints, all weights 1, and the metric l2.
    pub fn new(schema: &Schema) -> Wishes {
        let wish = Wish {
            immutable: false,
            only_up: false,
            only_down: false,
            permitted: None,
            across: vec![],
            weight: Weight::default(),
            metric: Metric::default(),
            tolerance: 0.0,
            is_tolerance_named: false,
            held: false,
            costs: None,
        };
        Wishes {
            features: vec![wish; schema.features().len()],
            schema: schema.clone(),
            max_changes: None,
            has_several_ways: false,
        }
    }

    /// The feature must stay as it is.
    pub fn immutable(&mut self, name: &str) -> Result<&mut Wishes, WishError> {
        self.each(name, |wish| wish.immutable = true)
    }

    /// The feature must stay within its tolerance, for a further way.
    pub fn hold(&mut self, name: &str) -> Result<&mut Wishes, WishError> {
        self.each(name, |wish| wish.held = true)
    }

    /// All features except these are immutable. Features that are immutable already remain so.
    pub fn features_to_vary(&mut self, names: &[&str]) -> Result<&mut Wishes, WishError> {
        let varied: Vec<Range<usize>> =
            names.iter().map(|name| self.schema.named(name)).collect::<Result<_, SchemaError>>()?;
        for (index, wish) in self.features.iter_mut().enumerate() {
            wish.immutable |= !varied.iter().any(|range| range.contains(&index));
        }
        Ok(self)
    }

    /// The feature may only increase.
    pub fn only_up(&mut self, name: &str) -> Result<&mut Wishes, WishError> {
        self.ordered(name, OrderedWish::Direction)?;
        self.each(name, |wish| wish.only_up = true)
    }

    /// The feature may only decrease.
    pub fn only_down(&mut self, name: &str) -> Result<&mut Wishes, WishError> {
        self.ordered(name, OrderedWish::Direction)?;
        self.each(name, |wish| wish.only_down = true)
    }

    /// Numbers within the tolerance count as unchanged: they cost nothing and are no change for
    /// [`max_changes`](Wishes::max_changes). The tolerance is a number in the unit of the feature,
    /// or a percentage of its value range. It also loosens the constraints of the feature, so it
    /// must be given before them. A tolerance of 0 counts every difference.
    pub fn tolerance(&mut self, name: &str, tolerance: &Value) -> Result<&mut Wishes, WishError> {
        let indices = self.schema.named(name)?;
        let feature = &self.schema.features()[indices.start];
        let tolerance = metric::tolerance(feature, tolerance)
            .ok_or_else(|| WishError::Tolerance { feature: name.into(), value: tolerance.to_string() })?;
        self.each(name, |wish| {
            wish.tolerance = tolerance;
            wish.is_tolerance_named = true;
        })
    }

    /// Sets the tolerance of all numbers, as a share of their value range. It loosens nothing.
    pub fn tolerance_of_all(&mut self, share: f64) -> &mut Wishes {
        for (wish, feature) in self.features.iter_mut().zip(self.schema.features()) {
            wish.tolerance = if feature.words().is_empty() { share * feature.value_range() } else { 0.0 };
        }
        self
    }

    /// Whether a value of this level counts as the user's own.
    pub fn counts_as_unchanged(&self, index: usize, own: &EncodedValue, level: u32) -> bool {
        let parts = self.features.get(index).zip(self.schema.features().get(index));
        parts.is_some_and(|(wish, feature)| wish.is_unchanged(feature, own, level))
    }

    /// The feature must be between two values, inclusive; `None` means no bound. Only levels that
    /// are completely within the range are permitted.
    pub fn permitted_range(
        &mut self,
        name: &str,
        low: Option<&Value>,
        high: Option<&Value>,
    ) -> Result<&mut Wishes, WishError> {
        let feature = self.ordered(name, OrderedWish::Range)?;
        let bound = |value: Option<&Value>, unbounded: f64| match value {
            Some(value) => feature.number(value).ok_or_else(|| feature.not_a_bound(value)),
            None => Ok(unbounded),
        };
        let named = self.schema.named(name)?.find_map(|k| self.features.get(k)).map_or(0.0, Wish::named_tolerance);
        let (bottom, top) = (bound(low, f64::NEG_INFINITY)? - named, bound(high, f64::INFINITY)? + named);
        let intervals: Vec<Interval> = (0..=feature.max_level()).filter_map(|level| feature.interval(level)).collect();
        let permitted: Vec<bool> = intervals.iter().map(|i| i.low >= bottom && i.high <= top).collect();
        // Intervals do not contain their upper ends, except for the last one.
        let is_partly_within = |(level, i): &(u32, &Interval)| {
            let reaches = bottom < i.high || *level == feature.max_level() && bottom == i.high;
            !i.is_point() && (i.low < bottom && reaches || i.low <= top && top < i.high)
        };
        let across: Vec<u32> = (0..).zip(&intervals).filter(is_partly_within).map(|(level, _)| level).collect();
        if !permitted.contains(&true) {
            let near = if bottom.is_finite() { bottom } else { top };
            return Err(WishError::Range { feature: name.into(), near: nearest_levels(feature, &intervals, near) });
        }
        let range = CrossedLimit::Range { low: low.map(Value::to_string), high: high.map(Value::to_string) };
        self.each(name, |wish| {
            wish.permit(&permitted);
            wish.across.push((range.clone(), across.clone()));
        })
    }

    /// The feature must have one of these values. Levels that contain other values too are refused.
    pub fn permitted_values(&mut self, name: &str, values: &[Value]) -> Result<&mut Wishes, WishError> {
        let indices = self.schema.named(name)?;
        let column =
            self.schema.columns().into_iter().find(|column| column.features == indices).map(|c| c.name.to_owned());
        // A value of a one-hot column is one level for each of its features. Each feature permits
        // the levels of all permitted values.
        let mut permitted: Vec<Vec<bool>> =
            indices.clone().map(|k| vec![false; self.schema.features()[k].max_level() as usize + 1]).collect();
        for value in values {
            let levels = match &column {
                Some(name) => {
                    let column = crate::schema::Column { name, features: indices.clone() };
                    let mut levels = vec![];
                    self.schema.encode_column(&column, value, &mut levels)?;
                    levels
                }
                None => vec![self.schema.features()[indices.start].encode(value)?],
            };
            for ((permitted, encoded), feature) in
                permitted.iter_mut().zip(levels).zip(&self.schema.features()[indices.clone()])
            {
                if let Some(number) = encoded.number {
                    let interval = feature.interval(encoded.level);
                    if interval.is_none_or(|i| !(i.is_point() && i.low == number)) {
                        let has_intervals = !interval.is_some_and(|i| i.is_point());
                        return Err(WishError::Outside {
                            feature: name.into(),
                            value: value.to_string(),
                            has_intervals,
                        });
                    }
                }
                permitted[encoded.level as usize] = true;
            }
        }
        for (wish, permitted) in self.features[indices].iter_mut().zip(&permitted) {
            wish.permit(permitted);
        }
        Ok(self)
    }

    /// Multiplies the cost of changes of the feature, in both directions. The weight is 0.01 to
    /// 1,000; schemes without cost tables support integers only.
    pub fn weight(&mut self, name: &str, weight: f64) -> Result<&mut Wishes, WishError> {
        let weight = Weight::new(weight, weight);
        weight.check(name)?;
        self.each(name, |wish| wish.weight = weight)
    }

    /// Different weights for increases and decreases.
    pub fn asymmetric(&mut self, name: &str, up: f64, down: f64) -> Result<&mut Wishes, WishError> {
        self.ordered(name, OrderedWish::Direction)?;
        let weight = Weight::new(up, down);
        weight.check(name)?;
        self.each(name, |wish| wish.weight = weight)
    }

    /// A cost table, which replaces the metric: the cost of each target value. It has one entry for
    /// every word of the feature. For a number it has points with linear interpolation between them
    /// and constant cost beyond them. Weights multiply it.
    pub fn costs(&mut self, name: &str, costs: &[(Value, f64)]) -> Result<&mut Wishes, WishError> {
        let indices = self.schema.named(name)?;
        let feature = &self.schema.features()[indices.start];
        let refuse = |fault| Err(WishError::Cost { feature: name.into(), fault });
        if indices.len() > 1 || feature.one_hot.is_some() {
            return refuse(CostTableFault::OneHot);
        }
        let mut points = vec![];
        for (value, cost) in costs {
            if !(cost.is_finite() && (0.0..=1e9).contains(cost)) {
                return refuse(CostTableFault::Cost { cost: cost.to_string(), value: value.to_string() });
            }
            let encoded = feature.encode(value)?;
            points.push((encoded.number.unwrap_or(encoded.level.into()), *cost));
        }
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        if points.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return refuse(CostTableFault::Twice);
        }
        let words = feature.own_words();
        if words.is_empty() && points.is_empty() {
            return refuse(CostTableFault::Empty);
        }
        if !words.is_empty() && points.len() != words.len() {
            let missing = words.iter().find(|word| !costs.iter().any(|(value, _)| value.to_string() == **word));
            return refuse(CostTableFault::Incomplete { word: missing.cloned() });
        }
        if feature.mixed {
            // The word of the group is not known, so it costs as much as the most expensive one.
            let highest = points.iter().map(|(_, cost)| *cost).fold(0.0, f64::max);
            points.push((feature.max_level().into(), highest));
        }
        self.each(name, |wish| wish.costs = Some(points.clone()))
    }

    /// Sets the metric of one feature.
    pub fn set_metric(&mut self, name: &str, metric: Metric) -> Result<&mut Wishes, WishError> {
        self.each(name, |wish| wish.metric = metric)
    }

    /// Sets the metric of all features.
    pub fn set_metric_of_all(&mut self, metric: Metric) -> &mut Wishes {
        self.features.iter_mut().for_each(|wish| wish.metric = metric);
        self
    }

    /// Returns only rows that change at most `most` features. Fewer changes come first, then lower
    /// costs.
    pub fn max_changes(&mut self, most: u64) -> &mut Wishes {
        self.max_changes = Some(most);
        self
    }

    /// Further searches will hold features, so the scheme must support that.
    pub fn several_ways(&mut self) -> &mut Wishes {
        self.has_several_ways = true;
        self
    }

    /// Whether the wishes permit a column to stay at the user's value.
    pub fn can_stay(&self, name: &str, own: &[EncodedValue]) -> bool {
        let stays = |index: usize| match (self.features.get(index), own.get(index)) {
            (Some(wish), Some(own)) => wish.permits(&self.schema.features()[index], own, own.level),
            _ => false,
        };
        self.schema.named(name).is_ok_and(|mut indices| indices.all(stays))
    }

    /// What the wishes need of a scheme.
    pub fn needs(&self) -> Needs {
        Needs { cost_model: self.required_cost_model(), constraint: self.required_constraint() }
    }

    /// Checks that a scheme supports the wishes. The error names one of `others` that does; if
    /// there is none, the cheapest scheme that does.
    pub fn check_supported(
        &self,
        scheme: &'static Scheme,
        mut others: impl Iterator<Item = &'static Scheme>,
    ) -> Result<(), WishError> {
        let needs = self.needs();
        if scheme.supports(needs) {
            return Ok(());
        }
        let what = if scheme.supports_constraint(needs.constraint) {
            match needs.cost_model {
                CostModel::Table => UnsupportedWish::Costs,
                _ => UnsupportedWish::Weights,
            }
        } else {
            match needs.constraint {
                ConstraintKind::Table => UnsupportedWish::Gates,
                _ if self.has_several_ways => UnsupportedWish::Ways,
                _ => UnsupportedWish::Immutable,
            }
        };
        let able = others.find(|other| other.supports(needs));
        let able = able.unwrap_or_else(|| scheme::smallest(needs.cost_model, needs.constraint));
        Err(WishError::Unsupported { scheme: scheme.name, what, instead: able.name })
    }

    fn required_cost_model(&self) -> CostModel {
        let plain = |(wish, feature): (&Wish, &Feature)| {
            let plain = wish.metric == Metric::L2 && wish.costs.is_none() && wish.weight.integer().is_some();
            let plain = plain && wish.named_tolerance() == 0.0;
            plain && !feature.is_nominal()
        };
        if self.max_changes.is_some() || !self.features.iter().zip(self.schema.features()).all(plain) {
            CostModel::Table
        } else if self.features.iter().any(|wish| wish.weight != Weight::default()) {
            CostModel::Weighted
        } else {
            CostModel::Squared
        }
    }

    fn required_constraint(&self) -> ConstraintKind {
        let needs_table = |wish: &Wish| {
            let is_loose = wish.immutable && wish.named_tolerance() > 0.0;
            wish.only_up || wish.only_down || wish.permitted.is_some() || is_loose
        };
        if self.features.iter().any(needs_table) {
            ConstraintKind::Table
        } else if self.has_several_ways || self.features.iter().any(|wish| wish.immutable) {
            ConstraintKind::Zeros
        } else {
            ConstraintKind::None
        }
    }

    fn each(&mut self, name: &str, change: impl Fn(&mut Wish)) -> Result<&mut Wishes, WishError> {
        let indices = self.schema.named(name)?;
        self.features[indices].iter_mut().for_each(change);
        Ok(self)
    }

    /// The feature with this name, if its values have an order.
    fn ordered(&self, name: &str, what: OrderedWish) -> Result<&Feature, WishError> {
        let indices = self.schema.named(name)?;
        let feature = &self.schema.features()[indices.start];
        if indices.len() > 1 || feature.is_categorical() {
            return Err(WishError::NoOrder { feature: name.into(), what });
        }
        Ok(feature)
    }
}

/// The levels nearest to a number, for error messages.
fn nearest_levels(feature: &Feature, intervals: &[Interval], number: f64) -> Vec<LevelText> {
    let level = intervals.partition_point(|interval| interval.high < number);
    let shown = |level: usize| feature.show_level(u32::try_from(level).ok()?);
    (level.saturating_sub(1)..=level + 1).filter(|&level| level < intervals.len()).filter_map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_with_two_readings_is_refused_with_both_and_a_number_is_a_number() {
        use crate::schema::{FeatureKind, Notation, Quantiser, Scale};
        let notation =
            Notation::Formatted { prefix: String::new(), suffix: " €".into(), thousands: Some('.'), decimal: ',' };
        let scale = Scale::levels(0.0, 10_000.0, 10_000, Quantiser::Round).unwrap();
        let debt = Feature::new("debt", FeatureKind::Numeric { scale, notation });
        let schema = Schema::new(vec![debt.clone()]).unwrap();
        let error = debt.encode(&"1.500".into()).unwrap_err();
        assert!(error.to_string().contains("\"1.500\" can mean 1.500 € or 1,5 €"), "{error}");
        let mut wishes = Wishes::new(&schema);
        let refused = wishes.permitted_range("debt", Some(&"1.500".into()), None).err();
        assert_eq!(refused, Some(WishError::Schema(error)));
        let number = |value: Value| debt.encode(&value).unwrap().number;
        assert_eq!(number(1.5.into()), Some(1.5));
        assert_eq!(number(1500.0.into()), Some(1500.0));
        assert_eq!([number("1.500 €".into()), number("1,5 €".into())], [Some(1500.0), Some(1.5)]);
    }

    #[test]
    fn a_missing_value_is_no_bound_of_a_range() {
        use crate::schema::{FeatureKind, Quantiser, Scale};
        let kind = FeatureKind::from(Scale::levels(0.0, 10.0, 10, Quantiser::Round).unwrap());
        let schema = Schema::new(vec![Feature { default: Some("3".into()), ..Feature::new("debt", kind) }]).unwrap();
        let mut wishes = Wishes::new(&schema);
        let mut range = |low: &str| wishes.permitted_range("debt", Some(&low.into()), Some(&8.0.into())).map(drop);
        assert!(matches!(range("NA"), Err(WishError::Schema(SchemaError::NotANumber { .. }))));
        assert_eq!(range("2"), Ok(()));
    }
}
