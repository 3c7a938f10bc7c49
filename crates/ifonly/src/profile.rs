//! The person's values from a file, from flags, and from the keyboard.

use crate::exit::Failure;
use ifonly_client::Values;
use ifonly_core::schema::{Kind, Schema, Value};
use std::io::{BufRead, IsTerminal, Write};
use std::path::Path;

/// Longer files are no profiles.
const LONGEST: u64 = 16 << 20;

/// Reads a profile file; its ending says what it is, and `row` (counted from 1) which line of a CSV.
pub(crate) fn load(path: &Path, row: usize) -> Result<Values, Failure> {
    let refuse = |error: &dyn std::fmt::Display| Failure::Input(format!("profile {}: {error}", path.display()));
    let length = std::fs::metadata(path).map_err(|error| refuse(&error))?.len();
    if length > LONGEST {
        return Err(refuse(&"more than 16 MB; this is no profile"));
    }
    let text = std::fs::read_to_string(path).map_err(|error| refuse(&error))?;
    let ending = path.extension().map(|ending| ending.to_ascii_lowercase());
    let values = match ending.as_ref().and_then(|ending| ending.to_str()) {
        Some("json") => Values::from_json(&text),
        Some("toml") => Values::from_toml(&text),
        Some("csv") => Values::from_csv(&text, row),
        Some("tsv") => Values::from_tsv(&text, row),
        _ => Err("a profile ends in .json, .toml or .csv".into()),
    };
    values.map_err(|error| refuse(&error))
}

/// Takes a `feature=value` flag.
pub(crate) fn set(values: &mut Values, schema: &Schema, assignment: &str) -> Result<(), Failure> {
    let (name, value) = split(assignment, "--set")?;
    let known = schema.columns().iter().any(|column| column.name == name);
    if !known {
        // For its suggestion of what may have been meant.
        schema.named(name).map_err(Failure::input)?;
        return Err(Failure::Input(format!("--set {name}: give the value of the whole column instead")));
    }
    values.set(name, value);
    Ok(())
}

/// Asks for what is missing at a terminal; elsewhere that is an error which names everything at once.
pub(crate) fn complete(values: &mut Values, schema: &Schema) -> Result<(), Failure> {
    let missing = values.missing(schema);
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
        values.set(name, value);
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_file_is_refused() {
        assert!(load(Path::new("/nowhere/at.all"), 1).is_err());
        assert!(load(Path::new(env!("CARGO_MANIFEST_DIR")), 1).is_err());
    }
}
