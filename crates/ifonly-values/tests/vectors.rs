//! `vectors/values.json`: a manifest and its digest, values as levels, a record, wishes as tables,
//! wishes that must be refused, and texts in every notation. Written by `IFONLY_BLESS=1 cargo test
//! -p ifonly-values --test vectors`; `vectors/values.py` recomputes it from docs/protocol.md alone.

use ifonly_core::scheme;
use ifonly_values::manifest::{Manifest, ManifestFields};
use ifonly_values::record;
use ifonly_values::schema::{Notation, Schema, Value};
use ifonly_values::wishes::{CompiledWishes, Metric, WishError, Wishes};
use serde_json::{Value as Json, json};
use std::path::PathBuf;

/// Every kind of feature and of scale.
fn schema() -> Schema {
    let feature = |name: &str, kind: Json| json!({ "name": name, "kind": kind });
    let numeric = |layout: Json| json!({ "type": "numeric", "scale": { "layout": layout } });
    let one_hot = |category: &str| {
        let kind = json!({ "type": "categorical", "categories": ["no", "yes"], "range": 2 });
        json!({ "name": format!("job={category}"), "kind": kind, "one_hot": { "column": "job", "category": category } })
    };
    let mut features = json!([
        feature("age", numeric(json!({ "type": "grid", "from": "18", "step": "0.5", "levels": 6 }))),
        {
            "name": "income",
            "kind": {
                "type": "numeric",
                "scale": {
                    "layout": { "type": "edges", "from": "0", "runs": [{ "step": "500", "count": 2 }, { "step": "1000", "count": 3 }] },
                    "open_ended": true
                },
                "notation": { "type": "formatted", "prefix": "$", "suffix": "", "thousands": ",", "decimal": "." }
            },
            "default": "0"
        },
        {
            "name": "score",
            "kind": numeric(json!({ "type": "uniform", "min": 0.0, "max": 10.0, "levels": 4, "quantiser": "floor" })),
            "deviation": { "value": 2.5, "of": "median" }
        },
        feature("rooms", numeric(json!({ "type": "listed", "values": ["1", "2", "4"] }))),
        {
            "name": "since",
            "kind": {
                "type": "numeric",
                "scale": { "layout": { "type": "grid", "from": "18262", "step": "1", "levels": 3 } },
                "notation": { "type": "date" }
            }
        },
        feature(
            "balance",
            numeric(json!({ "type": "edges", "from": "-500", "runs": [{ "step": "500", "count": 3 }] })),
        ),
        {
            "name": "children",
            "kind": {
                "type": "numeric",
                "scale": { "layout": { "type": "grid", "from": "0", "step": "1", "levels": 3 }, "open_ended": true }
            }
        },
        feature("risk", json!({ "type": "ordinal", "ranks": ["low", "medium", "high"] })),
        feature("owner", json!({ "type": "categorical", "categories": ["no", "yes"], "range": 3 })),
        feature("district", json!({ "type": "categorical", "categories": ["1", "2", "10"], "range": 100 })),
        one_hot("baker"),
        one_hot("pilot"),
    ]);
    let ordered = |feature: &&mut Json| feature["kind"]["type"] != "categorical" && feature["deviation"].is_null();
    for feature in features.as_array_mut().unwrap().iter_mut().filter(|feature| ordered(feature)) {
        feature["deviation"] = json!({ "value": 1.5, "of": "mean" });
    }
    serde_json::from_value(json!({ "features": features })).unwrap()
}

fn manifest() -> Manifest {
    let mut fields = ManifestFields::new("vectors", schema(), 12, 120, 3);
    fields.params.cost_limit = 1_000_000;
    fields.offer_all();
    Manifest::new(fields).unwrap()
}

fn levels(schema: &Schema, values: &Json) -> Vec<u32> {
    encoded(schema, values).iter().map(|encoded| encoded.level).collect()
}

fn encoded(schema: &Schema, values: &Json) -> Vec<ifonly_values::schema::EncodedValue> {
    schema.encode(|name| values[name].as_str().map(Value::from)).unwrap()
}

/// The words are those of a wish list.
fn wishes(schema: &Schema, words: &Json) -> Result<Wishes, WishError> {
    let mut wishes = Wishes::new(schema);
    let names = |key: &str| words[key].as_array().into_iter().flatten().map(|name| name.as_str().unwrap().to_owned());
    let pairs = |key: &str| words[key].as_object().into_iter().flatten();
    let text = |value: &Json| Value::from(value.as_str().unwrap());
    if let Some(metric) = words.get("metric") {
        wishes.set_metric_of_all(serde_json::from_value::<Metric>(metric.clone()).unwrap());
    }
    for name in names("immutable") {
        wishes.immutable(&name)?;
    }
    for name in names("only_up") {
        wishes.only_up(&name)?;
    }
    for name in names("only_down") {
        wishes.only_down(&name)?;
    }
    for (name, ends) in pairs("ranges") {
        wishes.permitted_range(name, Some(&text(&ends[0])), Some(&text(&ends[1])))?;
    }
    for (name, values) in pairs("permits") {
        let values: Vec<Value> = values.as_array().unwrap().iter().map(text).collect();
        wishes.permitted_values(name, &values)?;
    }
    for (name, weights) in pairs("weights") {
        wishes.asymmetric(name, weights[0].as_f64().unwrap(), weights[1].as_f64().unwrap())?;
    }
    for (name, points) in pairs("costs") {
        let point = |point: &Json| (text(&point[0]), point[1].as_f64().unwrap());
        wishes.costs(name, &points.as_array().unwrap().iter().map(point).collect::<Vec<_>>())?;
    }
    if words["max_changes"] == true {
        wishes.max_changes(3);
    }
    Ok(wishes)
}

fn compile(manifest: &Manifest, values: &Json, words: &Json) -> Result<CompiledWishes, WishError> {
    let instance = manifest.instance(scheme::DEFAULT.name).unwrap();
    let own = encoded(manifest.schema(), values);
    wishes(manifest.schema(), words)?.compile(&own, instance.scheme(), instance.params())
}

/// A wish that no level satisfies, or a value that does not fill a level.
fn refusal(manifest: &Manifest, values: &Json, words: Json) -> Json {
    assert!(compile(manifest, values, &words).is_err(), "{words} must be refused");
    json!({ "values": values, "wishes": words })
}

/// The number that a text means, or null if the notation refuses the text.
fn notation(notation: &Json, texts: &[&str]) -> Json {
    let reader: Notation = serde_json::from_value(notation.clone()).unwrap();
    let read = |text: &&str| json!({ "text": text, "number": reader.read(text) });
    json!({ "notation": notation, "texts": texts.iter().map(read).collect::<Vec<_>>() })
}

/// Every branch of the grammar in docs/protocol.md, and texts just outside it.
fn notations() -> Vec<Json> {
    let dollars = json!({ "type": "formatted", "prefix": "$", "suffix": "", "thousands": ",", "decimal": "." });
    let euros = json!({ "type": "formatted", "prefix": "", "suffix": " €", "thousands": ".", "decimal": "," });
    let percent = json!({ "type": "formatted", "prefix": "", "suffix": "%", "thousands": null, "decimal": "." });
    vec![
        notation(
            &json!({ "type": "plain" }),
            &[
                "1", " 1.5\t", "+2", "-0", ".5", "5.", "1e3", "1E-2", "0x10", "1,5", "", ".", "e3", "inf", "nan",
                "1e999", "1_000", "1 000", "--1",
            ],
        ),
        notation(
            &dollars,
            &[
                "$1,234.50",
                "$ 7",
                "1234",
                "($5.00)",
                "-$5",
                "$-5",
                "(-$5)",
                "-$-5",
                "$12,34",
                "$1,2345",
                "$,123",
                "$.5",
                "$5.",
                "1e3",
                "$1e3",
                "5$",
                "$",
            ],
        ),
        notation(&euros, &["1.234 €", "1.234,5 €", "1.23", "1.234", "12,5", "1,2,3 €", "(3 €)"]),
        notation(&percent, &["12.5%", "12.5 %", "12.5", "%", "-3%"]),
        notation(
            &json!({ "type": "date" }),
            &[
                "1970-01-01",
                "2024-02-29",
                "2023-02-29",
                "1969-12-31",
                "2024-2-9",
                "2024-13-01",
                "20240101",
                " 2000-01-01 ",
                "2000-01-01T00:00",
            ],
        ),
        notation(
            &json!({ "type": "timestamp" }),
            &[
                "1970-01-01",
                "1970-01-01T00:01",
                "1970-01-01 01:00:00Z",
                "1970-01-01 00:00:00.25",
                "1970-01-01 24:00",
                "1970-01-01t00:01",
                "1970-01-01 00:00:60",
                "1970-01-01 00",
                "1969-12-31 23:59:59",
            ],
        ),
    ]
}

/// The tables that a search with these values and wishes shares.
fn question(manifest: &Manifest, values: &Json, words: &Json) -> Json {
    let schema = manifest.schema();
    let instance = manifest.instance(scheme::DEFAULT.name).unwrap();
    let compiled = compile(manifest, values, words).unwrap();
    let secrets = instance.phase_secrets(0, &compiled.secret, &[], None);
    let tables = |slot: usize| {
        let mut elements = secrets.vectors.slot(slot).iter().map(|element| element.value());
        let table = |&range: &u32| elements.by_ref().take(range as usize + 1).collect::<Vec<u64>>();
        schema.max_levels().iter().map(table).collect::<Vec<_>>()
    };
    json!({ "values": values, "wishes": words, "cost_tables": tables(0), "gate_tables": tables(1) })
}

fn vectors() -> Json {
    let manifest = manifest();
    let schema = manifest.schema();
    let person = json!({
        "age": "19.25", "income": "$1,200", "score": "7.6", "rooms": "3", "since": "2020-01-02", "balance": "120", "children": "1",
        "risk": "medium",
        "owner": "no", "district": "2.0", "job": "baker"
    });
    let other = json!({
        "age": "99", "income": "NA", "score": "10", "rooms": "2", "since": "2020-01-04", "balance": "0", "children": "3",
        "risk": "low", "owner": "yes",
        "district": "10", "job": "pilot"
    });
    let zero = json!({
        "age": "18.2", "income": "0.01", "score": "2.5", "rooms": "1.5", "since": "2019-12-31", "balance": "-0.5", "children": "0",
        "risk": "high",
        "owner": "yes", "district": "1.00", "job": "pilot"
    });
    let profiles = [&person, &other, &zero];
    let texts: Vec<&str> =
        ["age", "income", "score", "rooms", "since", "balance", "children", "risk", "owner", "district", "job"]
            .map(|name| person[name].as_str().unwrap())
            .into();
    let record = record::encode(&texts, manifest.record_length()).unwrap();
    json!({
        "manifest": manifest.json(),
        "digest": hex(&manifest.digest()),
        "profiles": profiles.map(|values| json!({ "values": values, "levels": levels(schema, values) })),
        "record": { "bytes": hex(&record), "texts": texts },
        "questions": [
            question(&manifest, &person, &json!({ "metric": "l2" })),
            question(&manifest, &person, &json!({
                "immutable": ["owner", "job"], "only_up": ["age", "income"], "only_down": ["score"],
                "ranges": { "since": ["2020-01-02", "2020-01-03"] }, "permits": { "district": ["2", "10"] },
                "weights": { "risk": [2.5, 0.5] }, "metric": "l1"
            })),
            question(&manifest, &other, &json!({
                "max_changes": true, "metric": "count", "permits": { "job": ["baker", "pilot"] },
                "costs": { "rooms": [["1", 4.0], ["4", 1.0]], "risk": [["low", 0.0], ["medium", 1.5], ["high", 7.0]] }
            })),
            question(&manifest, &zero, &json!({ "immutable": ["rooms"], "metric": "mad" })),
            // Forbidden levels do not raise the largest cost; weights multiply own costs. At the
            // user's own value the weight is that of an increase.
            question(
                &manifest,
                &other,
                &json!({
                    "metric": "l2", "permits": { "rooms": ["1", "2"] },
                    "costs": { "rooms": [["1", 3.0], ["4", 90.0]] }, "weights": { "rooms": [2.0, 0.25] }
                }),
            ),
            // The factor is just below cost_limit / cost: 64 times 1/128 rounds down.
            question(
                &manifest,
                &person,
                &json!({
                    "metric": "l1", "costs": { "rooms": [["1", 0.0078125], ["2", 7000.0], ["4", 15625.0]] }
                }),
            ),
            // 0 is a level of its own; an open-ended first or last level lies in no bounded range.
            question(
                &manifest,
                &person,
                &json!({
                    "metric": "l1", "permits": { "balance": ["0"] },
                    "ranges": { "children": ["-1", "3"], "income": ["0", "4000"] }
                }),
            ),
            question(&manifest, &person, &json!({ "metric": "mad", "ranges": { "balance": ["0", "500"] } })),
            // A level of a uniform scale is widened by 10^-13 of the range of values.
            question(&manifest, &person, &json!({ "metric": "l2", "ranges": { "score": ["2.4", "5.1"] } })),
            question(&manifest, &person, &json!({ "metric": "l2", "ranges": { "score": ["2.5", "7.6"] } })),
            // Costs count a value beyond the ends as the end.
            question(&manifest, &other, &json!({ "metric": "l2", "only_down": ["income"] })),
        ],
        "refusals": [
            refusal(&manifest, &other, json!({ "metric": "l2", "only_up": ["age"] })),
            refusal(&manifest, &person, json!({ "metric": "l2", "ranges": { "score": ["2.5", "5"] } })),
            refusal(&manifest, &person, json!({ "metric": "l2", "permits": { "age": ["18.2"] } })),
            refusal(&manifest, &person, json!({ "metric": "l2", "permits": { "income": ["1200"] } })),
            refusal(&manifest, &person, json!({ "metric": "l2", "permits": { "balance": ["120"] } })),
            refusal(&manifest, &person, json!({ "metric": "l2", "permits": { "children": ["0"] } })),
        ],
        "notations": notations(),
    })
}

/// JSON with a line for every person and question.
fn lines(vectors: &Json) -> String {
    let entry = |(name, value): (&String, &Json)| match value.as_array() {
        Some(list) => {
            let items: Vec<String> = list.iter().map(|item| format!("  {item}")).collect();
            format!(" {name:?}: [\n{}\n ]", items.join(",\n"))
        }
        None => format!(" {name:?}: {value}"),
    };
    let entries: Vec<String> = vectors.as_object().into_iter().flatten().map(entry).collect();
    format!("{{\n{}\n}}\n", entries.join(",\n"))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn values_wishes_and_the_manifest_are_as_in_the_vectors() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vectors/values.json");
    let vectors = vectors();
    if std::env::var_os("IFONLY_BLESS").is_some() {
        return std::fs::write(&path, lines(&vectors)).unwrap();
    }
    let kept: Json = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert!(
        kept == vectors,
        "values.json differs; if the manifest or the meaning of wishes was meant to change, bless it"
    );
}
