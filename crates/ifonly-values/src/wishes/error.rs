//! Why wishes are refused, with the codes of the messages.

use crate::coded;
use crate::schema::{LevelText, SchemaError};
use ifonly_core::secret_query::SecretQueryError;

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
    /// Two wishes set the same part of the cost of a feature, and one would be ignored.
    #[error("feature {feature:?}: {first} and {second} set the same cost; give only one of them")]
    TwoCosts {
        /// The name of the feature.
        feature: String,
        /// The first wish.
        first: &'static str,
        /// The second wish.
        second: &'static str,
    },
    /// The permitted range contains no complete level.
    #[error(
        "feature {feature:?}: no level lies wholly within the permitted range; widen the range or swap its bounds. \
         The nearest levels are {}",
        .near.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    )]
    Range {
        /// The name of the feature.
        feature: String,
        /// The nearest levels.
        near: Vec<LevelText>,
    },
    /// The permitted value is not the value of a level.
    #[error("feature {feature:?}: the permitted value {value} is not one of its values{}", value_hint(.has_intervals))]
    Outside {
        /// The name of the feature.
        feature: String,
        /// The given value.
        value: String,
        /// Whether the levels of the feature are intervals, so that a range would be possible.
        has_intervals: bool,
    },
    /// The cost table is not valid.
    #[error("feature {feature:?}: {fault}")]
    Cost {
        /// The name of the feature.
        feature: String,
        /// Why it is refused.
        fault: CostTableFault,
    },
    /// The values of the feature have no order, so it cannot have a direction or a range.
    #[error(
        "the values of feature {feature:?} have no order, so it cannot have a {what}; list the permitted values instead"
    )]
    NoOrder {
        /// The name of the feature.
        feature: String,
        /// The wish.
        what: OrderedWish,
    },
    /// The tolerance is not valid.
    #[error(
        "feature {feature:?}: the tolerance {value} must be a number of its unit or a percentage of its value range, up \
         to 50%; words have no tolerance"
    )]
    Tolerance {
        /// The name of the feature.
        feature: String,
        /// The given tolerance.
        value: String,
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
    Unsupported {
        /// The name of the scheme.
        scheme: &'static str,
        /// The wish.
        what: UnsupportedWish,
        /// The cheapest scheme that supports all wishes.
        instead: &'static str,
    },
    /// The secret query exceeds a limit of the deployment.
    #[error(transparent)]
    Secret(#[from] SecretQueryError),
}

/// Why a cost table is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CostTableFault {
    /// The column is a one-hot column.
    #[error("a one-hot column cannot have a cost table; use a weight instead")]
    OneHot,
    /// A cost is out of range.
    #[error("the cost {cost} of {value} is not in the range 0 to 1,000,000,000")]
    Cost {
        /// The given cost.
        cost: String,
        /// The value that should cost so much.
        value: String,
    },
    /// A value has two costs.
    #[error("the cost table lists a value twice")]
    Twice,
    /// There is no cost.
    #[error("the cost table is empty")]
    Empty,
    /// A word has no cost.
    #[error(
        "the cost table must have a cost for every value{}",
        .word.as_ref().map_or(String::new(), |word| format!("; {word:?} has none"))
    )]
    Incomplete {
        /// A word without a cost.
        word: Option<String>,
    },
}

/// A wish that needs an order of the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderedWish {
    /// Only increases or only decreases, or different weights for them.
    Direction,
    /// A permitted range.
    Range,
}

impl std::fmt::Display for OrderedWish {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            OrderedWish::Direction => "direction",
            OrderedWish::Range => "range",
        })
    }
}

/// A kind of wish that some schemes do not support.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnsupportedWish {
    /// Ranges, permitted values and directions.
    Gates,
    /// Immutable features.
    Immutable,
    /// Several ways.
    Ways,
    /// Costs that need a table.
    Costs,
    /// Weights.
    Weights,
}

impl std::fmt::Display for UnsupportedWish {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            UnsupportedWish::Gates => "permitted ranges, permitted values or directions",
            UnsupportedWish::Immutable => "immutable features",
            UnsupportedWish::Ways => "several ways, which hold features",
            UnsupportedWish::Costs => "these metrics, weights, cost tables or limits on changes",
            UnsupportedWish::Weights => "weights",
        })
    }
}

coded! { WishError {
    @wraps WishError::Schema(error) => error;
    @wraps WishError::Secret(error) => error;
    WishError::Impossible { feature } => "impossible-wish" { feature },
    WishError::Weight { feature, weight, least, most, integer: false } =>
        "weight-out-of-range" { feature, weight, least, most },
    WishError::Weight { feature, weight, least, most, integer: true } =>
        "weight-not-an-integer" { feature, weight, least, most },
    WishError::Range { feature, near } => "empty-range" { feature, near },
    WishError::Outside { feature, value, has_intervals: false } => "not-a-value" { feature, value },
    WishError::Outside { feature, value, has_intervals: true } => "needs-a-range" { feature, value },
    WishError::Cost { feature, fault: CostTableFault::OneHot } => "cost-table-one-hot" { feature },
    WishError::Cost { feature, fault: CostTableFault::Cost { cost, value } } =>
        "cost-out-of-range" { feature, cost, value },
    WishError::Cost { feature, fault: CostTableFault::Twice } => "cost-table-twice" { feature },
    WishError::Cost { feature, fault: CostTableFault::Empty } => "cost-table-empty" { feature },
    WishError::Cost { feature, fault: CostTableFault::Incomplete { word } } =>
        "cost-table-incomplete" { feature, word },
    WishError::TwoCosts { feature, .. } => "two-costs" { feature },
    WishError::NoOrder { feature, what: OrderedWish::Direction } => "no-direction" { feature },
    WishError::NoOrder { feature, what: OrderedWish::Range } => "no-range" { feature },
    WishError::Tolerance { feature, value } => "tolerance-out-of-range" { feature, value },
    WishError::NoDeviation { feature } => "no-deviation" { feature },
    WishError::Unsupported { scheme, what: UnsupportedWish::Gates, instead } =>
        "scheme-without-gates" { scheme, instead },
    WishError::Unsupported { scheme, what: UnsupportedWish::Immutable, instead } =>
        "scheme-without-immutable" { scheme, instead },
    WishError::Unsupported { scheme, what: UnsupportedWish::Ways, instead } =>
        "scheme-without-ways" { scheme, instead },
    WishError::Unsupported { scheme, what: UnsupportedWish::Costs, instead } =>
        "scheme-without-costs" { scheme, instead },
    WishError::Unsupported { scheme, what: UnsupportedWish::Weights, instead } =>
        "scheme-without-weights" { scheme, instead },
} }

coded! { SecretQueryError {
    SecretQueryError::TooManyImmutable { limit } => "too-many-immutable" { limit },
    _ => "query-limit" {},
} }

coded! { SchemaError {
    SchemaError::UnknownFeature { name, nearest } => "unknown-feature" { feature = name, nearest },
    SchemaError::Missing { feature } => "missing-value" { feature },
    SchemaError::NotANumber { feature, value, min, max, .. } => "not-a-number" { feature, value, min, max },
    SchemaError::TwoReadings { feature, value, first, second } => "two-readings" { feature, value, first, second },
    SchemaError::NotPermitted { feature, value, permitted } => "not-permitted" { feature, value, permitted },
    SchemaError::Invalid { feature, .. } => "invalid-feature" { feature },
    _ => "invalid-schema" {},
} }

fn value_hint(has_intervals: &bool) -> &'static str {
    if *has_intervals { ", because its levels are intervals; give a range instead" } else { "" }
}

fn weight_range(integer: &bool) -> &'static str {
    if *integer { "an integer from " } else { "in the range " }
}

fn weight_hint(integer: &bool) -> &'static str {
    if *integer { ", the limit of this scheme; schemes with cost tables support 0.01 to 1,000" } else { "" }
}
