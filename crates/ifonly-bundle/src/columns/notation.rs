//! How the numbers of a column are written: plainly, as money, with percent signs, separated
//! thousands or a decimal comma, or as dates. Every way that one value contradicts is out; what is
//! left when all rows have been seen is how the column is read.

use ifonly_values::schema::Notation;

const CURRENCIES: [&str; 12] = ["$", "€", "£", "¥", "₹", "USD", "EUR", "GBP", "CHF", "JPY", "INR", "%"];

const DECIMAL_POINT: [&str; 8] = ["$", "£", "¥", "₹", "USD", "GBP", "JPY", "INR"];

/// The ways to read a column beside plain numbers, from the first text on that is none.
#[derive(Clone, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct NotationCandidates {
    /// `None` while all texts are plain numbers.
    left: Option<Vec<NotationCandidate>>,
    /// Whether a plain number had a point in it.
    points: bool,
    /// A number such as `007`: a name, not an amount.
    pub(crate) leading_zeros: bool,
}

/// One way, and the bounds of what it read.
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
    /// Takes a text that is a plain number.
    pub(crate) fn plain(&mut self, text: &str, number: f64) {
        self.points |= text.contains('.');
        let digits = text.trim_start_matches(['-', '+']).as_bytes();
        self.leading_zeros |= matches!(digits, [b'0', second, ..] if second.is_ascii_digit());
        let Some(left) = &mut self.left else { return };
        left.retain(|reading| fits(&reading.notation, true, text.contains('.')));
        left.iter_mut().for_each(|reading| reading.take(number));
    }

    /// Takes a text that is none; `before` has the bounds of the plain numbers so far, if there
    /// were any.
    pub(crate) fn other(&mut self, text: &str, before: Option<(f64, f64)>) {
        let points = self.points;
        let left = self.left.get_or_insert_with(|| {
            let (min, max) = before.unwrap_or((f64::INFINITY, f64::NEG_INFINITY));
            let fit = guesses(text).into_iter().filter(|notation| fits(notation, before.is_some(), points));
            fit.map(|notation| NotationCandidate { notation, min, max }).collect()
        });
        left.retain_mut(|reading| reading.notation.read(text).map(|number| reading.take(number)).is_some());
    }

    /// Takes what was found in the rows behind; `before` and `after` have the bounds of the plain
    /// numbers in both, where there were any.
    ///
    /// A text that is no plain number is one in the ways of at most one currency, and whether it is
    /// one in a certain way depends on nothing else. So the ways of all rows are those that are
    /// left on both sides, whichever text came first.
    pub(crate) fn merge(&mut self, behind: NotationCandidates, before: Option<(f64, f64)>, after: Option<(f64, f64)>) {
        let widened = |left: Option<Vec<NotationCandidate>>, plain: Option<(f64, f64)>, points: bool| {
            left.map(|mut left| {
                left.retain(|reading| fits(&reading.notation, plain.is_some(), points));
                if let Some((min, max)) = plain {
                    left.iter_mut().for_each(|reading| {
                        reading.take(min);
                        reading.take(max);
                    });
                }
                left
            })
        };
        let ours = widened(self.left.take(), after, behind.points);
        let theirs = widened(behind.left, before, self.points);
        self.left = match (ours, theirs) {
            (Some(mut ours), Some(theirs)) => {
                ours.retain_mut(|reading| {
                    let same = theirs.iter().find(|other| other.notation == reading.notation);
                    same.map(|other| {
                        reading.take(other.min);
                        reading.take(other.max);
                    })
                    .is_some()
                });
                Some(ours)
            }
            (ours, theirs) => ours.or(theirs),
        };
        self.points |= behind.points;
        self.leading_zeros |= behind.leading_zeros;
    }

    /// The ways that are left; none where all texts were plain numbers.
    pub(crate) fn left(&self) -> &[NotationCandidate] {
        self.left.as_deref().unwrap_or_default()
    }
}

/// Whether a way goes with plain numbers, if there are any, some of them with points: nobody writes
/// a date as a number, and a point rules out that points separate thousands.
fn fits(notation: &Notation, plain: bool, points: bool) -> bool {
    match notation {
        Notation::Date | Notation::Timestamp => !plain,
        Notation::Formatted { decimal, .. } => *decimal == '.' || !points,
        Notation::Plain => true,
    }
}

/// The ways in which this text is a number.
fn guesses(text: &str) -> Vec<Notation> {
    let mut guesses = vec![Notation::Date, Notation::Timestamp];
    let bare = text.trim_start_matches(['(', '-', '+']).trim_end_matches(')');
    let prefix = CURRENCIES.into_iter().find(|sign| bare.starts_with(sign)).unwrap_or("");
    let suffix = CURRENCIES.into_iter().find(|sign| prefix.is_empty() && bare.ends_with(sign)).unwrap_or("");
    for (thousands, decimal) in [(',', '.'), ('.', ','), ('\u{a0}', ','), (' ', ','), ('\'', '.')] {
        // Where these currencies are used, a comma separates thousands.
        if decimal == ',' && DECIMAL_POINT.iter().any(|sign| *sign == prefix || *sign == suffix) {
            continue;
        }
        let thousands = Some(thousands);
        guesses.push(Notation::Formatted { prefix: prefix.into(), suffix: suffix.into(), thousands, decimal });
    }
    guesses.retain(|notation| notation.read(text).is_some());
    guesses
}

/// `31/12/2024`, `31.12.2024`, `12-31-24` and the like.
pub(crate) fn is_other_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split(['/', '.', '-']).collect();
    let digits = parts.iter().all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()));
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    digits && matches!(lengths[..], [1..=2, 1..=2, 2 | 4] | [4, 1..=2, 1..=2]) && Notation::Date.read(text).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(texts: &[&str]) -> Vec<(String, f64, f64)> {
        let mut readings = NotationCandidates::default();
        let mut bounds = None;
        for text in texts {
            match Notation::Plain.read(text) {
                Some(number) => {
                    let (min, max): (f64, f64) = bounds.unwrap_or((number, number));
                    bounds = Some((min.min(number), max.max(number)));
                    readings.plain(text, number);
                }
                None => readings.other(text, bounds),
            }
        }
        let shown = |reading: &NotationCandidate| (reading.notation.write(1234.5), reading.min, reading.max);
        readings.left().iter().map(shown).collect()
    }

    #[test]
    fn columns_are_read_in_the_one_way_that_fits_all_values() {
        for (texts, notation, min, max) in [
            (vec!["$1,200", "$3.50", "7"], "$1,234.5", 3.5, 1200.0),
            (vec!["5", "12%", "7.5 %"], "1,234.5%", 5.0, 12.0),
            (vec!["1,5", "2,75", "3"], "1.234,5", 1.5, 3.0),
            (vec!["1.200,00 €", "15 €"], "1.234,5€", 15.0, 1200.0),
            (vec!["1,234.5", "12"], "1,234.5", 12.0, 1234.5),
        ] {
            let left = left(&texts);
            assert_eq!(left[0], (notation.to_owned(), min, max), "{texts:?}");
        }
        assert_eq!(left(&["2024-02-29", "2023-01-01"]).len(), 2);
        assert_eq!(left(&["2024-02-29", "2023-01-01 10:00:00"])[0].0, "1970-01-01 00:20:34");
        // Thousands or decimals: both ways are left, and somebody must say which.
        assert!(left(&["1,234", "5,678"]).len() > 1);
        assert!(left(&["1", "2", "3"]).is_empty() && left(&["a", "1"]).is_empty());
        assert!(left(&["2024-02-29", "5"]).is_empty());
        assert!(left(&["1.5", "1,5"]).is_empty());
    }

    #[test]
    fn names_made_of_digits_and_foreign_dates_are_noticed() {
        let mut readings = NotationCandidates::default();
        for text in ["0", "0.5", "-0.1", "10"] {
            readings.plain(text, 0.0);
        }
        assert!(!readings.leading_zeros);
        readings.plain("007", 7.0);
        assert!(readings.leading_zeros);
        for (text, is) in
            [("31/12/2024", true), ("1.2.24", true), ("2024/12/31", true), ("1.5", false), ("2024-01-01", false)]
        {
            assert_eq!(is_other_date(text), is, "{text}");
        }
    }
}
