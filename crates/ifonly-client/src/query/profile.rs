//! The profile: the user's values, read from JSON, TOML or CSV, and encoded as levels of a schema.

use crate::error::ClientError;
use ifonly_values::schema::{Column, EncodedValue, Schema, Value};
use ifonly_values::wishes::WishNote;
use std::collections::BTreeMap;

/// Values by column name. `Debug` does not print them.
#[derive(Clone, Default, PartialEq)]
pub struct ProfileValues(BTreeMap<String, Value>);

impl std::fmt::Debug for ProfileValues {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ProfileValues(..)")
    }
}

impl<N: Into<String>, V: Into<Value>> FromIterator<(N, V)> for ProfileValues {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(values: I) -> ProfileValues {
        ProfileValues(values.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

/// Why a text is not a profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// The text is not a JSON object.
    #[error("the profile must be a JSON object: {0}")]
    Json(String),
    /// The text is not TOML, or not a table.
    #[error("{0}")]
    Table(String),
    /// The table has fewer rows.
    #[error("the file has no row {0}")]
    NoRow(usize),
    /// The value of a column is not finite.
    #[error("the value of {0:?} is not a finite number")]
    NotFinite(String),
    /// The value of a column is a list or an object.
    #[error("the value of {0:?} must be a number, a string or a boolean")]
    Nested(String),
}

impl ProfileValues {
    /// Reads a JSON object. Numbers keep their notation.
    pub fn from_json(text: &str) -> Result<ProfileValues, ProfileError> {
        let object: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(text).map_err(|error| ProfileError::Json(error.to_string()))?;
        let value = |(name, value): (String, serde_json::Value)| match value {
            serde_json::Value::Null => Ok((name, Value::from(""))),
            serde_json::Value::String(text) => Ok((name, Value::Text(text))),
            // A number is a number: the separators of the column do not apply to it.
            serde_json::Value::Number(number) => match number.as_f64() {
                Some(number) => Ok((name, Value::Number(number))),
                None => Err(ProfileError::NotFinite(name)),
            },
            serde_json::Value::Bool(truth) => Ok((name, Value::Text(truth.to_string()))),
            _ => Err(ProfileError::Nested(name)),
        };
        object.into_iter().map(value).collect::<Result<_, _>>().map(ProfileValues)
    }

    /// Reads a TOML table.
    pub fn from_toml(text: &str) -> Result<ProfileValues, ProfileError> {
        let table: toml::Table = toml::from_str(text).map_err(|error| ProfileError::Table(error.to_string()))?;
        let value = |(name, value): (String, toml::Value)| match value {
            toml::Value::String(text) => Ok((name, Value::Text(text))),
            toml::Value::Integer(number) => Ok((name, Value::Number(number as f64))),
            toml::Value::Float(number) => Ok((name, Value::Number(number))),
            toml::Value::Boolean(truth) => Ok((name, Value::Text(truth.to_string()))),
            _ => Err(ProfileError::Nested(name)),
        };
        table.into_iter().map(value).collect::<Result<_, _>>().map(ProfileValues)
    }

    /// Reads a row, counted from 1, of a CSV text with a header. The separator is a semicolon if
    /// the header has semicolons and no comma.
    pub fn from_csv(text: &str, row: usize) -> Result<ProfileValues, ProfileError> {
        let header = text.lines().next().unwrap_or_default();
        let semicolons = header.contains(';') && !header.contains(',');
        ProfileValues::from_separated(text, if semicolons { b';' } else { b',' }, row)
    }

    /// Reads a row, counted from 1, of a text with tabs as separators and with a header.
    pub fn from_tsv(text: &str, row: usize) -> Result<ProfileValues, ProfileError> {
        ProfileValues::from_separated(text, b'\t', row)
    }

    fn from_separated(text: &str, delimiter: u8, row: usize) -> Result<ProfileValues, ProfileError> {
        let mut reader =
            csv::ReaderBuilder::new().delimiter(delimiter).trim(csv::Trim::All).from_reader(text.as_bytes());
        let unreadable = |error: csv::Error| ProfileError::Table(error.to_string());
        let names = reader.headers().map_err(unreadable)?.clone();
        let record = reader.records().nth(row.saturating_sub(1)).ok_or(ProfileError::NoRow(row))?;
        let record = record.map_err(unreadable)?;
        Ok(names.iter().zip(&record).collect())
    }

    /// Sets the value of a column.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<Value>) {
        self.0.insert(name.into(), value.into());
    }

    /// The value of a column.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// Columns of the schema that have neither a value nor a default.
    pub fn missing(&self, schema: &Schema) -> Vec<String> {
        let columns = schema.columns();
        let missing = columns.iter().filter(|column| {
            let default = &schema.features()[column.features.start].default;
            default.is_none() && self.0.get(column.name).is_none_or(|value| schema.is_missing(column, value))
        });
        missing.map(|column| column.name.to_owned()).collect()
    }

    /// Names that are not columns of the schema, for example the target or an identifier.
    pub fn unknown(&self, schema: &Schema) -> Vec<&str> {
        let columns = schema.columns();
        self.0.keys().map(String::as_str).filter(|name| !columns.iter().any(|column| column.name == *name)).collect()
    }
}

/// The user's values in the order of the columns, and their levels. `Debug` does not print them.
#[derive(Clone)]
pub struct Profile {
    pub(crate) values: Vec<(String, Value)>,
    pub(crate) encoded: Vec<EncodedValue>,
}

impl std::fmt::Debug for Profile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Profile(..)")
    }
}

impl Profile {
    /// Encodes the values of all columns of the schema.
    pub fn new(schema: &Schema, values: &ProfileValues) -> Result<Profile, ClientError> {
        let missing = values.missing(schema);
        if !missing.is_empty() {
            return Err(ClientError::Missing(missing));
        }
        let encoded = schema.encode(|name| values.get(name).cloned())?;
        schema.refuse_mixed(&encoded)?;
        let value = |name: &str| values.get(name).cloned().unwrap_or_else(|| Value::Text(String::new()));
        let columns = schema.columns();
        let values = columns.iter().map(|column| (column.name.to_owned(), value(column.name))).collect();
        Ok(Profile { values, encoded })
    }

    /// The encoded values.
    pub fn encoded(&self) -> &[EncodedValue] {
        &self.encoded
    }

    /// Notes about missing values that were replaced by a default.
    pub(crate) fn missing(&self, schema: &Schema) -> Vec<WishNote> {
        let columns = schema.columns();
        let missing = self.values.iter().zip(&columns).filter(|((_, value), column)| schema.is_missing(column, value));
        let note = |((name, _), column): (&(String, Value), &Column<'_>)| {
            let taken = schema.features()[column.features.start].default.clone()?;
            Some(WishNote::Missing { feature: name.clone(), taken })
        };
        missing.filter_map(note).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a column with thousands `.`, the text "1.234" is 1234, but the JSON number 1.234 is not.
    #[test]
    fn numbers_of_json_and_toml_are_numbers() {
        let number = |values: ProfileValues| match values.get("debt") {
            Some(Value::Number(number)) => Some(*number),
            _ => None,
        };
        assert_eq!(number(ProfileValues::from_json(r#"{"debt": 1.234}"#).unwrap()), Some(1.234));
        assert_eq!(number(ProfileValues::from_json(r#"{"debt": 1500}"#).unwrap()), Some(1500.0));
        assert_eq!(number(ProfileValues::from_toml("debt = 1500").unwrap()), Some(1500.0));
        assert_eq!(number(ProfileValues::from_json(r#"{"debt": "1.234"}"#).unwrap()), None);
    }

    #[test]
    fn all_formats_give_the_same_profile() {
        let texts = [
            ProfileValues::from_json(
                r#"{"age": 41, "income": 30500.5, "housing": "rent", "owner": true, "late": null}"#,
            ),
            ProfileValues::from_toml("age = 41\nincome = 30500.5\nhousing = \"rent\"\nowner = true\nlate = \"\""),
            ProfileValues::from_csv("age,income,housing,owner,late\n1,2,own,false,1\n41, 30500.5 ,rent,true,\n", 2),
            ProfileValues::from_csv("age;income;housing;owner;late\n41;30500.5;rent;true;\n", 1),
            ProfileValues::from_tsv("age\tincome\thousing\towner\tlate\n41\t30500.5\trent\ttrue\t\n", 1),
        ];
        for values in texts {
            let values = values.unwrap();
            let get = |name| values.get(name).unwrap().to_string();
            assert_eq!(
                [get("age"), get("income"), get("housing"), get("owner"), get("late")],
                ["41", "30500.5", "rent", "true", ""]
            );
        }
    }

    #[test]
    fn invalid_profiles_are_refused() {
        assert!(ProfileValues::from_json("[1]").is_err());
        assert!(ProfileValues::from_json(r#"{"a": [1]}"#).is_err());
        assert!(ProfileValues::from_toml("a = [1]").is_err());
        assert!(ProfileValues::from_csv("a,b\n1,2\n", 2).is_err());
        assert!(ProfileValues::from_csv("", 1).is_err());
        assert!(ProfileValues::from_csv("a,b\n1\n", 1).is_err());
    }
}
