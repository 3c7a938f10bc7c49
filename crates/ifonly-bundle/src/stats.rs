//! What the first pass learns about a column: its values while they are few, how many are numbers, bounds, lengths.
//!
//! Memory stays bounded: beyond [`MAX_DISTINCT`] different values a column is merely "many". Bounds and values are taken over
//! *all* rows, the rejected ones included, so that a rejected person's own values lie within them.

use crate::error::Place;
use std::collections::HashMap;

/// More different values are not listed: no feature has more levels.
pub(crate) const MAX_DISTINCT: usize = 65_536;

/// What some tools write for a missing value, unless the schema file lists it as a value.
const MISSING: [&str; 8] = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "?"];

/// Whether a text stands for a missing value.
pub(crate) fn is_missing(text: &str, listed: &[String]) -> bool {
    MISSING.contains(&text) && !listed.iter().any(|word| word == text)
}

/// A finite number.
pub(crate) fn number(text: &str) -> Option<f64> {
    // Adding zero turns −0 into 0, which are one number but two texts in a manifest.
    text.parse().ok().filter(|number: &f64| number.is_finite()).map(|number| number + 0.0)
}

/// What is known about a column.
#[derive(Default)]
pub(crate) struct ColumnStats {
    /// Values that are there.
    pub(crate) present: u64,
    /// How many of them are numbers.
    pub(crate) numbers: u64,
    /// The first text that is not a number.
    pub(crate) first_word: Option<(Place, String)>,
    /// The first accepted row without a value, and how many there are.
    pub(crate) missing: Option<(Place, u64)>,
    /// Every value with its count, unless they are too many.
    distinct: Option<HashMap<String, u64>>,
    /// Whether most values were new when they became too many to list.
    mostly_new: bool,
    /// The smallest number.
    pub(crate) min: f64,
    /// The largest number.
    pub(crate) max: f64,
    /// Whether every number is the one before plus one.
    pub(crate) counting: bool,
    last: f64,
    /// The longest text among accepted rows, in bytes.
    pub(crate) longest: usize,
}

impl ColumnStats {
    pub(crate) fn new() -> ColumnStats {
        ColumnStats {
            distinct: Some(HashMap::new()),
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            counting: true,
            ..ColumnStats::default()
        }
    }

    /// Takes a value of one row.
    pub(crate) fn take(&mut self, place: Place, text: &str, accepted: bool, listed: &[String]) {
        if is_missing(text, listed) {
            if accepted {
                self.missing.get_or_insert((place, 0)).1 += 1;
            }
            return;
        }
        if accepted {
            self.longest = self.longest.max(text.len());
        }
        self.present += 1;
        match number(text) {
            Some(number) => {
                self.counting &= self.numbers == 0 || number == self.last + 1.0;
                self.last = number;
                self.numbers += 1;
                self.min = self.min.min(number);
                self.max = self.max.max(number);
            }
            None => {
                self.counting = false;
                self.first_word.get_or_insert_with(|| (place, text.chars().take(60).collect()));
            }
        }
        let Some(distinct) = &mut self.distinct else { return };
        if let Some(count) = distinct.get_mut(text) {
            *count += 1;
            return;
        }
        // Long texts are no categories, and would fill the memory.
        let long = text.len() > ifonly_core::record::MAX_TEXT;
        if distinct.len() >= MAX_DISTINCT || long {
            self.mostly_new = long || distinct.len() as u64 * 2 > self.present;
            self.distinct = None;
        } else {
            distinct.insert(text.to_owned(), 1);
        }
    }

    /// The different values in the order of their numbers, or of their letters; `None` if they are too many.
    pub(crate) fn values(&self) -> Option<Vec<String>> {
        let mut values: Vec<String> = self.distinct.as_ref()?.keys().cloned().collect();
        // A map has no order of its own, and the same input must give the same bytes.
        values.sort_unstable();
        if self.is_numeric() {
            // Stable, so that texts of one number ("1", "1.0") keep the order of their letters.
            values.sort_by(|a, b| number(a).unwrap_or(0.0).total_cmp(&number(b).unwrap_or(0.0)));
            // One text stands for a number that is written in several ways; the rest are found by their number.
            values.dedup_by(|b, a| number(a) == number(b));
        }
        Some(values)
    }

    pub(crate) fn is_numeric(&self) -> bool {
        self.present > 0 && self.numbers == self.present
    }

    /// Whether hardly any value comes twice.
    pub(crate) fn is_mostly_unique(&self) -> bool {
        match &self.distinct {
            Some(distinct) => self.present >= 20 && distinct.len() as u64 * 2 > self.present,
            None => self.mostly_new,
        }
    }

    /// Whether no value comes twice.
    pub(crate) fn all_differ(&self) -> bool {
        self.distinct.as_ref().map_or(self.mostly_new, |distinct| distinct.len() as u64 == self.present)
    }

    /// Some values with their counts, the most frequent first, for messages.
    pub(crate) fn shown(&self) -> String {
        const SHOWN: usize = 10;
        let Some(distinct) = &self.distinct else { return format!("numbers from {} to {}", self.min, self.max) };
        let mut counts: Vec<(&String, &u64)> = distinct.iter().collect();
        counts.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
        let shown = |(value, count): &(&String, &u64)| {
            format!("{:?} ({count} rows)", value.chars().take(40).collect::<String>())
        };
        let mut parts: Vec<String> = counts.iter().take(SHOWN).map(shown).collect();
        if counts.len() > SHOWN {
            parts.push(format!("and {} other values", counts.len() - SHOWN));
        }
        parts.join(", ")
    }
}

/// How many equal steps lead from the smallest to the largest of these numbers so that all of them are met; `None` if they
/// are more than `most` or the texts are not plain decimals.
pub(crate) fn grid_steps<T: AsRef<str>>(texts: &[T], most: u32) -> Option<u32> {
    let decimals = texts.iter().map(|text| decimal(text.as_ref())).collect::<Option<Vec<_>>>()?;
    let places = decimals.iter().map(|(_, places)| *places).max()?;
    // At most 15 digits before and 15 after the point: the products stay far below 2^127.
    let scaled: Vec<i128> = decimals.iter().map(|(digits, own)| digits * 10i128.pow(places - own)).collect();
    let (min, max) = (scaled.iter().min()?, scaled.iter().max()?);
    let step = scaled.iter().fold(0, |gcd, value| greatest_common_divisor(gcd, value - min));
    if step == 0 {
        return None;
    }
    u32::try_from((max - min) / step).ok().filter(|steps| *steps <= most)
}

/// Digits and decimal places of a plain decimal.
fn decimal(text: &str) -> Option<(i128, u32)> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let part = part.trim_end_matches('0');
    let plain = |text: &str| text.len() <= 15 && text.bytes().all(|byte| byte.is_ascii_digit());
    if !plain(whole) || !plain(part) || whole.is_empty() && part.is_empty() {
        return None;
    }
    Some((sign * format!("0{whole}{part}").parse::<i128>().ok()?, part.len() as u32))
}

fn greatest_common_divisor(a: i128, b: i128) -> i128 {
    if b == 0 { a.abs() } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_those_of_the_coarsest_grid() {
        for (texts, steps) in [
            (vec!["0", "1"], Some(1)),
            (vec!["18", "20", "30"], Some(6)),
            (vec!["0", "0.25", "1.0"], Some(4)),
            (vec!["-1", "2", "5"], Some(2)),
            (vec!["0", "1", "1000"], None),
            (vec!["1e3", "2"], None),
            (vec!["0", "0.1", "0.123456789"], None),
            (vec![".5", "1.", "+2"], Some(3)),
            (vec!["5", "5.0"], None),
            (vec!["999999999999999", "-999999999999999"], Some(1)),
        ] {
            assert_eq!(grid_steps(&texts, 100), steps, "{texts:?}");
        }
    }

    fn column<T: AsRef<str>>(texts: &[T]) -> ColumnStats {
        let mut stats = ColumnStats::new();
        for (row, text) in (1..).zip(texts) {
            stats.take(Place::Row(row), text.as_ref(), true, &[]);
        }
        stats
    }

    #[test]
    fn values_are_sorted_as_what_they_are() {
        assert_eq!(column(&["10", "9", "9.0", "-1"]).values().unwrap(), ["-1", "9", "10"]);
        assert_eq!(column(&["b", "10", "9", "b"]).values().unwrap(), ["10", "9", "b"]);
        assert!(column(&["-0", "1", "-0.0"]).min.is_sign_positive());
        assert_eq!(column(&["b", "?", "NA", ""]).missing, Some((Place::Row(2), 3)));
    }

    #[test]
    fn too_many_values_are_not_listed() {
        let many: Vec<String> = (0..70_000).map(|n| (n * 7).to_string()).collect();
        let stats = column(&many);
        assert!(stats.values().is_none() && stats.is_mostly_unique() && stats.is_numeric() && !stats.counting);
        let repeated: Vec<String> = (0..4).flat_map(|_| (0..66_000).map(|n| n.to_string())).collect();
        assert!(column(&repeated).values().is_none());
    }
}
