//! A level as text for users. Surfaces that translate take the ends; `Display` is English.

/// A level: a value, or a range of values.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(untagged)]
pub enum LevelText {
    /// One value, in the notation of the column.
    Value(String),
    /// A range. `None` means that the end is open.
    Range {
        /// The lowest value.
        low: Option<String>,
        /// The upper end.
        high: Option<String>,
    },
    /// All values above one value.
    Above {
        /// This value does not belong to the level.
        above: String,
        /// The upper end.
        high: String,
    },
}

impl std::fmt::Display for LevelText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LevelText::Value(value) => f.write_str(value),
            LevelText::Range { low: Some(low), high: Some(high) } => write!(f, "{low} to {high}"),
            LevelText::Range { low: None, high: Some(high) } => write!(f, "below {high}"),
            LevelText::Range { low: Some(low), high: None } => write!(f, "{low} and above"),
            LevelText::Range { low: None, high: None } => f.write_str("any value"),
            LevelText::Above { above, high } => write!(f, "more than {above} to {high}"),
        }
    }
}
