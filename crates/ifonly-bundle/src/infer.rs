//! What a column is: as the schema file says, or as its values suggest.
//!
//! In this order: one value only → left out. Two values → categorical. Numbers → numeric, unless they count or name the rows. Texts
//! that hardly repeat, or too many of them → left out. A known scale or intervals → ordinal. Anything else →
//! categorical. A column of numbers with a few other texts is an error, because one of the two is a mistake.

use crate::error::{BuildError, Place};
use crate::ordinal;
use crate::settings::{FeatureSettings, KindName, Scalar};
use crate::stats::{ColumnStats, MAX_DISTINCT, grid_steps, number};
use ifonly_core::schema::{Feature, Kind, OneHot};
use std::path::Path;

/// More categories than this are taken for names or free text, unless the schema file says otherwise.
const MAX_INFERRED_CATEGORIES: usize = 1000;

/// What becomes of a column.
pub(crate) enum Verdict {
    /// One feature, or one per category.
    Kept(Vec<Feature>),
    /// Why not.
    LeftOut(String),
}

/// One column and all that is known about it.
pub(crate) struct Column<'a> {
    pub(crate) path: &'a Path,
    pub(crate) name: &'a str,
    pub(crate) stats: &'a ColumnStats,
    pub(crate) settings: &'a FeatureSettings,
    /// R of numbers, and what a categorical mismatch counts as, where nothing else is said.
    pub(crate) levels: u32,
}

impl Column<'_> {
    /// The features of the column.
    pub(crate) fn judge(&self) -> Result<Verdict, BuildError> {
        if self.settings.exclude {
            return Ok(Verdict::LeftOut("the schema file excludes it".into()));
        }
        let kind = match self.settings.kind {
            Some(KindName::Numeric) => self.numeric()?,
            Some(KindName::Ordinal) => self.ordinal()?,
            Some(KindName::Categorical) => self.categorical()?,
            None => self.inferred()?,
        };
        Ok(match kind {
            Ok(kind) => Verdict::Kept(self.features(kind)),
            Err(reason) => Verdict::LeftOut(reason),
        })
    }

    fn inferred(&self) -> Result<Result<Kind, String>, BuildError> {
        let stats = self.stats;
        if stats.present == 0 {
            return Ok(Err("it has no values".into()));
        }
        let values = stats.values();
        let count = values.as_ref().map_or(usize::MAX, Vec::len);
        if count == 1 {
            return Ok(Err(constant()));
        }
        let named = is_identifier_name(self.name) && stats.all_differ();
        if named || stats.present >= 20 && stats.counting {
            return Ok(Err("it looks like an identifier: it names or counts the rows".into()));
        }
        if count == 2 {
            return self.categorical();
        }
        if stats.is_numeric() {
            return self.numeric();
        }
        let nearly_numeric = stats.numbers >= 20 && stats.numbers * 10 >= stats.present * 9 && count > 20;
        if let Some((place, word)) = stats.first_word.as_ref().filter(|_| nearly_numeric) {
            let reason = format!(
                "{word:?} is not a number, but nearly all other values are; correct it, or list the column under \
                 categorical or exclude"
            );
            return Err(self.cell(*place, reason));
        }
        if stats.is_mostly_unique() {
            return Ok(Err("it looks like an identifier or free text: its values hardly repeat".into()));
        }
        if count > MAX_INFERRED_CATEGORIES {
            let reason = "it has more than 1000 different texts; list it under categorical to keep it";
            return Ok(Err(reason.into()));
        }
        if let Some(ranks) = values.and_then(|values| ordinal::ranks(&values)) {
            return Ok(Ok(Kind::Ordinal { ranks }));
        }
        self.categorical()
    }

    fn numeric(&self) -> Result<Result<Kind, String>, BuildError> {
        if let Some((place, word)) = &self.stats.first_word {
            return Err(self.cell(*place, format!("{word:?} is not a number")));
        }
        // Bounds that nobody gave make room for the default.
        let default = self.settings.default.as_ref().and_then(|default| number(&default.to_string()));
        let min = self.settings.min.unwrap_or_else(|| default.unwrap_or(f64::INFINITY).min(self.stats.min));
        let max = self.settings.max.unwrap_or_else(|| default.unwrap_or(f64::NEG_INFINITY).max(self.stats.max));
        if !(min.is_finite() && max.is_finite()) && self.stats.present == 0 {
            return Ok(Err("it has no values".into()));
        }
        if min == max && self.settings.min.is_none() && self.settings.max.is_none() {
            return Ok(Err(constant()));
        }
        let levels = self.settings.levels.unwrap_or_else(|| {
            let inside = |text: &String| number(text).is_some_and(|number| min <= number && number <= max);
            let mut texts: Vec<String> = self.stats.values().unwrap_or_default().into_iter().filter(inside).collect();
            texts.extend([min.to_string(), max.to_string()]);
            texts.extend(self.settings.default.as_ref().map(Scalar::to_string).filter(inside));
            let listed = self.stats.values().is_some();
            grid_steps(&texts, self.levels).filter(|_| listed).unwrap_or(self.levels)
        });
        Ok(Ok(Kind::Numeric { min, max, levels, quantiser: self.settings.quantiser.unwrap_or_default() }))
    }

    fn ordinal(&self) -> Result<Result<Kind, String>, BuildError> {
        if let Some(ranks) = &self.settings.ranks {
            return Ok(Ok(Kind::Ordinal { ranks: texts(ranks) }));
        }
        let values = self.listed_values()?;
        if values.len() < 2 {
            return Ok(Err(constant()));
        }
        if self.stats.is_numeric() {
            return Ok(Ok(Kind::Ordinal { ranks: values }));
        }
        let ranks = ordinal::ranks(&values).ok_or_else(|| {
            BuildError::Settings(format!(
                "column {:?}: the order of its values is not known; give ranks in the schema file",
                self.name
            ))
        })?;
        Ok(Ok(Kind::Ordinal { ranks }))
    }

    fn categorical(&self) -> Result<Result<Kind, String>, BuildError> {
        let range = self.settings.range.unwrap_or(self.levels);
        if let Some(categories) = &self.settings.categories {
            return Ok(Ok(Kind::Categorical { categories: texts(categories), range }));
        }
        let mut categories = self.listed_values()?;
        // A default that no row has is a category of its own, such as "unknown".
        let default = self.settings.default.as_ref().map(Scalar::to_string);
        categories.extend(default.filter(|default| !categories.contains(default)));
        match categories.len() {
            0 => Ok(Err("it has no values".into())),
            1 => Ok(Err(constant())),
            _ => Ok(Ok(Kind::Categorical { categories, range })),
        }
    }

    fn listed_values(&self) -> Result<Vec<String>, BuildError> {
        self.stats.values().ok_or_else(|| {
            let name = self.name;
            BuildError::Settings(format!(
                "column {name:?} has more than {MAX_DISTINCT} different values or very long ones"
            ))
        })
    }

    fn features(&self, kind: Kind) -> Vec<Feature> {
        let settings = self.settings;
        let feature = |name: String, kind: Kind| Feature {
            unit: settings.unit.clone(),
            description: settings.description.clone(),
            default: settings.default.as_ref().map(Scalar::to_string),
            suggest_immutable: settings.immutable == Some(true),
            ..Feature::new(name, kind)
        };
        match kind {
            Kind::Categorical { categories, range } if categories.len() > 2 && settings.one_hot == Some(true) => {
                let part = |category: String| {
                    let kind = Kind::Categorical { categories: vec!["no".into(), "yes".into()], range };
                    let one_hot = Some(OneHot { column: self.name.into(), category: category.clone() });
                    Feature { one_hot, ..feature(format!("{}={category}", self.name), kind) }
                };
                categories.into_iter().map(part).collect()
            }
            kind => vec![feature(self.name.into(), kind)],
        }
    }

    fn cell(&self, place: Place, reason: String) -> BuildError {
        BuildError::Cell { path: self.path.into(), place, column: self.name.into(), reason }
    }
}

/// The texts of scalars.
pub(crate) fn texts(scalars: &[Scalar]) -> Vec<String> {
    scalars.iter().map(Scalar::to_string).collect()
}

fn constant() -> String {
    "it is constant: every row has the same value".into()
}

/// Whether a name has a word such as `id` in it: `id`, `customer_id`, `CustomerID`, `row index`.
fn is_identifier_name(name: &str) -> bool {
    const WORDS: [&str; 7] = ["id", "ids", "uuid", "guid", "index", "key", "identifier"];
    let mut words = vec![String::new()];
    let mut before = ' ';
    for letter in name.chars() {
        if !letter.is_alphanumeric() || letter.is_uppercase() && before.is_lowercase() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| letter.is_alphanumeric()) {
            word.extend(letter.to_lowercase());
        }
        before = letter;
    }
    words.iter().any(|word| WORDS.contains(&word.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge<T: AsRef<str>>(name: &str, texts: &[T], settings: &str) -> Result<Verdict, BuildError> {
        let mut stats = ColumnStats::new();
        for (row, text) in (2..).zip(texts) {
            stats.take(Place::Line(row), text.as_ref(), true, &[]);
        }
        let settings = toml::from_str(settings).unwrap();
        Column { path: Path::new("data.csv"), name, stats: &stats, settings: &settings, levels: 100 }.judge()
    }

    fn kind<T: AsRef<str>>(name: &str, texts: &[T], settings: &str) -> Kind {
        match judge(name, texts, settings).unwrap() {
            Verdict::Kept(features) => features[0].kind.clone(),
            Verdict::LeftOut(reason) => panic!("left out: {reason}"),
        }
    }

    fn left_out<T: AsRef<str>>(name: &str, texts: &[T]) -> String {
        match judge(name, texts, "").unwrap() {
            Verdict::Kept(features) => panic!("kept: {features:?}"),
            Verdict::LeftOut(reason) => reason,
        }
    }

    fn levels(kind: Kind) -> u32 {
        let Kind::Numeric { levels, .. } = kind else { panic!("{kind:?}") };
        levels
    }

    fn many(count: u32, value: impl Fn(u32) -> String) -> Vec<String> {
        (0..count).map(value).collect()
    }

    #[test]
    fn numbers_get_a_hundred_levels_or_as_many_as_they_need() {
        assert_eq!(levels(kind("income", &many(500, |n| (n * n * 7 % 100_003).to_string()), "")), 100);
        assert_eq!(levels(kind("age", &many(500, |n| (18 + n * 7 % 61).to_string()), "")), 60);
        assert_eq!(levels(kind("rate", &["0.5", "1.5", "3.0", "0.5"], "")), 5);
        assert_eq!(levels(kind("rate", &["0.5", "1.5", "3.0"], "levels = 7")), 7);
        assert_eq!(levels(kind("rate", &["1", "2", "3"], "min = 0\nmax = 10")), 10);
        assert_eq!(levels(kind("rate", &["1", "2", "3", "50"], "min = 0\nmax = 10")), 10);
        assert_eq!(levels(kind("rate", &["1", "2", "3"], "default = 0")), 3);
        assert_eq!(levels(kind("rate", &["1", "2", "4"], "default = 2.5\nkind = 'numeric'")), 6);
        assert_eq!(levels(kind("big", &many(70_000, |n| n.to_string().chars().rev().collect()), "")), 100);
    }

    #[test]
    fn two_values_are_categories_whatever_they_are() {
        for (texts, first) in [(vec!["1", "0", "1"], "0"), (vec!["Male", "Female"], "Female"), (vec!["9", "10"], "9")] {
            let Kind::Categorical { categories, range } = kind("a", &texts, "") else { panic!("{texts:?}") };
            assert_eq!((categories[0].as_str(), categories.len(), range), (first, 2, 100));
        }
    }

    #[test]
    fn words_are_ordinal_where_their_order_is_known() {
        let Kind::Ordinal { ranks } = kind("risk", &["high", "low", "medium"], "") else { panic!() };
        assert_eq!(ranks, ["low", "medium", "high"]);
        assert!(matches!(kind("colour", &["red", "green", "blue"], ""), Kind::Categorical { .. }));
        let Kind::Ordinal { ranks } = kind("n", &["10", "9", "11"], "kind = 'ordinal'") else { panic!() };
        assert_eq!(ranks, ["9", "10", "11"]);
        assert!(judge("colour", &["red", "green"], "kind = 'ordinal'").is_err());
    }

    #[test]
    fn constants_identifiers_and_free_text_are_left_out() {
        assert!(left_out("a", &["1", "1"]).contains("constant"));
        assert!(left_out("a", &["", "NA"]).contains("no values"));
        assert!(left_out("customerId", &["17", "4", "99"]).contains("identifier"));
        assert!(left_out("column 1", &many(50, |n| n.to_string())).contains("identifier"));
        assert!(left_out("name", &many(50, |n| format!("person {n}"))).contains("identifier"));
        assert!(left_out("city", &many(5000, |n| format!("city {}", n % 1500))).contains("1000"));
        assert!(!matches!(judge("idle_hours", &["1", "2", "4"], "").unwrap(), Verdict::LeftOut(_)));
        assert!(!matches!(judge("income", &many(50, |n| (n * n).to_string()), "").unwrap(), Verdict::LeftOut(_)));
    }

    #[test]
    fn one_word_among_numbers_is_a_mistake_with_a_place() {
        let mut texts = many(50, |n| (n * n).to_string());
        texts[30] = "12a".into();
        let Err(error) = judge("income", &texts, "") else { panic!() };
        let error = error.to_string();
        assert!(error.starts_with("data.csv, line 32, column \"income\": \"12a\" is not a number"), "{error}");
        assert!(judge("income", &["1", "x"], "kind = 'numeric'").is_err());
        assert!(matches!(judge("income", &texts, "kind = 'categorical'"), Ok(Verdict::Kept(_))));
    }

    #[test]
    fn one_hot_columns_become_a_feature_per_category() {
        let settings = "one_hot = true\nrange = 50\ndefault = 'Other'\nimmutable = true";
        let Verdict::Kept(features) = judge("race", &["A", "B", "A"], settings).unwrap() else { panic!() };
        let names: Vec<&str> = features.iter().map(|feature| feature.name.as_str()).collect();
        assert_eq!(names, ["race=A", "race=B", "race=Other"]);
        assert!(features.iter().all(|feature| feature.range() == 50 && feature.suggest_immutable));
    }
}
