//! Values before they are levels: numbers and texts, and what stands for neither.

use super::SchemaError;

/// A value before it is encoded. A person's values are secret, so they do not print by `Debug`;
/// showing one takes `Display`.
#[derive(Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A number.
    Number(f64),
    /// A word, or a number as text. Empty means missing.
    Text(String),
}

/// What some tools write for a missing value. A feature that has the word among its own takes it
/// for a value.
const MISSING: [&str; 10] = ["", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "<NA>", "?"];

/// Whether a text stands for a missing value.
pub fn is_missing(text: &str) -> bool {
    // Most values are longer than these words, and builds ask this of every cell.
    let text = text.trim();
    text.len() <= 4 && MISSING.contains(&text)
}

impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Value(..)")
    }
}

impl Value {
    /// As a finite number, if it is one.
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

/// The place of a value among words: the same text, or the same number ("1.0" is "1").
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

/// Texts from outside must not flood a message.
pub(super) fn shortened(text: &str) -> String {
    const LONGEST: usize = 60;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into(),
    }
}

/// A finite number, or nothing.
fn parse(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|number: &f64| number.is_finite())
}
