//! The schema: name, kind and levels of every feature. All of it is public.
//!
//! A client needs only the schema to turn the user's values into levels. A [`Schema`] has been
//! checked: names are unique and not empty, bounds are finite and in order, and max levels fit a
//! row store.
//!
//! One column of the data is one feature. The exception is a one-hot column: it is one feature of
//! two categories per category of the column. These features are adjacent and have names such as
//! `race=Other`.

mod decimal;
mod feature;
mod level_text;
mod localized;
mod notation;
mod round_edges;
mod scale;
mod suggestion;
mod value;

pub use decimal::Decimal;
pub use feature::{Deviation, DeviationKind, EncodedValue, Feature, FeatureKind, OneHot};
pub use level_text::LevelText;
pub use localized::{LocalizedText, Phrases};
pub use notation::Notation;
pub use scale::{EdgeRun, Interval, Quantiser, Scale, ScaleError, ScaleLayout};
pub use suggestion::nearest;
pub(crate) use value::shortened;
pub use value::{Value, is_missing};

use ifonly_core::params::Params;
use std::collections::HashSet;
use std::ops::Range;

/// The features of a database in order. They have been checked.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "Unchecked", into = "Unchecked")]
pub struct Schema {
    features: Vec<Feature>,
}

#[derive(Clone, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Unchecked {
    features: Vec<Feature>,
}

/// One column of the original data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column<'a> {
    /// The name of the column in the data, in profiles and in records.
    pub name: &'a str,
    /// The indices of its features: one, or one per category of a one-hot column.
    pub features: Range<usize>,
}

/// An invalid schema, or a value that is not valid under a schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// The schema has no feature of this name.
    #[error("there is no feature {name:?}{}", suggestion(.nearest))]
    UnknownFeature {
        /// The given name.
        name: String,
        /// The most similar name of the schema.
        nearest: Option<String>,
    },
    /// A value is missing and the feature has no default.
    #[error("feature {feature:?} has no value, and the schema has no default for it")]
    Missing {
        /// The name of the feature.
        feature: String,
    },
    /// The value is not a number or not a date.
    #[error("feature {feature:?}: {value:?} is not {expected}; the values of this feature are {min} to {max}")]
    NotANumber {
        /// The name of the feature.
        feature: String,
        /// The given value, shortened.
        value: String,
        /// What was expected, such as "a number".
        expected: &'static str,
        /// The lower bound, as text.
        min: String,
        /// The upper bound, as text.
        max: String,
    },
    /// The value is one number with the separators of the column and another without them.
    #[error("feature {feature:?}: {value:?} can mean {first} or {second}; write {first} or {second}")]
    TwoReadings {
        /// The name of the feature.
        feature: String,
        /// The given value, shortened.
        value: String,
        /// The reading with the separators of the column, in its notation.
        first: String,
        /// The reading as a plain number, in the notation of the column.
        second: String,
    },
    /// The value is not one of the words of the feature.
    #[error("feature {feature:?}: {value:?} is not permitted; use one of {permitted}")]
    NotPermitted {
        /// The name of the feature.
        feature: String,
        /// The given value, shortened.
        value: String,
        /// The permitted values, shortened.
        permitted: String,
    },
    /// The schema is not valid.
    #[error("schema, feature {feature:?}: {reason}")]
    Invalid {
        /// The name of the feature.
        feature: String,
        /// Why it is refused.
        reason: String,
    },
    /// There is no feature, or more than a row store can have.
    #[error("schema: the number of features is {count}, but must be 1 to {}", Params::MAX_FEATURES)]
    Count {
        /// Number of features.
        count: usize,
    },
}

fn suggestion(nearest: &Option<String>) -> String {
    nearest.as_ref().map_or(String::new(), |nearest| format!("; did you mean {nearest:?}?"))
}

impl Schema {
    /// Checks the features.
    pub fn new(features: Vec<Feature>) -> Result<Schema, SchemaError> {
        if features.is_empty() || features.len() > Params::MAX_FEATURES {
            return Err(SchemaError::Count { count: features.len() });
        }
        let schema = Schema { features };
        let mut names = HashSet::new();
        for feature in &schema.features {
            feature.check()?;
            if !names.insert(feature.name.as_str()) {
                return Err(feature.invalid("another feature has the same name"));
            }
        }
        let mut columns = HashSet::new();
        for column in schema.columns() {
            let first = &schema.features[column.features.start];
            if !columns.insert(column.name) || first.one_hot.is_some() && names.contains(column.name) {
                return Err(
                    first.invalid("its column appears twice; the one-hot features of a column must be adjacent")
                );
            }
            if first.one_hot.is_some() {
                check_one_hot(&schema.features[column.features])?;
            }
        }
        Ok(schema)
    }

    /// All features in order.
    pub fn features(&self) -> &[Feature] {
        &self.features
    }

    /// R_k of every feature.
    pub fn max_levels(&self) -> Vec<u32> {
        self.features.iter().map(Feature::max_level).collect()
    }

    /// The index of the feature with this name.
    pub(crate) fn position(&self, name: &str) -> Result<usize, SchemaError> {
        self.features.iter().position(|feature| feature.name == name).ok_or_else(|| self.unknown(name))
    }

    /// The feature with this name.
    pub fn feature(&self, name: &str) -> Result<&Feature, SchemaError> {
        Ok(&self.features[self.position(name)?])
    }

    /// The indices of the features with this name: one, or all features of a one-hot column.
    pub fn named(&self, name: &str) -> Result<Range<usize>, SchemaError> {
        if let Some(column) = self.columns().into_iter().find(|column| column.name == name) {
            return Ok(column.features);
        }
        self.position(name).map(|index| index..index + 1)
    }

    /// The columns of the original data, in order. Profiles and records have one value per column.
    pub fn columns(&self) -> Vec<Column<'_>> {
        let mut columns: Vec<Column<'_>> = vec![];
        for (index, feature) in self.features.iter().enumerate() {
            let name = feature.column();
            match columns.last_mut() {
                Some(last) if last.name == name && feature.one_hot.is_some() => last.features.end = index + 1,
                _ => columns.push(Column { name, features: index..index + 1 }),
            }
        }
        columns
    }

    /// The lowest level of every feature. For a one-hot column this is no valid value.
    pub fn lowest_levels(&self) -> Vec<EncodedValue> {
        self.features.iter().map(|feature| feature.at_level(0)).collect()
    }

    /// Whether the levels of some feature are labels. Then only schemes with cost tables can be
    /// used.
    pub fn needs_tables(&self) -> bool {
        self.features.iter().any(Feature::is_nominal)
    }

    /// Appends the levels of the value of one column, one level per feature of the column.
    pub fn encode_column(
        &self,
        column: &Column<'_>,
        value: &Value,
        levels: &mut Vec<EncodedValue>,
    ) -> Result<(), SchemaError> {
        let group = &self.features[column.features.clone()];
        let [single] = group else { return encode_one_hot(group, value, levels) };
        levels.push(single.encode(value)?);
        Ok(())
    }

    /// Whether the value of a column is missing: a text that means so, and that is not one of the
    /// words of the column.
    pub fn is_missing(&self, column: &Column<'_>, value: &Value) -> bool {
        let Value::Text(text) = value else { return false };
        let group = &self.features[column.features.clone()];
        let mut categories = group.iter().filter_map(|feature| feature.one_hot.as_ref());
        group[0].is_missing_text(text) && !categories.any(|part| part.category == text.trim())
    }

    /// The levels of a row. `value_of` returns its values by column name.
    pub fn encode(&self, value_of: impl Fn(&str) -> Option<Value>) -> Result<Vec<EncodedValue>, SchemaError> {
        let mut levels = Vec::with_capacity(self.features.len());
        for column in self.columns() {
            // An empty text is a missing value, which a default may replace.
            let value = value_of(column.name).unwrap_or_else(|| Value::Text(String::new()));
            self.encode_column(&column, &value, &mut levels)?;
        }
        Ok(levels)
    }

    /// Refuses the level "mixed", which a group of people can have but one person cannot.
    pub fn refuse_mixed(&self, levels: &[EncodedValue]) -> Result<(), SchemaError> {
        let mut encoded = self.features.iter().zip(levels);
        match encoded.find(|(feature, encoded)| feature.is_mixed(encoded.level)) {
            None => Ok(()),
            Some((feature, encoded)) => {
                let value = feature.decode_level(encoded.level).unwrap_or_else(|| Value::from(""));
                let reason = feature.one_hot.as_ref().map_or(value, |part| Value::from(part.category.as_str()));
                Err(value::not_permitted(feature.column(), &reason, feature.own_words()))
            }
        }
    }

    fn unknown(&self, name: &str) -> SchemaError {
        let names = self.features.iter().flat_map(|feature| [feature.name.as_str(), feature.column()]);
        SchemaError::UnknownFeature { name: name.into(), nearest: nearest(name, names).map(str::to_owned) }
    }
}

fn check_one_hot(group: &[Feature]) -> Result<(), SchemaError> {
    let first = &group[0];
    if group.len() < 2 {
        return Err(first.invalid("a one-hot column needs at least two categories"));
    }
    let mut categories = HashSet::new();
    for feature in group {
        if !categories.insert(feature.one_hot.as_ref().map(|part| &part.category)) {
            return Err(feature.invalid("the category is listed twice"));
        }
        if feature.default != first.default {
            return Err(feature.invalid("all features of a one-hot column must have the same default"));
        }
    }
    if let Some(default) = &first.default {
        encode_one_hot(group, &Value::Text(default.clone()), &mut vec![])
            .map_err(|error| first.invalid(format!("the default is not valid: {error}")))?;
    }
    Ok(())
}

fn encode_one_hot(group: &[Feature], value: &Value, levels: &mut Vec<EncodedValue>) -> Result<(), SchemaError> {
    let parts = || group.iter().filter_map(|feature| Some((feature, feature.one_hot.as_ref()?)));
    let Some((first, _)) = parts().next() else { return Ok(()) };
    let categories: Vec<&str> = parts().map(|(_, part)| part.category.as_str()).collect();
    let filled = match value {
        Value::Text(text) if !categories.contains(&text.trim()) => Value::from(first.filled(text)?),
        category => category.clone(),
    };
    let Some(hit) = value::find(&categories, &filled) else {
        return Err(value::not_permitted(first.column(), &filled, &categories));
    };
    levels.extend(group.iter().enumerate().map(|(index, feature)| EncodedValue {
        level: if index == hit { feature.max_level() } else { 0 },
        clamped: false,
        number: None,
    }));
    Ok(())
}

impl TryFrom<Unchecked> for Schema {
    type Error = SchemaError;

    fn try_from(unchecked: Unchecked) -> Result<Schema, SchemaError> {
        Schema::new(unchecked.features)
    }
}

impl From<Schema> for Unchecked {
    fn from(schema: Schema) -> Unchecked {
        Unchecked { features: schema.features }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numeric(name: &str, min: f64, max: f64, levels: u32) -> Feature {
        Feature::new(name, FeatureKind::from(Scale::levels(min, max, levels, Quantiser::Round).unwrap()))
    }

    fn one_hot(column: &str, category: &str) -> Feature {
        let kind = FeatureKind::Categorical { categories: vec!["no".into(), "yes".into()], range: 100 };
        let one_hot = Some(OneHot { column: column.into(), category: category.into() });
        Feature { one_hot, ..Feature::new(format!("{column}={category}"), kind) }
    }

    fn people() -> Schema {
        Schema::new(vec![
            numeric("age", 18.0, 98.0, 80),
            one_hot("race", "A"),
            one_hot("race", "B"),
            one_hot("race", "C"),
        ])
        .unwrap()
    }

    #[test]
    fn a_row_is_encoded_column_by_column() {
        let schema = people();
        assert_eq!(schema.max_levels(), [80, 100, 100, 100]);
        let row = |age: Value, race: &'static str| {
            schema.encode(|name| Some(if name == "age" { age.clone() } else { race.into() }))
        };
        let levels = |row: Vec<EncodedValue>| row.iter().map(|encoded| encoded.level).collect::<Vec<_>>();
        assert_eq!(levels(row(20.0.into(), "B").unwrap()), [2, 0, 100, 0]);
        assert_eq!(
            row(20.0.into(), "D").unwrap_err().to_string(),
            r#"feature "race": "D" is not permitted; use one of "A", "B", "C""#
        );
        let missing = schema.encode(|name| (name == "age").then(|| 20.0.into())).unwrap_err();
        assert_eq!(missing, SchemaError::Missing { feature: "race".into() });
        let columns: Vec<_> = schema.columns().iter().map(|column| (column.name, column.features.clone())).collect();
        assert_eq!(columns, [("age", 0..1), ("race", 1..4)]);
        assert_eq!(schema.named("race"), Ok(1..4));
        assert_eq!(schema.named("race=B"), Ok(2..3));
    }

    #[test]
    fn an_unknown_name_gets_a_similar_one_as_a_suggestion() {
        assert_eq!(
            people().feature("agge").unwrap_err().to_string(),
            r#"there is no feature "agge"; did you mean "age"?"#
        );
        assert_eq!(
            people().named("Race").unwrap_err().to_string(),
            r#"there is no feature "Race"; did you mean "race"?"#
        );
        assert_eq!(people().feature("income").unwrap_err().to_string(), r#"there is no feature "income""#);
    }

    #[test]
    fn invalid_schemas_are_refused() {
        let refused = |features: Vec<Feature>| Schema::new(features).unwrap_err().to_string();
        assert_eq!(refused(vec![]), "schema: the number of features is 0, but must be 1 to 4096");
        assert!(refused(vec![numeric("a", 0.0, 1.0, 1), numeric("a", 0.0, 1.0, 1)]).contains("same name"));
        let apart = vec![one_hot("race", "A"), one_hot("race", "B"), numeric("a", 0.0, 1.0, 1), one_hot("race", "C")];
        assert!(refused(apart).contains("twice"));
        assert!(
            refused(vec![one_hot("race", "A"), one_hot("race", "B"), numeric("race", 0.0, 1.0, 1)]).contains("twice")
        );
        assert!(refused(vec![one_hot("race", "A")]).contains("two categories"));
        refused(vec![numeric("", 0.0, 1.0, 1)]);
    }

    #[test]
    fn json_round_trips_and_unknown_fields_are_refused() {
        let json = serde_json::to_string(&people()).unwrap();
        assert_eq!(serde_json::from_str::<Schema>(&json).unwrap(), people());
        for changed in [json.replace("\"unit\"", "\"units\""), json.replace("\"levels\"", "\"level\"")] {
            assert!(serde_json::from_str::<Schema>(&changed).is_err());
        }
        let error = serde_json::from_str::<Schema>(&json.replace("98.0", "18.0")).unwrap_err().to_string();
        assert!(error.contains("18"), "{error}");
    }
}
