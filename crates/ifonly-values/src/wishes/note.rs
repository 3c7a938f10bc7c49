//! What a person should know about how their wishes were understood. Made from their own words and
//! the public schema alone.

/// A remark about one feature.
#[derive(Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum WishNote {
    /// Levels that lie partly within a wish were left out.
    Across {
        /// Which feature.
        feature: String,
        /// What was wished, in words.
        wish: String,
        /// The levels, in values.
        levels: Vec<String>,
    },
    /// "Stays as it is" means: within this level.
    Stays {
        /// Which feature.
        feature: String,
        /// The level, in values.
        within: String,
    },
    /// The person's value is outside the bounds of the database.
    Clamped {
        /// Which feature.
        feature: String,
        /// The level that was taken instead, in values.
        taken: String,
    },
    /// The person gave no value, so the schema's default stands for it.
    Missing {
        /// Which feature.
        feature: String,
        /// The default.
        taken: String,
    },
}

// Notes tell about wishes, which are secret; showing them takes `Display`.
impl std::fmt::Debug for WishNote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Note(..)")
    }
}

impl std::fmt::Display for WishNote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            WishNote::Across { feature, wish, levels } => {
                let (level, lie) = if levels.len() == 1 { ("level", "lies") } else { ("levels", "lie") };
                let was = if levels.len() == 1 { "was" } else { "were" };
                write!(f, "{feature} {wish}: {level} {} {lie} across the limit and {was} left out", listed(levels))
            }
            WishNote::Stays { feature, within } => write!(f, "{feature} stays as it is: within {within}"),
            WishNote::Clamped { feature, taken } => {
                write!(f, "your {feature} is outside the bounds of the database; it counts as {taken}")
            }
            WishNote::Missing { feature, taken } => write!(f, "you gave no {feature}; it counts as {taken}"),
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
