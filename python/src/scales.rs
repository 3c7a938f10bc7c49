//! Where the two values of a change stand on their feature's scale, for pictures.

use ifonly::Answer;
use ifonly::values::schema::{Column, FeatureKind, Schema, Value};

/// One change as an arrow on a line from 0 to 1.
#[derive(serde::Serialize)]
pub(crate) struct Arrow {
    feature: String,
    /// What the line begins and ends with, in the feature's words.
    low: String,
    high: String,
    unit: Option<String>,
    yours: Option<f64>,
    theirs: Option<f64>,
}

/// The changes of every record that was found, in their order.
pub(crate) fn of(schema: &Schema, answer: &Answer) -> Vec<Vec<Arrow>> {
    let columns = schema.columns();
    let arrow = |change: &ifonly::client::Change| {
        let column = columns.iter().find(|column| column.name == change.feature)?;
        let line = Line::of(schema, column);
        Some(Arrow {
            feature: change.feature.clone(),
            low: line.low.clone(),
            high: line.high.clone(),
            unit: schema.features()[column.features.start].unit.clone(),
            yours: line.place(schema, column, &change.yours),
            theirs: line.place(schema, column, &change.theirs),
        })
    };
    answer.found.iter().map(|found| found.changes.iter().filter_map(arrow).collect()).collect()
}

/// A feature's scale.
struct Line {
    low: String,
    high: String,
    /// The words in their order; none for numbers.
    words: Vec<String>,
}

impl Line {
    fn of(schema: &Schema, column: &Column<'_>) -> Line {
        let features = &schema.features()[column.features.clone()];
        let one_hot = features.iter().filter_map(|feature| feature.one_hot.as_ref());
        let words: Vec<String> = match features.len() {
            1 => features[0].words().to_vec(),
            _ => one_hot.map(|part| part.category.clone()).collect(),
        };
        let (low, high) = match &features[0].kind {
            FeatureKind::Numeric { scale, notation } => {
                let (min, max) = scale.bounds();
                (notation.write(min), notation.write(max))
            }
            _ => (words.first().cloned().unwrap_or_default(), words.last().cloned().unwrap_or_default()),
        };
        Line { low, high, words }
    }

    fn place(&self, schema: &Schema, column: &Column<'_>, value: &Value) -> Option<f64> {
        let feature = &schema.features()[column.features.start];
        if let FeatureKind::Numeric { scale, .. } = &feature.kind {
            let (min, max) = scale.bounds();
            return Some(((feature.number(value)? - min) / (max - min)).clamp(0.0, 1.0));
        }
        let text = value.to_string();
        let place = self.words.iter().position(|word| *word == text.trim())?;
        Some(place as f64 / self.words.len().saturating_sub(1).max(1) as f64)
    }
}
