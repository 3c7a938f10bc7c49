//! Which rows were accepted: conditions on the target column, any of which is enough, or a mask
//! that says it row by row.

use std::fmt;
use std::str::FromStr;

/// One condition: a value, or a comparison such as `>=5` or `!=no`.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct AcceptCondition {
    relation: Relation,
    value: String,
}

/// Who was accepted, row by row, as a program decided it: a model's predictions, most likely.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptMask {
    /// One truth value for every row of the table.
    pub rows: Vec<bool>,
    /// What made them, in words that the manifest tells everybody.
    pub definition: String,
}

/// What decides about a row.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(crate) enum Acceptance {
    /// Nothing: the table is a ready list of accepted rows.
    Everybody,
    /// The value in a column.
    Target(usize, Vec<AcceptCondition>),
    /// Its place. Masks stay in the process that has them.
    #[serde(skip)]
    Mask(AcceptMask),
}

impl Acceptance {
    /// The column that says it, which is no feature.
    pub(crate) fn target(&self) -> Option<usize> {
        match self {
            Acceptance::Target(column, _) => Some(*column),
            Acceptance::Everybody | Acceptance::Mask(_) => None,
        }
    }

    /// The same in words, for the manifest.
    pub(crate) fn definition(&self, columns: &[String]) -> String {
        match self {
            Acceptance::Everybody => "every row of the data".into(),
            Acceptance::Target(column, conditions) => format!("{} is {}", columns[*column], any_of(conditions)),
            Acceptance::Mask(mask) => mask.definition.clone(),
        }
    }
}

/// Conditions, any of which is enough, in words.
pub(crate) fn any_of(conditions: &[AcceptCondition]) -> String {
    conditions.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ")
}

/// A decision has a few values.
const MOST_OTHERS: usize = 8;

/// Finds out whether a column alone says whom a mask accepts: all accepted rows have one value, and
/// no other row has it. Such a column is the decision itself, most likely, which nobody should be
/// asked for.
#[derive(Clone, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct TargetLeakDetector {
    accepted: Option<String>,
    others: Vec<String>,
    no: bool,
}

impl TargetLeakDetector {
    /// Takes a value of one row.
    pub(crate) fn take(&mut self, value: &str, accepted: bool) {
        if self.no {
            return;
        }
        match accepted {
            true => self.no = self.accepted.get_or_insert_with(|| value.into()) != value,
            false if self.others.iter().any(|other| other == value) => {}
            false => {
                self.others.push(value.into());
                self.no = self.others.len() > MOST_OTHERS;
            }
        }
    }

    /// Takes what was found in the rows behind.
    pub(crate) fn merge(&mut self, behind: TargetLeakDetector) {
        self.no |= behind.no;
        behind.accepted.iter().for_each(|value| self.take(value, true));
        behind.others.iter().for_each(|value| self.take(value, false));
    }

    /// Whether it does.
    pub(crate) fn tells(&self) -> bool {
        let apart = |value: &String| !self.others.is_empty() && !self.others.contains(value);
        !self.no && self.accepted.as_ref().is_some_and(apart)
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

// Longer signs first, because ">" begins ">=" too.
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

impl FromStr for AcceptCondition {
    type Err = String;

    fn from_str(text: &str) -> Result<AcceptCondition, String> {
        let text = text.trim();
        // The empty sign is a prefix of everything.
        let (value, relation) = SIGNS
            .iter()
            .find_map(|(sign, relation)| Some((text.strip_prefix(sign)?.trim(), *relation)))
            .unwrap_or((text, Relation::Equal));
        if value.is_empty() {
            return Err(format!("accept {text:?}: a value is missing"));
        }
        let accept = AcceptCondition { relation, value: value.into() };
        if accept.is_ordering() && number(value).is_none() {
            return Err(format!("accept {text:?}: {value:?} is not a number"));
        }
        Ok(accept)
    }
}

impl AcceptCondition {
    /// Whether a value of the target meets the condition; an error where an order is asked of
    /// something without one.
    pub fn matches(&self, value: &str) -> Result<bool, String> {
        if !self.is_ordering() {
            let same = match (number(value), number(&self.value)) {
                (Some(a), Some(b)) => a == b,
                _ => value == self.value,
            };
            return Ok(same == (self.relation == Relation::Equal));
        }
        let (Some(have), Some(bound)) = (number(value), number(&self.value)) else {
            return Err(format!("{value:?} is not a number, so it cannot be compared with {self}"));
        };
        Ok(match self.relation {
            Relation::Less => have < bound,
            Relation::AtMost => have <= bound,
            Relation::Greater => have > bound,
            _ => have >= bound,
        })
    }

    /// Whether the condition is about exactly this text.
    pub(crate) fn names(&self, text: &str) -> bool {
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
    fn conditions_mean_what_they_say() {
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
    fn a_column_that_mirrors_a_mask_is_noticed_and_others_are_not() {
        let tells = |rows: &[(&str, bool)]| {
            let mut telltale = TargetLeakDetector::default();
            rows.iter().for_each(|(value, accepted)| telltale.take(value, *accepted));
            telltale.tells()
        };
        assert!(tells(&[("no", false), ("yes", true), ("maybe", false), ("yes", true)]));
        assert!(!tells(&[("no", false), ("yes", true), ("yes", false)]));
        assert!(!tells(&[("yes", true), ("sure", true), ("no", false)]));
        assert!(!tells(&[("yes", true), ("yes", true)]));
        assert!(!tells(&[]));
    }

    #[test]
    fn orders_need_numbers() {
        assert_eq!(">=five".parse::<AcceptCondition>(), Err(r#"accept ">=five": "five" is not a number"#.into()));
        assert!(">".parse::<AcceptCondition>().is_err() && "".parse::<AcceptCondition>().is_err());
        assert!(">1".parse::<AcceptCondition>().unwrap().matches("many").is_err());
    }
}
