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
//! [`Wishes::smallest_scheme`] names the cheapest scheme that supports the wishes: squared
//! distances need linear row functions, weights polynomial ones, everything else tables. Servers
//! see which scheme is used, so a client must not choose it by the wishes. It uses the default
//! scheme of the deployment or the scheme that the user chose openly.

mod compile;
mod metric;
mod note;

pub use compile::CompiledWishes;
pub use metric::{Metric, UnknownMetric, Weight};
pub use note::WishNote;

use crate::schema::{Feature, Interval, Schema, SchemaError, Value};
use ifonly_core::scheme::{self, ConstraintKind, CostModel, Scheme};
use ifonly_core::secret_query::SecretQueryError;
use std::ops::Range;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// Why wishes are refused. The user must change them. No query was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WishError {
    /// The feature is unknown, or the value is not valid for it.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// No level of the feature satisfies all wishes.
    #[error("feature {feature:?}: no value satisfies all wishes; relax one of them")]
    Impossible {
        /// The name of the feature.
        feature: String,
    },
    /// The weight is out of range.
    #[error("feature {feature:?}: weight {weight} is not {}{least} to {most}{}", weight_range(.integer), weight_hint(.integer))]
    Weight {
        /// The name of the feature.
        feature: String,
        /// The given weight.
        weight: String,
        /// The smallest permitted weight.
        least: String,
        /// The largest permitted weight.
        most: String,
        /// Whether the scheme supports integers only.
        integer: bool,
    },
    /// The permitted range contains no complete level.
    #[error(
        "feature {feature:?}: no level lies wholly within the permitted range; widen the range or swap its bounds. \
         The nearest levels are {near}"
    )]
    Range {
        /// The name of the feature.
        feature: String,
        /// The nearest levels, as text.
        near: String,
    },
    /// The permitted value is not the value of a level.
    #[error("feature {feature:?}: the permitted value {value} is not one of its values{hint}")]
    Outside {
        /// The name of the feature.
        feature: String,
        /// The given value.
        value: String,
        /// What to do instead; may be empty.
        hint: &'static str,
    },
    /// The cost table is not valid.
    #[error("feature {feature:?}: {reason}")]
    Cost {
        /// The name of the feature.
        feature: String,
        /// Why it is refused.
        reason: String,
    },
    /// The values of the feature have no order, so it cannot have a direction or a range.
    #[error(
        "the values of feature {feature:?} have no order, so it cannot have a {what}; list the permitted values instead"
    )]
    NoOrder {
        /// The name of the feature.
        feature: String,
        /// Direction or range.
        what: &'static str,
    },
    /// The metric `mad` needs the deviation of the feature.
    #[error(
        "the manifest has no deviation of feature {feature:?}, which the metric mad needs; choose another metric for it"
    )]
    NoDeviation {
        /// The name of the feature.
        feature: String,
    },
    /// The scheme does not support a wish.
    #[error(
        "scheme {scheme} does not support {what}; choose a scheme that does, such as {instead} (the servers see which \
         scheme is used)"
    )]
    NotCarried {
        /// The name of the scheme.
        scheme: &'static str,
        /// The wish.
        what: &'static str,
        /// The cheapest scheme that supports all wishes.
        instead: &'static str,
    },
    /// The secret query exceeds a limit of the deployment.
    #[error(transparent)]
    Secret(#[from] SecretQueryError),
}

/// The wishes of one user for one database.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Wishes {
    #[zeroize(skip)]
    schema: Schema,
    features: Vec<Wish>,
    max_changes: Option<u64>,
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
    /// For each permitted range, its text and the levels that are only partly within it.
    across: Vec<(String, Vec<u32>)>,
    weight: Weight,
    metric: Metric,
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
            costs: None,
        };
        Wishes { features: vec![wish; schema.features().len()], schema: schema.clone(), max_changes: None }
    }

    /// The feature must stay as it is.
    pub fn immutable(&mut self, name: &str) -> Result<&mut Wishes, WishError> {
        self.each(name, |wish| wish.immutable = true)
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
        self.ordered(name, "direction")?;
        self.each(name, |wish| wish.only_up = true)
    }

    /// The feature may only decrease.
    pub fn only_down(&mut self, name: &str) -> Result<&mut Wishes, WishError> {
        self.ordered(name, "direction")?;
        self.each(name, |wish| wish.only_down = true)
    }

    /// The feature must be between two values, inclusive; `None` means no bound. Only levels that
    /// are completely within the range are permitted.
    pub fn permitted_range(
        &mut self,
        name: &str,
        low: Option<&Value>,
        high: Option<&Value>,
    ) -> Result<&mut Wishes, WishError> {
        let feature = self.ordered(name, "range")?;
        let bound = |value: Option<&Value>, unbounded: f64| match value {
            // For a text without a number, `encode` returns the error.
            Some(value) => feature.number(value).map_or_else(|| feature.encode(value).map(|_| unbounded), Ok),
            None => Ok(unbounded),
        };
        let (bottom, top) = (bound(low, f64::NEG_INFINITY)?, bound(high, f64::INFINITY)?);
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
        let text = |value: Option<&Value>| value.map(|value| value.to_string());
        let range = match (text(low), text(high)) {
            (Some(low), Some(high)) => format!("{low} to {high}"),
            (Some(low), None) => format!("{low} and above"),
            (None, Some(high)) => format!("up to {high}"),
            (None, None) => "anything".into(),
        };
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
                        let is_point = interval.is_some_and(|i| i.is_point());
                        let hint =
                            if is_point { "" } else { ", because its levels are intervals; give a range instead" };
                        return Err(WishError::Outside { feature: name.into(), value: value.to_string(), hint });
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
        self.ordered(name, "direction")?;
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
        let refuse = |reason: String| Err(WishError::Cost { feature: name.into(), reason });
        if indices.len() > 1 || feature.one_hot.is_some() {
            return refuse("a one-hot column cannot have a cost table; use a weight instead".into());
        }
        let mut points = vec![];
        for (value, cost) in costs {
            if !(cost.is_finite() && (0.0..=1e9).contains(cost)) {
                return refuse(format!("the cost {cost} of {value} is not in the range 0 to 1,000,000,000"));
            }
            let encoded = feature.encode(value)?;
            points.push((encoded.number.unwrap_or(encoded.level.into()), *cost));
        }
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        if points.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return refuse("the cost table lists a value twice".into());
        }
        let words = feature.words();
        if words.is_empty() && points.is_empty() {
            return refuse("the cost table is empty".into());
        }
        if !words.is_empty() && points.len() != words.len() {
            let missing = words.iter().find(|word| !costs.iter().any(|(value, _)| value.to_string() == **word));
            let missing = missing.map_or(String::new(), |word| format!("; {word:?} has none"));
            return refuse(format!("the cost table must have a cost for every value{missing}"));
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

    /// The cheapest scheme of one phase that supports these wishes.
    pub fn smallest_scheme(&self) -> &'static Scheme {
        scheme::leanest(self.required_cost_model(), self.required_constraint())
    }

    fn required_cost_model(&self) -> CostModel {
        let plain = |(wish, feature): (&Wish, &Feature)| {
            let plain = wish.metric == Metric::L2 && wish.costs.is_none() && wish.weight.integer().is_some();
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
        if self.features.iter().any(|wish| wish.only_up || wish.only_down || wish.permitted.is_some()) {
            ConstraintKind::Table
        } else if self.features.iter().any(|wish| wish.immutable) {
            ConstraintKind::Zeros
        } else {
            ConstraintKind::None
        }
    }

    fn check_supported(&self, scheme: &'static Scheme) -> Result<(), WishError> {
        let instead = self.smallest_scheme().name;
        let refuse = |what| Err(WishError::NotCarried { scheme: scheme.name, what, instead });
        match self.required_constraint() {
            constraint if scheme.carries_gate(constraint) => {}
            ConstraintKind::Table => return refuse("permitted ranges, permitted values or directions"),
            _ => return refuse("immutable features"),
        }
        match self.required_cost_model() {
            model if scheme.carries_costs(model) => Ok(()),
            CostModel::Table => refuse("these metrics, weights, cost tables or limits on changes"),
            _ => refuse("weights"),
        }
    }

    fn each(&mut self, name: &str, change: impl Fn(&mut Wish)) -> Result<&mut Wishes, WishError> {
        let indices = self.schema.named(name)?;
        self.features[indices].iter_mut().for_each(change);
        Ok(self)
    }

    /// The feature with this name, if its values have an order.
    fn ordered(&self, name: &str, what: &'static str) -> Result<&Feature, WishError> {
        let indices = self.schema.named(name)?;
        let feature = &self.schema.features()[indices.start];
        if indices.len() > 1 || feature.is_categorical() {
            return Err(WishError::NoOrder { feature: name.into(), what });
        }
        Ok(feature)
    }
}

/// The levels nearest to a number, for error messages.
fn nearest_levels(feature: &Feature, intervals: &[Interval], number: f64) -> String {
    let level = intervals.partition_point(|interval| interval.high < number);
    let shown = |level: usize| feature.show_level(u32::try_from(level).ok()?);
    let near: Vec<String> =
        (level.saturating_sub(1)..=level + 1).filter(|&level| level < intervals.len()).filter_map(shown).collect();
    near.join(", ")
}

fn weight_range(integer: &bool) -> &'static str {
    if *integer { "an integer from " } else { "in the range " }
}

fn weight_hint(integer: &bool) -> &'static str {
    if *integer { ", the limit of this scheme; schemes with cost tables support 0.01 to 1,000" } else { "" }
}
