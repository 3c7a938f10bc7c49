//! The content of a manifest as a page needs it for a form: columns with kind, bounds and words,
//! schemes, and operators.

use ifonly_client::ServerFailure;
use ifonly_core::scheme::{ConstraintKind, CostModel};
use ifonly_values::manifest::{Dataset, Manifest, OfferedScheme, Operator};
use ifonly_values::schema::{
    Column, Feature, FeatureKind, LevelText, LocalizedText, Notation, Phrases, Schema, SchemaError, Value,
};
use std::collections::BTreeMap;

/// The manifest in the form that pages use.
#[derive(Debug, serde::Serialize)]
pub struct Inspection<'a> {
    /// Name and version of the dataset.
    pub dataset: &'a Dataset,
    /// The digest of the manifest, 64 hexadecimal digits.
    pub digest: String,
    /// The number of rows.
    pub rows: usize,
    /// T: number of servers that may collude and learn nothing.
    pub threshold: usize,
    /// S: number of unresponsive servers tolerated.
    pub silent: usize,
    /// B: number of lying servers corrected.
    pub lying: usize,
    /// The public key that signs the records.
    pub signer: Option<String>,
    /// The largest number of records of one search.
    pub top_limit: usize,
    /// The operators.
    pub operators: &'a [Operator],
    /// The default scheme.
    pub default_scheme: &'a str,
    /// All offered schemes.
    pub schemes: Vec<SchemeInfo>,
    /// The columns of a profile.
    pub columns: Vec<ColumnInfo<'a>>,
    /// Servers that could not be connected, and why.
    pub server_failures: &'a [ServerFailure],
}

/// An offered scheme.
#[derive(Debug, serde::Serialize)]
pub struct SchemeInfo {
    /// Its name.
    pub name: &'static str,
    /// What the user learns in addition to the record.
    pub learns: &'static str,
    /// The number of servers that it uses.
    pub servers: usize,
    /// The number of phases before record fetches. A sealed search has one phase and no fetches.
    pub phases: usize,
    /// Whether each record needs a record fetch.
    pub fetches: bool,
    /// The largest number of records of one search.
    pub top_limit: usize,
    /// Whether costs are computed from values; otherwise from levels.
    pub in_values: bool,
    /// Whether wishes may contain directions, ranges and permitted values.
    pub any_wish: bool,
}

/// A column of the data.
#[derive(Debug, serde::Serialize)]
pub struct ColumnInfo<'a> {
    /// Its name.
    pub name: &'a str,
    /// `number`, `date`, `timestamp`, `ordinal` or `category`.
    pub kind: &'static str,
    /// The unit.
    pub unit: Option<&'a LocalizedText>,
    /// The description.
    pub description: Option<&'a LocalizedText>,
    /// The name for users, if it differs from `name`.
    pub label: Option<&'a LocalizedText>,
    /// The section of the form.
    pub section: Option<&'a LocalizedText>,
    /// Phrases for a higher and a lower value, with `{n}` for the difference.
    pub phrases: &'a Phrases,
    /// The labels of words.
    pub word_labels: BTreeMap<&'a str, &'a LocalizedText>,
    /// The default for a missing value. Without a default, a value is required.
    pub default: Option<&'a str>,
    /// Whether the institution marks it as hard to change.
    pub suggest_immutable: bool,
    /// Whether its values are ordered, so that directions and ranges apply.
    pub ordered: bool,
    /// Whether the metric `mad` applies to it.
    pub deviation: bool,
    /// The lowest number, in the notation of the column.
    pub min: Option<String>,
    /// The highest number.
    pub max: Option<String>,
    /// How the data writes its numbers, if not as plain numbers.
    pub notation: Option<NumberFormat<'a>>,
    /// The words, lowest first if they are ordered.
    pub words: Vec<&'a str>,
}

/// The parts of formatted numbers such as `$1,234.50`.
#[derive(Debug, serde::Serialize)]
pub struct NumberFormat<'a> {
    /// Text before the number.
    pub prefix: &'a str,
    /// Text after the number.
    pub suffix: &'a str,
    /// Thousands separator.
    pub thousands: Option<char>,
    /// Decimal separator.
    pub decimal: char,
}

impl<'a> Inspection<'a> {
    /// Collects the content of a manifest.
    pub fn new(manifest: &'a Manifest, server_failures: &'a [ServerFailure]) -> Inspection<'a> {
        let fields = manifest.fields();
        let schema = manifest.schema();
        let columns = schema.columns();
        Inspection {
            dataset: &fields.dataset,
            digest: hex::encode(manifest.digest()),
            rows: manifest.rows(),
            threshold: fields.params.threshold,
            silent: fields.params.silent,
            lying: fields.params.lying,
            signer: fields.signer.map(|signer| signer.to_string()),
            top_limit: manifest.top_limit(),
            operators: manifest.operators(),
            default_scheme: &fields.default_scheme,
            schemes: manifest.schemes().iter().map(|offered| scheme(offered, manifest)).collect(),
            columns: columns.iter().map(|column| info(schema, column)).collect(),
            server_failures,
        }
    }
}

fn scheme(offered: &OfferedScheme, manifest: &Manifest) -> SchemeInfo {
    let scheme = offered.scheme();
    SchemeInfo {
        name: scheme.name,
        learns: scheme.learns,
        servers: offered.servers(),
        phases: offered.phases(),
        fetches: offered.fetches_records(),
        top_limit: manifest.top_limit().min(offered.top_limit()),
        in_values: scheme.cost_model == CostModel::Table,
        any_wish: scheme.constraint == ConstraintKind::Table,
    }
}

/// Describes a column.
pub fn info<'a>(schema: &'a Schema, column: &Column<'a>) -> ColumnInfo<'a> {
    let features = &schema.features()[column.features.clone()];
    let first = &features[0];
    let (kind, bounds) = match &first.kind {
        FeatureKind::Numeric { scale, notation } => {
            let (min, max) = scale.bounds();
            let kind = match notation {
                Notation::Plain | Notation::Formatted { .. } => "number",
                Notation::Date => "date",
                Notation::Timestamp => "timestamp",
            };
            (kind, Some((notation.write(min), notation.write(max))))
        }
        FeatureKind::Ordinal { .. } => ("ordinal", None),
        FeatureKind::Categorical { .. } => ("category", None),
    };
    let (min, max) = bounds.unzip();
    let deviation = first.is_categorical() || first.deviation.is_some();
    ColumnInfo {
        name: column.name,
        kind,
        unit: first.unit.as_ref(),
        description: first.description.as_ref(),
        label: first.label.as_ref(),
        section: first.section.as_ref(),
        phrases: &first.phrases,
        word_labels: features.iter().flat_map(|feature| &feature.word_labels).map(|(w, t)| (w.as_str(), t)).collect(),
        default: first.default.as_deref(),
        suggest_immutable: first.suggest_immutable,
        ordered: kind != "category",
        deviation,
        min,
        max,
        notation: number_format(&first.kind),
        words: words(features),
    }
}

fn number_format(kind: &FeatureKind) -> Option<NumberFormat<'_>> {
    match kind {
        FeatureKind::Numeric { notation: Notation::Formatted { prefix, suffix, thousands, decimal }, .. } => {
            Some(NumberFormat { prefix, suffix, thousands: *thousands, decimal: *decimal })
        }
        _ => None,
    }
}

/// The words of a column, which is one feature or one feature per word.
fn words(features: &[Feature]) -> Vec<&str> {
    match features {
        [single] => single.own_words().iter().map(String::as_str).collect(),
        group => group
            .iter()
            .filter(|feature| !feature.mixed)
            .filter_map(|feature| Some(feature.one_hot.as_ref()?.category.as_str()))
            .collect(),
    }
}

/// How a value is interpreted.
#[derive(Debug, PartialEq, serde::Serialize)]
pub struct InterpretedValue {
    /// Whether it is missing, so that the default replaces it.
    pub missing: bool,
    /// Whether it is out of bounds, so that a bound replaces it.
    pub clamped: bool,
    /// Its level, as a value or an interval of values.
    pub level: Option<LevelText>,
    /// Its position between the bounds, or among the words, from 0 to 1.
    pub place: Option<f64>,
}

/// Interprets a value of a column as a search does.
pub fn interpret(schema: &Schema, name: &str, text: &str) -> Result<InterpretedValue, SchemaError> {
    let columns = schema.columns();
    let Some(column) = columns.iter().find(|column| column.name == name) else {
        let reason = "it is part of a one-hot column; give the value of the column instead";
        let part = || SchemaError::Invalid { feature: name.into(), reason: reason.into() };
        return Err(schema.named(name).err().unwrap_or_else(part));
    };
    let features = &schema.features()[column.features.clone()];
    let first = &features[0];
    let value = Value::from(text);
    let mut encoded = vec![];
    schema.encode_column(column, &value, &mut encoded)?;
    // Every column has at least one feature, and every feature one level.
    let no_level = || SchemaError::Invalid { feature: name.into(), reason: "it has no level".into() };
    let own = encoded.first().copied().ok_or_else(no_level)?;
    let missing = schema.is_missing(column, &value);
    let (level, place) = match (&first.kind, features) {
        (FeatureKind::Numeric { scale, .. }, _) => {
            let (min, max) = scale.bounds();
            let number = own.number.unwrap_or(min).clamp(min, max);
            (first.show_level(own.level), Some((number - min) / (max - min)))
        }
        (_, [_, _, ..]) => {
            let hit = encoded.iter().position(|encoded| encoded.level > 0);
            (
                hit.map(|hit| LevelText::Value(words(features)[hit].to_owned())),
                hit.map(|hit| relative_position(hit, features.len())),
            )
        }
        (_, _) => {
            let shown = first.show_level(own.level);
            let hit = shown.as_ref().and_then(|shown| first.words().iter().position(|word| *word == shown.to_string()));
            (shown, hit.map(|hit| relative_position(hit, first.words().len())))
        }
    };
    Ok(InterpretedValue { missing, clamped: own.clamped, level, place })
}

fn relative_position(index: usize, count: usize) -> f64 {
    index as f64 / (count - 1).max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use ifonly_values::manifest::ManifestFields;
    use ifonly_values::schema::{OneHot, Scale};

    fn schema() -> Schema {
        let age = Feature {
            unit: Some("years".into()),
            suggest_immutable: true,
            ..Feature::new("age", Scale::whole_numbers(20, 60).unwrap().into())
        };
        let since = FeatureKind::Numeric { scale: Scale::whole_numbers(0, 10).unwrap(), notation: Notation::Date };
        let ranks = vec!["low".into(), "middle".into(), "high".into()];
        let grade = Feature { default: Some("low".into()), ..Feature::new("grade", FeatureKind::Ordinal { ranks }) };
        let part = |category: &str| Feature {
            one_hot: Some(OneHot { column: "city".into(), category: category.into() }),
            ..Feature::new(
                format!("city={category}"),
                FeatureKind::Categorical { categories: vec!["no".into(), "yes".into()], range: 10 },
            )
        };
        let housing = FeatureKind::Categorical { categories: vec!["rent".into(), "own".into()], range: 50 };
        Schema::new(vec![
            age,
            Feature::new("since", since),
            grade,
            part("A"),
            part("B"),
            Feature::new("housing", housing),
        ])
        .unwrap()
    }

    #[test]
    fn every_column_has_its_kind_bounds_and_words() {
        let manifest = Manifest::new(ManifestFields::new("people", schema(), 9, 64, 2)).unwrap();
        let offered = Inspection::new(&manifest, &[]);
        let kinds: Vec<_> = offered.columns.iter().map(|column| (column.name, column.kind)).collect();
        assert_eq!(
            kinds,
            [("age", "number"), ("since", "date"), ("grade", "ordinal"), ("city", "category"), ("housing", "category")]
        );
        let [age, since, grade, city, _] = &offered.columns[..] else { panic!("wrong number of columns") };
        assert_eq!((age.min.as_deref(), age.max.as_deref(), age.unit), (Some("20"), Some("60"), Some(&"years".into())));
        assert!(age.suggest_immutable && age.default.is_none() && age.ordered && !city.ordered);
        assert_eq!((since.min.as_deref(), since.max.as_deref()), (Some("1970-01-01"), Some("1970-01-11")));
        assert_eq!((&grade.words[..], grade.default), (&["low", "middle", "high"][..], Some("low")));
        assert_eq!(city.words, ["A", "B"]);
        let default = offered.schemes.iter().find(|scheme| scheme.name == offered.default_scheme).unwrap();
        assert!(default.phases > 0 && default.fetches && default.servers == 2);
    }

    #[test]
    fn values_are_interpreted_as_in_a_search() {
        let schema = schema();
        let place = |name, text| interpret(&schema, name, text).unwrap().place;
        assert_eq!(place("age", "30"), Some(0.25));
        assert_eq!(place("since", "1970-01-06"), Some(0.5));
        assert_eq!(place("grade", "middle"), Some(0.5));
        assert_eq!(place("city", "B"), Some(1.0));
        assert_eq!(place("housing", "own"), Some(1.0));
        let beyond = interpret(&schema, "age", "70").unwrap();
        assert!(beyond.clamped && beyond.level == Some(LevelText::Value("60".into())) && beyond.place == Some(1.0));
        let missing = interpret(&schema, "grade", "").unwrap();
        assert!(missing.missing && missing.level == Some(LevelText::Value("low".into())));
        for (name, text) in [("age", "old"), ("age", ""), ("city", "C"), ("city=A", "yes"), ("nothing", "1")] {
            assert!(interpret(&schema, name, text).is_err(), "{name} {text}");
        }
    }
}
