//! What a person wants, in their own words, compiled to the secret of a query.
//!
//! Wishes speak of features by name: immutable ones, weights, permitted ranges and sets, one-way features, and how a change
//! is priced. [`Wishes::compile`] turns them, with the person's own levels, into a [`Secret`] for a given scheme and refuses
//! what cannot be before anything is sent. [`Wishes::smallest_scheme`] names the leanest scheme that can carry them (squared
//! distances are linear forms, weights quadratic ones, everything else tables). Which scheme is *used* is public, so a
//! client must not follow that advice in secret: the scheme is the deployment's default or the person's open choice.

mod price;

pub use price::Pricing;

use crate::params::Params;
use crate::schema::{Feature, Kind, Schema, SchemaError, Value};
use crate::scheme::{self, Gate, Metric, Scheme};
use crate::secret::{Secret, SecretError};
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
    /// A weight is 0 or above the manifest's limit.
    #[error("feature {feature:?}: weight {weight} is not in 1..={limit}, the manifest's limit")]
    Weight {
        /// Which feature.
        feature: String,
        /// As given.
        weight: u64,
        /// L1.
        limit: u64,
    },
    /// A range with no level in it.
    #[error("feature {feature:?}: the permitted range holds none of its levels; widen it or swap its ends")]
    Range {
        /// Which feature.
        feature: String,
    },
    /// A permitted value that the feature never takes.
    #[error("feature {feature:?}: a permitted value is outside the feature's bounds")]
    Outside {
        /// Which feature.
        feature: String,
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
    #[error("feature {feature:?} has no MAD in the manifest, or it is 0; choose another cost for it")]
    NoMad {
        /// Which feature.
        feature: String,
    },
    /// The costs do not fit into the deployment's tables.
    #[error(
        "feature {feature:?}: a change could cost {cost}, above the manifest's cost limit of {limit}; use smaller \
         weights or l1 costs"
    )]
    TooExpensive {
        /// Which feature.
        feature: String,
        /// The dearest change.
        cost: u64,
        /// The manifest's limit.
        limit: u64,
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
    Secret(#[from] SecretError),
}

/// The wishes of one person about one database.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Wishes {
    #[zeroize(skip)]
    schema: Schema,
    features: Vec<Wish>,
    few_changes: Option<u64>,
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
    weight_up: u64,
    weight_down: u64,
    pricing: Pricing,
}

/// A secret, and how to read its costs.
pub struct Compiled {
    /// What the search carries.
    pub secret: Secret,
    /// What one changed feature adds to the cost under [`Wishes::few_changes`]; 0 without it.
    change_unit: u64,
    at_most: Option<u64>,
}

impl std::fmt::Debug for Compiled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Compiled(..)")
    }
}

impl Compiled {
    /// How many features a row of this cost changes, where the wishes count changes.
    pub fn changes(&self, cost: u64) -> Option<u64> {
        cost.checked_div(self.change_unit)
    }

    /// The cost without the price of counting changes.
    pub fn distance(&self, cost: u64) -> u64 {
        cost.checked_rem(self.change_unit).unwrap_or(cost)
    }

    /// Whether a row of this cost keeps to "at most k changes". A preference: servers cannot filter by it, the client does.
    pub fn accepts(&self, cost: u64) -> bool {
        self.changes(cost).zip(self.at_most).is_none_or(|(changes, most)| changes <= most)
    }
}

impl Wishes {
    /// Somebody who would change anything, priced by squared distance.
    pub fn new(schema: &Schema) -> Wishes {
        let wish = Wish {
            immutable: false,
            only_up: false,
            only_down: false,
            permitted: None,
            weight_up: 1,
            weight_down: 1,
            pricing: Pricing::L2,
        };
        Wishes { features: vec![wish; schema.features().len()], schema: schema.clone(), few_changes: None }
    }

    /// The feature must stay as it is.
    pub fn immutable(&mut self, name: &str) -> Result<&mut Wishes, WishError> {
        self.each(name, |wish| wish.immutable = true)
    }

    /// Only these features may change; all others are immutable, as well as those that are so already.
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

    /// The feature must end between two values, both included; `None` leaves an end open. Ends between two levels are
    /// moved inwards, so that no level outside the range is permitted.
    pub fn permitted_range(
        &mut self,
        name: &str,
        low: Option<&Value>,
        high: Option<&Value>,
    ) -> Result<&mut Wishes, WishError> {
        let feature = self.ordered(name, "range")?;
        let (low, high) = (
            low.map_or(Ok(0), |value| at_least(feature, value))?,
            match high {
                Some(value) => at_most(feature, value)?,
                None => Some(feature.range()),
            },
        );
        let permitted: Vec<bool> =
            (0..=feature.range()).map(|level| level >= low && high.is_some_and(|high| level <= high)).collect();
        if !permitted.contains(&true) {
            return Err(WishError::Range { feature: name.into() });
        }
        self.each(name, |wish| wish.permit(&permitted))
    }

    /// The feature must end at one of these values.
    pub fn permitted_values(&mut self, name: &str, values: &[Value]) -> Result<&mut Wishes, WishError> {
        let places = self.schema.named(name)?;
        let column =
            self.schema.columns().into_iter().find(|column| column.features == places).map(|c| c.name.to_owned());
        // One value of a one-hot column is one pattern of levels over its features; each feature permits what some value has.
        let mut permitted: Vec<Vec<bool>> =
            places.clone().map(|k| vec![false; self.schema.features()[k].range() as usize + 1]).collect();
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
            if levels.iter().any(|encoded| encoded.clamped) {
                return Err(WishError::Outside { feature: name.into() });
            }
            for (permitted, encoded) in permitted.iter_mut().zip(levels) {
                permitted[encoded.level as usize] = true;
            }
        }
        for (wish, permitted) in self.features[places].iter_mut().zip(&permitted) {
            wish.permit(permitted);
        }
        Ok(self)
    }

    /// Changes of the feature count so many times, in both directions.
    pub fn weight(&mut self, name: &str, weight: u64) -> Result<&mut Wishes, WishError> {
        self.each(name, |wish| (wish.weight_up, wish.weight_down) = (weight, weight))
    }

    /// Growing and shrinking count differently.
    pub fn asymmetric(&mut self, name: &str, up: u64, down: u64) -> Result<&mut Wishes, WishError> {
        self.ordered(name, "direction")?;
        self.each(name, |wish| (wish.weight_up, wish.weight_down) = (up, down))
    }

    /// How changes of the feature are priced.
    pub fn price(&mut self, name: &str, pricing: Pricing) -> Result<&mut Wishes, WishError> {
        self.each(name, |wish| wish.pricing = pricing)
    }

    /// How changes of all features are priced.
    pub fn price_all(&mut self, pricing: Pricing) -> &mut Wishes {
        self.features.iter_mut().for_each(|wish| wish.pricing = pricing);
        self
    }

    /// Prefer rows that change few features, and among those the nearest; rows with more than `most` changes do not count.
    pub fn few_changes(&mut self, most: u64) -> &mut Wishes {
        self.few_changes = Some(most);
        self
    }

    /// The leanest scheme that can carry these wishes in one round.
    pub fn smallest_scheme(&self) -> &'static Scheme {
        scheme::leanest(self.smallest_metric(), self.smallest_gate())
    }

    fn smallest_metric(&self) -> Metric {
        let plain = |(wish, feature): (&Wish, &Feature)| {
            wish.pricing == Pricing::L2 && wish.weight_up == wish.weight_down && !feature.is_nominal()
        };
        if self.few_changes.is_some() || !self.features.iter().zip(self.schema.features()).all(plain) {
            Metric::Table
        } else if self.features.iter().any(|wish| wish.weight_up != 1) {
            Metric::Weighted
        } else {
            Metric::Squared
        }
    }

    fn smallest_gate(&self) -> Gate {
        if self.features.iter().any(|wish| wish.only_up || wish.only_down || wish.permitted.is_some()) {
            Gate::Table
        } else if self.features.iter().any(|wish| wish.immutable) {
            Gate::Zeros
        } else {
            Gate::None
        }
    }

    /// The secret of somebody with the levels x, for a scheme under a deployment's limits.
    pub fn compile(&self, x: &[u32], scheme: &'static Scheme, params: &Params) -> Result<Compiled, WishError> {
        self.check_carried(scheme)?;
        let mut costs = Vec::with_capacity(x.len());
        let mut gates = Vec::with_capacity(x.len());
        if x.len() != self.features.len() {
            return Err(SecretError::Length { what: "x", have: x.len(), need: self.features.len() }.into());
        }
        for ((wish, feature), &own) in self.features.iter().zip(self.schema.features()).zip(x) {
            wish.check(feature, params.weight_limit)?;
            let levels = 0..=feature.range();
            let gate: Vec<bool> = levels.clone().map(|level| !wish.permits(own, level)).collect();
            if gate.iter().all(|&forbidden| forbidden) {
                return Err(WishError::Impossible { feature: feature.name.clone() });
            }
            // What no row may have costs nothing, so that it needs no price either.
            let cost = |level: u32| if gate[level as usize] { Ok(0) } else { wish.cost(feature, own, level) };
            costs.push(levels.map(cost).collect::<Result<Vec<u64>, _>>()?);
            gates.push(gate);
        }
        let change_unit = self.count_changes(x, &mut costs);
        let mut secret = Secret::new(x.to_vec()).immutable(self.features.iter().map(|wish| wish.immutable).collect());
        if scheme.metric == Metric::Table {
            let dear = |(feature, table): (&Feature, &Vec<u64>)| {
                let cost = table.iter().copied().max().unwrap_or(0);
                (cost > params.cost_limit).then(|| (feature.name.clone(), cost))
            };
            if let Some((feature, cost)) = self.schema.features().iter().zip(&costs).find_map(dear) {
                return Err(WishError::TooExpensive { feature, cost, limit: params.cost_limit });
            }
            secret = secret.cost_tables(costs);
        } else {
            costs.zeroize();
            secret = secret.weights(self.features.iter().map(|wish| wish.weight_up).collect());
        }
        if scheme.gate == Gate::Table {
            secret = secret.gate_tables(gates);
        } else {
            gates.zeroize();
        }
        secret.check(scheme, params)?;
        Ok(Compiled { secret, change_unit, at_most: self.few_changes })
    }

    /// Adds, for every changed feature, more than all distances together.
    fn count_changes(&self, x: &[u32], costs: &mut [Vec<u64>]) -> u64 {
        if self.few_changes.is_none() {
            return 0;
        }
        let dearest = |table: &Vec<u64>| table.iter().copied().max().unwrap_or(0);
        let unit = costs.iter().map(dearest).fold(1u64, u64::saturating_add);
        for ((table, &own), feature) in costs.iter_mut().zip(x).zip(self.schema.features()) {
            for (level, cost) in table.iter_mut().enumerate() {
                if level != own as usize && !price::counted_elsewhere(feature, own) {
                    *cost = cost.saturating_add(unit);
                }
            }
        }
        unit
    }

    fn check_carried(&self, scheme: &'static Scheme) -> Result<(), WishError> {
        let instead = self.smallest_scheme().name;
        let refuse = |what| Err(WishError::NotCarried { scheme: scheme.name, what, instead });
        match self.smallest_gate() {
            gate if scheme.carries_gate(gate) => {}
            Gate::Table => return refuse("permitted ranges, sets or directions"),
            _ => return refuse("immutable features"),
        }
        match self.smallest_metric() {
            metric if scheme.carries_costs(metric) => Ok(()),
            Metric::Table => refuse("these costs"),
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

/// The lowest level whose value is not below `value`; one more than the range where there is none.
fn at_least(feature: &Feature, value: &Value) -> Result<u32, WishError> {
    let encoded = feature.encode(value)?;
    let below = exceeds(feature, value, encoded.level).is_some_and(|excess| excess < 0.0);
    Ok(encoded.level + u32::from(below))
}

/// The highest level whose value is not above `value`, if there is one.
fn at_most(feature: &Feature, value: &Value) -> Result<Option<u32>, WishError> {
    let encoded = feature.encode(value)?;
    let above = exceeds(feature, value, encoded.level).is_some_and(|excess| excess > 0.0);
    Ok(if above { encoded.level.checked_sub(1) } else { Some(encoded.level) })
}

/// By how much a numeric feature's level lies above a value; 0 within rounding, `None` for words.
fn exceeds(feature: &Feature, value: &Value, level: u32) -> Option<f64> {
    let Kind::Numeric { min, max, levels, .. } = feature.kind else { return None };
    let excess = min + f64::from(level) / f64::from(levels) * (max - min) - value.number()?;
    Some(if excess.abs() <= 1e-9 * (max - min) { 0.0 } else { excess })
}
