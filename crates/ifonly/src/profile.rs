//! The person's values from a file (JSON object, TOML table or CSV with a header), from flags, and from the keyboard.

use crate::exit::Failure;
use ifonly_core::schema::{Kind, Schema, Value};
use std::collections::BTreeMap;
use std::io::{BufRead, IsTerminal, Write};
use std::path::Path;

/// Longer files are no profiles.
const LONGEST: u64 = 16 << 20;

/// Values by column name. Never printed.
pub(crate) struct Values(BTreeMap<String, Value>);

impl Values {
    /// Reads a profile file; its ending says what it is, and `row` (counted from 1) which line of a CSV.
    pub(crate) fn load(path: &Path, row: usize) -> Result<Values, Failure> {
        let refuse = |error: &dyn std::fmt::Display| Failure::Input(format!("profile {}: {error}", path.display()));
        let length = std::fs::metadata(path).map_err(|error| refuse(&error))?.len();
        if length > LONGEST {
            return Err(refuse(&"more than 16 MB; this is no profile"));
        }
        let text = std::fs::read_to_string(path).map_err(|error| refuse(&error))?;
        let ending = path.extension().map(|ending| ending.to_ascii_lowercase());
        match ending.as_ref().and_then(|ending| ending.to_str()) {
            Some("json") => json(&text).map_err(|error| refuse(&error)),
            Some("toml") => toml_table(&text).map_err(|error| refuse(&error)),
            Some("csv" | "tsv") => {
                csv_row(&text, ending.is_some_and(|ending| ending == "tsv"), row).map_err(|error| refuse(&error))
            }
            _ => Err(refuse(&"a profile ends in .json, .toml or .csv")),
        }
    }

    /// No values yet.
    pub(crate) fn none() -> Values {
        Values(BTreeMap::new())
    }

    /// Takes a `feature=value` flag.
    pub(crate) fn set(&mut self, schema: &Schema, assignment: &str) -> Result<(), Failure> {
        let (name, value) = split(assignment, "--set")?;
        let known = schema.columns().iter().any(|column| column.name == name);
        if !known {
            // For its suggestion of what may have been meant.
            schema.named(name).map_err(Failure::input)?;
            return Err(Failure::Input(format!("--set {name}: give the value of the whole column instead")));
        }
        self.0.insert(name.into(), Value::from(value));
        Ok(())
    }

    /// Columns of the schema that have neither a value nor a default.
    fn missing(&self, schema: &Schema) -> Vec<String> {
        let has_value = |name: &str| self.0.get(name).is_some_and(|value| !value.to_string().trim().is_empty());
        let columns = schema.columns();
        let lacking = columns
            .iter()
            .filter(|column| schema.features()[column.features.start].default.is_none() && !has_value(column.name));
        lacking.map(|column| column.name.to_owned()).collect()
    }

    /// Asks for what is missing at a terminal; elsewhere that is an error which names everything at once.
    pub(crate) fn complete(&mut self, schema: &Schema) -> Result<(), Failure> {
        let missing = self.missing(schema);
        if missing.is_empty() {
            return Ok(());
        }
        if !(std::io::stdin().is_terminal() && std::io::stderr().is_terminal()) {
            return Err(Failure::Input(format!(
                "the profile has no value for {}; add them to the profile or with --set feature=value",
                missing.join(", ")
            )));
        }
        for name in missing {
            let value = prompt(schema, &name)?;
            self.0.insert(name, value);
        }
        Ok(())
    }

    /// Names in the profile that the database does not know; a target or an identifier, most likely.
    pub(crate) fn unknown(&self, schema: &Schema) -> Vec<&str> {
        let columns = schema.columns();
        self.0.keys().map(String::as_str).filter(|name| !columns.iter().any(|column| column.name == *name)).collect()
    }

    /// The value of a column.
    pub(crate) fn get(&self, name: &str) -> Option<Value> {
        self.0.get(name).cloned()
    }
}

/// `feature=rest`.
pub(crate) fn split<'a>(assignment: &'a str, flag: &str) -> Result<(&'a str, &'a str), Failure> {
    let parts = assignment.split_once('=').map(|(name, value)| (name.trim(), value.trim()));
    parts.ok_or_else(|| Failure::Input(format!("{flag} {assignment}: write it as feature=value")))
}

fn prompt(schema: &Schema, name: &str) -> Result<Value, Failure> {
    let columns = schema.columns();
    let Some(column) = columns.iter().find(|column| column.name == name) else {
        return Err(Failure::Machine(format!("there is no column {name}")));
    };
    let feature = &schema.features()[column.features.start];
    let hint = match &feature.kind {
        Kind::Numeric { min, max, .. } => {
            format!("{min} to {max}{}", feature.unit.iter().map(|unit| format!(" {unit}")).collect::<String>())
        }
        _ if column.features.len() > 1 => {
            let parts =
                schema.features()[column.features.clone()].iter().filter_map(|feature| feature.one_hot.as_ref());
            parts.map(|part| part.category.as_str()).collect::<Vec<_>>().join(", ")
        }
        _ => feature.words().join(", "),
    };
    loop {
        eprint!("{name} ({hint}): ");
        std::io::stderr().flush().map_err(Failure::machine)?;
        let mut line = String::new();
        if std::io::stdin().lock().read_line(&mut line).map_err(Failure::machine)? == 0 {
            return Err(Failure::Input(format!("no value for {name}")));
        }
        let value = Value::from(line.trim());
        match schema.encode_column(column, &value, &mut vec![]) {
            Ok(()) => return Ok(value),
            Err(error) => eprintln!("  {error}"),
        }
    }
}

fn json(text: &str) -> Result<Values, String> {
    let object: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(text).map_err(|error| format!("not a JSON object: {error}"))?;
    let value = |(name, value): (String, serde_json::Value)| match value {
        serde_json::Value::Null => Ok((name, Value::from(""))),
        serde_json::Value::String(text) => Ok((name, Value::Text(text))),
        serde_json::Value::Number(number) => Ok((name, Value::Text(number.to_string()))),
        serde_json::Value::Bool(truth) => Ok((name, Value::Text(truth.to_string()))),
        _ => Err(format!("{name:?} must be a number or a text")),
    };
    object.into_iter().map(value).collect::<Result<_, _>>().map(Values)
}

fn toml_table(text: &str) -> Result<Values, String> {
    let table: toml::Table = toml::from_str(text).map_err(|error| error.to_string())?;
    let value = |(name, value): (String, toml::Value)| match value {
        toml::Value::String(text) => Ok((name, Value::Text(text))),
        toml::Value::Integer(number) => Ok((name, Value::Text(number.to_string()))),
        toml::Value::Float(number) => Ok((name, Value::Number(number))),
        toml::Value::Boolean(truth) => Ok((name, Value::Text(truth.to_string()))),
        _ => Err(format!("{name:?} must be a number or a text")),
    };
    table.into_iter().map(value).collect::<Result<_, _>>().map(Values)
}

fn csv_row(text: &str, tabs: bool, row: usize) -> Result<Values, String> {
    let header = text.lines().next().unwrap_or_default();
    let semicolons = header.contains(';') && !header.contains(',');
    let delimiter = if tabs {
        b'\t'
    } else if semicolons {
        b';'
    } else {
        b','
    };
    let mut reader = csv::ReaderBuilder::new().delimiter(delimiter).trim(csv::Trim::All).from_reader(text.as_bytes());
    let names = reader.headers().map_err(|error| error.to_string())?.clone();
    let record = reader.records().nth(row.saturating_sub(1)).ok_or(format!("there is no row {row}"))?;
    let record = record.map_err(|error| error.to_string())?;
    Ok(Values(names.iter().zip(&record).map(|(name, value)| (name.to_owned(), Value::from(value))).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_person_in_three_formats() {
        let texts = [
            json(r#"{"age": 41, "income": 30500.5, "housing": "rent", "owner": true, "late": null}"#).unwrap(),
            toml_table("age = 41\nincome = 30500.5\nhousing = \"rent\"\nowner = true\nlate = \"\"").unwrap(),
            csv_row("age,income,housing,owner,late\n1,2,own,false,1\n41, 30500.5 ,rent,true,\n", false, 2).unwrap(),
            csv_row("age;income;housing;owner;late\n41;30500.5;rent;true;\n", false, 1).unwrap(),
        ];
        for values in &texts {
            let get = |name| values.get(name).unwrap().to_string();
            assert_eq!(
                [get("age"), get("income"), get("housing"), get("owner"), get("late")],
                ["41", "30500.5", "rent", "true", ""]
            );
        }
    }

    #[test]
    fn what_is_no_profile_is_refused() {
        assert!(json("[1]").is_err());
        assert!(json(r#"{"a": [1]}"#).is_err());
        assert!(toml_table("a = [1]").is_err());
        assert!(csv_row("a,b\n1,2\n", false, 2).is_err());
        assert!(csv_row("", false, 1).is_err());
        assert!(csv_row("a,b\n1\n", false, 1).is_err());
        assert!(Values::load(Path::new("/nowhere/at.all"), 1).is_err());
    }
}
