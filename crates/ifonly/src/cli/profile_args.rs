//! Profile values and cost tables from flags, from the keyboard and from a cost file.
//! `profile_file` reads profiles from files.

use crate::cli::exit::CommandError;
use crate::cli::profile_file::{MAX_TEXT_BYTES, too_long};
use ifonly::cli::sanitize::plain;
use ifonly_client::{ProfileValues, describe_values};
use ifonly_values::schema::{Schema, Value};
use std::collections::BTreeMap;
use std::io::{BufRead, IsTerminal, Write};
use std::path::Path;

/// Sets the value of one `--set feature=value` flag.
pub(crate) fn set(values: &mut ProfileValues, schema: &Schema, assignment: &str) -> Result<(), CommandError> {
    let (name, value) = split(assignment, "--set")?;
    let known = schema.columns().iter().any(|column| column.name == name);
    if !known {
        // The error of the schema suggests a similar name.
        schema.named(name).map_err(CommandError::input)?;
        return Err(CommandError::Input(format!(
            "--set {name}: this is one category of a column; give the value of the column instead"
        )));
    }
    values.set(name, value);
    Ok(())
}

/// Prompts for missing values at a terminal. Without a terminal, missing values are an error that
/// names all of them.
pub(crate) fn complete(values: &mut ProfileValues, schema: &Schema) -> Result<(), CommandError> {
    let missing = values.missing(schema);
    if missing.is_empty() {
        return Ok(());
    }
    if !(std::io::stdin().is_terminal() && std::io::stderr().is_terminal()) {
        let pronoun = if missing.len() == 1 { "it" } else { "them" };
        return Err(CommandError::Input(format!(
            "the profile has no value for {}; add {pronoun} to the profile or with --set feature=value",
            missing.join(", ")
        )));
    }
    for name in missing {
        let value = prompt(schema, &name)?;
        values.set(name, value);
    }
    Ok(())
}

/// The items of a list separated by commas. As in CSV, a comma within double quotes does not
/// separate, and a doubled quote stands for one.
pub(crate) fn items(list: &str) -> Result<Vec<String>, CommandError> {
    let (mut items, mut item, mut quoted) = (vec![], String::new(), false);
    let mut characters = list.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '"' if quoted && characters.peek() == Some(&'"') => item.extend(characters.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => items.push(std::mem::take(&mut item)),
            character => item.push(character),
        }
    }
    items.push(item);
    if quoted {
        Err(CommandError::Input(format!("{list}: the closing double quote is missing")))
    } else {
        Ok(items.iter().map(|item| item.trim().to_owned()).filter(|item| !item.is_empty()).collect())
    }
}

/// Reads cost tables from a JSON or TOML file: for each feature a table of value = cost.
pub(crate) fn costs(path: &Path) -> Result<BTreeMap<String, Vec<(Value, f64)>>, CommandError> {
    let refuse = |error: &dyn std::fmt::Display| CommandError::Input(format!("cost table {}: {error}", path.display()));
    let text = read(path).map_err(|error| refuse(&error))?;
    let json = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json"));
    let tables: BTreeMap<String, BTreeMap<String, f64>> = if json {
        serde_json::from_str(&text).map_err(|error| refuse(&error))?
    } else {
        toml::from_str(&text).map_err(|error| refuse(&error))?
    };
    let points = |table: BTreeMap<String, f64>| table.into_iter().map(|(value, cost)| (value.into(), cost)).collect();
    Ok(tables.into_iter().map(|(feature, table)| (feature, points(table))).collect())
}

fn read(path: &Path) -> Result<String, String> {
    let length = std::fs::metadata(path).map_err(|error| error.to_string())?.len();
    if length > MAX_TEXT_BYTES {
        return Err(too_long());
    }
    std::fs::read_to_string(path).map_err(|error| error.to_string())
}

/// Splits `feature=rest` at the first equals sign.
pub(crate) fn split<'a>(assignment: &'a str, flag: &str) -> Result<(&'a str, &'a str), CommandError> {
    let parts = assignment.split_once('=').map(|(name, value)| (name.trim(), value.trim()));
    parts.ok_or_else(|| CommandError::Input(format!("{flag} {assignment}: write it as feature=value")))
}

fn prompt(schema: &Schema, name: &str) -> Result<Value, CommandError> {
    let columns = schema.columns();
    let Some(column) = columns.iter().find(|column| column.name == name) else {
        return Err(CommandError::Machine(format!("the schema has no column {name}")));
    };
    let features = &schema.features()[column.features.clone()];
    let hint = describe_values(features);
    loop {
        let suggestion = if features[0].suggest_immutable { "; marked as hard to change" } else { "" };
        eprint!("{}", plain(&format!("{name} ({hint}{suggestion}): ")));
        std::io::stderr().flush().map_err(CommandError::machine)?;
        let mut line = String::new();
        if std::io::stdin().lock().read_line(&mut line).map_err(CommandError::machine)? == 0 {
            return Err(CommandError::Input(format!("no value for {name}")));
        }
        let value = Value::from(line.trim());
        match schema.encode_column(column, &value, &mut vec![]) {
            Ok(()) => return Ok(value),
            Err(error) => eprintln!("  {}", plain(&error.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_separate_items_except_within_double_quotes() {
        assert_eq!(items("age, income").unwrap(), ["age", "income"]);
        assert_eq!(items(r#""a, b",c,"say ""x""""#).unwrap(), ["a, b", "c", "say \"x\""]);
        assert!(items(r#""a"#).is_err());
    }
}
