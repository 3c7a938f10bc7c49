//! Values before they are encoded as levels: numbers, texts and missing values.

use super::SchemaError;

/// A value before it is encoded. The values of a user are secret: `Debug` does not print them, only
/// `Display` does.
#[derive(Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A number.
    Number(f64),
    /// A word, or a number as text. Empty means missing.
    Text(String),
}

/// Texts that common tools write for a missing value. If a feature has such a text among its words,
/// it is a value of that feature.
const MISSING: [&str; 10] = ["", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "<NA>", "?"];

/// Whether a text means a missing value.
pub fn is_missing(text: &str) -> bool {
    // The length is checked first, because builds call this for every cell.
    let text = text.trim();
    text.len() <= 4 && MISSING.contains(&text)
}

impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Value(..)")
    }
}

impl Value {
    /// The value as a finite number, if it is one.
    pub(crate) fn number(&self) -> Option<f64> {
        match self {
            Value::Number(number) => Some(*number).filter(|number| number.is_finite()),
            Value::Text(text) => parse(text),
        }
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Number(number) => number.fmt(f),
            Value::Text(text) => text.fmt(f),
        }
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Value {
        Value::Number(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

/// The index of a value among words: the same text, or the same number ("1.0" equals "1").
pub(super) fn find<W: AsRef<str>>(words: &[W], value: &Value) -> Option<usize> {
    let text = value.to_string();
    let same_text = words.iter().position(|word| word.as_ref() == text.trim());
    same_text.or_else(|| {
        let number = value.number()?;
        words.iter().position(|word| parse(word.as_ref()) == Some(number))
    })
}

pub(super) fn not_permitted<W: AsRef<str>>(feature: &str, value: &Value, words: &[W]) -> SchemaError {
    const SHOWN: usize = 20;
    let mut listed: Vec<String> =
        words.iter().take(SHOWN).map(|word| format!("{:?}", shortened(word.as_ref()))).collect();
    if words.len() > SHOWN {
        listed.push(format!("and {} more", words.len() - SHOWN));
    }
    SchemaError::NotPermitted {
        feature: feature.into(),
        value: shortened(&value.to_string()),
        permitted: listed.join(", "),
    }
}

/// The beginning of a text, for error messages.
pub(crate) fn shortened(text: &str) -> String {
    const MAX_CHARS: usize = 60;
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into(),
    }
}

/// Parses a finite number.
fn parse(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|number: &f64| number.is_finite())
}
