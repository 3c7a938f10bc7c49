//! From a found record to an explanation: what the person has, what somebody accepted had, and where they differ.

use crate::error::ClientError;
use crate::profile::Profile;
use ifonly_core::deployment::Deployment;
use ifonly_core::manifest::Manifest;
use ifonly_core::record::Record;
use ifonly_core::schema::{Kind, Value};
use ifonly_core::search::{Fault, Found, confirm};
use ifonly_core::secret::Secret;

/// Where two people differ.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The column.
    pub feature: String,
    /// The person's value.
    pub yours: Value,
    /// The record's.
    pub theirs: Value,
    /// Whether the two are one level, so that the difference costs nothing.
    pub same_level: bool,
}

/// One of the nearest accepted people.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// What the change costs, recomputed from the record and compared with what the servers' answers said.
    pub cost: u64,
    /// The cost without the price of counting changes.
    pub distance: u64,
    /// How many features change, where the wishes count that.
    pub changed: Option<u64>,
    /// The original row, column by column.
    pub record: Vec<(String, Value)>,
    /// Only the columns that differ.
    pub changes: Vec<Change>,
}

impl Explanation {
    /// Reads a found record, checks its cost and compares it with the person.
    pub fn new(
        manifest: &Manifest,
        deployment: &Deployment,
        secret: &Secret,
        profile: &Profile,
        found: &Found,
    ) -> Result<Explanation, ClientError> {
        let wrong = |fault| ClientError::Search { fault, troubles: vec![] };
        let schema = manifest.schema();
        let record = Record::decode(schema, &found.record).map_err(|_| wrong(Fault::NotARecord))?;
        let levels = record.levels(schema).map_err(|_| wrong(Fault::NotARecord))?;
        let cost = confirm(deployment, secret, found, &levels).map_err(wrong)?;
        let mut explanation = Explanation { cost, distance: cost, changed: None, record: vec![], changes: vec![] };
        for (column, (name, yours)) in schema.columns().iter().zip(&profile.values) {
            let feature = &schema.features()[column.features.start];
            let numeric = matches!(feature.kind, Kind::Numeric { .. });
            let read = |text: &str| {
                let number = text.trim().parse().ok().filter(|number: &f64| numeric && number.is_finite());
                number.map_or_else(|| Value::Text(text.trim().into()), Value::Number)
            };
            // What is missing has the schema's default.
            let yours = match (yours.to_string(), &feature.default) {
                (text, Some(default)) if text.trim().is_empty() => read(default),
                (text, _) => read(&text),
            };
            let theirs = match (record.value(name).unwrap_or_default(), &feature.default) {
                (text, Some(default)) if text.trim().is_empty() => read(default),
                (text, _) => read(text),
            };
            let same_level = column.features.clone().all(|k| profile.encoded[k].level == u32::from(levels[k]));
            explanation.record.push((name.clone(), theirs.clone()));
            // The same word or number in another spelling ("1" and "1.0") is no change.
            let same = yours == theirs || yours.number().is_some() && yours.number() == theirs.number();
            if !(same || same_level && !numeric) {
                explanation.changes.push(Change { feature: name.clone(), yours, theirs, same_level });
            }
        }
        Ok(explanation)
    }
}
