//! The schema file: what its author knows better than inference. TOML; unknown words are refused.
//!
//! CARLA's words `target`, `continuous`, `categorical` and `immutable` mean what they mean there;
//! `[features.NAME]` says more about one column. `docs/bundles.md` has a sample with every key.

use crate::error::BuildError;
use ifonly_values::schema::{Quantiser, nearest};
use std::collections::BTreeMap;
use std::path::Path;

/// A schema file's text ends here, in bytes.
const MAX_BYTES: u64 = 16 << 20;

/// The whole file.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SchemaFile {
    /// The column that says who was accepted.
    pub target: Option<String>,
    /// The values or comparisons that mean acceptance.
    pub accept: Vec<Scalar>,
    /// Columns of numbers. CARLA's own spelling is understood.
    #[serde(alias = "continous")]
    pub continuous: Vec<String>,
    /// Columns of words without an order.
    pub categorical: Vec<String>,
    /// Columns that people usually cannot change: a nearest to them.
    pub immutable: Vec<String>,
    /// Columns to leave out.
    pub exclude: Vec<String>,
    /// The most levels of continuous columns that do not say otherwise.
    pub levels: Option<u32>,
    /// How the numbers of continuous columns that do not say otherwise become levels.
    pub scale: Option<ScaleName>,
    /// What happens to missing values of columns that do not say otherwise.
    pub missing: Option<MissingPolicy>,
    /// Whether categorical columns with more than two categories become one feature per category.
    pub one_hot: bool,
    /// What happens to columns that the file does not mention.
    pub others: UnlistedColumns,
    /// More about single columns.
    pub features: BTreeMap<String, FeatureOverrides>,
}

/// What happens to columns that the file does not mention.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnlistedColumns {
    /// Their kind is inferred.
    #[default]
    Infer,
    /// They are left out.
    Exclude,
}

/// What the file says about one column.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FeatureOverrides {
    /// What its values are.
    pub kind: Option<KindName>,
    /// The number at level 0.
    pub min: Option<f64>,
    /// The number at level R.
    pub max: Option<f64>,
    /// The most levels; R itself on the paper's scale.
    pub levels: Option<u32>,
    /// How numbers become levels.
    pub scale: Option<ScaleName>,
    /// What happens between two of the paper's levels.
    pub quantiser: Option<Quantiser>,
    /// What separates decimals, where values leave that open: "." or ",".
    pub decimal: Option<char>,
    /// What happens to missing values.
    pub missing: Option<MissingPolicy>,
    /// Ordinal values from the lowest up.
    pub ranks: Option<Vec<Scalar>>,
    /// Categorical values.
    pub categories: Option<Vec<Scalar>>,
    /// What a categorical mismatch counts as, in levels.
    pub range: Option<u32>,
    /// Whether every category becomes a feature of its own.
    pub one_hot: Option<bool>,
    /// What stands for a missing value.
    pub default: Option<Scalar>,
    /// What its numbers count.
    pub unit: Option<String>,
    /// What it means.
    pub description: Option<String>,
    /// Whether people usually cannot change it.
    pub immutable: Option<bool>,
    /// Whether it is left out.
    pub exclude: bool,
}

/// The scales by name.
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScaleName {
    /// One level per value.
    Exact,
    /// Round numbers as edges, shorter steps towards zero.
    Round,
    /// Equal steps.
    Linear,
    /// Steps that are everywhere about the same share of the number.
    Log,
    /// The paper's levels.
    Paper,
}

/// What happens to missing values.
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MissingPolicy {
    /// Rows without a value are left out.
    Drop,
    /// The median of the column stands for it; the most common value of words.
    Median,
    /// The most common value stands for it.
    MostCommon,
    /// The build ends.
    Refuse,
}

/// The kinds by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KindName {
    /// Numbers.
    #[serde(alias = "continuous")]
    Numeric,
    /// Words in an order.
    Ordinal,
    /// Words without one.
    Categorical,
}

/// A value as TOML may write it: `1` and `"1"` are the same.
#[derive(Clone, Debug, PartialEq, serde::Deserialize)]
#[serde(untagged)]
pub enum Scalar {
    /// A text.
    Text(String),
    /// A whole number.
    Whole(i64),
    /// A number.
    Number(f64),
    /// A truth value.
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

impl SchemaFile {
    /// Reads a schema file.
    pub fn read(path: &Path) -> Result<SchemaFile, BuildError> {
        let io = |source| BuildError::Io { action: "read", path: path.into(), source };
        let bytes = std::fs::metadata(path).map_err(io)?.len();
        if bytes > MAX_BYTES {
            let reason = format!("{bytes} bytes are too many for a schema file");
            return Err(BuildError::File { path: path.into(), reason });
        }
        let text = std::fs::read_to_string(path).map_err(io)?;
        SchemaFile::parse(&text).map_err(|reason| BuildError::File { path: path.into(), reason })
    }

    /// Reads the text of a schema file.
    pub fn parse(text: &str) -> Result<SchemaFile, String> {
        toml::from_str(text).map_err(|error| format!("not a schema file: {error}"))
    }

    /// Whether the file says anything about a column.
    pub(crate) fn mentions(&self, column: &str) -> bool {
        self.lists().iter().any(|(_, list)| list.iter().any(|name| name == column))
            || self.features.contains_key(column)
    }

    /// Everything about one column, the lists included.
    pub(crate) fn of(&self, column: &str) -> Result<FeatureOverrides, BuildError> {
        let listed = |list: &[String]| list.iter().any(|name| name == column);
        let mut settings = self.features.get(column).cloned().unwrap_or_default();
        let lists = [(KindName::Numeric, &self.continuous), (KindName::Categorical, &self.categorical)];
        for (kind, _) in lists.iter().filter(|(_, list)| listed(list)) {
            if settings.kind.is_some_and(|other| other != *kind) {
                return Err(contradiction(column, "is said to be of two kinds"));
            }
            settings.kind = Some(*kind);
        }
        // What is given decides the kind where no word does.
        let implied = [
            (KindName::Numeric, settings.min.is_some() || settings.max.is_some() || settings.levels.is_some()),
            (KindName::Numeric, settings.quantiser.is_some() || settings.scale.is_some() || settings.decimal.is_some()),
            (KindName::Ordinal, settings.ranks.is_some()),
            (KindName::Categorical, settings.categories.is_some() || settings.range.is_some()),
            (KindName::Categorical, settings.one_hot == Some(true)),
        ];
        for (kind, _) in implied.into_iter().filter(|(_, given)| *given) {
            if settings.kind.is_some_and(|other| other != kind) {
                return Err(contradiction(column, "has settings that do not belong to its kind"));
            }
            settings.kind = Some(kind);
        }
        settings.exclude |= listed(&self.exclude);
        settings.exclude |= self.others == UnlistedColumns::Exclude && !self.mentions(column);
        settings.immutable = settings.immutable.or_else(|| listed(&self.immutable).then_some(true));
        settings.one_hot = settings.one_hot.or_else(|| self.one_hot.then_some(true));
        Ok(settings)
    }

    /// Refuses names that the data does not have.
    pub(crate) fn check_columns(&self, columns: &[String]) -> Result<(), BuildError> {
        let lists = self.lists();
        let listed = lists.iter().flat_map(|(what, list)| list.iter().map(|name| (what.to_string(), name)));
        let featured = self.features.keys().map(|name| (format!("features.{name}"), name));
        for (what, name) in listed.chain(featured) {
            find_column(columns, name, &format!("schema file, {what}"))?;
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

/// The place of a column, or an error that says what may have been meant.
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
    fn carlas_words_are_understood() {
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
    fn what_is_given_implies_the_kind() {
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
    fn faults_are_named() {
        let refused = |text: &str| SchemaFile::parse(text).unwrap_err();
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
