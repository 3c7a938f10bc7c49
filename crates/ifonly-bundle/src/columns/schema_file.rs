//! The schema file: settings in TOML that override the inferred schema. Unknown keys are refused.
//!
//! The keys `target`, `continuous`, `categorical` and `immutable` have the same meaning as in
//! CARLA. A table `[features.NAME]` has the settings of one column. `docs/bundles.md` has a sample
//! with every key.

use crate::error::BuildError;
use ifonly_values::schema::{LocalizedText, Quantiser, nearest};
use std::collections::BTreeMap;
use std::path::Path;

/// Maximum size of a schema file, in bytes.
const MAX_BYTES: u64 = 16 << 20;

/// The settings of a schema file.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SchemaFile {
    /// The target column.
    pub target: Option<String>,
    /// The accept conditions: values or comparisons of the target.
    pub accept: Vec<Scalar>,
    /// How a found case is described, such as "got the loan".
    pub outcome: Option<LocalizedText>,
    /// Columns of numbers. The spelling of CARLA, `continous`, is accepted too.
    #[serde(alias = "continous")]
    pub continuous: Vec<String>,
    /// Columns of words without an order.
    pub categorical: Vec<String>,
    /// Columns that people usually cannot change; clients suggest to keep their values.
    pub immutable: Vec<String>,
    /// Columns to exclude.
    pub exclude: Vec<String>,
    /// Maximum number of levels of continuous columns without their own setting.
    pub levels: Option<u32>,
    /// Scale of continuous columns without their own setting.
    pub scale: Option<ScaleName>,
    /// Treatment of missing values of columns without their own setting.
    pub missing: Option<MissingPolicy>,
    /// Whether categorical columns with more than two categories become one feature per category.
    pub one_hot: bool,
    /// Treatment of columns that the file does not mention.
    pub others: UnlistedColumns,
    /// Every record stands for at least this number of accepted people.
    pub group: Option<u32>,
    /// Columns in which all people of a group have the same value.
    pub keep: Vec<String>,
    /// Columns of which every group has several values.
    pub sensitive: Vec<String>,
    /// The number of values of sensitive columns in every group.
    pub l: Option<u32>,
    /// Settings of single columns.
    pub features: BTreeMap<String, FeatureOverrides>,
}

/// Treatment of columns that the file does not mention.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnlistedColumns {
    /// Their kind is inferred.
    #[default]
    Infer,
    /// They are excluded.
    Exclude,
}

/// The settings of one column.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FeatureOverrides {
    /// The kind of the column.
    pub kind: Option<KindName>,
    /// The lowest number; level 0.
    pub min: Option<f64>,
    /// The highest number; level R.
    pub max: Option<f64>,
    /// Maximum number of levels; exactly R on the scale `paper`.
    pub levels: Option<u32>,
    /// The scale that maps numbers to levels.
    pub scale: Option<ScaleName>,
    /// Rounding between two levels of the scale `paper`.
    pub quantiser: Option<Quantiser>,
    /// The decimal separator, "." or ",", for values in which it is ambiguous.
    pub decimal: Option<char>,
    /// Treatment of missing values.
    pub missing: Option<MissingPolicy>,
    /// Ordinal values in ascending order.
    pub ranks: Option<Vec<Scalar>>,
    /// Categorical values.
    pub categories: Option<Vec<Scalar>>,
    /// The cost of a categorical mismatch, as a distance in levels.
    pub range: Option<u32>,
    /// Whether every category becomes a separate feature.
    pub one_hot: Option<bool>,
    /// The value that replaces a missing value.
    pub default: Option<Scalar>,
    /// The unit of its numbers.
    pub unit: Option<LocalizedText>,
    /// The meaning of the column, for users.
    pub description: Option<LocalizedText>,
    /// The name for users.
    pub label: Option<LocalizedText>,
    /// The section of forms that the column belongs to.
    pub section: Option<LocalizedText>,
    /// Phrase for a higher value, with `{n}` for the difference.
    pub more: Option<LocalizedText>,
    /// Phrase for a lower value.
    pub less: Option<LocalizedText>,
    /// Phrase for a value that is higher by 1.
    pub one_more: Option<LocalizedText>,
    /// Phrase for a value that is lower by 1.
    pub one_less: Option<LocalizedText>,
    /// The labels of words.
    pub words: BTreeMap<String, LocalizedText>,
    /// Whether people usually cannot change the value.
    pub immutable: Option<bool>,
    /// Whether the column is excluded.
    pub exclude: bool,
}

/// The names of the scales.
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScaleName {
    /// One level per value.
    Exact,
    /// Round numbers as edges, with smaller steps near zero.
    Round,
    /// Equal steps.
    Linear,
    /// Steps that are proportional to the number.
    Log,
    /// The equidistant levels of the paper.
    Paper,
}

/// Treatment of missing values.
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MissingPolicy {
    /// Drop rows with a missing value.
    Drop,
    /// Replace a missing value by the median of the column; by the most common value for words.
    Median,
    /// Replace a missing value by the most common value.
    MostCommon,
    /// Stop the build with an error.
    Refuse,
}

/// The names of the kinds of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KindName {
    /// Numbers.
    #[serde(alias = "continuous")]
    Numeric,
    /// Words with an order.
    Ordinal,
    /// Words without an order.
    Categorical,
}

/// A value in TOML. `1` and `"1"` have the same meaning.
#[derive(Clone, Debug, PartialEq, serde::Deserialize)]
#[serde(untagged)]
pub enum Scalar {
    /// A text.
    Text(String),
    /// An integer.
    Whole(i64),
    /// A number.
    Number(f64),
    /// A Boolean.
    Truth(bool),
}

impl std::fmt::Display for Scalar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Scalar::Text(text) => f.write_str(text.trim()),
            Scalar::Whole(number) => number.fmt(f),
            Scalar::Number(number) => number.fmt(f),
            Scalar::Truth(truth) => truth.fmt(f),
        }
    }
}

/// The text is not a schema file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a valid schema file: {0}")]
pub struct SchemaFileError(#[from] toml::de::Error);

impl SchemaFile {
    /// Reads a schema file.
    pub fn read(path: &Path) -> Result<SchemaFile, BuildError> {
        let io = |source| BuildError::Io { action: "read", path: path.into(), source };
        let bytes = std::fs::metadata(path).map_err(io)?.len();
        if bytes > MAX_BYTES {
            let reason = format!("the schema file has {bytes} bytes, but the maximum is {MAX_BYTES}");
            return Err(BuildError::File { path: path.into(), reason });
        }
        let text = std::fs::read_to_string(path).map_err(io)?;
        SchemaFile::parse(&text).map_err(|error| BuildError::File { path: path.into(), reason: error.to_string() })
    }

    /// Parses the text of a schema file.
    pub fn parse(text: &str) -> Result<SchemaFile, SchemaFileError> {
        Ok(toml::from_str(text)?)
    }

    /// Whether the file mentions a column.
    pub(crate) fn mentions(&self, column: &str) -> bool {
        self.lists().iter().any(|(_, list)| list.iter().any(|name| name == column))
            || self.features.contains_key(column)
    }

    /// The settings of one column, including those from the lists.
    pub(crate) fn of(&self, column: &str) -> Result<FeatureOverrides, BuildError> {
        let listed = |list: &[String]| list.iter().any(|name| name == column);
        let mut settings = self.features.get(column).cloned().unwrap_or_default();
        let lists = [(KindName::Numeric, &self.continuous), (KindName::Categorical, &self.categorical)];
        for (kind, _) in lists.iter().filter(|(_, list)| listed(list)) {
            if settings.kind.is_some_and(|other| other != *kind) {
                return Err(contradiction(column, "has two kinds; list it under one kind only"));
            }
            settings.kind = Some(*kind);
        }
        // Settings that only one kind has imply the kind.
        let implied = [
            (KindName::Numeric, settings.min.is_some() || settings.max.is_some() || settings.levels.is_some()),
            (KindName::Numeric, settings.quantiser.is_some() || settings.scale.is_some() || settings.decimal.is_some()),
            (KindName::Ordinal, settings.ranks.is_some()),
            (KindName::Categorical, settings.categories.is_some() || settings.range.is_some()),
            (KindName::Categorical, settings.one_hot == Some(true)),
        ];
        for (kind, _) in implied.into_iter().filter(|(_, given)| *given) {
            if settings.kind.is_some_and(|other| other != kind) {
                return Err(contradiction(
                    column,
                    "has settings that do not belong to its kind; remove them or change the kind",
                ));
            }
            settings.kind = Some(kind);
        }
        settings.exclude |= listed(&self.exclude);
        settings.exclude |= self.others == UnlistedColumns::Exclude && !self.mentions(column);
        settings.immutable = settings.immutable.or_else(|| listed(&self.immutable).then_some(true));
        settings.one_hot = settings.one_hot.or_else(|| self.one_hot.then_some(true));
        Ok(settings)
    }

    /// Refuses names of columns that the data does not have.
    pub(crate) fn check_columns(&self, columns: &[String]) -> Result<(), BuildError> {
        let lists = self.lists();
        let listed = lists.iter().flat_map(|(key, list)| list.iter().map(|name| (key.to_string(), name)));
        for (key, names) in [("keep", &self.keep), ("sensitive", &self.sensitive)] {
            for name in names {
                find_column(columns, name, &format!("schema file, {key}"))?;
            }
        }
        let featured = self.features.keys().map(|name| (format!("features.{name}"), name));
        for (key, name) in listed.chain(featured) {
            find_column(columns, name, &format!("schema file, {key}"))?;
        }
        Ok(())
    }

    fn lists(&self) -> [(&'static str, &[String]); 4] {
        [
            ("continuous", &self.continuous),
            ("categorical", &self.categorical),
            ("immutable", &self.immutable),
            ("exclude", &self.exclude),
        ]
    }
}

/// The index of a column, or an error that suggests a similar name.
pub(crate) fn find_column(columns: &[String], name: &str, wanted_by: &str) -> Result<usize, BuildError> {
    columns.iter().position(|column| column == name).ok_or_else(|| {
        let near = nearest(name, columns.iter().map(String::as_str)).map(|near| format!("did you mean {near:?}?"));
        let some = || columns.iter().take(20).map(|column| format!("{column:?}")).collect::<Vec<_>>().join(", ");
        let hint = near.unwrap_or_else(|| format!("it has {}", some()));
        BuildError::UnknownColumn { wanted_by: wanted_by.into(), name: name.into(), hint }
    })
}

fn contradiction(column: &str, reason: &str) -> BuildError {
    BuildError::Settings(format!("schema file: column {column:?} {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_carla_are_accepted() {
        let settings = SchemaFile::parse(
            r#"
            target = "income"
            continous = ["age"]
            categorical = ["sex"]
            immutable = ["age", "sex"]
            "#,
        )
        .unwrap();
        assert_eq!(settings.target.as_deref(), Some("income"));
        let age = settings.of("age").unwrap();
        assert_eq!((age.kind, age.immutable), (Some(KindName::Numeric), Some(true)));
        assert_eq!(settings.of("sex").unwrap().kind, Some(KindName::Categorical));
        assert_eq!(settings.of("race").unwrap(), FeatureOverrides::default());
    }

    #[test]
    fn settings_imply_the_kind() {
        let settings = SchemaFile::parse(
            r#"
            others = "exclude"
            [features.a]
            levels = 10
            [features.b]
            ranks = ["low", "high"]
            [features.c]
            categories = [1, 2.5, "x", true]
            "#,
        )
        .unwrap();
        let kinds = ["a", "b", "c"].map(|name| settings.of(name).unwrap().kind);
        assert_eq!(kinds, [Some(KindName::Numeric), Some(KindName::Ordinal), Some(KindName::Categorical)]);
        let categories = settings.of("c").unwrap().categories.unwrap();
        assert_eq!(categories.iter().map(Scalar::to_string).collect::<Vec<_>>(), ["1", "2.5", "x", "true"]);
        assert!(settings.of("d").unwrap().exclude && !settings.of("a").unwrap().exclude);
    }

    #[test]
    fn errors_name_the_key_or_column() {
        let refused = |text: &str| SchemaFile::parse(text).unwrap_err().to_string();
        assert!(refused("tarjet = 'x'").contains("tarjet"));
        assert!(refused("[features.a]\nlevel = 3").contains("level"));
        let twice = SchemaFile::parse("continuous = ['a']\ncategorical = ['a']").unwrap();
        assert!(twice.of("a").unwrap_err().to_string().contains("two kinds"));
        let mixed = SchemaFile::parse("categorical = ['a']\n[features.a]\nmin = 3").unwrap();
        assert!(mixed.of("a").unwrap_err().to_string().contains("do not belong"));
        let error = SchemaFile::parse("exclude = ['agee']").unwrap().check_columns(&["age".into()]).unwrap_err();
        assert_eq!(error.to_string(), r#"schema file, exclude: the data has no column "agee"; did you mean "age"?"#);
    }
}
