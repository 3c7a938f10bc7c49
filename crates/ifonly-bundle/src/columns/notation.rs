//! Inference of the notation of a column: plain numbers, money, percentages, separated thousands, a
//! decimal comma, or dates.
//!
//! The candidates are the notations in which the first text that is not a plain number can be read.
//! Each further value removes the candidates that cannot read it. The notation of the column is the
//! first remaining candidate after all rows.

use ifonly_values::schema::Notation;

/// Prefixes and suffixes of formatted numbers.
const CURRENCIES: [&str; 12] = ["$", "€", "£", "¥", "₹", "USD", "EUR", "GBP", "CHF", "JPY", "INR", "%"];

/// Currencies that are written with a decimal point.
const DECIMAL_POINT: [&str; 8] = ["$", "£", "¥", "₹", "USD", "GBP", "JPY", "INR"];

/// The candidate notations of a column, from the first text that is not a plain number.
#[derive(Clone, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct NotationCandidates {
    /// `None` while all texts are plain numbers.
    remaining: Option<Vec<NotationCandidate>>,
    /// Whether a plain number had a decimal point.
    points: bool,
    /// Whether a number had leading zeros, such as `007`: a code, not an amount.
    pub(crate) leading_zeros: bool,
}

/// One notation, and the bounds of the numbers that it gives.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
pub(crate) struct NotationCandidate {
    pub(crate) notation: Notation,
    #[serde(with = "crate::columns::float_bits")]
    pub(crate) min: f64,
    #[serde(with = "crate::columns::float_bits")]
    pub(crate) max: f64,
}

impl NotationCandidate {
    fn take(&mut self, number: f64) {
        (self.min, self.max) = (self.min.min(number), self.max.max(number));
    }
}

impl NotationCandidates {
    /// Adds a text that is a plain number.
    pub(crate) fn plain(&mut self, text: &str, number: f64) {
        self.points |= text.contains('.');
        let digits = text.trim_start_matches(['-', '+']).as_bytes();
        self.leading_zeros |= matches!(digits, [b'0', second, ..] if second.is_ascii_digit());
        let Some(remaining) = &mut self.remaining else { return };
        remaining.retain(|candidate| fits(&candidate.notation, true, text.contains('.')));
        remaining.iter_mut().for_each(|candidate| candidate.take(number));
    }

    /// Adds a text that is not a plain number; `before` has the bounds of the plain numbers so far,
    /// if there are any.
    pub(crate) fn other(&mut self, text: &str, before: Option<(f64, f64)>) {
        let points = self.points;
        let remaining = self.remaining.get_or_insert_with(|| {
            let (min, max) = before.unwrap_or((f64::INFINITY, f64::NEG_INFINITY));
            let fit = guesses(text).into_iter().filter(|notation| fits(notation, before.is_some(), points));
            fit.map(|notation| NotationCandidate { notation, min, max }).collect()
        });
        remaining.retain_mut(|candidate| candidate.notation.read(text).map(|number| candidate.take(number)).is_some());
    }

    /// Adds the candidates of the rows that follow; `before` and `after` have the bounds of the
    /// plain numbers on both sides, if there are any.
    ///
    /// A text that is not a plain number can be read in the notations of at most one currency, and
    /// whether one notation reads it does not depend on other texts. So the candidates for all rows
    /// are those that remain on both sides, independent of the order of the texts.
    pub(crate) fn merge(&mut self, next: NotationCandidates, before: Option<(f64, f64)>, after: Option<(f64, f64)>) {
        let widened = |candidates: Option<Vec<NotationCandidate>>, plain: Option<(f64, f64)>, points: bool| {
            candidates.map(|mut candidates| {
                candidates.retain(|candidate| fits(&candidate.notation, plain.is_some(), points));
                if let Some((min, max)) = plain {
                    candidates.iter_mut().for_each(|candidate| {
                        candidate.take(min);
                        candidate.take(max);
                    });
                }
                candidates
            })
        };
        let ours = widened(self.remaining.take(), after, next.points);
        let theirs = widened(next.remaining, before, self.points);
        self.remaining = match (ours, theirs) {
            (Some(mut ours), Some(theirs)) => {
                ours.retain_mut(|candidate| {
                    let same = theirs.iter().find(|other| other.notation == candidate.notation);
                    same.map(|other| {
                        candidate.take(other.min);
                        candidate.take(other.max);
                    })
                    .is_some()
                });
                Some(ours)
            }
            (ours, theirs) => ours.or(theirs),
        };
        self.points |= next.points;
        self.leading_zeros |= next.leading_zeros;
    }

    /// The remaining candidates; empty if all texts were plain numbers.
    pub(crate) fn remaining(&self) -> &[NotationCandidate] {
        self.remaining.as_deref().unwrap_or_default()
    }
}

/// Whether a notation is compatible with the plain numbers of the column. `plain`: whether there
/// are any; dates are not written as plain numbers. `points`: whether some have a decimal point;
/// then a comma is not the decimal separator.
fn fits(notation: &Notation, plain: bool, points: bool) -> bool {
    match notation {
        Notation::Date | Notation::Timestamp => !plain,
        Notation::Formatted { decimal, .. } => *decimal == '.' || !points,
        Notation::Plain => true,
    }
}

/// The notations in which this text is a number.
fn guesses(text: &str) -> Vec<Notation> {
    let mut guesses = vec![Notation::Date, Notation::Timestamp];
    let bare = text.trim_start_matches(['(', '-', '+']).trim_end_matches(')');
    let prefix = CURRENCIES.into_iter().find(|sign| bare.starts_with(sign)).unwrap_or("");
    let suffix = CURRENCIES.into_iter().find(|sign| prefix.is_empty() && bare.ends_with(sign)).unwrap_or("");
    for (thousands, decimal) in [(',', '.'), ('.', ','), ('\u{a0}', ','), (' ', ','), ('\'', '.')] {
        // These currencies are written with a decimal point.
        if decimal == ',' && DECIMAL_POINT.iter().any(|sign| *sign == prefix || *sign == suffix) {
            continue;
        }
        let thousands = Some(thousands);
        guesses.push(Notation::Formatted { prefix: prefix.into(), suffix: suffix.into(), thousands, decimal });
    }
    guesses.retain(|notation| notation.read(text).is_some());
    guesses
}

/// Whether a text is a date in another notation, such as `31/12/2024`, `31.12.2024` or `12-31-24`.
pub(crate) fn is_other_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split(['/', '.', '-']).collect();
    let digits = parts.iter().all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()));
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    digits && matches!(lengths[..], [1..=2, 1..=2, 2 | 4] | [4, 1..=2, 1..=2]) && Notation::Date.read(text).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remaining(texts: &[&str]) -> Vec<(String, f64, f64)> {
        let mut candidates = NotationCandidates::default();
        let mut bounds = None;
        for text in texts {
            match Notation::Plain.read(text) {
                Some(number) => {
                    let (min, max): (f64, f64) = bounds.unwrap_or((number, number));
                    bounds = Some((min.min(number), max.max(number)));
                    candidates.plain(text, number);
                }
                None => candidates.other(text, bounds),
            }
        }
        let shown = |candidate: &NotationCandidate| (candidate.notation.write(1234.5), candidate.min, candidate.max);
        candidates.remaining().iter().map(shown).collect()
    }

    #[test]
    fn the_notation_of_a_column_reads_all_its_values() {
        for (texts, notation, min, max) in [
            (vec!["$1,200", "$3.50", "7"], "$1,234.5", 3.5, 1200.0),
            (vec!["5", "12%", "7.5 %"], "1,234.5%", 5.0, 12.0),
            (vec!["1,5", "2,75", "3"], "1.234,5", 1.5, 3.0),
            (vec!["1.200,00 €", "15 €"], "1.234,5€", 15.0, 1200.0),
            (vec!["1,234.5", "12"], "1,234.5", 12.0, 1234.5),
        ] {
            let remaining = remaining(&texts);
            assert_eq!(remaining[0], (notation.to_owned(), min, max), "{texts:?}");
        }
        assert_eq!(remaining(&["2024-02-29", "2023-01-01"]).len(), 2);
        assert_eq!(remaining(&["2024-02-29", "2023-01-01 10:00:00"])[0].0, "1970-01-01 00:20:34");
        // Thousands or decimals: both candidates remain, and the schema file must decide.
        assert!(remaining(&["1,234", "5,678"]).len() > 1);
        assert!(remaining(&["1", "2", "3"]).is_empty() && remaining(&["a", "1"]).is_empty());
        assert!(remaining(&["2024-02-29", "5"]).is_empty());
        assert!(remaining(&["1.5", "1,5"]).is_empty());
    }

    #[test]
    fn leading_zeros_and_other_date_notations_are_detected() {
        let mut candidates = NotationCandidates::default();
        for text in ["0", "0.5", "-0.1", "10"] {
            candidates.plain(text, 0.0);
        }
        assert!(!candidates.leading_zeros);
        candidates.plain("007", 7.0);
        assert!(candidates.leading_zeros);
        for (text, is) in
            [("31/12/2024", true), ("1.2.24", true), ("2024/12/31", true), ("1.5", false), ("2024-01-01", false)]
        {
            assert_eq!(is_other_date(text), is, "{text}");
        }
    }
}
