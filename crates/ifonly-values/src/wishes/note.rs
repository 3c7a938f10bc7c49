//! Notes that tell users how their wishes and values are applied. A note contains only the user's
//! own input and the public schema.

/// A note about one feature.
#[derive(Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum WishNote {
    /// Levels that satisfy a wish only partly are excluded.
    Across {
        /// The name of the feature.
        feature: String,
        /// The wish in words.
        wish: String,
        /// The excluded levels, as text.
        levels: Vec<String>,
    },
    /// The feature stays as it is, which means: within its level.
    Stays {
        /// The name of the feature.
        feature: String,
        /// The level, as text.
        within: String,
    },
    /// The user's value is outside the bounds of the feature.
    Clamped {
        /// The name of the feature.
        feature: String,
        /// The level that is used instead, as text.
        taken: String,
    },
    /// The user gave no value, so the default of the schema is used.
    Missing {
        /// The name of the feature.
        feature: String,
        /// The default value.
        taken: String,
    },
}

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
        }
    }
}

fn listed(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}
