//! Explanations: the differences between the profile and a found record, and their costs.
//!
//! The client recomputes the cost from the values of the record and compares it with the decoded
//! cost. A signed record whose cost differs is shown with its own cost and a note; any other wrong
//! record is left out with the same note. An error would tell a lying server, through what the user
//! does next, whether its lie met the nearest row.

use crate::answer::sentence::sentence;
use crate::client::PreparedQuestion;
use crate::error::ClientError;
use ifonly_core::cost_check::{CostCheck, check_cost};
use ifonly_core::scheme::CostModel;
use ifonly_core::search::NearestRow;
use ifonly_values::manifest::Manifest;
use ifonly_values::record::{GroupFacts, Record};
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
    /// Whether the difference counts as unchanged, because it is within the tolerance.
    pub within_tolerance: bool,
    /// The contribution to the cost; `None` if the scheme computes costs from levels.
    pub contribution: Option<f64>,
}

impl Change {
    /// Whether the difference does not count, so that a sentence does not name it.
    pub(crate) fn is_negligible(&self) -> bool {
        self.same_level || self.within_tolerance
    }
}

/// One of the nearest accepted records.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The total cost, computed from the values of the record, or from levels if the scheme
    /// compares levels.
    pub cost: f64,
    /// The number of changed features, if the wishes limit it.
    pub changed: Option<u64>,
    /// The answer in one English sentence, with the labels and phrases of the institution.
    pub sentence: String,
    /// The original values, column by column.
    pub record: Vec<(String, Value)>,
    /// The group of people that the record stands for; `None` if it is one person's row.
    pub group: Option<GroupFacts>,
    /// The columns that differ, the most expensive first.
    pub changes: Vec<Change>,
    /// The columns that this way holds at the user's values, in addition to the wishes.
    pub held: Vec<String>,
    /// The columns that differ in their levels, the largest contribution to the cost first.
    pub(crate) by_cost: Vec<String>,
    /// The cost of the record as an integer.
    pub(crate) decoded: u64,
    /// Whether the servers' answers gave the same cost.
    pub(crate) confirmed: bool,
}

impl Explanation {
    /// The cost of the record as an integer; normally equal to the cost decoded from the answers.
    pub fn decoded(&self) -> u64 {
        self.decoded
    }

    /// Whether the servers' answers gave the cost of the record. If not, a server may be lying, and
    /// another row may be nearer.
    pub fn is_confirmed(&self) -> bool {
        self.confirmed
    }

    /// Decodes a found record, checks its cost and compares it with the profile. `None` if honest
    /// servers would not have returned it.
    pub(crate) fn new(
        manifest: &Manifest,
        question: &PreparedQuestion<'_>,
        found: &NearestRow,
    ) -> Result<Option<Explanation>, ClientError> {
        let PreparedQuestion { offered, profile, wishes, compiled } = question;
        let schema = manifest.schema();
        // Only records without a signature, which a server can forge, fail here.
        let Ok(record) = Record::of(manifest, &found.record) else { return Ok(None) };
        let encoded = schema.encode(|column| record.value(column).map(Value::from));
        let Ok(theirs): Result<Vec<EncodedValue>, _> = encoded else { return Ok(None) };
        // No level of a schema exceeds 65,535.
        let levels: Vec<u16> = theirs.iter().map(|encoded| encoded.level as u16).collect();
        let check = check_cost(offered.scheme(), offered.params(), &compiled.secret, found, &levels);
        let (decoded, confirmed) = match check {
            CostCheck::Equal(cost) => (cost, true),
            CostCheck::Differs(cost) if manifest.signer().is_some() => (cost, false),
            // Without a signature the record may be forged.
            CostCheck::Differs(_) | CostCheck::NoMatch => return Ok(None),
        };
        let in_values = offered.scheme().cost_model == CostModel::Table;
        let contributions = wishes.contributions(&profile.encoded, &theirs)?;
        let cost = if in_values { contributions.iter().sum() } else { compiled.distance(decoded) };
        let mut explanation = Explanation {
            cost,
            changed: compiled.changes(decoded),
            sentence: String::new(),
            record: vec![],
            group: record.group(),
            changes: vec![],
            held: vec![],
            by_cost: vec![],
            decoded,
            confirmed,
        };
        let mut by_cost: Vec<(f64, &String)> = vec![];
        for (column, (name, yours)) in schema.columns().iter().zip(&profile.values) {
            let feature = &schema.features()[column.features.start];
            let (yours, theirs) = (
                in_notation(schema, column, yours),
                in_notation(schema, column, &record.value(name).unwrap_or_default().into()),
            );
            let features = column.features.clone();
            let same_level = features.clone().all(|k| profile.encoded[k].level == u32::from(levels[k]));
            let is_small = |k: usize| wishes.counts_as_unchanged(k, &profile.encoded[k], u32::from(levels[k]));
            let within_tolerance = in_values && features.clone().all(is_small);
            if !same_level && !within_tolerance {
                by_cost.push((contributions[features.clone()].iter().sum(), name));
            }
            explanation.record.push((name.clone(), theirs.clone()));
            // The same word or number in another notation ("1" and "1.0") is not a change.
            let number = |value: &Value| feature.number(value).filter(|_| column.features.len() == 1);
            let numeric = matches!(feature.kind, FeatureKind::Numeric { .. });
            let same = yours == theirs || number(&yours).is_some() && number(&yours) == number(&theirs);
            if !(same || same_level && !numeric) {
                let contribution = in_values.then(|| contributions[features].iter().sum());
                explanation.changes.push(Change {
                    feature: name.clone(),
                    yours,
                    theirs,
                    same_level,
                    within_tolerance,
                    contribution,
                });
            }
        }
        explanation.changes.sort_by(|a, b| b.contribution.unwrap_or(0.0).total_cmp(&a.contribution.unwrap_or(0.0)));
        explanation.sentence = sentence(manifest, &explanation.changes, explanation.group.is_some());
        by_cost.sort_by(|a, b| b.0.total_cmp(&a.0));
        explanation.by_cost = by_cost.into_iter().map(|(_, name)| name.clone()).collect();
        Ok(Some(explanation))
    }
}

/// A value in the notation of its column. A missing value stays missing, although its cost is that
/// of the default, and a formatted text stays as it was written.
fn in_notation(schema: &Schema, column: &Column<'_>, value: &Value) -> Value {
    let feature = &schema.features()[column.features.start];
    if schema.is_missing(column, value) {
        return Value::from("");
    }
    match (&feature.kind, value, feature.number(value)) {
        (FeatureKind::Numeric { notation: Notation::Plain, .. }, _, Some(number)) => Value::Number(number),
        (FeatureKind::Numeric { notation, .. }, Value::Number(_), Some(number)) => Value::Text(notation.write(number)),
        _ => Value::Text(value.to_string().trim().into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_values_stay_missing_and_formatted_texts_stay_as_they_were() {
        use ifonly_values::schema::{Feature, Quantiser, Scale};
        let scale = Scale::levels(0.0, 5000.0, 50, Quantiser::Round).unwrap();
        let notation =
            Notation::Formatted { prefix: "$".into(), suffix: String::new(), thousands: Some(','), decimal: '.' };
        let kind = FeatureKind::Numeric { scale, notation };
        let feature = Feature { default: Some("$2,500".into()), ..Feature::new("debt", kind) };
        let schema = Schema::new(vec![feature]).unwrap();
        let shown = |value: Value| in_notation(&schema, &schema.columns()[0], &value).to_string();
        assert_eq!(shown("$3,348.70".into()), "$3,348.70");
        assert_eq!((shown("".into()), shown("NA".into())), (String::new(), String::new()));
        assert_eq!(shown(3348.7.into()), "$3,348.7");
    }
}
