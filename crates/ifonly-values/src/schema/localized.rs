//! Texts for users, in one or several languages: labels, units, descriptions and phrases.
//!
//! A text is either the same in all languages or a map from language tags such as `de` to texts.
//! The institution writes them; nothing of the protocol depends on them.

use crate::record::MAX_TEXT;
use std::collections::BTreeMap;

/// Maximum number of languages of a text.
const MAX_LANGUAGES: usize = 100;
/// The place of the number in a phrase.
pub(crate) const NUMBER: &str = "{n}";

/// A text for users.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(untagged)]
pub enum LocalizedText {
    /// The same text in all languages.
    Same(String),
    /// A text per language, by language tag.
    ByLanguage(BTreeMap<String, String>),
}

impl From<&str> for LocalizedText {
    fn from(text: &str) -> LocalizedText {
        LocalizedText::Same(text.into())
    }
}

impl From<String> for LocalizedText {
    fn from(text: String) -> LocalizedText {
        LocalizedText::Same(text)
    }
}

impl LocalizedText {
    /// The text in a language: that of the tag, else of its first part (`de` for `de-AT`), else
    /// English, else the first.
    pub fn in_language(&self, language: &str) -> &str {
        match self {
            LocalizedText::Same(text) => text,
            LocalizedText::ByLanguage(texts) => {
                let primary = language.split('-').next().unwrap_or(language);
                let tags = [language, primary, "en"].into_iter();
                let text = tags.filter_map(|tag| texts.get(tag)).chain(texts.values()).next();
                text.map_or("", String::as_str)
            }
        }
    }

    /// All texts.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        let (same, by_language) = match self {
            LocalizedText::Same(text) => (Some(text.as_str()), None),
            LocalizedText::ByLanguage(texts) => (None, Some(texts.values().map(String::as_str))),
        };
        same.into_iter().chain(by_language.into_iter().flatten())
    }

    /// Why the text is refused.
    pub(crate) fn fault(&self) -> Option<String> {
        if let LocalizedText::ByLanguage(texts) = self {
            if texts.is_empty() || texts.len() > MAX_LANGUAGES {
                return Some(format!("a text has {} languages, but must have 1 to {MAX_LANGUAGES}", texts.len()));
            }
            let is_tag = |tag: &str| {
                let mut parts = tag.split('-');
                let primary = parts.next().is_some_and(|part| {
                    (2..=3).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_lowercase())
                });
                primary
                    && parts
                        .all(|part| (1..=8).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_alphanumeric()))
            };
            if let Some(tag) = texts.keys().find(|tag| !is_tag(tag)) {
                let tag: String = tag.chars().take(40).collect();
                return Some(format!("{tag:?} is not a language tag such as \"de\""));
            }
        }
        let is_long = self.texts().any(|text| text.len() > MAX_TEXT);
        is_long.then(|| format!("a text is too long; the maximum is {MAX_TEXT} bytes"))
    }
}

/// Phrases for a change of a number, for sentences such as "someone with 5,800 more income a year".
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Phrases {
    /// For a higher value, with `{n}` for the difference: "{n} more income a year".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub more: Option<LocalizedText>,
    /// For a lower value: "{n} late payments fewer".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub less: Option<LocalizedText>,
    /// For a value that is higher by 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub one_more: Option<LocalizedText>,
    /// For a value that is lower by 1: "one late payment fewer".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub one_less: Option<LocalizedText>,
}

impl Phrases {
    /// Whether no phrase is given.
    pub fn is_empty(&self) -> bool {
        *self == Phrases::default()
    }

    /// All phrases.
    pub(crate) fn all(&self) -> impl Iterator<Item = &LocalizedText> {
        [&self.more, &self.less, &self.one_more, &self.one_less].into_iter().flatten()
    }

    /// Why the phrases are refused.
    pub(crate) fn fault(&self) -> Option<String> {
        let counted = [&self.more, &self.less].into_iter().flatten();
        let lacks = counted.flat_map(LocalizedText::texts).find(|text| !text.contains(NUMBER));
        lacks.map(|text| {
            let text: String = text.chars().take(60).collect();
            format!("the phrase {text:?} lacks {NUMBER}, the place of the number")
        })
    }

    /// The phrase for a difference, which is written as `number`; `None` if it is not given.
    pub fn phrase(&self, difference: f64, number: &str, language: &str) -> Option<String> {
        let (many, one) = if difference > 0.0 { (&self.more, &self.one_more) } else { (&self.less, &self.one_less) };
        if let (true, Some(one)) = (difference.abs() == 1.0, one) {
            return Some(one.in_language(language).replace(NUMBER, number));
        }
        many.as_ref().map(|many| many.in_language(language).replace(NUMBER, number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(json: &str) -> LocalizedText {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn the_nearest_language_is_chosen() {
        let label = text(r#"{"de": "Einkommen", "en": "Income", "pt-BR": "Renda"}"#);
        let chosen = ["de", "de-AT", "pt-BR", "fr", ""].map(|language| label.in_language(language).to_owned());
        assert_eq!(chosen, ["Einkommen", "Einkommen", "Renda", "Income", "Income"]);
        assert_eq!(text(r#""Income""#).in_language("de"), "Income");
        assert_eq!(text(r#"{"de": "Einkommen"}"#).in_language("fr"), "Einkommen");
    }

    #[test]
    fn invalid_texts_are_refused() {
        for invalid in [r#"{}"#, r#"{"german": "x"}"#, r#"{"DE": "x"}"#, r#"{"de-": "x"}"#] {
            assert!(text(invalid).fault().is_some(), "{invalid}");
        }
        assert!(LocalizedText::from("x".repeat(MAX_TEXT + 1)).fault().is_some());
        assert_eq!(text(r#"{"de": "x", "zh-Hant": "y"}"#).fault(), None);
        let phrases = Phrases { more: Some("more income".into()), ..Phrases::default() };
        assert!(phrases.fault().unwrap().contains("{n}"));
    }

    #[test]
    fn phrases_have_a_singular() {
        let phrases = Phrases {
            less: Some(text(r#"{"en": "{n} late payments fewer", "de": "{n} verspäteten Zahlungen weniger"}"#)),
            one_less: Some("one late payment fewer".into()),
            ..Phrases::default()
        };
        assert_eq!(phrases.phrase(-1.0, "1", "en").as_deref(), Some("one late payment fewer"));
        assert_eq!(phrases.phrase(-2.0, "2", "de").as_deref(), Some("2 verspäteten Zahlungen weniger"));
        assert_eq!(phrases.phrase(2.0, "2", "en"), None);
    }
}
