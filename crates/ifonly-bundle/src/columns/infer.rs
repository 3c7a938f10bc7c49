//! The kind and the features of a column, from the schema file or inferred from its values.
//!
//! The rules of inference, in this order:
//!
//! 1. A column with one value, or an identifier that names or counts the rows, is excluded.
//! 2. A column with two values is categorical.
//! 3. A column of numbers is numeric.
//! 4. A column of numbers with a few other texts is an error: one of the two is a mistake.
//! 5. A column of texts that hardly repeat, or of too many texts, is excluded.
//! 6. A column of words from a known scale, or of intervals, is ordinal.
//! 7. Any other column is categorical.

use crate::columns::distinct::MAX_DISTINCT;
use crate::columns::notation::NotationCandidate;
use crate::columns::ordinal;
use crate::columns::schema_file::{FeatureOverrides, KindName, Scalar, ScaleName};
use crate::columns::stats::{ColumnStats, RowLocation, grid};
use crate::error::BuildError;
use ifonly_values::schema::{Decimal, Feature, FeatureKind, Notation, OneHot, Phrases, Scale, ScaleLayout};
use std::path::PathBuf;

/// Maximum number of inferred categories. More are assumed to be names or free text, unless the
/// schema file says otherwise.
const MAX_INFERRED_CATEGORIES: usize = 1000;

/// The decision about a column.
pub(crate) enum ColumnDecision {
    /// The column becomes one feature, or one per category.
    Kept(Vec<Feature>),
    /// The column is excluded, for this reason.
    Excluded(String),
}

/// A column with its statistics and settings.
pub(crate) struct ColumnEvidence<'a> {
    /// The data files, for error messages.
    pub(crate) files: &'a [PathBuf],
    pub(crate) name: &'a str,
    pub(crate) stats: &'a ColumnStats,
    pub(crate) settings: &'a FeatureOverrides,
    /// Default maximum number of levels of a numeric column.
    pub(crate) levels: u32,
    /// Default scale of a numeric column.
    pub(crate) scale: Option<ScaleName>,
}

impl ColumnEvidence<'_> {
    /// Decides about the column and makes its features.
    pub(crate) fn infer_column(&self) -> Result<ColumnDecision, BuildError> {
        if self.settings.exclude {
            return Ok(ColumnDecision::Excluded("the schema file excludes it".into()));
        }
        let kind = match self.settings.kind {
            Some(KindName::Numeric) => self.numeric()?,
            Some(KindName::Ordinal) => self.ordinal()?,
            Some(KindName::Categorical) => self.categorical()?,
            None => self.inferred()?,
        };
        Ok(match kind {
            Ok(kind) => ColumnDecision::Kept(self.features(kind)),
            Err(reason) => ColumnDecision::Excluded(reason),
        })
    }

    fn inferred(&self) -> Result<Result<FeatureKind, String>, BuildError> {
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
            return Ok(Err("it looks like an identifier that names or counts the rows".into()));
        }
        if count == 2 {
            return self.categorical();
        }
        let leading_zeros = stats.notations.leading_zeros;
        if stats.notation().is_some() && !leading_zeros {
            return self.numeric();
        }
        if stats.other_dates == stats.present {
            let reason = format!(
                "dates must have the year first, as in 2024-12-31; rewrite column {:?}, or list it under categorical or \
                 exclude",
                self.name
            );
            return Err(BuildError::Settings(reason));
        }
        let nearly_numeric = stats.numbers >= 20 && stats.numbers * 10 >= stats.present * 9 && count > 20;
        if let Some((location, word)) = stats.first_word.as_ref().filter(|_| nearly_numeric) {
            let reason = format!(
                "{word:?} is not a number, but nearly all other values are; correct it, or list the column under \
                 categorical or exclude"
            );
            return Err(self.cell(*location, reason));
        }
        if stats.is_mostly_unique() {
            return Ok(Err("it looks like an identifier or free text: its values hardly repeat".into()));
        }
        if count > MAX_INFERRED_CATEGORIES {
            let reason = "it has more than 1000 distinct texts; list it under categorical to include it";
            return Ok(Err(reason.into()));
        }
        if leading_zeros {
            // Numbers with leading zeros are codes, not amounts.
            return self.categorical();
        }
        if let Some(ranks) = values.and_then(|values| ordinal::ranks(&values)) {
            return Ok(Ok(FeatureKind::Ordinal { ranks }));
        }
        self.categorical()
    }

    fn numeric(&self) -> Result<Result<FeatureKind, String>, BuildError> {
        if self.stats.present == 0 && (self.settings.min.is_none() || self.settings.max.is_none()) {
            return Ok(Err("it has no values".into()));
        }
        let NotationCandidate { notation, min, max } = self.notation()?;
        Ok(self.numeric_kind(&notation, min, max)?.ok_or_else(constant))
    }

    /// The kind of a column of numbers with this notation and these bounds; `None` if it is
    /// constant.
    pub(crate) fn numeric_kind(
        &self,
        notation: &Notation,
        min: f64,
        max: f64,
    ) -> Result<Option<FeatureKind>, BuildError> {
        // Bounds that are not set are widened to include the default.
        let default = self.settings.default.as_ref().and_then(|default| notation.read(&default.to_string()));
        let (low, high) = (default.unwrap_or(min).min(min), default.unwrap_or(max).max(max));
        let (low, high) = (self.settings.min.unwrap_or(low), self.settings.max.unwrap_or(high));
        if low == high && self.settings.min.is_none() && self.settings.max.is_none() {
            return Ok(None);
        }
        let scale = self.scale(notation, low, high).map_err(|reason| {
            BuildError::Settings(format!("column {:?}: {reason}; set another scale or other bounds", self.name))
        })?;
        let (low, high) = scale.bounds();
        // If values lie outside the bounds of the schema file, the first and last level include
        // them.
        let scale = scale.open(min < low || max > high);
        Ok(Some(FeatureKind::Numeric { scale, notation: notation.clone() }))
    }

    /// The notation of the values, or an error if it is unknown or ambiguous.
    fn notation(&self) -> Result<NotationCandidate, BuildError> {
        let stats = self.stats;
        let none = NotationCandidate { notation: Notation::Plain, min: f64::INFINITY, max: f64::NEG_INFINITY };
        if stats.present == stats.numbers {
            return Ok(stats.notation().unwrap_or(none));
        }
        let wanted = |candidate: &&NotationCandidate| match (&candidate.notation, self.settings.decimal) {
            (Notation::Formatted { decimal, .. }, Some(wanted)) => *decimal == wanted,
            _ => true,
        };
        let remaining: Vec<&NotationCandidate> = stats.notations.remaining().iter().filter(wanted).collect();
        let first = stats.first_word.as_ref();
        match (remaining.as_slice(), first) {
            ([], Some((location, word))) => Err(self.cell(*location, format!("{word:?} is not a number"))),
            // Two notations that give different numbers. Values without comma and point are not
            // ambiguous.
            (
                [NotationCandidate { notation: Notation::Formatted { decimal, .. }, min, max }, others @ ..],
                Some((location, word)),
            ) if others.iter().any(|other| {
                let differs = matches!(&other.notation, Notation::Formatted { decimal: d, .. } if d != decimal);
                differs && (other.min, other.max) != (*min, *max)
            }) =>
            {
                let reason = format!(
                    "the separator in {word:?} may mean decimals or thousands; set decimal = \".\" or \",\" under \
                     features.{:?} in the schema file",
                    self.name
                );
                Err(self.cell(*location, reason))
            }
            ([candidate, ..], _) => Ok((*candidate).clone()),
            ([], None) => Ok(none),
        }
    }

    fn scale(&self, notation: &Notation, low: f64, high: f64) -> Result<Scale, String> {
        let max_levels = self.settings.levels.unwrap_or(self.levels);
        if !(1..=65_535).contains(&max_levels) {
            return Err(format!("levels = {max_levels}, but the levels must be 1 to 65535"));
        }
        if low.partial_cmp(&high) != Some(std::cmp::Ordering::Less) {
            return Err(format!("min = {low} and max = {high} must be finite and in order"));
        }
        let name = self.settings.scale.or(self.settings.quantiser.map(|_| ScaleName::Paper)).or(self.scale);
        let scale = match name {
            Some(ScaleName::Paper) => Scale::levels(low, high, max_levels, self.settings.quantiser.unwrap_or_default()),
            Some(ScaleName::Round) => Scale::round(low, high, max_levels),
            Some(ScaleName::Linear) => Scale::equal_steps(low, high, max_levels),
            Some(ScaleName::Log) => Scale::logarithmic(low, high, max_levels),
            Some(ScaleName::Exact) => match self.exact(notation, low, high, u32::MAX) {
                Some(layout) => Scale::new(layout),
                None => return Err("it has too many distinct values for one level per value".into()),
            },
            None => match self.exact(notation, low, high, max_levels) {
                Some(layout) => Scale::new(layout),
                None => Scale::round(low, high, max_levels),
            },
        };
        scale.map_err(|error| error.to_string())
    }

    /// A scale with one level per value: a grid, or a list of the values. Values are listed only if
    /// each occurs in several rows on average, so that the public list does not reveal single rows.
    fn exact(&self, notation: &Notation, low: f64, high: f64, max_levels: u32) -> Option<ScaleLayout> {
        const ROWS_PER_LISTED_VALUE: u64 = 10;
        let inside = |number: &f64| (low..=high).contains(number);
        let texts = self.stats.values()?;
        let default = self.settings.default.as_ref().map(Scalar::to_string);
        let numbers = texts.iter().chain(&default).filter_map(|text| notation.read(text)).filter(inside);
        let mut numbers: Vec<f64> = numbers.chain([low, high]).collect();
        numbers.sort_by(f64::total_cmp);
        numbers.dedup();
        let decimals: Vec<Decimal> = numbers.iter().map(|number| Decimal::of(*number)).collect::<Option<_>>()?;
        let steps = max_levels.saturating_sub(1).min(65_535);
        if let Some((from, step, levels)) = grid(&decimals, steps) {
            return Some(ScaleLayout::Grid { from, step, levels });
        }
        let count = decimals.len() as u64;
        let few = count <= u64::from(steps) && count * ROWS_PER_LISTED_VALUE <= self.stats.present;
        few.then_some(ScaleLayout::Listed { values: decimals })
    }

    fn ordinal(&self) -> Result<Result<FeatureKind, String>, BuildError> {
        if let Some(ranks) = &self.settings.ranks {
            return Ok(Ok(FeatureKind::Ordinal { ranks: texts(ranks) }));
        }
        let values = self.listed_values()?;
        if values.len() < 2 {
            return Ok(Err(constant()));
        }
        if self.stats.notation().is_some() {
            return Ok(Ok(FeatureKind::Ordinal { ranks: values }));
        }
        let ranks = ordinal::ranks(&values).ok_or_else(|| {
            BuildError::Settings(format!(
                "column {:?}: the order of its values is not known; set ranks in the schema file",
                self.name
            ))
        })?;
        Ok(Ok(FeatureKind::Ordinal { ranks }))
    }

    fn categorical(&self) -> Result<Result<FeatureKind, String>, BuildError> {
        let range = self.settings.range.unwrap_or(Feature::DEFAULT_RANGE);
        if let Some(categories) = &self.settings.categories {
            return Ok(Ok(FeatureKind::Categorical { categories: texts(categories), range }));
        }
        let mut categories = self.listed_values()?;
        // A default that no row has, such as "unknown", becomes an additional category.
        let default = self.settings.default.as_ref().map(Scalar::to_string);
        categories.extend(default.filter(|default| !categories.contains(default)));
        match categories.len() {
            0 => Ok(Err("it has no values".into())),
            1 => Ok(Err(constant())),
            _ => Ok(Ok(FeatureKind::Categorical { categories, range })),
        }
    }

    fn listed_values(&self) -> Result<Vec<String>, BuildError> {
        self.stats.values().ok_or_else(|| {
            let name = self.name;
            BuildError::Settings(format!(
                "column {name:?} has more than {MAX_DISTINCT} distinct values, or values that are too long; exclude it"
            ))
        })
    }

    fn features(&self, kind: FeatureKind) -> Vec<Feature> {
        let settings = self.settings;
        let feature = |name: String, kind: FeatureKind| Feature {
            unit: settings.unit.clone(),
            description: settings.description.clone(),
            label: settings.label.clone(),
            section: settings.section.clone(),
            phrases: Phrases {
                more: settings.more.clone(),
                less: settings.less.clone(),
                one_more: settings.one_more.clone(),
                one_less: settings.one_less.clone(),
            },
            word_labels: settings.words.clone(),
            default: settings.default.as_ref().map(Scalar::to_string),
            suggest_immutable: settings.immutable == Some(true),
            ..Feature::new(name, kind)
        };
        match kind {
            FeatureKind::Categorical { categories, range }
                if categories.len() > 2 && settings.one_hot == Some(true) =>
            {
                let part = |category: String| {
                    let kind = FeatureKind::Categorical { categories: vec!["no".into(), "yes".into()], range };
                    let one_hot = Some(OneHot { column: self.name.into(), category: category.clone() });
                    let word_labels = settings.words.get(&category).map(|label| (category.clone(), label.clone()));
                    let word_labels = word_labels.into_iter().collect();
                    Feature { one_hot, word_labels, ..feature(format!("{}={category}", self.name), kind) }
                };
                categories.into_iter().map(part).collect()
            }
            kind => vec![feature(self.name.into(), kind)],
        }
    }

    fn cell(&self, RowLocation { file, position }: RowLocation, reason: String) -> BuildError {
        let path = self.files.get(file).cloned().unwrap_or_default();
        BuildError::Cell { path, location: position, column: self.name.into(), reason }
    }
}

/// The texts of scalars.
pub(crate) fn texts(scalars: &[Scalar]) -> Vec<String> {
    scalars.iter().map(Scalar::to_string).collect()
}

fn constant() -> String {
    "it is constant: every row has the same value".into()
}

/// Whether a name contains a word such as `id`: `id`, `customer_id`, `CustomerID`, `row index`.
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
    use crate::columns::stats::Median;
    use crate::error::FileLocation;

    fn decide<T: AsRef<str>>(name: &str, texts: &[T], settings: &str) -> Result<ColumnDecision, BuildError> {
        let mut stats = ColumnStats::new(Median::Wanted);
        for (row, text) in (2..).zip(texts) {
            stats.take(RowLocation { file: 0, position: FileLocation::Line(row) }, text.as_ref(), true, &[]);
        }
        let settings = toml::from_str(settings).unwrap();
        let files = ["data.csv".into()];
        ColumnEvidence { files: &files, name, stats: &stats, settings: &settings, levels: 1000, scale: None }
            .infer_column()
    }

    fn kind<T: AsRef<str>>(name: &str, texts: &[T], settings: &str) -> FeatureKind {
        match decide(name, texts, settings).unwrap() {
            ColumnDecision::Kept(features) => features[0].kind.clone(),
            ColumnDecision::Excluded(reason) => panic!("excluded: {reason}"),
        }
    }

    fn excluded<T: AsRef<str>>(name: &str, texts: &[T]) -> String {
        match decide(name, texts, "").unwrap() {
            ColumnDecision::Kept(features) => panic!("not excluded: {features:?}"),
            ColumnDecision::Excluded(reason) => reason,
        }
    }

    fn scale(kind: FeatureKind) -> Scale {
        let FeatureKind::Numeric { scale, .. } = kind else { panic!("{kind:?}") };
        scale
    }

    fn many(count: u32, value: impl Fn(u32) -> String) -> Vec<String> {
        (0..count).map(value).collect()
    }

    #[test]
    fn numbers_get_one_level_per_value_or_round_edges() {
        let range = |texts: &[&str], settings: &str| scale(kind("rate", texts, settings)).max_level();
        let exact = |texts: &[String]| {
            let scale = scale(kind("a", texts, ""));
            (scale.is_exact(), scale.max_level())
        };
        assert_eq!(exact(&many(500, |n| (18 + n * 7 % 61).to_string())), (true, 60));
        assert_eq!(exact(&many(5000, |n| format!("{}", f64::from(n % 7) / 7.0))), (true, 6));
        let many_values = exact(&many(5000, |n| (u64::from(n) * u64::from(n) * 7 % 100_003).to_string()));
        assert!(!many_values.0 && (300..1000).contains(&many_values.1), "{many_values:?}");
        assert!(!exact(&many(70_000, |n| (n * 7919 % 70_001).to_string())).0);
        assert_eq!(range(&["0.5", "1.5", "3.0", "0.5"], ""), 5);
        assert_eq!(range(&["0.5", "1.5", "3.0"], "levels = 7\nscale = 'paper'"), 7);
        assert_eq!(range(&["1", "2", "3"], "min = 0\nmax = 10"), 10);
        assert_eq!(range(&["1", "2", "3", "50"], "min = 0\nmax = 10"), 10);
        assert_eq!(range(&["1", "2", "3"], "default = 0"), 3);
        assert_eq!(range(&["1", "2", "4"], "default = 2.5\nkind = 'numeric'"), 6);
        assert!(
            scale(kind("rate", &["1", "2", "3", "50"], "min = 0\nmax = 10")).interval(10).unwrap().high.is_infinite()
        );
        let log = scale(kind("rate", &["1", "20", "300", "40000.5"], "scale = 'log'"));
        assert!(log.bounds().1 >= 40_000.5 && !log.is_exact());
        assert!(decide("rate", &["-1", "20", "300"], "scale = 'log'").is_err());
    }

    #[test]
    fn money_dates_and_commas_are_numbers_and_ambiguous_notations_are_refused() {
        let shown = |texts: &[&str], settings: &str| {
            let FeatureKind::Numeric { scale, notation } = kind("a", texts, settings) else { panic!("{texts:?}") };
            (notation.write(scale.bounds().0), notation.write(scale.bounds().1))
        };
        assert_eq!(shown(&["$1,200", "$3", "$17"], ""), ("$3".into(), "$1,200".into()));
        assert_eq!(shown(&["63%", "5%", "17%"], ""), ("5%".into(), "63%".into()));
        assert_eq!(shown(&["2024-01-31", "2023-05-01", "2023-05-02"], ""), ("2023-05-01".into(), "2024-01-31".into()));
        assert_eq!(shown(&["1,5", "2,5", "4,0"], ""), ("1,5".into(), "4".into()));
        let Err(unclear) = decide("a", &["1,234", "5,678", "9,012"], "") else { panic!() };
        assert!(unclear.to_string().contains("decimal = "), "{unclear}");
        assert!(shown(&["1,234", "5,678", "9,012"], "decimal = ','").0.starts_with("1,2"));
        assert!(shown(&["1,234", "5,678", "9,012"], "decimal = '.'").0.starts_with("1,2"));
        let Err(dates) = decide("a", &["31/12/2024", "1/2/2023", "5/6/2022"], "") else { panic!() };
        assert!(dates.to_string().contains("the year first"), "{dates}");
        let codes = many(3000, |n| format!("{:05}", n % 50));
        assert!(matches!(kind("zip", &codes, ""), FeatureKind::Categorical { .. }));
    }

    #[test]
    fn a_column_with_two_values_is_categorical() {
        for (texts, first) in [(vec!["1", "0", "1"], "0"), (vec!["Male", "Female"], "Female"), (vec!["9", "10"], "9")] {
            let FeatureKind::Categorical { categories, range } = kind("a", &texts, "") else { panic!("{texts:?}") };
            assert_eq!((categories[0].as_str(), categories.len(), range), (first, 2, 100));
        }
    }

    #[test]
    fn words_are_ordinal_if_their_order_is_known() {
        let FeatureKind::Ordinal { ranks } = kind("risk", &["high", "low", "medium"], "") else { panic!() };
        assert_eq!(ranks, ["low", "medium", "high"]);
        assert!(matches!(kind("colour", &["red", "green", "blue"], ""), FeatureKind::Categorical { .. }));
        let FeatureKind::Ordinal { ranks } = kind("n", &["10", "9", "11"], "kind = 'ordinal'") else { panic!() };
        assert_eq!(ranks, ["9", "10", "11"]);
        assert!(decide("colour", &["red", "green"], "kind = 'ordinal'").is_err());
    }

    #[test]
    fn constants_identifiers_and_free_text_are_excluded() {
        assert!(excluded("a", &["1", "1"]).contains("constant"));
        assert!(excluded("a", &["", "NA"]).contains("no values"));
        assert!(excluded("customerId", &["17", "4", "99"]).contains("identifier"));
        assert!(excluded("column 1", &many(50, |n| n.to_string())).contains("identifier"));
        assert!(excluded("name", &many(50, |n| format!("person {n}"))).contains("identifier"));
        assert!(excluded("city", &many(5000, |n| format!("city {}", n % 1500))).contains("1000"));
        assert!(!matches!(decide("idle_hours", &["1", "2", "4"], "").unwrap(), ColumnDecision::Excluded(_)));
        assert!(!matches!(
            decide("income", &many(50, |n| (n * n).to_string()), "").unwrap(),
            ColumnDecision::Excluded(_)
        ));
    }

    #[test]
    fn one_word_among_numbers_is_an_error_with_its_location() {
        let mut texts = many(50, |n| (n * n).to_string());
        texts[30] = "12a".into();
        let Err(error) = decide("income", &texts, "") else { panic!() };
        let error = error.to_string();
        assert!(error.starts_with("data.csv, line 32, column \"income\": \"12a\" is not a number"), "{error}");
        assert!(decide("income", &["1", "x"], "kind = 'numeric'").is_err());
        assert!(matches!(decide("income", &texts, "kind = 'categorical'"), Ok(ColumnDecision::Kept(_))));
    }

    #[test]
    fn one_hot_columns_become_a_feature_per_category() {
        let settings = "one_hot = true\nrange = 50\ndefault = 'Other'\nimmutable = true";
        let ColumnDecision::Kept(features) = decide("race", &["A", "B", "A"], settings).unwrap() else { panic!() };
        let names: Vec<&str> = features.iter().map(|feature| feature.name.as_str()).collect();
        assert_eq!(names, ["race=A", "race=B", "race=Other"]);
        assert!(features.iter().all(|feature| feature.max_level() == 50 && feature.suggest_immutable));
    }
}
