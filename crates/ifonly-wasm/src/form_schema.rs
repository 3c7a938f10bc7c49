//! What a page needs to know to make a form: every column with its kind, bounds and words, and who
//! would get what.

use ifonly_client::ServerFailure;
use ifonly_core::scheme::{ConstraintKind, CostModel, sealed};
use ifonly_values::manifest::{Dataset, Manifest, OfferedScheme, Operator};
use ifonly_values::schema::{Column, Feature, FeatureKind, Notation, Schema, Value};

/// What the servers offer, for people.
#[derive(Debug, serde::Serialize)]
pub struct Inspection<'a> {
    /// Name and version.
    pub dataset: &'a Dataset,
    /// The manifest's digest, as 64 hexadecimal digits.
    pub digest: String,
    /// How many people are in it.
    pub rows: usize,
    /// So many servers together still learn nothing.
    pub threshold: usize,
    /// So many may be silent.
    pub silent: usize,
    /// So many may lie.
    pub lying: usize,
    /// Whose key signed the records.
    pub signer: Option<String>,
    /// The most records of one search.
    pub top_limit: usize,
    /// Who runs the servers.
    pub operators: &'a [Operator],
    /// The scheme to prefer.
    pub default_scheme: &'a str,
    /// All schemes on offer.
    pub schemes: Vec<SchemeInfo>,
    /// What is asked about the person.
    pub columns: Vec<ColumnInfo<'a>>,
    /// Servers that could not be met, and why.
    pub server_failures: Vec<String>,
}

/// A scheme on offer.
#[derive(Debug, serde::Serialize)]
pub struct SchemeInfo {
    /// Its name.
    pub name: &'static str,
    /// What the person learns beside the record.
    pub learns: &'static str,
    /// How many servers it asks.
    pub servers: usize,
    /// How often all servers are asked before records are fetched; a sealed search fetches none.
    pub phases: usize,
    /// Whether every record is fetched in a step of its own.
    pub fetches: bool,
    /// The most records.
    pub top_limit: usize,
    /// Whether costs are in values; otherwise they count levels.
    pub in_values: bool,
    /// Whether directions, ranges and permitted values can be wished for.
    pub any_wish: bool,
}

/// A column of the data.
#[derive(Debug, serde::Serialize)]
pub struct ColumnInfo<'a> {
    /// Its name.
    pub name: &'a str,
    /// `number`, `date`, `timestamp`, `ordinal` or `category`.
    pub kind: &'static str,
    /// What it counts.
    pub unit: Option<&'a str>,
    /// What it means.
    pub description: Option<&'a str>,
    /// What stands for a missing value; without one there must be a value.
    pub default: Option<&'a str>,
    /// Whether the institution suggests that it stays.
    pub suggest_immutable: bool,
    /// Whether it has directions and ranges.
    pub ordered: bool,
    /// Whether the manifest says how far rows typically lie from their median.
    pub deviation: bool,
    /// The lowest number, as it is written.
    pub min: Option<String>,
    /// The highest number.
    pub max: Option<String>,
    /// The words, from the lowest up where they have an order.
    pub words: Vec<&'a str>,
}

impl<'a> Inspection<'a> {
    /// What this manifest offers.
    pub fn new(manifest: &'a Manifest, server_failures: &[ServerFailure]) -> Inspection<'a> {
        let contents = manifest.fields();
        let schema = manifest.schema();
        let columns = schema.columns();
        Inspection {
            dataset: &contents.dataset,
            digest: hex::encode(manifest.digest()),
            rows: manifest.rows(),
            threshold: contents.terms.threshold,
            silent: contents.terms.silent,
            lying: contents.terms.lying,
            signer: contents.signer.map(|signer| signer.to_string()),
            top_limit: manifest.top_limit(),
            operators: manifest.operators(),
            default_scheme: &contents.default_scheme,
            schemes: manifest.schemes().iter().map(|offered| scheme(offered, manifest)).collect(),
            columns: columns.iter().map(|column| info(schema, column)).collect(),
            server_failures: server_failures.iter().map(ToString::to_string).collect(),
        }
    }
}

fn scheme(offered: &OfferedScheme, manifest: &Manifest) -> SchemeInfo {
    let scheme = offered.scheme();
    let (phases, top_limit) = match offered {
        OfferedScheme::Scans(instance) => (instance.phases(), manifest.top_limit()),
        OfferedScheme::Sealed(_) => (1, manifest.top_limit().min(sealed::MOST_TOP)),
    };
    SchemeInfo {
        name: scheme.name,
        learns: scheme.learns,
        servers: offered.servers(),
        phases,
        fetches: offered.scans().is_some(),
        top_limit,
        in_values: scheme.cost_model == CostModel::Table,
        any_wish: scheme.constraint == ConstraintKind::Table,
    }
}

/// What a column takes.
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
        unit: first.unit.as_deref(),
        description: first.description.as_deref(),
        default: first.default.as_deref(),
        suggest_immutable: first.suggest_immutable,
        ordered: kind != "category",
        deviation,
        min,
        max,
        words: words(features),
    }
}

/// The words of a column, whether it is one feature or one per word.
fn words(features: &[Feature]) -> Vec<&str> {
    match features {
        [single] => single.words().iter().map(String::as_str).collect(),
        group => group.iter().filter_map(|feature| Some(feature.one_hot.as_ref()?.category.as_str())).collect(),
    }
}

/// How a value is understood.
#[derive(Debug, PartialEq, serde::Serialize)]
pub struct InterpretedValue {
    /// Whether it is missing, so that the default stands for it.
    pub missing: bool,
    /// Whether it lies beyond the bounds, so that a bound stands for it.
    pub clamped: bool,
    /// Its level, in values.
    pub level: Option<String>,
    /// Where it lies between the bounds, from 0 to 1; for words, among the words.
    pub place: Option<f64>,
}

/// How the schema understands a value of a column.
pub fn understood(schema: &Schema, name: &str, text: &str) -> Result<InterpretedValue, String> {
    let columns = schema.columns();
    let Some(column) = columns.iter().find(|column| column.name == name) else {
        return Err(schema.named(name).err().map_or_else(
            || format!("{name:?} is part of a column; give the value of the whole column"),
            |error| error.to_string(),
        ));
    };
    let features = &schema.features()[column.features.clone()];
    let first = &features[0];
    let value = Value::from(text);
    let mut encoded = vec![];
    schema.encode_column(column, &value, &mut encoded).map_err(|error| error.to_string())?;
    // One level per feature, and a column has at least one.
    let Some(own) = encoded.first().copied() else { return Err(format!("{name:?} has no level")) };
    let missing = schema.is_missing(column, &value);
    let (level, place) = match (&first.kind, features) {
        (FeatureKind::Numeric { scale, .. }, _) => {
            let (min, max) = scale.bounds();
            let number = own.number.unwrap_or(min).clamp(min, max);
            (first.show_level(own.level), Some((number - min) / (max - min)))
        }
        (_, [_, _, ..]) => {
            let hit = encoded.iter().position(|encoded| encoded.level > 0);
            (hit.map(|hit| words(features)[hit].to_owned()), hit.map(|hit| share(hit, features.len())))
        }
        (_, _) => {
            let shown = first.show_level(own.level);
            let hit = shown.as_ref().and_then(|shown| first.words().iter().position(|word| word == shown));
            (shown, hit.map(|hit| share(hit, first.words().len())))
        }
    };
    Ok(InterpretedValue { missing, clamped: own.clamped, level, place })
}

fn share(place: usize, count: usize) -> f64 {
    place as f64 / (count - 1).max(1) as f64
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
    fn every_column_says_what_it_takes() {
        let manifest = Manifest::new(ManifestFields::new("people", schema(), 9, 64, 2)).unwrap();
        let offered = Inspection::new(&manifest, &[]);
        let kinds: Vec<_> = offered.columns.iter().map(|column| (column.name, column.kind)).collect();
        assert_eq!(
            kinds,
            [("age", "number"), ("since", "date"), ("grade", "ordinal"), ("city", "category"), ("housing", "category")]
        );
        let [age, since, grade, city, _] = &offered.columns[..] else { panic!("another number of columns") };
        assert_eq!((age.min.as_deref(), age.max.as_deref(), age.unit), (Some("20"), Some("60"), Some("years")));
        assert!(age.suggest_immutable && age.default.is_none() && age.ordered && !city.ordered);
        assert_eq!((since.min.as_deref(), since.max.as_deref()), (Some("1970-01-01"), Some("1970-01-11")));
        assert_eq!((&grade.words[..], grade.default), (&["low", "middle", "high"][..], Some("low")));
        assert_eq!(city.words, ["A", "B"]);
        let default = offered.schemes.iter().find(|scheme| scheme.name == offered.default_scheme).unwrap();
        assert!(default.phases > 0 && default.fetches && default.servers == 2);
    }

    #[test]
    fn values_are_understood_as_a_search_understands_them() {
        let schema = schema();
        let place = |name, text| understood(&schema, name, text).unwrap().place;
        assert_eq!(place("age", "30"), Some(0.25));
        assert_eq!(place("since", "1970-01-06"), Some(0.5));
        assert_eq!(place("grade", "middle"), Some(0.5));
        assert_eq!(place("city", "B"), Some(1.0));
        assert_eq!(place("housing", "own"), Some(1.0));
        let beyond = understood(&schema, "age", "70").unwrap();
        assert!(beyond.clamped && beyond.level.as_deref() == Some("60") && beyond.place == Some(1.0));
        let missing = understood(&schema, "grade", "").unwrap();
        assert!(missing.missing && missing.level.as_deref() == Some("low"));
        for (name, text) in [("age", "old"), ("age", ""), ("city", "C"), ("city=A", "yes"), ("nothing", "1")] {
            assert!(understood(&schema, name, text).is_err(), "{name} {text}");
        }
    }
}
