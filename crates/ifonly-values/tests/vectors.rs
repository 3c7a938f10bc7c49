//! `vectors/values.json`: a manifest and its digest, values as levels, a record, wishes as tables.
//! Written by `IFONLY_BLESS=1 cargo test -p ifonly-values --test vectors`; `vectors/values.py`
//! recomputes it from docs/protocol.md alone.

use ifonly_core::scheme;
use ifonly_values::manifest::{Manifest, ManifestFields};
use ifonly_values::record;
use ifonly_values::schema::{Schema, Value};
use ifonly_values::wishes::{Metric, Wishes};
use serde_json::{Value as Json, json};
use std::path::PathBuf;

/// Every kind of feature and of scale.
fn schema() -> Schema {
    let feature = |name: &str, kind: Json| json!({ "name": name, "kind": kind });
    let numeric = |layout: Json| json!({ "type": "numeric", "scale": { "form": layout } });
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
                    "form": { "type": "edges", "from": "0", "runs": [{ "step": "500", "count": 2 }, { "step": "1000", "count": 3 }] },
                    "open": true
                },
                "notation": { "type": "written", "prefix": "$", "suffix": "", "thousands": ",", "decimal": "." }
            },
            "default": "0"
        },
        {
            "name": "score",
            "kind": numeric(json!({ "type": "levels", "min": 0.0, "max": 10.0, "levels": 4, "quantiser": "floor" })),
            "deviation": { "value": 2.5, "of": "median" }
        },
        feature("rooms", numeric(json!({ "type": "listed", "values": ["1", "2", "4"] }))),
        {
            "name": "since",
            "kind": {
                "type": "numeric",
                "scale": { "form": { "type": "grid", "from": "18262", "step": "1", "levels": 3 } },
                "notation": { "type": "date" }
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
    let mut contents = ManifestFields::new("vectors", schema(), 12, 96, 3);
    contents.terms.cost_limit = 1_000_000;
    contents.offer_all();
    Manifest::new(contents).unwrap()
}

fn levels(schema: &Schema, values: &Json) -> Vec<u32> {
    encoded(schema, values).iter().map(|encoded| encoded.level).collect()
}

fn encoded(schema: &Schema, values: &Json) -> Vec<ifonly_values::schema::EncodedValue> {
    schema.encode(|name| values[name].as_str().map(Value::from)).unwrap()
}

/// The words are those of a wish list.
fn wishes(schema: &Schema, words: &Json) -> Wishes {
    let mut wishes = Wishes::new(schema);
    let names = |key: &str| words[key].as_array().into_iter().flatten().map(|name| name.as_str().unwrap().to_owned());
    let pairs = |key: &str| words[key].as_object().into_iter().flatten();
    let text = |value: &Json| Value::from(value.as_str().unwrap());
    if let Some(metric) = words.get("metric") {
        wishes.set_metric_of_all(serde_json::from_value::<Metric>(metric.clone()).unwrap());
    }
    for name in names("immutable") {
        wishes.immutable(&name).unwrap();
    }
    for name in names("only_up") {
        wishes.only_up(&name).unwrap();
    }
    for name in names("only_down") {
        wishes.only_down(&name).unwrap();
    }
    for (name, ends) in pairs("ranges") {
        wishes.permitted_range(name, Some(&text(&ends[0])), Some(&text(&ends[1]))).unwrap();
    }
    for (name, values) in pairs("permits") {
        let values: Vec<Value> = values.as_array().unwrap().iter().map(text).collect();
        wishes.permitted_values(name, &values).unwrap();
    }
    for (name, weights) in pairs("weights") {
        wishes.asymmetric(name, weights[0].as_f64().unwrap(), weights[1].as_f64().unwrap()).unwrap();
    }
    for (name, points) in pairs("costs") {
        let point = |point: &Json| (text(&point[0]), point[1].as_f64().unwrap());
        wishes.costs(name, &points.as_array().unwrap().iter().map(point).collect::<Vec<_>>()).unwrap();
    }
    if words["max_changes"] == true {
        wishes.max_changes(3);
    }
    wishes
}

/// The tables that a search with these values and wishes shares.
fn question(manifest: &Manifest, values: &Json, words: &Json) -> Json {
    let schema = manifest.schema();
    let instance = manifest.instance(scheme::DEFAULT.name).unwrap();
    let own = encoded(schema, values);
    let compiled = wishes(schema, words).compile(&own, instance.scheme(), instance.params()).unwrap();
    let opening = instance.open(0, &compiled.secret, &[], None);
    let tables = |slot: usize| {
        let mut elements = opening.vectors.slot(slot).iter().map(|element| element.value());
        let table = |&range: &u32| elements.by_ref().take(range as usize + 1).collect::<Vec<u64>>();
        schema.max_levels().iter().map(table).collect::<Vec<_>>()
    };
    json!({ "values": values, "wishes": words, "cost_tables": tables(0), "gate_tables": tables(1) })
}

fn vectors() -> Json {
    let manifest = manifest();
    let schema = manifest.schema();
    let person = json!({
        "age": "19.25", "income": "$1,200", "score": "7.6", "rooms": "3", "since": "2020-01-02", "risk": "medium",
        "owner": "no", "district": "2.0", "job": "baker"
    });
    let other = json!({
        "age": "99", "income": "NA", "score": "10", "rooms": "2", "since": "2020-01-04", "risk": "low", "owner": "yes",
        "district": "10", "job": "pilot"
    });
    let zero = json!({
        "age": "18.2", "income": "0.01", "score": "2.5", "rooms": "1.5", "since": "2019-12-31", "risk": "high",
        "owner": "yes", "district": "1.00", "job": "pilot"
    });
    let people = [&person, &other, &zero];
    let texts: Vec<&str> = ["age", "income", "score", "rooms", "since", "risk", "owner", "district", "job"]
        .map(|name| person[name].as_str().unwrap())
        .into();
    let record = record::encode(&texts, manifest.record_length()).unwrap();
    json!({
        "manifest": manifest.json(),
        "digest": hex(&manifest.digest()),
        "people": people.map(|values| json!({ "values": values, "levels": levels(schema, values) })),
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
        ],
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
