//! The content of a manifest as a page needs it for a form: columns with kind, bounds and words,
//! schemes, and operators.

use ifonly_client::ServerFailure;
use ifonly_core::scheme::{ConstraintKind, CostModel, sealed};
use ifonly_values::manifest::{Dataset, Manifest, OfferedScheme, Operator};
use ifonly_values::schema::{Column, Feature, FeatureKind, Notation, Schema, Value};

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
    pub server_failures: Vec<String>,
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
    pub unit: Option<&'a str>,
    /// The description.
    pub description: Option<&'a str>,
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
    /// The words, lowest first if they are ordered.
    pub words: Vec<&'a str>,
}

impl<'a> Inspection<'a> {
    /// Collects the content of a manifest.
    pub fn new(manifest: &'a Manifest, server_failures: &[ServerFailure]) -> Inspection<'a> {
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
            server_failures: server_failures.iter().map(ToString::to_string).collect(),
        }
    }
}

fn scheme(offered: &OfferedScheme, manifest: &Manifest) -> SchemeInfo {
    let scheme = offered.scheme();
    let (phases, top_limit) = match offered {
        OfferedScheme::Scans(instance) => (instance.phases(), manifest.top_limit()),
        OfferedScheme::Sealed(_) => (1, manifest.top_limit().min(sealed::MAX_TOP)),
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

/// The words of a column, which is one feature or one feature per word.
fn words(features: &[Feature]) -> Vec<&str> {
    match features {
        [single] => single.words().iter().map(String::as_str).collect(),
        group => group.iter().filter_map(|feature| Some(feature.one_hot.as_ref()?.category.as_str())).collect(),
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
    pub level: Option<String>,
    /// Its position between the bounds, or among the words, from 0 to 1.
    pub place: Option<f64>,
}

/// Interprets a value of a column as a search does.
pub fn interpret(schema: &Schema, name: &str, text: &str) -> Result<InterpretedValue, String> {
    let columns = schema.columns();
    let Some(column) = columns.iter().find(|column| column.name == name) else {
        return Err(schema.named(name).err().map_or_else(
            || format!("{name:?} is part of a one-hot column; give the value of the column instead"),
            |error| error.to_string(),
        ));
    };
    let features = &schema.features()[column.features.clone()];
    let first = &features[0];
    let value = Value::from(text);
    let mut encoded = vec![];
    schema.encode_column(column, &value, &mut encoded).map_err(|error| error.to_string())?;
    // Every column has at least one feature, and every feature one level.
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
            (hit.map(|hit| words(features)[hit].to_owned()), hit.map(|hit| relative_position(hit, features.len())))
        }
        (_, _) => {
            let shown = first.show_level(own.level);
            let hit = shown.as_ref().and_then(|shown| first.words().iter().position(|word| word == shown));
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
        assert_eq!((age.min.as_deref(), age.max.as_deref(), age.unit), (Some("20"), Some("60"), Some("years")));
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
        assert!(beyond.clamped && beyond.level.as_deref() == Some("60") && beyond.place == Some(1.0));
        let missing = interpret(&schema, "grade", "").unwrap();
        assert!(missing.missing && missing.level.as_deref() == Some("low"));
        for (name, text) in [("age", "old"), ("age", ""), ("city", "C"), ("city=A", "yes"), ("nothing", "1")] {
            assert!(interpret(&schema, name, text).is_err(), "{name} {text}");
        }
    }
}
