//! Which rows were accepted: conditions on the target column, any of which is enough.

use std::fmt;
use std::str::FromStr;

/// One condition: a value, or a comparison such as `>=5` or `!=no`.
#[derive(Clone, Debug, PartialEq)]
pub struct Accept {
    relation: Relation,
    value: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

impl FromStr for Accept {
    type Err = String;

    fn from_str(text: &str) -> Result<Accept, String> {
        let text = text.trim();
        // The empty sign is a prefix of everything.
        let (value, relation) = SIGNS
            .iter()
            .find_map(|(sign, relation)| Some((text.strip_prefix(sign)?.trim(), *relation)))
            .unwrap_or((text, Relation::Equal));
        if value.is_empty() {
            return Err(format!("accept {text:?}: a value is missing"));
        }
        let accept = Accept { relation, value: value.into() };
        if accept.is_ordering() && number(value).is_none() {
            return Err(format!("accept {text:?}: {value:?} is not a number"));
        }
        Ok(accept)
    }
}

impl Accept {
    /// Whether a value of the target meets the condition; an error where an order is asked of something without one.
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

impl fmt::Display for Accept {
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
            let accept: Accept = condition.parse().unwrap();
            assert!(yes.iter().all(|value| accept.matches(value).unwrap()), "{condition}");
            assert!(no.iter().all(|value| !accept.matches(value).unwrap()), "{condition}");
        }
        assert_eq!(">= 5".parse::<Accept>().unwrap().to_string(), ">=5");
    }

    #[test]
    fn orders_need_numbers() {
        assert_eq!(">=five".parse::<Accept>(), Err(r#"accept ">=five": "five" is not a number"#.into()));
        assert!(">".parse::<Accept>().is_err() && "".parse::<Accept>().is_err());
        assert!(">1".parse::<Accept>().unwrap().matches("many").is_err());
    }
}
