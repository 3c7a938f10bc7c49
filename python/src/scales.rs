//! Positions of the two values of a change on the scale of their feature, for plots.

use ifonly::Answer;
use ifonly::values::schema::{Column, FeatureKind, Schema, Value};

/// One change as an arrow on an axis from 0 to 1.
#[derive(serde::Serialize)]
pub(crate) struct Arrow {
    feature: String,
    /// Labels of the two ends of the axis.
    low: String,
    high: String,
    unit: Option<String>,
    yours: Option<f64>,
    theirs: Option<f64>,
}

/// The changes of every found record, in order.
pub(crate) fn of(schema: &Schema, answer: &Answer) -> Vec<Vec<Arrow>> {
    let columns = schema.columns();
    let arrow = |change: &ifonly::client::Change| {
        let column = columns.iter().find(|column| column.name == change.feature)?;
        let axis = Axis::of(schema, column);
        Some(Arrow {
            feature: change.feature.clone(),
            low: axis.low.clone(),
            high: axis.high.clone(),
            unit: schema.features()[column.features.start].unit.as_ref().map(|unit| unit.in_language("en").to_owned()),
            yours: axis.position(schema, column, &change.yours),
            theirs: axis.position(schema, column, &change.theirs),
        })
    };
    answer.found.iter().map(|found| found.changes.iter().filter_map(arrow).collect()).collect()
}

/// The axis of a feature.
struct Axis {
    low: String,
    high: String,
    /// The words in order; empty for numbers.
    words: Vec<String>,
}

impl Axis {
    fn of(schema: &Schema, column: &Column<'_>) -> Axis {
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
        Axis { low, high, words }
    }

    fn position(&self, schema: &Schema, column: &Column<'_>, value: &Value) -> Option<f64> {
        let feature = &schema.features()[column.features.start];
        if let FeatureKind::Numeric { scale, .. } = &feature.kind {
            let (min, max) = scale.bounds();
            return Some(((feature.number(value)? - min) / (max - min)).clamp(0.0, 1.0));
        }
        let text = value.to_string();
        let index = self.words.iter().position(|word| *word == text.trim())?;
        Some(index as f64 / self.words.len().saturating_sub(1).max(1) as f64)
    }
}
