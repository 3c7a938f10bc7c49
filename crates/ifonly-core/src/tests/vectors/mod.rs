//! Test vectors for other implementations: `vectors/*.json`, one file per scheme, `failures.json`
//! for what must be refused, `transcript.json` for messages, keyed derivations and records,
//! `signature.json` for a signed one. These tests compute them anew and compare; `IFONLY_BLESS=1
//! cargo test -p ifonly-core tests::vectors` writes them. `vectors/check.py` recomputes every
//! number without this crate, and no field of a file is without a say in that: what a scheme does
//! not use is not written.

mod failures;
mod schemes;
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
    let kept: Value = serde_json::from_str(&std::fs::read_to_string(&path).expect(name)).expect(name);
    assert!(kept == *value, "{name}.json differs; if the protocol was meant to change, bless it and raise its version");
}

/// JSON for people: what fits into a line is on a line.
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
    // Long lists of numbers fill lines.
    let mut body = String::new();
    let mut width = 0;
    for (place, part) in parts.iter().enumerate() {
        let joins = list_of_scalars && place > 0 && width + part.len() < 138;
        if !joins {
            body += &format!("\n{pad}");
            width = pad.len();
        }
        body += part;
        width += part.len() + 1;
        if place + 1 < parts.len() {
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
