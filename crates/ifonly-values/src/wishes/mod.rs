//! What a person wants, in their own words, compiled to the secret of a query.
//!
//! Wishes speak of features by name: immutable ones, weights, permitted ranges and sets, one-way
//! features, and how a change is priced. They hold in *values*: a level is permitted only if all
//! its values are, and what that excludes at the edges is said in a [`Note`]. [`Wishes::compile`]
//! turns them, with the person's own values, into a [`Secret`](ifonly_core::secret_query::Secret)
//! for a given scheme and refuses what cannot be before anything is sent.
//! [`Wishes::smallest_scheme`] names the leanest scheme that can carry them (squared distances are
//! linear forms, weights quadratic ones, everything else tables). Which scheme is *used* is public,
//! so a client must not follow that advice in secret: the scheme is the deployment's default or the
//! person's open choice.

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

/// Why wishes cannot be granted. The person must change them; nothing has been sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WishError {
    /// An unknown feature, or a value it does not take.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// No level of the feature would be left.
    #[error("feature {feature:?}: the wishes leave no permitted value; relax one of them")]
    Impossible {
        /// Which feature.
        feature: String,
    },
    /// A weight that nobody could mean.
    #[error("feature {feature:?}: weight {weight} is not in {least} to {most}{}", in_whole_numbers(.whole))]
    Weight {
        /// Which feature.
        feature: String,
        /// As given.
        weight: String,
        /// The smallest.
        least: String,
        /// The largest.
        most: String,
        /// Whether the scheme takes whole numbers only.
        whole: bool,
    },
    /// A range with no whole level in it.
    #[error(
        "feature {feature:?}: no level lies wholly within the permitted range; widen it or swap its ends. Near it are {near}"
    )]
    Range {
        /// Which feature.
        feature: String,
        /// The levels next to it.
        near: String,
    },
    /// A permitted value that the feature never takes.
    #[error("feature {feature:?}: the permitted value {value} is none of its values{hint}")]
    Outside {
        /// Which feature.
        feature: String,
        /// As given.
        value: String,
        /// What to do.
        hint: &'static str,
    },
    /// A cost that is no cost.
    #[error("feature {feature:?}: {reason}")]
    Cost {
        /// Which feature.
        feature: String,
        /// What is wrong.
        reason: String,
    },
    /// Only ordered features have directions and ranges.
    #[error("feature {feature:?} has no order, so it has no {what}; permit a set of values instead")]
    NoOrder {
        /// Which feature.
        feature: String,
        /// Direction or range.
        what: &'static str,
    },
    /// MAD-scaled costs need the statistic.
    #[error("feature {feature:?} has no deviation in the manifest; choose another cost for it")]
    NoDeviation {
        /// Which feature.
        feature: String,
    },
    /// The scheme has no place for a wish.
    #[error("scheme {scheme} cannot carry {what}; {instead} can (the servers see which scheme is asked for)")]
    NotCarried {
        /// The scheme's name.
        scheme: &'static str,
        /// Which wish.
        what: &'static str,
        /// The leanest scheme that can.
        instead: &'static str,
    },
    /// More wishes than the deployment has room for.
    #[error(transparent)]
    Secret(#[from] SecretQueryError),
}

/// The wishes of one person about one database.
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

/// The wishes about one feature.
#[derive(Clone, Zeroize)]
struct Wish {
    immutable: bool,
    only_up: bool,
    only_down: bool,
    /// Permitted levels; `None` permits all.
    permitted: Option<Vec<bool>>,
    /// What the permitted ranges cut in two, each with the words for it.
    across: Vec<(String, Vec<u32>)>,
    weight: Weight,
    pricing: Metric,
    /// Costs by value, instead of a price; the values of an ordered feature are points on a line.
    costs: Option<Vec<(f64, f64)>>,
}

impl Wishes {
    /// Somebody who would change anything, priced by squared distance.
    pub fn new(schema: &Schema) -> Wishes {
        let wish = Wish {
            immutable: false,
            only_up: false,
            only_down: false,
            permitted: None,
            across: vec![],
            weight: Weight::default(),
            pricing: Metric::default(),
            costs: None,
        };
        Wishes { features: vec![wish; schema.features().len()], schema: schema.clone(), max_changes: None }
    }

    /// The feature must stay as it is.
    pub fn immutable(&mut self, name: &str) -> Result<&mut Wishes, WishError> {
        self.each(name, |wish| wish.immutable = true)
    }

    /// Only these features may change; all others are immutable, as well as those that are so
    /// already.
    pub fn features_to_vary(&mut self, names: &[&str]) -> Result<&mut Wishes, WishError> {
        let varied: Vec<Range<usize>> =
            names.iter().map(|name| self.schema.named(name)).collect::<Result<_, SchemaError>>()?;
        for (place, wish) in self.features.iter_mut().enumerate() {
            wish.immutable |= !varied.iter().any(|range| range.contains(&place));
        }
        Ok(self)
    }

    /// The feature may only grow.
    pub fn only_up(&mut self, name: &str) -> Result<&mut Wishes, WishError> {
        self.ordered(name, "direction")?;
        self.each(name, |wish| wish.only_up = true)
    }

    /// The feature may only shrink.
    pub fn only_down(&mut self, name: &str) -> Result<&mut Wishes, WishError> {
        self.ordered(name, "direction")?;
        self.each(name, |wish| wish.only_down = true)
    }

    /// The feature must end between two values, both included; `None` leaves an end open. Only
    /// levels whose values all lie within are permitted.
    pub fn permitted_range(
        &mut self,
        name: &str,
        low: Option<&Value>,
        high: Option<&Value>,
    ) -> Result<&mut Wishes, WishError> {
        let feature = self.ordered(name, "range")?;
        let end = |value: Option<&Value>, open: f64| match value {
            // Let the feature say what is wrong with a text that it cannot read.
            Some(value) => feature.number(value).map_or_else(|| feature.encode(value).map(|_| open), Ok),
            None => Ok(open),
        };
        let (bottom, top) = (end(low, f64::NEG_INFINITY)?, end(high, f64::INFINITY)?);
        let intervals: Vec<Interval> = (0..=feature.max_level()).filter_map(|level| feature.interval(level)).collect();
        let permitted: Vec<bool> = intervals.iter().map(|i| i.low >= bottom && i.high <= top).collect();
        // An interval does not hold its upper end, but for the last one.
        let cut = |(level, i): &(u32, &Interval)| {
            let reaches = bottom < i.high || *level == feature.max_level() && bottom == i.high;
            !i.is_point() && (i.low < bottom && reaches || i.low <= top && top < i.high)
        };
        let across: Vec<u32> = (0..).zip(&intervals).filter(cut).map(|(level, _)| level).collect();
        if !permitted.contains(&true) {
            let near = if bottom.is_finite() { bottom } else { top };
            return Err(WishError::Range { feature: name.into(), near: near_levels(feature, &intervals, near) });
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

    /// The feature must end at one of these values. A level that holds other values too is not
    /// permitted.
    pub fn permitted_values(&mut self, name: &str, values: &[Value]) -> Result<&mut Wishes, WishError> {
        let places = self.schema.named(name)?;
        let column =
            self.schema.columns().into_iter().find(|column| column.features == places).map(|c| c.name.to_owned());
        // One value of a one-hot column is one pattern of levels over its features; each feature
        // permits what some value has.
        let mut permitted: Vec<Vec<bool>> =
            places.clone().map(|k| vec![false; self.schema.features()[k].max_level() as usize + 1]).collect();
        for value in values {
            let levels = match &column {
                Some(name) => {
                    let column = crate::schema::Column { name, features: places.clone() };
                    let mut levels = vec![];
                    self.schema.encode_column(&column, value, &mut levels)?;
                    levels
                }
                None => vec![self.schema.features()[places.start].encode(value)?],
            };
            for ((permitted, encoded), feature) in
                permitted.iter_mut().zip(levels).zip(&self.schema.features()[places.clone()])
            {
                if let Some(number) = encoded.number {
                    let interval = feature.interval(encoded.level);
                    if interval.is_none_or(|i| !(i.is_point() && i.low == number)) {
                        let point = interval.is_some_and(|i| i.is_point());
                        let hint = if point { "" } else { ", because its levels are intervals; give a range instead" };
                        return Err(WishError::Outside { feature: name.into(), value: value.to_string(), hint });
                    }
                }
                permitted[encoded.level as usize] = true;
            }
        }
        for (wish, permitted) in self.features[places].iter_mut().zip(&permitted) {
            wish.permit(permitted);
        }
        Ok(self)
    }

    /// Changes of the feature count so many times, in both directions: 0.01 to 1,000, whole numbers
    /// where the scheme wants that.
    pub fn weight(&mut self, name: &str, weight: f64) -> Result<&mut Wishes, WishError> {
        let weight = Weight::new(weight, weight);
        weight.check(name)?;
        self.each(name, |wish| wish.weight = weight)
    }

    /// Growing and shrinking count differently.
    pub fn asymmetric(&mut self, name: &str, up: f64, down: f64) -> Result<&mut Wishes, WishError> {
        self.ordered(name, "direction")?;
        let weight = Weight::new(up, down);
        weight.check(name)?;
        self.each(name, |wish| wish.weight = weight)
    }

    /// What ending at a value costs, instead of a price: one entry for every word of a feature of
    /// words, or points of a number, straight lines between them and level beyond them. Weights
    /// multiply it.
    pub fn costs(&mut self, name: &str, costs: &[(Value, f64)]) -> Result<&mut Wishes, WishError> {
        let places = self.schema.named(name)?;
        let feature = &self.schema.features()[places.start];
        let refuse = |reason: String| Err(WishError::Cost { feature: name.into(), reason });
        if places.len() > 1 || feature.one_hot.is_some() {
            return refuse("a one-hot column takes no cost table; give it a weight".into());
        }
        let mut points = vec![];
        for (value, cost) in costs {
            if !(cost.is_finite() && (0.0..=1e9).contains(cost)) {
                return refuse(format!("the cost {cost} of {value} is not in 0 to 1,000,000,000"));
            }
            let encoded = feature.encode(value)?;
            points.push((encoded.number.unwrap_or(encoded.level.into()), *cost));
        }
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        if points.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return refuse("its cost table lists a value twice".into());
        }
        let words = feature.words();
        if points.is_empty() || !words.is_empty() && points.len() != words.len() {
            let missing = words.iter().find(|word| !costs.iter().any(|(value, _)| value.to_string() == **word));
            let missing = missing.map_or(String::new(), |word| format!(": {word:?} has none"));
            return refuse(format!("its cost table must have a cost for every value{missing}"));
        }
        self.each(name, |wish| wish.costs = Some(points.clone()))
    }

    /// How changes of the feature are priced.
    pub fn set_metric(&mut self, name: &str, pricing: Metric) -> Result<&mut Wishes, WishError> {
        self.each(name, |wish| wish.pricing = pricing)
    }

    /// How changes of all features are priced.
    pub fn set_metric_of_all(&mut self, pricing: Metric) -> &mut Wishes {
        self.features.iter_mut().for_each(|wish| wish.pricing = pricing);
        self
    }

    /// Prefer rows that change few features, and among those the nearest; rows with more than
    /// `most` changes do not count.
    pub fn max_changes(&mut self, most: u64) -> &mut Wishes {
        self.max_changes = Some(most);
        self
    }

    /// The leanest scheme that can carry these wishes in one round.
    pub fn smallest_scheme(&self) -> &'static Scheme {
        scheme::leanest(self.smallest_metric(), self.smallest_gate())
    }

    fn smallest_metric(&self) -> CostModel {
        let plain = |(wish, feature): (&Wish, &Feature)| {
            let plain = wish.pricing == Metric::L2 && wish.costs.is_none() && wish.weight.whole().is_some();
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

    fn smallest_gate(&self) -> ConstraintKind {
        if self.features.iter().any(|wish| wish.only_up || wish.only_down || wish.permitted.is_some()) {
            ConstraintKind::Table
        } else if self.features.iter().any(|wish| wish.immutable) {
            ConstraintKind::Zeros
        } else {
            ConstraintKind::None
        }
    }

    fn check_carried(&self, scheme: &'static Scheme) -> Result<(), WishError> {
        let instead = self.smallest_scheme().name;
        let refuse = |what| Err(WishError::NotCarried { scheme: scheme.name, what, instead });
        match self.smallest_gate() {
            gate if scheme.carries_gate(gate) => {}
            ConstraintKind::Table => return refuse("permitted ranges, sets or directions"),
            _ => return refuse("immutable features"),
        }
        match self.smallest_metric() {
            metric if scheme.carries_costs(metric) => Ok(()),
            CostModel::Table => refuse("these costs"),
            _ => refuse("weights"),
        }
    }

    fn each(&mut self, name: &str, change: impl Fn(&mut Wish)) -> Result<&mut Wishes, WishError> {
        let places = self.schema.named(name)?;
        self.features[places].iter_mut().for_each(change);
        Ok(self)
    }

    /// The one feature of that name, if its values have an order.
    fn ordered(&self, name: &str, what: &'static str) -> Result<&Feature, WishError> {
        let places = self.schema.named(name)?;
        let feature = &self.schema.features()[places.start];
        if places.len() > 1 || feature.is_categorical() {
            return Err(WishError::NoOrder { feature: name.into(), what });
        }
        Ok(feature)
    }
}

/// The levels next to a number, for messages.
fn near_levels(feature: &Feature, intervals: &[Interval], number: f64) -> String {
    let place = intervals.partition_point(|interval| interval.high < number);
    let shown = |place: usize| feature.show_level(u32::try_from(place).ok()?);
    let near: Vec<String> =
        (place.saturating_sub(1)..=place + 1).filter(|&place| place < intervals.len()).filter_map(shown).collect();
    near.join(", ")
}

fn in_whole_numbers(whole: &bool) -> &'static str {
    if *whole {
        ", in whole numbers, the manifest's limit for this scheme; table schemes take 0.01 to 1,000"
    } else {
        ""
    }
}
