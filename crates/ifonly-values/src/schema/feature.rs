//! One feature: how a value becomes a level, and which values a level contains.
//!
//! - Numeric: the [`Notation`] parses the text, and the [`Scale`] maps the number to a level.
//! - Ordinal: the level is the rank of the word.
//! - Categorical: values are compared by equality, and a mismatch costs one full range. Two
//!   categories have the levels 0 and R, so that squared differences of levels agree with that.
//!   More categories have their index as level, which only cost tables can compare.

use super::SchemaError;
use super::level_text::LevelText;
use super::localized::{LocalizedText, Phrases};
use super::notation::Notation;
use super::scale::{Interval, Scale};
use super::value::{Value, find, is_missing, not_permitted, shortened};
use crate::record::MAX_TEXT;
use ifonly_core::params::Params;
use std::collections::BTreeMap;

/// A feature of the database.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Feature {
    /// The name of the feature.
    pub name: String,
    /// The kind of its values.
    pub kind: FeatureKind,
    /// The name that users read instead of the feature's name.
    #[serde(default)]
    pub label: Option<LocalizedText>,
    /// The unit of its numbers, for display.
    #[serde(default)]
    pub unit: Option<LocalizedText>,
    /// The meaning of the feature, for display.
    #[serde(default)]
    pub description: Option<LocalizedText>,
    /// The value that replaces a missing value.
    #[serde(default)]
    pub default: Option<String>,
    /// Median or mean absolute deviation of the accepted rows, in values. This public statistic is
    /// the divisor of the metric `mad`.
    #[serde(default)]
    pub deviation: Option<Deviation>,
    /// Whether the institution suggests that users cannot change this feature. Users decide
    /// themselves, and their choice stays private.
    #[serde(default)]
    pub suggest_immutable: bool,
    /// For one-hot features: the column and the category of this feature.
    #[serde(default)]
    pub one_hot: Option<OneHot>,
    /// The section of forms that the feature belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section: Option<LocalizedText>,
    /// Phrases for a higher and a lower value.
    #[serde(default, skip_serializing_if = "Phrases::is_empty")]
    pub phrases: Phrases,
    /// The labels of words; of a one-hot feature, that of its category.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub word_labels: BTreeMap<String, LocalizedText>,
    /// Whether the last category means "mixed": a group of people without a majority word. It
    /// satisfies no wish about this feature, and no profile can have it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub mixed: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// The kind of the values of a feature.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum FeatureKind {
    /// Numbers.
    Numeric {
        /// How numbers become levels.
        scale: Scale,
        /// How numbers are written.
        #[serde(default)]
        notation: Notation,
    },
    /// Words with an order; the level is the rank.
    Ordinal {
        /// The words in ascending order.
        ranks: Vec<String>,
    },
    /// Words without an order.
    Categorical {
        /// All categories.
        categories: Vec<String>,
        /// The difference in levels that a mismatch counts as.
        range: u32,
    },
}

/// An absolute deviation from the median.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deviation {
    /// The deviation, greater than 0.
    pub value: f64,
    /// Median or mean.
    pub of: DeviationKind,
}

/// The kind of a deviation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviationKind {
    /// The median absolute deviation.
    Median,
    /// The mean absolute deviation from the median. It is used if more than half of the rows have
    /// the median itself, because the median absolute deviation is then 0.
    Mean,
}

/// The column and the category of a one-hot feature.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OneHot {
    /// The column of the original data.
    pub column: String,
    /// The category.
    pub category: String,
}

/// The level of a value, with its number. `Debug` does not print it.
#[derive(Clone, Copy, PartialEq)]
pub struct EncodedValue {
    /// The level, in `0..=R`.
    pub level: u32,
    /// Whether the value was outside the bounds and was replaced by the nearest bound.
    pub clamped: bool,
    /// The exact number; `None` for words.
    pub number: Option<f64>,
}

impl std::fmt::Debug for EncodedValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EncodedValue(..)")
    }
}

impl Feature {
    /// Default range of categorical features.
    pub const DEFAULT_RANGE: u32 = 100;

    /// A feature without optional properties.
    pub fn new(name: impl Into<String>, kind: FeatureKind) -> Feature {
        Feature {
            name: name.into(),
            kind,
            label: None,
            unit: None,
            description: None,
            default: None,
            deviation: None,
            suggest_immutable: false,
            one_hot: None,
            section: None,
            phrases: Phrases::default(),
            word_labels: BTreeMap::new(),
            mixed: false,
        }
    }

    /// R_k, the largest level.
    pub fn max_level(&self) -> u32 {
        match &self.kind {
            FeatureKind::Numeric { scale, .. } => scale.max_level(),
            FeatureKind::Ordinal { ranks } => (ranks.len() as u32).saturating_sub(1),
            FeatureKind::Categorical { categories, range } if categories.len() == 2 => *range,
            FeatureKind::Categorical { categories, .. } => (categories.len() as u32).saturating_sub(1),
        }
    }

    /// The largest difference in levels that a change counts as: R_k, or the range of a categorical
    /// feature.
    pub(crate) fn full_range(&self) -> u32 {
        match &self.kind {
            FeatureKind::Categorical { range, .. } => *range,
            _ => self.max_level(),
        }
    }

    /// Whether values are compared by equality.
    pub fn is_categorical(&self) -> bool {
        matches!(self.kind, FeatureKind::Categorical { .. })
    }

    /// Whether levels are labels, whose differences mean nothing.
    pub fn is_nominal(&self) -> bool {
        matches!(&self.kind, FeatureKind::Categorical { categories, .. } if categories.len() > 2)
    }

    /// The column of the original data.
    pub fn column(&self) -> &str {
        self.one_hot.as_ref().map_or(&self.name, |part| &part.column)
    }

    /// All words in the order of their levels; empty for numeric features.
    pub fn words(&self) -> &[String] {
        match &self.kind {
            FeatureKind::Numeric { .. } => &[],
            FeatureKind::Ordinal { ranks } => ranks,
            FeatureKind::Categorical { categories, .. } => categories,
        }
    }

    /// The words that a person can have: all words but "mixed".
    pub fn own_words(&self) -> &[String] {
        let words = self.words();
        &words[..words.len() - usize::from(self.mixed && self.one_hot.is_none())]
    }

    /// Whether a level means "mixed".
    pub fn is_mixed(&self, level: u32) -> bool {
        self.mixed && level == self.max_level()
    }

    /// The value range: highest minus lowest number, the number of steps between ranks, or 1 for a
    /// categorical feature.
    pub fn value_range(&self) -> f64 {
        match &self.kind {
            FeatureKind::Numeric { scale, .. } => scale.bounds().1 - scale.bounds().0,
            FeatureKind::Ordinal { .. } => self.max_level().into(),
            FeatureKind::Categorical { .. } => 1.0,
        }
    }

    /// The number, limited to the bounds.
    pub fn bounded(&self, number: f64) -> f64 {
        match &self.kind {
            FeatureKind::Numeric { scale, .. } => number.clamp(scale.bounds().0, scale.bounds().1),
            _ => number,
        }
    }

    /// The number that a level counts as: the middle of its interval, or the rank.
    pub fn middle(&self, level: u32) -> f64 {
        match &self.kind {
            FeatureKind::Numeric { scale, .. } => scale.middle(level),
            _ => level.into(),
        }
    }

    /// The interval of a level; for words, the rank.
    pub(crate) fn interval(&self, level: u32) -> Option<Interval> {
        match &self.kind {
            FeatureKind::Numeric { scale, .. } => scale.interval(level),
            _ => (level <= self.max_level()).then(|| Interval { low: level.into(), high: level.into() }),
        }
    }

    /// The interval or the word of a level, as text for users.
    pub fn show_level(&self, level: u32) -> Option<LevelText> {
        let FeatureKind::Numeric { notation, .. } = &self.kind else {
            return self.decode_level(level).map(|value| LevelText::Value(value.to_string()));
        };
        let Interval { low, high } = self.interval(level)?;
        let end = |number: f64| number.is_finite().then(|| notation.write(number));
        Some(match low == high {
            true => LevelText::Value(notation.write(low)),
            false if low > 0.0 && low < f64::MIN_POSITIVE => {
                LevelText::Above { above: notation.write(0.0), high: notation.write(high) }
            }
            false => LevelText::Range { low: end(low), high: end(high) },
        })
    }

    /// The number of a value; the rank of an ordinal word.
    pub fn number(&self, value: &Value) -> Option<f64> {
        match (&self.kind, value) {
            (FeatureKind::Numeric { .. }, Value::Number(number)) => Some(*number).filter(|number| number.is_finite()),
            (FeatureKind::Numeric { notation, .. }, Value::Text(text)) => notation.read(text),
            (FeatureKind::Ordinal { ranks }, value) => find(ranks, value).map(|rank| rank as f64),
            (FeatureKind::Categorical { .. }, _) => None,
        }
    }

    /// The level of a value. The default replaces a missing value.
    pub fn encode(&self, value: &Value) -> Result<EncodedValue, SchemaError> {
        match (value, &self.kind) {
            (Value::Text(text), _) => self.encode_text(text),
            (Value::Number(number), FeatureKind::Numeric { scale, notation }) => {
                self.encode_number(scale, notation, Some(*number), &number.to_string())
            }
            (number, _) => self.encode_word(number),
        }
    }

    /// The level of a text. The default replaces a missing value.
    pub fn encode_text(&self, text: &str) -> Result<EncodedValue, SchemaError> {
        let text = self.filled(text)?;
        match &self.kind {
            FeatureKind::Numeric { scale, notation } => self.encode_number(scale, notation, notation.read(text), text),
            _ => self.encode_word(&Value::from(text)),
        }
    }

    fn encode_number(
        &self,
        scale: &Scale,
        notation: &Notation,
        number: Option<f64>,
        text: &str,
    ) -> Result<EncodedValue, SchemaError> {
        let (min, max) = scale.bounds();
        let number = number.filter(|number| number.is_finite()).ok_or_else(|| {
            let (feature, value) = (self.name.clone(), shortened(text));
            if let Some([first, second]) = notation.two_readings(text) {
                let (first, second) = (notation.write(first), notation.write(second));
                return SchemaError::TwoReadings { feature, value, first, second };
            }
            let (expected, min, max) = (notation.example(), notation.write(min), notation.write(max));
            SchemaError::NotANumber { feature, value, expected, min, max }
        })?;
        Ok(EncodedValue { level: scale.level(number), clamped: number < min || number > max, number: Some(number) })
    }

    /// The error for a value that is no number or rank of the feature. A missing value is no bound,
    /// even if it has a default.
    pub(crate) fn not_a_bound(&self, value: &Value) -> SchemaError {
        match &self.kind {
            FeatureKind::Numeric { scale, notation } => {
                let error = self.encode_number(scale, notation, None, &value.to_string()).err();
                error.unwrap_or_else(|| SchemaError::Missing { feature: self.column().into() })
            }
            _ => not_permitted(&self.name, value, self.words()),
        }
    }

    /// A level encoded by itself: its number is the middle of its interval.
    pub(crate) fn at_level(&self, level: u32) -> EncodedValue {
        let numeric = matches!(self.kind, FeatureKind::Numeric { .. });
        EncodedValue { level, clamped: false, number: numeric.then(|| self.middle(level)) }
    }

    /// The value of a level: a word, or the middle of its interval. `None` if the feature has no
    /// such level.
    pub fn decode_level(&self, level: u32) -> Option<Value> {
        match &self.kind {
            FeatureKind::Numeric { scale, .. } => {
                (level <= scale.max_level()).then(|| Value::Number(scale.middle(level)))
            }
            FeatureKind::Categorical { categories, range } if categories.len() == 2 => match level {
                0 => Some(Value::Text(categories[0].clone())),
                level if level == *range => Some(Value::Text(categories[1].clone())),
                _ => None,
            },
            _ => self.words().get(level as usize).cloned().map(Value::Text),
        }
    }

    fn encode_word(&self, value: &Value) -> Result<EncodedValue, SchemaError> {
        let words = self.words();
        let index = find(words, value).ok_or_else(|| not_permitted(&self.name, value, words))?;
        let binary = self.is_categorical() && words.len() == 2;
        let level = if binary { index as u32 * self.max_level() } else { index as u32 };
        Ok(EncodedValue { level, clamped: false, number: None })
    }

    /// Whether a text means a missing value and is not one of the words of the feature.
    pub(super) fn is_missing_text(&self, text: &str) -> bool {
        is_missing(text) && !self.words().iter().any(|word| word == text.trim())
    }

    /// The text, or the default if the value is missing.
    pub(super) fn filled<'a>(&'a self, text: &'a str) -> Result<&'a str, SchemaError> {
        if !self.is_missing_text(text) {
            return Ok(text);
        }
        self.default.as_deref().ok_or_else(|| SchemaError::Missing { feature: self.column().into() })
    }

    pub(super) fn invalid(&self, reason: impl Into<String>) -> SchemaError {
        SchemaError::Invalid { feature: shortened(&self.name), reason: reason.into() }
    }

    /// Checks the feature by itself.
    pub(super) fn check(&self) -> Result<(), SchemaError> {
        if self.name.trim().is_empty() {
            return Err(self.invalid("the name is empty"));
        }
        let one_hot = self.one_hot.iter().flat_map(|part| [&part.column, &part.category]);
        let mut texts = [&self.name].into_iter().chain(self.words()).chain(one_hot).chain(&self.default);
        if texts.any(|text| text.len() > MAX_TEXT) {
            return Err(self.invalid(format!("a text is too long; the maximum is {MAX_TEXT} bytes")));
        }
        self.check_texts()?;
        // Scales are checked when they are created.
        if !matches!(self.kind, FeatureKind::Numeric { .. }) {
            self.check_words()?;
        }
        if !(1..=Params::MAX_RANGE).contains(&self.full_range()) {
            return Err(self.invalid(format!(
                "the largest level or the range is {}, but must be 1 to {}",
                self.full_range(),
                Params::MAX_RANGE
            )));
        }
        if self.deviation.is_some_and(|deviation| !(deviation.value.is_finite() && deviation.value > 0.0)) {
            return Err(self.invalid("the deviation must be finite and greater than 0"));
        }
        if self.mixed && !(self.is_categorical() && (self.one_hot.is_some() || self.words().len() > 2)) {
            return Err(self.invalid("only categories can be mixed, and at least two others are needed"));
        }
        if let Some(part) = &self.one_hot {
            if !self.is_categorical() || self.words().len() != 2 {
                return Err(self.invalid("a one-hot feature must have exactly two categories"));
            }
            if part.column.trim().is_empty() || part.category.trim().is_empty() {
                return Err(self.invalid("a one-hot feature needs a column and a category"));
            }
            // The default is a value of the column. The schema checks it against all categories.
            return Ok(());
        }
        let default = self.default.as_ref().map(|default| self.encode(&Value::Text(default.clone())));
        match default {
            Some(Err(error)) => Err(self.invalid(format!("the default is not valid: {error}"))),
            Some(Ok(encoded)) if encoded.clamped => Err(self.invalid("the default is outside the bounds")),
            _ => Ok(()),
        }
    }

    /// Checks the texts for users.
    fn check_texts(&self) -> Result<(), SchemaError> {
        let texts = [&self.label, &self.unit, &self.description, &self.section].into_iter().flatten();
        let mut texts = texts.chain(self.phrases.all()).chain(self.word_labels.values());
        let fault = texts.find_map(LocalizedText::fault).or_else(|| self.phrases.fault());
        if let Some(reason) = fault {
            return Err(self.invalid(reason));
        }
        let is_word = |word: &&String| {
            self.words().contains(word) || self.one_hot.as_ref().is_some_and(|part| part.category == **word)
        };
        match self.word_labels.keys().find(|word| !is_word(word)) {
            Some(word) => Err(self.invalid(format!("the label of {:?} belongs to no value", shortened(word)))),
            None => Ok(()),
        }
    }

    /// The name for users.
    pub fn label(&self, language: &str) -> &str {
        self.label.as_ref().map_or_else(|| self.column(), |label| label.in_language(language))
    }

    fn check_words(&self) -> Result<(), SchemaError> {
        let words = self.words();
        if words.len() < 2 || words.len() > Params::MAX_RANGE as usize + 1 {
            return Err(self.invalid(format!(
                "the number of values is {}, but must be 2 to {}",
                words.len(),
                Params::MAX_RANGE + 1
            )));
        }
        if let Some(word) = words.iter().find(|word| word.trim().is_empty() || word.trim() != *word) {
            return Err(self.invalid(format!("value {word:?} is empty or has spaces around it")));
        }
        let mut distinct = std::collections::HashSet::new();
        match words.iter().find(|word| !distinct.insert(word.as_str())) {
            Some(word) => Err(self.invalid(format!("value {word:?} is listed twice"))),
            None => Ok(()),
        }
    }
}

impl From<Scale> for FeatureKind {
    fn from(scale: Scale) -> FeatureKind {
        FeatureKind::Numeric { scale, notation: Notation::Plain }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Quantiser;

    fn level(feature: &Feature, value: impl Into<Value>) -> u32 {
        feature.encode(&value.into()).unwrap().level
    }

    #[test]
    fn numbers_are_rounded_with_ties_up_and_clamped() {
        let kind = |quantiser| FeatureKind::from(Scale::levels(-1.0, 1.0, 4, quantiser).unwrap());
        let round = Feature::new("a", kind(Quantiser::Round));
        let floor = Feature::new("a", kind(Quantiser::Floor));
        for (value, rounded, floored) in [
            (-1.0, 0, 0),
            (-0.75, 1, 0),
            (-0.76, 0, 0),
            (0.0, 2, 2),
            (0.25, 3, 2),
            (0.99, 4, 3),
            (1.0, 4, 4),
            (7.0, 4, 4),
            (-7.0, 0, 0),
            (1e300, 4, 4),
        ] {
            assert_eq!(level(&round, value), rounded, "{value}");
            assert_eq!(level(&floor, value), floored, "{value}");
        }
        assert_eq!(round.encode(&" 0.3 ".into()), Ok(EncodedValue { level: 3, clamped: false, number: Some(0.3) }));
        assert_eq!(round.encode(&"1e3".into()), Ok(EncodedValue { level: 4, clamped: true, number: Some(1000.0) }));
        assert!(matches!(round.encode(&"nan".into()), Err(SchemaError::Missing { .. })));
        for text in ["x", "inf", "1,5", "0x1"] {
            let error = round.encode(&text.into()).unwrap_err().to_string();
            assert_eq!(
                error,
                format!("feature \"a\": {text:?} is not a number; the values of this feature are -1 to 1")
            );
        }
        assert!(round.encode(&f64::NAN.into()).is_err());
    }

    #[test]
    fn words_become_ranks_indices_or_the_two_extreme_levels() {
        let words = |list: &[&str]| list.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        let grades = Feature::new("grade", FeatureKind::Ordinal { ranks: words(&["low", "middle", "high"]) });
        assert_eq!((grades.max_level(), level(&grades, "high")), (2, 2));
        let sex = Feature::new("sex", FeatureKind::Categorical { categories: words(&["Female", "Male"]), range: 100 });
        assert_eq!((sex.max_level(), level(&sex, "Female"), level(&sex, " Male ")), (100, 0, 100));
        let race = Feature::new("race", FeatureKind::Categorical { categories: words(&["A", "B", "C"]), range: 50 });
        assert_eq!((race.max_level(), race.full_range(), level(&race, "C")), (2, 50, 2));
        assert!(race.is_nominal() && !sex.is_nominal() && !grades.is_nominal());
        let coded = Feature::new("code", FeatureKind::Categorical { categories: words(&["0", "1"]), range: 1 });
        assert_eq!((level(&coded, 1.0), level(&coded, "1.0"), level(&coded, "0")), (1, 1, 0));
        assert_eq!(
            sex.encode(&"male".into()).unwrap_err().to_string(),
            r#"feature "sex": "male" is not permitted; use one of "Female", "Male""#
        );
    }

    #[test]
    fn every_level_decodes_to_a_value_with_that_level() {
        for (min, max, levels) in
            [(0.0, 1.0, 10), (18.0, 96.0, 78), (3.8, 14.2, 100), (-1e6, 1e6, 65_535), (0.1, 0.3, 7)]
        {
            for quantiser in [Quantiser::Round, Quantiser::Floor] {
                let feature = Feature::new("a", FeatureKind::from(Scale::levels(min, max, levels, quantiser).unwrap()));
                for wanted in (0..=levels).step_by(1 + levels as usize / 500) {
                    let value = feature.decode_level(wanted).unwrap();
                    if quantiser == Quantiser::Round {
                        assert_eq!(level(&feature, value.to_string().as_str()), wanted, "{feature:?}");
                    }
                }
                assert_eq!(feature.decode_level(levels + 1), None);
            }
        }
        let categories = vec!["no".into(), "yes".into()];
        let binary = Feature::new("b", FeatureKind::Categorical { categories, range: 9 });
        assert_eq!(binary.decode_level(9), Some("yes".into()));
        assert_eq!(binary.decode_level(5), None);
    }

    #[test]
    fn a_default_replaces_a_missing_value() {
        let kind = FeatureKind::from(Scale::levels(0.0, 10.0, 10, Quantiser::Round).unwrap());
        let bare = Feature::new("a", kind);
        assert_eq!(bare.encode(&"".into()), Err(SchemaError::Missing { feature: "a".into() }));
        let filled = Feature { default: Some("4".into()), ..bare.clone() };
        assert_eq!(level(&filled, " "), 4);
        assert!(Feature { default: Some("11".into()), ..bare.clone() }.check().is_err());
        assert!(Feature { default: Some("x".into()), ..bare }.check().is_err());
    }

    #[test]
    fn long_texts_are_shortened_in_messages() {
        let kind = FeatureKind::Categorical { categories: (0..100).map(|c| format!("c{c}")).collect(), range: 1 };
        let error = Feature::new("a", kind).encode(&"ü".repeat(10_000).into()).unwrap_err().to_string();
        assert!(error.len() < 400 && error.ends_with("and 80 more"), "{error}");
    }
}
