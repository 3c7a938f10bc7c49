//! Notes that tell users how their wishes and values are applied. A note contains only the user's
//! own input and the public schema.

use crate::coded;
use crate::schema::LevelText;

/// A note for the user.
#[derive(Clone, PartialEq, Eq)]
pub enum WishNote {
    /// Levels that satisfy a wish only partly are excluded.
    Across {
        /// The name of the feature.
        feature: String,
        /// The wish.
        wish: CrossedLimit,
        /// The excluded levels.
        levels: Vec<LevelText>,
    },
    /// The feature stays as it is, which means: within its level.
    Stays {
        /// The name of the feature.
        feature: String,
        /// The level.
        within: LevelText,
    },
    /// The user's value is outside the bounds of the feature.
    Clamped {
        /// The name of the feature.
        feature: String,
        /// The level that is used instead.
        taken: LevelText,
    },
    /// The user gave no value, so the default of the schema is used.
    Missing {
        /// The name of the feature.
        feature: String,
        /// The default value.
        taken: String,
    },
    /// The costs of these features are so small beside the others that rounding may decide which of
    /// two rows is nearer.
    Rounded {
        /// The names of the features.
        features: Vec<String>,
    },
    /// Values that are ignored, because the schema has no such columns.
    Ignored {
        /// The names of the values.
        columns: Vec<String>,
    },
}

/// A wish whose limit lies within a level.
#[derive(Clone, PartialEq, Eq, zeroize::Zeroize)]
pub enum CrossedLimit {
    /// A permitted range; `None` leaves an end open.
    Range {
        /// The lower end, as given.
        low: Option<String>,
        /// The upper end, as given.
        high: Option<String>,
    },
    /// The feature may only increase.
    OnlyUp,
    /// The feature may only decrease.
    OnlyDown,
}

coded! { WishNote {
    WishNote::Across { feature, wish: CrossedLimit::Range { low, high }, levels } =>
        "partly-in-range" { feature, low, high, levels },
    WishNote::Across { feature, wish: CrossedLimit::OnlyUp, levels } => "partly-below" { feature, levels },
    WishNote::Across { feature, wish: CrossedLimit::OnlyDown, levels } => "partly-above" { feature, levels },
    WishNote::Stays { feature, within } => "stays-within" { feature, within },
    WishNote::Clamped { feature, taken } => "clamped" { feature, taken },
    WishNote::Missing { feature, taken } => "default-used" { feature, taken },
    WishNote::Rounded { features } => "rounded-costs" { features },
    WishNote::Ignored { columns } => "ignored-columns" { columns },
} }

// Notes contain secret wishes and values: `Debug` does not print them, only `Display` does.
impl std::fmt::Debug for WishNote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WishNote(..)")
    }
}

impl std::fmt::Display for WishNote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            WishNote::Across { feature, wish, levels } => {
                let (level, is, was) =
                    if levels.len() == 1 { ("level", "is", "was") } else { ("levels", "are", "were") };
                let levels = listed(levels);
                write!(f, "{feature} {wish}: {level} {levels} {is} only partly within the limit and {was} excluded")
            }
            WishNote::Stays { feature, within } => write!(f, "{feature} stays as it is: within {within}"),
            WishNote::Clamped { feature, taken } => {
                write!(f, "your value of {feature} is outside the bounds of the data; it counts as {taken}")
            }
            WishNote::Missing { feature, taken } => {
                write!(f, "you gave no value of {feature}; the default {taken} is used")
            }
            WishNote::Rounded { features } => write!(
                f,
                "costs of {} are so small beside the others that rounding may hide differences of one level; the \
                 record may be slightly dearer than the nearest",
                features.join(", ")
            ),
            WishNote::Ignored { columns } => {
                write!(f, "ignored, because the database has no such column: {}", columns.join(", "))
            }
        }
    }
}

impl std::fmt::Debug for CrossedLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CrossedLimit(..)")
    }
}

impl std::fmt::Display for CrossedLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CrossedLimit::Range { low: Some(low), high: Some(high) } => write!(f, "{low} to {high}"),
            CrossedLimit::Range { low: Some(low), high: None } => write!(f, "{low} and above"),
            CrossedLimit::Range { low: None, high: Some(high) } => write!(f, "up to {high}"),
            CrossedLimit::Range { low: None, high: None } => f.write_str("anything"),
            CrossedLimit::OnlyUp => f.write_str("only up"),
            CrossedLimit::OnlyDown => f.write_str("only down"),
        }
    }
}

fn listed(parts: &[LevelText]) -> String {
    let parts: Vec<String> = parts.iter().map(ToString::to_string).collect();
    match &parts[..] {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}
