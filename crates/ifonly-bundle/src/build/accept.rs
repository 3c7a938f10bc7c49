//! Which rows count as accepted: those that meet at least one condition on the target column, or
//! those that an accept mask marks. Also detects features that repeat the mask (target leakage).

use std::fmt;
use std::str::FromStr;

/// One accept condition on the target: a value, or a comparison such as `>=5` or `!=no`.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct AcceptCondition {
    relation: Relation,
    value: String,
}

/// Accepted rows as one boolean per row, for example the predictions of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptMask {
    /// One boolean for every row of the table.
    pub rows: Vec<bool>,
    /// How the mask was made, in words. The manifest publishes this text.
    pub definition: String,
}

/// The rule that decides whether a row is accepted.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(crate) enum Acceptance {
    /// Every row is accepted.
    AllRows,
    /// The value in the target column, given by its index, meets one of the conditions.
    Target(usize, Vec<AcceptCondition>),
    /// The mask marks the row. A mask is not sent to worker processes.
    #[serde(skip)]
    Mask(AcceptMask),
}

impl Acceptance {
    /// The target column, which must not become a feature.
    pub(crate) fn target(&self) -> Option<usize> {
        match self {
            Acceptance::Target(column, _) => Some(*column),
            Acceptance::AllRows | Acceptance::Mask(_) => None,
        }
    }

    /// A description of the rule for the manifest.
    pub(crate) fn definition(&self, columns: &[String]) -> String {
        match self {
            Acceptance::AllRows => "every row of the data".into(),
            Acceptance::Target(column, conditions) => format!("{} is {}", columns[*column], any_of(conditions)),
            Acceptance::Mask(mask) => mask.definition.clone(),
        }
    }
}

/// The conditions in words, joined by "or".
pub(crate) fn any_of(conditions: &[AcceptCondition]) -> String {
    conditions.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ")
}

/// Maximum number of distinct values among the rejected rows: a decision column has few values.
const MAX_REJECTED_VALUES: usize = 8;

/// Detects a column that alone determines the mask: all accepted rows have one value, and no other
/// row has it. Such a column is probably the decision itself, and should not be a feature.
#[derive(Clone, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct TargetLeakDetector {
    accepted: Option<String>,
    rejected: Vec<String>,
    ruled_out: bool,
}

impl TargetLeakDetector {
    /// Adds the value of one row.
    pub(crate) fn take(&mut self, value: &str, accepted: bool) {
        if self.ruled_out {
            return;
        }
        match accepted {
            true => self.ruled_out = self.accepted.get_or_insert_with(|| value.into()) != value,
            false if self.rejected.iter().any(|other| other == value) => {}
            false => {
                self.rejected.push(value.into());
                self.ruled_out = self.rejected.len() > MAX_REJECTED_VALUES;
            }
        }
    }

    /// Adds the result for the rows that follow.
    pub(crate) fn merge(&mut self, next: TargetLeakDetector) {
        self.ruled_out |= next.ruled_out;
        next.accepted.iter().for_each(|value| self.take(value, true));
        next.rejected.iter().for_each(|value| self.take(value, false));
    }

    /// Whether the column determines the mask.
    pub(crate) fn leaks_target(&self) -> bool {
        let differs = |value: &String| !self.rejected.is_empty() && !self.rejected.contains(value);
        !self.ruled_out && self.accepted.as_ref().is_some_and(differs)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
enum Relation {
    Equal,
    Unequal,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

// Longer signs first: ">" is a prefix of ">=".
const SIGNS: [(&str, Relation); 8] = [
    (">=", Relation::AtLeast),
    ("<=", Relation::AtMost),
    ("!=", Relation::Unequal),
    ("==", Relation::Equal),
    (">", Relation::Greater),
    ("<", Relation::Less),
    ("=", Relation::Equal),
    ("", Relation::Equal),
];

/// Why a condition is invalid, or cannot be checked for a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AcceptError {
    /// The condition has no value.
    #[error("accept {0:?}: a value is missing")]
    NoValue(String),
    /// The bound of an ordering comparison is not a number.
    #[error("accept {text:?}: {value:?} is not a number")]
    Bound {
        /// The condition.
        text: String,
        /// Its value.
        value: String,
    },
    /// The value of a row has no order.
    #[error("{value:?} is not a number, so it cannot be compared with {condition}")]
    NotComparable {
        /// The value of the row.
        value: String,
        /// The condition.
        condition: String,
    },
}

impl FromStr for AcceptCondition {
    type Err = AcceptError;

    fn from_str(text: &str) -> Result<AcceptCondition, AcceptError> {
        let text = text.trim();
        // The empty sign is a prefix of everything.
        let (value, relation) = SIGNS
            .iter()
            .find_map(|(sign, relation)| Some((text.strip_prefix(sign)?.trim(), *relation)))
            .unwrap_or((text, Relation::Equal));
        if value.is_empty() {
            return Err(AcceptError::NoValue(text.into()));
        }
        let accept = AcceptCondition { relation, value: value.into() };
        if accept.is_ordering() && number(value).is_none() {
            return Err(AcceptError::Bound { text: text.into(), value: value.into() });
        }
        Ok(accept)
    }
}

impl AcceptCondition {
    /// Whether a value of the target meets the condition. An ordering comparison with a value that
    /// is not a number is an error.
    pub fn matches(&self, value: &str) -> Result<bool, AcceptError> {
        if !self.is_ordering() {
            let same = match (number(value), number(&self.value)) {
                (Some(a), Some(b)) => a == b,
                _ => value == self.value,
            };
            return Ok(same == (self.relation == Relation::Equal));
        }
        let (Some(have), Some(bound)) = (number(value), number(&self.value)) else {
            return Err(AcceptError::NotComparable { value: value.into(), condition: self.to_string() });
        };
        Ok(match self.relation {
            Relation::Less => have < bound,
            Relation::AtMost => have <= bound,
            Relation::Greater => have > bound,
            _ => have >= bound,
        })
    }

    /// Whether the value of the condition is exactly this text.
    pub(crate) fn has_value(&self, text: &str) -> bool {
        self.value == text
    }

    fn is_ordering(&self) -> bool {
        !matches!(self.relation, Relation::Equal | Relation::Unequal)
    }
}

impl fmt::Display for AcceptCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.relation {
            Relation::Equal => "",
            relation => SIGNS.iter().find(|(_, other)| *other == relation).map_or("", |(sign, _)| sign),
        };
        write!(f, "{sign}{}", self.value)
    }
}

fn number(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|number: &f64| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_compare_numbers_as_numbers_and_texts_as_texts() {
        for (condition, yes, no) in [
            ("1", vec!["1", "1.0"], vec!["0", "yes"]),
            ("=yes", vec!["yes"], vec!["Yes", "no"]),
            ("!=no", vec!["yes", "1"], vec!["no"]),
            (">=5", vec!["5", "5.1"], vec!["4.99"]),
            ("> 5", vec!["6"], vec!["5"]),
            ("<5", vec!["-1"], vec!["5"]),
            ("<= -5", vec!["-5", "-6"], vec!["0"]),
        ] {
            let accept: AcceptCondition = condition.parse().unwrap();
            assert!(yes.iter().all(|value| accept.matches(value).unwrap()), "{condition}");
            assert!(no.iter().all(|value| !accept.matches(value).unwrap()), "{condition}");
        }
        assert_eq!(">= 5".parse::<AcceptCondition>().unwrap().to_string(), ">=5");
    }

    #[test]
    fn only_a_column_that_determines_the_mask_is_reported() {
        let leaks = |rows: &[(&str, bool)]| {
            let mut detector = TargetLeakDetector::default();
            rows.iter().for_each(|(value, accepted)| detector.take(value, *accepted));
            detector.leaks_target()
        };
        assert!(leaks(&[("no", false), ("yes", true), ("maybe", false), ("yes", true)]));
        assert!(!leaks(&[("no", false), ("yes", true), ("yes", false)]));
        assert!(!leaks(&[("yes", true), ("sure", true), ("no", false)]));
        assert!(!leaks(&[("yes", true), ("yes", true)]));
        assert!(!leaks(&[]));
    }

    #[test]
    fn ordering_comparisons_need_numbers() {
        let error = ">=five".parse::<AcceptCondition>().unwrap_err();
        assert_eq!(error.to_string(), r#"accept ">=five": "five" is not a number"#);
        assert!(">".parse::<AcceptCondition>().is_err() && "".parse::<AcceptCondition>().is_err());
        assert!(">1".parse::<AcceptCondition>().unwrap().matches("many").is_err());
    }
}
