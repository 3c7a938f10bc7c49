//! Explanations: the differences between the profile and a found record, and their costs.
//!
//! The client recomputes the cost from the values of the record and compares it with the decoded
//! cost. A record whose cost differs is refused.

use crate::client::PreparedSearch;
use crate::error::ClientError;
use ifonly_core::scheme::CostModel;
use ifonly_core::search::{NearestRow, SearchError, confirm_under};
use ifonly_values::manifest::Manifest;
use ifonly_values::record::Record;
use ifonly_values::schema::{Column, EncodedValue, FeatureKind, Notation, Schema, Value};

/// A difference between the profile and the record.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The column.
    pub feature: String,
    /// The user's value.
    pub yours: Value,
    /// The value in the record.
    pub theirs: Value,
    /// Whether both values have the same level.
    pub same_level: bool,
    /// The contribution to the cost; `None` if the scheme computes costs from levels.
    pub contribution: Option<f64>,
}

/// One of the nearest accepted records.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The total cost, computed from the values of the record, or from levels if the scheme
    /// compares levels.
    pub cost: f64,
    /// The number of changed features, if the wishes limit it.
    pub changed: Option<u64>,
    /// The original values, column by column.
    pub record: Vec<(String, Value)>,
    /// The columns that differ, the most expensive first.
    pub changes: Vec<Change>,
    /// The cost as decoded from the answers; equal to that of the record.
    pub(crate) decoded: u64,
}

impl Explanation {
    /// The cost as an integer, as decoded from the answers; equal to that of the record.
    pub fn decoded(&self) -> u64 {
        self.decoded
    }

    /// Decodes a found record, checks its cost and compares it with the profile.
    pub(crate) fn new(
        manifest: &Manifest,
        prepared: &PreparedSearch<'_>,
        found: &NearestRow,
    ) -> Result<Explanation, ClientError> {
        let PreparedSearch { offered, profile, wishes, compiled } = prepared;
        let wrong = |error| ClientError::Search { error, server_failures: vec![] };
        let schema = manifest.schema();
        let record = Record::decode(schema, &found.record).map_err(|_| wrong(SearchError::NotARecord))?;
        let theirs: Vec<EncodedValue> = schema
            .encode(|column| record.value(column).map(Value::from))
            .map_err(|_| wrong(SearchError::NotARecord))?;
        // No level of a schema exceeds 65,535.
        let levels: Vec<u16> = theirs.iter().map(|encoded| encoded.level as u16).collect();
        let decoded =
            confirm_under(offered.scheme(), offered.params(), &compiled.secret, found, &levels).map_err(wrong)?;
        let in_values = offered.scheme().cost_model == CostModel::Table;
        let contributions = wishes.contributions(&profile.encoded, &theirs)?;
        let cost = if in_values { contributions.iter().sum() } else { compiled.distance(decoded) };
        let mut explanation =
            Explanation { cost, changed: compiled.changes(decoded), record: vec![], changes: vec![], decoded };
        for (column, (name, yours)) in schema.columns().iter().zip(&profile.values) {
            let feature = &schema.features()[column.features.start];
            let (yours, theirs) = (
                in_notation(schema, column, yours),
                in_notation(schema, column, &record.value(name).unwrap_or_default().into()),
            );
            let features = column.features.clone();
            let same_level = features.clone().all(|k| profile.encoded[k].level == u32::from(levels[k]));
            explanation.record.push((name.clone(), theirs.clone()));
            // The same word or number in another notation ("1" and "1.0") is not a change.
            let number = |value: &Value| feature.number(value).filter(|_| column.features.len() == 1);
            let numeric = matches!(feature.kind, FeatureKind::Numeric { .. });
            let same = yours == theirs || number(&yours).is_some() && number(&yours) == number(&theirs);
            if !(same || same_level && !numeric) {
                let contribution = in_values.then(|| contributions[features].iter().sum());
                explanation.changes.push(Change { feature: name.clone(), yours, theirs, same_level, contribution });
            }
        }
        explanation.changes.sort_by(|a, b| b.contribution.unwrap_or(0.0).total_cmp(&a.contribution.unwrap_or(0.0)));
        Ok(explanation)
    }
}

/// A value in the notation of its column; the default of the schema if the value is missing.
fn in_notation(schema: &Schema, column: &Column<'_>, value: &Value) -> Value {
    let feature = &schema.features()[column.features.start];
    let filled = match &feature.default {
        Some(default) if schema.is_missing(column, value) => Value::from(default.as_str()),
        _ => value.clone(),
    };
    match (&feature.kind, feature.number(&filled)) {
        (FeatureKind::Numeric { notation: Notation::Plain, .. }, Some(number)) => Value::Number(number),
        (FeatureKind::Numeric { notation, .. }, Some(number)) => Value::Text(notation.write(number)),
        _ => Value::Text(filled.to_string().trim().into()),
    }
}
