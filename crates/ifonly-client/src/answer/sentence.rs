//! The first sentence of an answer, with the labels and phrases of the institution:
//!
//! "Someone like you, with 5,800 more income a year and one late payment fewer, was accepted."
//!
//! A record that stands for a group reads "People like you, with …, were accepted." At most three
//! phrases, the largest change first. Without phrases a change reads "income 50,200 instead of
//! 36,100". The sentence is English; the page has its own sentences.

use crate::answer::explanation::Change;
use ifonly_values::manifest::Manifest;
use ifonly_values::schema::{Feature, FeatureKind, Notation, Value};

/// The language of the sentence.
pub(crate) const LANGUAGE: &str = "en";
/// How many changes a sentence names.
const NAMED: usize = 3;

/// The sentence for a found row with these changes, the largest first.
pub(crate) fn sentence(manifest: &Manifest, changes: &[Change], is_group: bool) -> String {
    let (who, usual) = if is_group { ("People", "were accepted") } else { ("Someone", "was accepted") };
    let outcome = &manifest.fields().dataset.outcome;
    let outcome = outcome.as_ref().map_or(usual, |outcome| outcome.in_language(LANGUAGE));
    let counted: Vec<&Change> = changes.iter().filter(|change| !change.is_negligible()).collect();
    let mut phrases: Vec<String> = counted.iter().take(NAMED).map(|change| phrase(manifest, change)).collect();
    match counted.len().saturating_sub(NAMED) {
        0 => {}
        1 => phrases.push("one smaller difference".into()),
        more => phrases.push(format!("{more} smaller differences")),
    }
    match &phrases[..] {
        [] => format!("{who} with your values {outcome}."),
        [one] => format!("{who} like you, with {one}, {outcome}."),
        [first @ .., last] => format!("{who} like you, with {} and {last}, {outcome}.", first.join(", ")),
    }
}

/// A change as a phrase that follows "with".
pub(crate) fn phrase(manifest: &Manifest, change: &Change) -> String {
    let schema = manifest.schema();
    let Ok(indices) = schema.named(&change.feature) else { return change.feature.clone() };
    let features = &schema.features()[indices];
    let first = &features[0];
    if let FeatureKind::Numeric { notation: Notation::Plain | Notation::Formatted { .. }, .. } = &first.kind
        && let (Some(yours), Some(theirs)) = (first.number(&change.yours), first.number(&change.theirs))
    {
        // Binary fractions have long decimal representations.
        let difference = ((theirs - yours) * 1e9).round() / 1e9;
        let number = number(difference.abs());
        if let Some(phrase) = first.phrases.phrase(difference, &number, LANGUAGE) {
            return phrase;
        }
    }
    let (yours, theirs) = (shown(features, &change.yours), shown(features, &change.theirs));
    format!("{} {theirs} instead of {yours}", first.label(LANGUAGE))
}

/// A value for users: the label of a word, a number with its unit.
pub fn shown(features: &[Feature], value: &Value) -> String {
    let text = match value {
        Value::Number(number) => self::number(*number),
        Value::Text(text) if text.is_empty() => return "no value".into(),
        Value::Text(text) => {
            let label = features.iter().find_map(|feature| feature.word_labels.get(text.trim()));
            label.map_or_else(|| text.clone(), |label| label.in_language(LANGUAGE).to_owned())
        }
    };
    match features.first().and_then(|feature| feature.unit.as_ref()) {
        Some(unit) => format!("{text} {}", unit.in_language(LANGUAGE)),
        None => text,
    }
}

/// A number with commas between thousands, from 10,000 on, so that years stay as they are.
fn number(number: f64) -> String {
    let text = number.to_string();
    let (sign, digits) = text.strip_prefix('-').map_or(("", text.as_str()), |digits| ("-", digits));
    let (whole, fraction) = digits.split_once('.').map_or((digits, None), |(whole, f)| (whole, Some(f)));
    if whole.len() < 5 || !whole.bytes().all(|byte| byte.is_ascii_digit()) {
        return text;
    }
    let start = whole.len() % 3;
    let groups = whole.as_bytes()[start..].chunks(3).map(|group| String::from_utf8_lossy(group).into_owned());
    let first = (start > 0).then(|| whole[..start].to_owned());
    let whole: Vec<String> = first.into_iter().chain(groups).collect();
    let fraction = fraction.map(|fraction| format!(".{fraction}")).unwrap_or_default();
    format!("{sign}{}{fraction}", whole.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ifonly_values::manifest::ManifestFields;
    use ifonly_values::schema::{LocalizedText, Phrases, Scale, Schema};

    fn change(feature: &str, yours: impl Into<Value>, theirs: impl Into<Value>) -> Change {
        Change {
            feature: feature.into(),
            yours: yours.into(),
            theirs: theirs.into(),
            same_level: false,
            within_tolerance: false,
            contribution: None,
        }
    }

    #[test]
    fn a_sentence_names_the_three_largest_changes_with_the_phrases_of_the_institution() {
        let numeric = |name: &str| Feature::new(name, Scale::whole_numbers(0, 60_000).unwrap().into());
        let phrases = |more: &str, less: &str, one_less: &str| Phrases {
            more: Some(more.into()),
            less: Some(less.into()),
            one_less: Some(one_less.into()),
            one_more: None,
        };
        let income = Feature {
            phrases: phrases("{n} more income a year", "{n} less income a year", "1 less"),
            ..numeric("inc")
        };
        let late = Feature {
            phrases: phrases("{n} more late", "{n} late payments fewer", "one late payment fewer"),
            ..numeric("late")
        };
        let kind = FeatureKind::Categorical { categories: vec!["r".into(), "o".into()], range: 10 };
        let labels: Vec<(String, LocalizedText)> =
            vec![("r".into(), "a rented flat".into()), ("o".into(), "an own house".into())];
        let housing = Feature {
            label: Some("Housing".into()),
            word_labels: labels.into_iter().collect(),
            ..Feature::new("hsg", kind)
        };
        let years = Feature { unit: Some("years".into()), ..numeric("age") };
        let schema = Schema::new(vec![income, late, housing, years]).unwrap();
        let mut fields = ManifestFields::new("loans", schema, 9, 64, 2);
        let said = |fields: &ManifestFields, changes: &[Change]| {
            sentence(&Manifest::new(fields.clone()).unwrap(), changes, false)
        };
        let changes = [
            change("inc", 30_500.0, 46_300.0),
            change("late", 2.0, 1.0),
            change("hsg", "r", "o"),
            change("age", 41.0, 43.0),
        ];
        assert_eq!(
            said(&fields, &changes[..2]),
            "Someone like you, with 15,800 more income a year and one late payment fewer, was accepted."
        );
        assert_eq!(said(&fields, &[]), "Someone with your values was accepted.");
        let of_group = sentence(&Manifest::new(fields.clone()).unwrap(), &changes[1..2], true);
        assert_eq!(of_group, "People like you, with one late payment fewer, were accepted.");
        fields.dataset.outcome = Some("got the loan".into());
        assert_eq!(
            said(&fields, &changes[2..]),
            "Someone like you, with Housing an own house instead of a rented flat and age 43 years instead of 41 \
             years, got the loan."
        );
        assert!(said(&fields, &changes).ends_with("a rented flat and one smaller difference, got the loan."));
    }

    #[test]
    fn numbers_have_commas_between_thousands() {
        assert_eq!([1850.0, 12_345.5, -1_234_567.0, 0.1].map(number), ["1850", "12,345.5", "-1,234,567", "0.1"]);
    }
}
