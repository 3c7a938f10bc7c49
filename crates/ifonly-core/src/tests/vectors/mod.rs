//! Test vectors for other implementations, in `vectors/*.json`: one file per scheme,
//! `failures.json` for what must be refused, `transcript.json` for messages, keyed derivations and
//! records, `signature.json` for a signed record, `searches.json` for whole searches, and
//! `refusals.json` for messages that servers refuse. These tests compute the vectors and compare
//! them with the files; `IFONLY_BLESS=1 cargo test -p ifonly-core tests::vectors` writes the files.
//! `vectors/check.py` recomputes every number without this crate and uses every field of the files,
//! so fields that a scheme does not use are not written.

mod failures;
mod refusals;
mod schemes;
mod searches;
mod signature;
mod transcript;

use crate::field::FieldElement;
use serde_json::Value;
use std::path::PathBuf;

fn compare(name: &str, value: &Value) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vectors").join(format!("{name}.json"));
    if std::env::var_os("IFONLY_BLESS").is_some() {
        return std::fs::write(&path, text(value, 0) + "\n").unwrap();
    }
    let stored: Value = serde_json::from_str(&std::fs::read_to_string(&path).expect(name)).expect(name);
    assert!(
        stored == *value,
        "{name}.json differs; if the protocol changes on purpose, write the files with IFONLY_BLESS=1 and raise the version"
    );
}

/// Readable JSON: a value that fits into a line is on one line.
fn text(value: &Value, indent: usize) -> String {
    let line = value.to_string();
    if indent + line.len() <= 140 {
        return line;
    }
    let inner = |value: &Value| text(value, indent + 1);
    let (parts, open, close): (Vec<String>, char, char) = match value {
        Value::Array(list) => (list.iter().map(inner).collect(), '[', ']'),
        Value::Object(map) => (map.iter().map(|(key, value)| format!("{key:?}: {}", inner(value))).collect(), '{', '}'),
        _ => return line,
    };
    let pad = " ".repeat(indent + 1);
    let list_of_scalars = matches!(value, Value::Array(list) if list.iter().all(|part| part.is_u64()));
    // Long lists of numbers are wrapped.
    let mut body = String::new();
    let mut width = 0;
    for (index, part) in parts.iter().enumerate() {
        let joins = list_of_scalars && index > 0 && width + part.len() < 138;
        if !joins {
            body += &format!("\n{pad}");
            width = pad.len();
        }
        body += part;
        width += part.len() + 1;
        if index + 1 < parts.len() {
            body.push(',');
        }
    }
    format!("{open}{body}\n{}{close}", " ".repeat(indent))
}

fn numbers(elements: &[FieldElement]) -> Vec<u64> {
    elements.iter().map(|element| element.value()).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
