//! From a found record to an explanation: what the person has, what somebody accepted had, where
//! they differ, and what each difference costs.

use crate::client::PreparedSearch;
use crate::error::ClientError;
use ifonly_core::scheme::CostModel;
use ifonly_core::search::{NearestRow, SearchError, confirm_under};
use ifonly_values::manifest::Manifest;
use ifonly_values::record::Record;
use ifonly_values::schema::{Column, EncodedValue, FeatureKind, Notation, Schema, Value};

/// Where two people differ.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The column.
    pub feature: String,
    /// The person's value.
    pub yours: Value,
    /// The record's.
    pub theirs: Value,
    /// Whether the two are one level.
    pub same_level: bool,
    /// What the difference adds to the cost; `None` where costs are counted in levels.
    pub contribution: Option<f64>,
}

/// One of the nearest accepted people.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// What the changes cost, computed from the record's own values; in levels under schemes that
    /// compare levels.
    pub cost: f64,
    /// How many features change, where the wishes count that.
    pub changed: Option<u64>,
    /// The original row, column by column.
    pub record: Vec<(String, Value)>,
    /// Only the columns that differ, the dearest first.
    pub changes: Vec<Change>,
    /// The cost as the servers' answers gave it, which the record has confirmed.
    pub(crate) decoded: u64,
}

impl Explanation {
    /// The cost in the whole numbers that the servers' answers gave, which the record has
    /// confirmed.
    pub fn decoded(&self) -> u64 {
        self.decoded
    }

    /// Reads a found record, checks its cost and compares it with the person.
    pub(crate) fn new(
        manifest: &Manifest,
        question: &PreparedSearch<'_>,
        found: &NearestRow,
    ) -> Result<Explanation, ClientError> {
        let PreparedSearch { offered, profile, wishes, compiled } = question;
        let wrong = |fault| ClientError::Search { fault, server_failures: vec![] };
        let schema = manifest.schema();
        let record = Record::decode(schema, &found.record).map_err(|_| wrong(SearchError::NotARecord))?;
        let theirs: Vec<EncodedValue> = schema
            .encode(|column| record.value(column).map(Value::from))
            .map_err(|_| wrong(SearchError::NotARecord))?;
        // A schema's ranges end at 65535.
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
            let (yours, theirs) =
                (shown(schema, column, yours), shown(schema, column, &record.value(name).unwrap_or_default().into()));
            let places = column.features.clone();
            let same_level = places.clone().all(|k| profile.encoded[k].level == u32::from(levels[k]));
            explanation.record.push((name.clone(), theirs.clone()));
            // The same word or number in another spelling ("1" and "1.0") is no change.
            let number = |value: &Value| feature.number(value).filter(|_| column.features.len() == 1);
            let numeric = matches!(feature.kind, FeatureKind::Numeric { .. });
            let same = yours == theirs || number(&yours).is_some() && number(&yours) == number(&theirs);
            if !(same || same_level && !numeric) {
                let contribution = in_values.then(|| contributions[places].iter().sum());
                explanation.changes.push(Change { feature: name.clone(), yours, theirs, same_level, contribution });
            }
        }
        explanation.changes.sort_by(|a, b| b.contribution.unwrap_or(0.0).total_cmp(&a.contribution.unwrap_or(0.0)));
        Ok(explanation)
    }
}

/// A value as its column writes it; what is missing has the schema's default.
fn shown(schema: &Schema, column: &Column<'_>, value: &Value) -> Value {
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
