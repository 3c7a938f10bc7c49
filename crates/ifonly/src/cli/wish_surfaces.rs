//! Tests that every option of a search is on every surface, as [`WISH_OPTIONS`] describes it. A
//! failure names the file that lacks the option. `IFONLY_BLESS=1` rewrites the generated parts.

use crate::cli::commands::ask;
use ifonly_client::query::wish_options::{METRIC, WISH_OPTIONS, WishOption, WishType};
use ifonly_client::{WaysBy, WishList};
use ifonly_values::wishes::Metric;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Flags of `ask` that are not part of the wish list: servers, profile, pins and output.
const OTHER_FLAGS: &[&str] = &[
    "server",
    "profile",
    "row",
    "set",
    "json",
    "threshold",
    "manifest",
    "signer",
    "operators",
    "allow-same-host",
    "ca",
    "token",
    "token-file",
    "timeout",
    "plain-http",
];
/// The page has a choice per feature instead of lists of features, and no cost functions.
const NOT_ON_PAGE: &[&str] =
    &["features_to_vary", "suggested_immutable", "asymmetric", "metrics", "costs", "tolerance", "top", "ways_by"];

const PYTHON: &str = "python/ifonly/_ask.py";

fn path(file: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file)
}

fn read(file: &str) -> String {
    std::fs::read_to_string(path(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// The text after `start` and before the next `end`.
fn section<'t>(file: &str, text: &'t str, start: &str, end: &str) -> &'t str {
    let (_, rest) = text.split_once(start).unwrap_or_else(|| panic!("{file} does not contain {start:?}"));
    rest.split_once(end).unwrap_or_else(|| panic!("{file}: no {end:?} after {start:?}")).0
}

/// Compares a section with its generated text, or rewrites it.
fn check_generated(file: &str, start: &str, end: &str, generated: &str) {
    let text = read(file);
    let found = section(file, &text, start, end);
    if found == generated {
        return;
    }
    if std::env::var_os("IFONLY_BLESS").is_some() {
        let changed = text.replacen(&format!("{start}{found}{end}"), &format!("{start}{generated}{end}"), 1);
        std::fs::write(path(file), changed).unwrap();
        return;
    }
    let missing = generated.lines().find(|line| !found.lines().any(|other| other == *line));
    panic!("{file} lacks or contradicts {missing:?}; IFONLY_BLESS=1 rewrites it");
}

/// The type of an option in TypeScript.
fn typescript(kind: WishType) -> &'static str {
    match kind {
        WishType::Switch => "boolean",
        WishType::Features => "string[]",
        WishType::Weights => "Record<string, number>",
        WishType::DirectionWeights => "Record<string, [up: number, down: number]>",
        WishType::FeatureMetrics => "Record<string, Metric>",
        WishType::CostTables => "Record<string, [Value, number][]>",
        WishType::Ranges => "Record<string, [Value | null, Value | null]>",
        WishType::ValueLists => "Record<string, Value[]>",
        WishType::Metric => "Metric",
        WishType::Count => "number",
        WishType::WaysBy => "WaysBy",
        WishType::Tolerances => "Record<string, Value>",
        WishType::Limit => "number | null",
        WishType::Name => "string | null",
    }
}

/// The type of an option in JSON Schema, and an example.
fn json_type(kind: WishType) -> (Value, Value) {
    let by_feature = |of: Value| json!({"type": "object", "additionalProperties": of});
    let list = |of: Value| json!({"type": "array", "items": of});
    let pair = |of: Value| json!({"type": "array", "items": of, "minItems": 2, "maxItems": 2});
    let weight = json!({"type": "number", "minimum": 0.01, "maximum": 1000});
    let value = json!({"type": ["string", "number"]});
    let metric = json!({"enum": Metric::NAMED.map(|(name, _)| name)});
    match kind {
        WishType::Switch => (json!({"type": "boolean"}), json!(true)),
        WishType::Features => (list(json!({"type": "string"})), json!(["age", "job"])),
        WishType::Weights => (by_feature(weight), json!({"age": 2.5})),
        WishType::DirectionWeights => (by_feature(pair(weight)), json!({"age": [3, 0.5]})),
        WishType::FeatureMetrics => (by_feature(metric), json!({"age": "l1"})),
        WishType::CostTables => {
            let entry =
                json!({"type": "array", "prefixItems": [value, {"type": "number"}], "minItems": 2, "items": false});
            (by_feature(list(entry)), json!({"age": [[30, 1.5]], "job": [["nurse", 2]]}))
        }
        WishType::Ranges => {
            let bound = json!({"type": ["string", "number", "null"]});
            (by_feature(pair(bound)), json!({"age": [20, null], "start": ["08:00", "09:00"]}))
        }
        WishType::ValueLists => (by_feature(list(value)), json!({"job": ["nurse", "baker"]})),
        WishType::Metric => (metric, json!("mad")),
        WishType::Count => (json!({"type": "integer", "minimum": 1}), json!(3)),
        WishType::Tolerances => (by_feature(value), json!({"age": 1, "income": "2%"})),
        WishType::WaysBy => (json!({"enum": WaysBy::NAMED.map(|(name, _)| name)}), json!("set")),
        WishType::Limit => (json!({"type": ["integer", "null"], "minimum": 0}), json!(2)),
        WishType::Name => (json!({"type": ["string", "null"]}), json!("single-phase")),
    }
}

fn fields() -> BTreeSet<String> {
    WISH_OPTIONS.iter().map(|option| option.field.to_owned()).collect()
}

#[test]
fn the_wish_list_has_exactly_the_described_fields() {
    let list = serde_json::to_value(WishList::default()).unwrap();
    let list: BTreeSet<String> = list.as_object().unwrap().keys().cloned().collect();
    assert_eq!(list, fields(), "client/query/wish_list.rs and wish_options.rs differ");
}

#[test]
fn the_command_line_has_exactly_the_described_flags() {
    let command = <ask::Args as clap::Args>::augment_args(clap::Command::new("ask"));
    for option in WISH_OPTIONS {
        let argument = command.get_arguments().find(|argument| argument.get_long() == Some(option.flag));
        let argument = argument.unwrap_or_else(|| panic!("cli/commands/ask.rs lacks --{}", option.flag));
        let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
        assert!(help.contains(&option.meaning()), "cli/commands/ask.rs: help of --{}: {help}", option.flag);
    }
    for flag in command.get_arguments().filter_map(clap::Arg::get_long) {
        let is_wish = WISH_OPTIONS.iter().any(|option| option.flag == flag);
        assert!(is_wish || OTHER_FLAGS.contains(&flag), "wish_options.rs does not describe --{flag}");
    }
}

#[test]
fn the_typescript_types_are_those_described() {
    let line = |option: &WishOption| {
        format!("  /** {}. */\n  {}?: {};\n", option.meaning(), option.field, typescript(option.kind))
    };
    let lines: String = WISH_OPTIONS.iter().map(line).collect();
    check_generated("web/client/src/data.ts", "export interface Wishes {\n", "}\n", &lines);
}

#[test]
fn the_json_schema_is_the_described_one_and_the_wish_list_reads_its_examples() {
    let defaults = json!(WishList::default());
    let mut properties = serde_json::Map::new();
    for option in WISH_OPTIONS {
        let (mut schema, example) = json_type(option.kind);
        let wishes = serde_json::from_value::<WishList>(json!({option.field: example}));
        let wishes = wishes.unwrap_or_else(|error| panic!("wish_options.rs: the type of {}: {error}", option.field));
        assert!(wishes != WishList::default(), "the example of {} is its default", option.field);
        schema["description"] = json!(option.meaning());
        schema["default"] = defaults[option.field].clone();
        schema["examples"] = json!([example]);
        properties.insert(option.field.into(), schema);
    }
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Wishes of an ifonly search",
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
    });
    let text = serde_json::to_string_pretty(&schema).unwrap();
    let (start, end) = text.split_at(2);
    check_generated("docs/wishes.schema.json", start, "\n}\n", end.strip_suffix("\n}").unwrap());
}

#[test]
fn metrics_have_the_same_names_everywhere() {
    let names = Metric::NAMED.map(|(name, _)| name);
    let quoted = names.map(|name| format!("\"{name}\""));
    check_generated("web/client/src/data.ts", "export type Metric = ", ";\n", &quoted.join(" | "));
    check_generated(PYTHON, "Metric = Literal[", "]\n", &quoted.join(", "));
    for name in names {
        assert!(METRIC.help.contains(name), "wish_options.rs: the meaning of metric lacks {name}");
    }
}

#[test]
fn the_ways_have_the_same_names_everywhere() {
    let quoted = WaysBy::NAMED.map(|(name, _)| format!("\"{name}\""));
    check_generated("web/client/src/data.ts", "export type WaysBy = ", ";\n", &quoted.join(" | "));
    check_generated(PYTHON, "WaysBy = Literal[", "]\n", &quoted.join(", "));
}

#[test]
fn the_documented_table_is_the_described_one() {
    let row = |option: &WishOption| {
        let WishOption { field, flag, value, python, syntax, .. } = option;
        let flag = format!("--{flag} {value}");
        let syntax = if syntax.is_empty() { String::new() } else { format!(". {syntax}") };
        format!("| `{}` | `{field}` | `{python}` | {}{syntax} |\n", flag.trim_end(), option.meaning())
    };
    let rows: String = WISH_OPTIONS.iter().map(row).collect();
    check_generated(
        "docs/asking.md",
        "| flag | JSON | Python | meaning |\n|---|---|---|---|\n",
        "\n- `--range`",
        &rows,
    );
}

#[test]
fn the_python_package_has_exactly_the_described_arguments() {
    let text = read(PYTHON);
    let signature = section(PYTHON, &text, "def generate_counterfactuals(\n", ") -> Counterfactuals:");
    let description = section(PYTHON, &text, "\"\"\"Finds the nearest", ">>>");
    let typed = section(PYTHON, &text, "class Wishes(TypedDict, total=False):", "\n\n\n");
    let call = section(PYTHON, &text, "        wishes = Wishes(\n", "\n        )\n");
    let list = section(PYTHON, &text, "def _wish_list(\n", ") -> tuple");
    let documented = read("docs/python.md");
    for name in WISH_OPTIONS.iter().map(|option| option.python) {
        let lacks = |what: &str| format!("{PYTHON}: {what} lacks {name}");
        assert!(signature.contains(&format!(" {name}: ")), "{}", lacks("the signature of generate_counterfactuals"));
        assert!(description.contains(&format!("``{name}``")), "{}", lacks("its description"));
        assert!(documented.contains(&format!("`{name}`")), "docs/python.md lacks {name}");
        // The number of records is an argument of its own.
        if name != "total_CFs" {
            assert!(typed.contains(&format!("    {name}: ")), "{}", lacks("the class Wishes"));
            assert!(call.contains(&format!("{name}={name},")), "{}", lacks("the call of Wishes"));
            assert!(list.contains(&format!("    {name}: ")), "{}", lacks("the function _wish_list"));
        }
    }
    for name in typed.lines().filter_map(|line| line.trim_start().split_once(": ")).map(|(name, _)| name) {
        let is_wish = WISH_OPTIONS.iter().any(|option| option.python == name);
        assert!(is_wish, "wish_options.rs does not describe the Python argument {name}");
    }
}

#[test]
fn the_page_sends_every_option_that_it_offers() {
    let draft = read("web/page/src/draft.ts");
    for field in WISH_OPTIONS.iter().map(|option| option.field).filter(|field| !NOT_ON_PAGE.contains(field)) {
        let is_assigned = draft.split(&format!("wishes.{field}")).skip(1).any(|rest| {
            // Not the beginning of a longer name.
            !rest.starts_with(|next: char| next == '_' || next.is_alphanumeric())
        });
        let is_sent = is_assigned || draft.contains(&format!("      {field}: "));
        assert!(is_sent, "web/page/src/draft.ts lacks {field}");
    }
}
