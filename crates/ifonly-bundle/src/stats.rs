//! What the first pass learns about a column: its values while they are few, how many are numbers, bounds, lengths.
//!
//! Memory stays bounded: beyond [`MAX_DISTINCT`] different values a column is merely "many". Bounds and values are taken over
//! *all* rows, the rejected ones included, so that a rejected person's own values lie within them.

use crate::by_text::ByText;
use crate::error::Place;
use crate::reading::{Reading, Readings, is_other_date};
use ifonly_values::schema::{Decimal, Notation};

/// More different values are not listed: no feature has more levels.
pub(crate) const MAX_DISTINCT: usize = 65_536;

/// Whether a text stands for a missing value, unless the schema file lists it as a value.
pub(crate) fn is_missing(text: &str, listed: &[String]) -> bool {
    ifonly_values::schema::is_missing(text) && !listed.iter().any(|word| word == text)
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
    /// Whether any row, the rejected ones included, has no value.
    pub(crate) missing_anywhere: bool,
    /// Every value with its count, unless they are too many.
    distinct: Option<ByText<Seen>>,
    /// Whether most values were new when they became too many to list.
    mostly_new: bool,
    /// The smallest number.
    pub(crate) min: f64,
    /// The largest number.
    pub(crate) max: f64,
    /// Whether every number is the one before plus one.
    pub(crate) counting: bool,
    last: f64,
    /// How numbers that are not plain are written.
    pub(crate) readings: Readings,
    /// How many are dates that are not written year first.
    pub(crate) other_dates: u64,
    /// The longest text among accepted rows, in bytes.
    pub(crate) longest: usize,
    /// Some of the plain numbers, for a median where there are too many to list.
    sample: Sample,
}

/// One of the values.
struct Seen {
    count: u64,
    is: Is,
}

/// What a text is, so that its next occurrence need not be read.
#[derive(Clone, Copy)]
enum Is {
    Number(f64),
    OtherDate,
    Word,
}

/// Every n-th number, n doubled whenever there are too many: no luck, and bounded memory.
#[derive(Default)]
struct Sample {
    seen: u64,
    stride_bits: u32,
    numbers: Vec<f64>,
}

impl Sample {
    fn take(&mut self, number: f64) {
        if self.seen & ((1 << self.stride_bits) - 1) == 0 {
            self.numbers.push(number);
        }
        self.seen += 1;
        if self.numbers.len() == MAX_DISTINCT {
            let mut place = 0;
            self.numbers.retain(|_| {
                place += 1;
                place % 2 == 1
            });
            self.stride_bits += 1;
        }
    }
}

impl ColumnStats {
    pub(crate) fn new() -> ColumnStats {
        ColumnStats {
            distinct: Some(ByText::default()),
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            counting: true,
            ..ColumnStats::default()
        }
    }

    /// Takes a value of one row.
    pub(crate) fn take(&mut self, place: Place, text: &str, accepted: bool, listed: &[String]) {
        let seen = self.distinct.as_mut().and_then(|distinct| distinct.get_mut(text));
        if seen.is_none() && is_missing(text, listed) {
            self.missing_anywhere = true;
            if accepted {
                self.missing.get_or_insert((place, 0)).1 += 1;
            }
            return;
        }
        if accepted {
            self.longest = self.longest.max(text.len());
        }
        self.present += 1;
        let is = match seen {
            Some(seen) => {
                seen.count += 1;
                seen.is
            }
            None => self.read(place, text),
        };
        match is {
            Is::Number(number) => {
                self.sample.take(number);
                self.counting &= self.numbers == 0 || number == self.last + 1.0;
                self.last = number;
                self.numbers += 1;
            }
            Is::OtherDate => self.other_dates += 1,
            Is::Word => {}
        }
    }

    /// Reads a text that was not seen before, or that nobody remembers.
    fn read(&mut self, place: Place, text: &str) -> Is {
        let is = match Notation::Plain.read(text) {
            Some(number) => {
                self.readings.plain(text, number);
                self.min = self.min.min(number);
                self.max = self.max.max(number);
                Is::Number(number)
            }
            None => {
                self.readings.other(text, (self.numbers > 0).then_some((self.min, self.max)));
                self.counting = false;
                self.first_word.get_or_insert_with(|| (place, text.chars().take(60).collect()));
                if is_other_date(text) { Is::OtherDate } else { Is::Word }
            }
        };
        let Some(distinct) = &mut self.distinct else { return is };
        // Long texts are no categories, and would fill the memory.
        let long = text.len() > ifonly_values::record::MAX_TEXT;
        if distinct.len() >= MAX_DISTINCT || long {
            self.mostly_new = long || distinct.len() as u64 * 2 > self.present;
            self.distinct = None;
        } else {
            distinct.insert(text, Seen { count: 1, is });
        }
        is
    }

    /// The different values in the order of their numbers, or of their letters; `None` if they are too many.
    pub(crate) fn values(&self) -> Option<Vec<String>> {
        let mut values: Vec<String> = self.distinct.as_ref()?.iter().map(|(text, _)| text).collect();
        // A map has no order of its own, and the same input must give the same bytes.
        values.sort_unstable();
        let Some(Reading { notation, .. }) = self.reading() else { return Some(values) };
        let mut numbers: Vec<(f64, String)> =
            values.into_iter().map(|text| (notation.read(&text).unwrap_or(0.0), text)).collect();
        // Stable, so that texts of one number ("1", "1.0") keep the order of their letters.
        numbers.sort_by(|a, b| a.0.total_cmp(&b.0));
        // One text stands for a number that is written in several ways; the rest are found by their number.
        numbers.dedup_by(|b, a| a.0 == b.0);
        Some(numbers.into_iter().map(|(_, text)| text).collect())
    }

    /// How all values are numbers, if they are: the first of the ways that are left.
    pub(crate) fn reading(&self) -> Option<Reading> {
        if self.present == 0 {
            return None;
        }
        if self.numbers == self.present {
            return Some(Reading { notation: Notation::Plain, min: self.min, max: self.max });
        }
        self.readings.left().first().cloned()
    }

    /// The value that most rows have, the first of equally many.
    pub(crate) fn most_common(&self) -> Option<String> {
        let counts = self.distinct.as_ref()?.iter();
        counts.max_by(|a, b| a.1.count.cmp(&b.1.count).then(b.0.cmp(&a.0))).map(|(value, _)| value)
    }

    /// A value in the middle: one of the values where they are listed, otherwise about the median of plain numbers.
    pub(crate) fn median(&self) -> Option<String> {
        let Reading { notation, .. } = self.reading()?;
        let Some(distinct) = &self.distinct else {
            let mut numbers = self.sample.numbers.clone();
            numbers.sort_by(f64::total_cmp);
            return numbers.get(numbers.len().checked_sub(1)? / 2).map(|number| notation.write(*number));
        };
        let mut counts: Vec<(f64, String, u64)> =
            distinct.iter().filter_map(|(text, seen)| Some((notation.read(&text)?, text, seen.count))).collect();
        counts.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut left = counts.iter().map(|(_, _, count)| count).sum::<u64>().checked_sub(1)? / 2;
        counts.into_iter().find_map(|(_, text, count)| match left.checked_sub(count) {
            Some(rest) => {
                left = rest;
                None
            }
            None => Some(text),
        })
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
        let mut counts: Vec<(String, u64)> = distinct.iter().map(|(value, seen)| (value, seen.count)).collect();
        counts.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
        let shown =
            |(value, count): &(String, u64)| format!("{:?} ({count} rows)", value.chars().take(40).collect::<String>());
        let mut parts: Vec<String> = counts.iter().take(SHOWN).map(shown).collect();
        if counts.len() > SHOWN {
            parts.push(format!("and {} other values", counts.len() - SHOWN));
        }
        parts.join(", ")
    }
}

/// The coarsest grid on which all of these numbers lie, as first value, step and number of steps; `None` if it has more than
/// `most` steps.
pub(crate) fn grid(numbers: &[Decimal], most: u32) -> Option<(Decimal, Decimal, u32)> {
    let exponent = numbers.iter().map(|number| number.exponent()).min()?;
    let units: Vec<i128> = numbers.iter().map(|number| number.units(exponent)).collect::<Option<_>>()?;
    let (min, max) = (*units.iter().min()?, *units.iter().max()?);
    let step = units.iter().try_fold(0, |gcd, value| Some(greatest_common_divisor(gcd, value.checked_sub(min)?)))?;
    if step == 0 {
        return None;
    }
    let steps = u32::try_from(max.checked_sub(min)? / step).ok().filter(|steps| *steps <= most)?;
    Some((Decimal::from_units(min, exponent)?, Decimal::from_units(step, exponent)?, steps))
}

fn greatest_common_divisor(a: i128, b: i128) -> i128 {
    if b == 0 { a.abs() } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_are_the_coarsest_ones() {
        for (texts, right) in [
            (vec!["0", "1"], Some(("0", "1", 1))),
            (vec!["18", "20", "30"], Some(("18", "2", 6))),
            (vec!["0", "0.25", "1.0"], Some(("0", "0.25", 4))),
            (vec!["-1", "2", "5"], Some(("-1", "3", 2))),
            (vec!["0", "1", "1000"], None),
            (vec!["0", "0.1", "0.123456789"], None),
            (vec![".5", "1.", "+2"], Some(("0.5", "0.5", 3))),
            (vec!["5", "5.0"], None),
            (vec!["999999999999999", "-999999999999999"], Some(("-999999999999999", "1999999999999998", 1))),
        ] {
            let numbers: Vec<Decimal> = texts.iter().map(|text| Decimal::parse(text).unwrap()).collect();
            let found = grid(&numbers, 100).map(|(from, step, steps)| (from.to_string(), step.to_string(), steps));
            assert_eq!(found, right.map(|(from, step, steps)| (from.into(), step.into(), steps)), "{texts:?}");
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
    fn medians_and_most_common_values_are_values() {
        let stats = column(&["3", "10", "10", "4", "7.0"]);
        assert_eq!((stats.median().as_deref(), stats.most_common().as_deref()), (Some("7.0"), Some("10")));
        assert_eq!(column(&["$5", "$1", "$9", "$9"]).median().as_deref(), Some("$5"));
        assert_eq!((column(&["b", "a"]).median(), column(&["b", "a"]).most_common().as_deref()), (None, Some("a")));
        let many: Vec<String> = (0..300_000u64).map(|n| (n * 7919 % 300_007).to_string()).collect();
        let median: f64 = column(&many).median().unwrap().parse().unwrap();
        assert!((median - 150_000.0).abs() < 3_000.0, "{median}");
    }

    #[test]
    fn too_many_values_are_not_listed() {
        let many: Vec<String> = (0..70_000).map(|n| (n * 7).to_string()).collect();
        let stats = column(&many);
        assert!(stats.values().is_none() && stats.is_mostly_unique() && stats.reading().is_some() && !stats.counting);
        let repeated: Vec<String> = (0..4).flat_map(|_| (0..66_000).map(|n| n.to_string())).collect();
        assert!(column(&repeated).values().is_none());
    }
}
