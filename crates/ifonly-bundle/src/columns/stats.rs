//! The statistics of one column from the first pass: distinct values, numbers, bounds, lengths.
//!
//! Memory is bounded: at most [`MAX_DISTINCT`](crate::columns::distinct::MAX_DISTINCT) distinct
//! values are listed. Bounds and values come from *all* rows, including rejected rows, so that the
//! values of a rejected person lie within the bounds.
//!
//! The parts of a table can be processed separately: [`ColumnStats::merge`] gives exactly the
//! statistics of all rows.

use crate::columns::distinct::{DistinctValue, DistinctValues, TextClass, is_long};
use crate::columns::notation::{NotationCandidate, NotationCandidates};
use crate::columns::quantile_sketch::QuantileSketch;
use crate::error::{FileLocation, counted};
use ifonly_values::schema::{Decimal, Notation};

/// Whether a text means a missing value. A text that the schema file lists as a value does not.
pub(crate) fn is_missing(text: &str, listed: &[String]) -> bool {
    ifonly_values::schema::is_missing(text) && !listed.iter().any(|word| word == text)
}

/// Location of a row: the index of its file, and the position in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct RowLocation {
    pub(crate) file: usize,
    pub(crate) position: FileLocation,
}

/// Statistics of a column.
#[derive(Clone, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct ColumnStats {
    /// Number of values that are not missing.
    pub(crate) present: u64,
    /// Number of values that are plain numbers.
    pub(crate) numbers: u64,
    /// The first text that is not a plain number.
    pub(crate) first_word: Option<(RowLocation, String)>,
    /// The first accepted row with a missing value, and the number of such rows.
    pub(crate) missing: Option<(RowLocation, u64)>,
    /// Whether any row, accepted or rejected, has a missing value.
    pub(crate) missing_anywhere: bool,
    /// The distinct values with their counts, unless there are too many.
    distinct: DistinctValues,
    /// The smallest number.
    #[serde(with = "crate::columns::float_bits")]
    pub(crate) min: f64,
    /// The largest number.
    #[serde(with = "crate::columns::float_bits")]
    pub(crate) max: f64,
    /// Whether every value is the previous one plus 1.
    pub(crate) counting: bool,
    #[serde(with = "crate::columns::float_bits")]
    first: f64,
    #[serde(with = "crate::columns::float_bits")]
    last: f64,
    /// The candidate notations of numbers that are not plain.
    pub(crate) notations: NotationCandidates,
    /// Number of dates that do not have the year first.
    pub(crate) other_dates: u64,
    /// The longest text among accepted rows, in bytes.
    pub(crate) longest: usize,
    /// The distribution of the plain numbers if there are too many distinct values, for the median.
    /// `None` if the median is not needed.
    sketch: Option<QuantileSketch>,
}

impl ColumnStats {
    pub(crate) fn new(median: Median) -> ColumnStats {
        ColumnStats {
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            counting: true,
            sketch: (median == Median::Wanted).then(QuantileSketch::default),
            ..ColumnStats::default()
        }
    }

    /// Adds the value of one row.
    pub(crate) fn take(&mut self, location: RowLocation, text: &str, accepted: bool, listed: &[String]) {
        let known = self.distinct.get_mut(text);
        if known.is_none() && is_missing(text, listed) {
            self.missing_anywhere = true;
            if accepted {
                self.missing.get_or_insert((location, 0)).1 += 1;
            }
            return;
        }
        if accepted {
            self.longest = self.longest.max(text.len());
        }
        self.present += 1;
        let class = match known {
            Some(value) => {
                value.count += 1;
                value.class
            }
            None => self.read(location, text),
        };
        match class {
            TextClass::Number(number) => {
                if self.numbers == 0 {
                    self.first = number;
                }
                self.counting &= self.numbers == 0 || number == self.last + 1.0;
                self.last = number;
                self.numbers += 1;
                if let Some(sketch) = self.sketch.as_mut().filter(|_| self.distinct.listed().is_none()) {
                    sketch.take(number, 1);
                }
            }
            TextClass::OtherDate => self.other_dates += 1,
            TextClass::Word => {}
        }
    }

    /// Adds the statistics of the rows that follow.
    pub(crate) fn merge(&mut self, mut next: ColumnStats) {
        let (before, after) = (self.plain_bounds(), next.plain_bounds());
        self.notations.merge(std::mem::take(&mut next.notations), before, after);
        self.counting &= next.counting;
        if self.numbers > 0 && next.numbers > 0 {
            self.counting &= next.first == self.last + 1.0;
        }
        if self.numbers == 0 {
            self.first = next.first;
        }
        if next.numbers > 0 {
            self.last = next.last;
        }
        let counted = [counts(&self.distinct, &self.sketch), counts(&next.distinct, &next.sketch)];
        self.distinct.merge(std::mem::take(&mut next.distinct), self.present);
        if let Some(sketch) = self.sketch.as_mut().filter(|_| self.distinct.listed().is_none()) {
            counted.into_iter().flatten().flatten().for_each(|(number, count)| sketch.take(number, count));
            sketch.merge(next.sketch.unwrap_or_default());
        }
        self.present += next.present;
        self.numbers += next.numbers;
        self.other_dates += next.other_dates;
        (self.min, self.max) = (self.min.min(next.min), self.max.max(next.max));
        self.longest = self.longest.max(next.longest);
        self.first_word = self.first_word.take().or(next.first_word);
        self.missing_anywhere |= next.missing_anywhere;
        self.missing = match (self.missing, next.missing) {
            (Some((first, here)), Some((_, there))) => Some((first, here + there)),
            (here, there) => here.or(there),
        };
    }

    /// The bounds of the plain numbers; `None` if there are none.
    fn plain_bounds(&self) -> Option<(f64, f64)> {
        (self.numbers > 0).then_some((self.min, self.max))
    }

    /// Classifies a text that is not among the listed values, and adds it to the statistics.
    fn read(&mut self, location: RowLocation, text: &str) -> TextClass {
        let class = TextClass::of(text);
        match class {
            TextClass::Number(number) => {
                self.notations.plain(text, number);
                self.min = self.min.min(number);
                self.max = self.max.max(number);
            }
            TextClass::OtherDate | TextClass::Word => {
                self.notations.other(text, self.plain_bounds());
                self.counting = false;
                self.first_word.get_or_insert_with(|| (location, text.chars().take(60).collect()));
            }
        }
        let before = self.present - 1;
        let Some(sketch) = self.sketch.as_mut().filter(|_| self.distinct.listed().is_some()) else {
            self.distinct.insert(text, class, before);
            return class;
        };
        // This insertion ends the list of values, so their counts move to the sketch now.
        if self.distinct.is_full() || is_long(text) {
            let counted = counts(&self.distinct, &Some(QuantileSketch::default()));
            counted.into_iter().flatten().for_each(|(number, count)| sketch.take(number, count));
        }
        self.distinct.insert(text, class, before);
        class
    }

    /// The distinct values, sorted as numbers if all are numbers, otherwise as texts; `None` if
    /// there are too many.
    pub(crate) fn values(&self) -> Option<Vec<String>> {
        let mut values: Vec<String> = self.distinct.listed()?.iter().map(|(text, _)| text).collect();
        // The map is unordered, but the same input must give the same bytes.
        values.sort_unstable();
        let Some(NotationCandidate { notation, .. }) = self.notation() else { return Some(values) };
        let mut numbers: Vec<(f64, String)> =
            values.into_iter().map(|text| (notation.read(&text).unwrap_or(0.0), text)).collect();
        // A stable sort: texts of the same number ("1", "1.0") keep their order as texts.
        numbers.sort_by(|a, b| a.0.total_cmp(&b.0));
        // Of several texts of one number, keep one; the others are later found by their number.
        numbers.dedup_by(|b, a| a.0 == b.0);
        Some(numbers.into_iter().map(|(_, text)| text).collect())
    }

    /// The notation in which all values are numbers, the first of several; `None` if there is none.
    pub(crate) fn notation(&self) -> Option<NotationCandidate> {
        if self.present == 0 {
            return None;
        }
        if self.numbers == self.present {
            return Some(NotationCandidate { notation: Notation::Plain, min: self.min, max: self.max });
        }
        self.notations.remaining().first().cloned()
    }

    /// The most frequent value; of equally frequent values, the first as text.
    pub(crate) fn most_common(&self) -> Option<String> {
        let counts = self.distinct.listed()?.iter();
        counts.max_by(|a, b| a.1.count.cmp(&b.1.count).then(b.0.cmp(&a.0))).map(|(value, _)| value)
    }

    /// The median of the numbers: one of the values if they are listed, otherwise an approximation
    /// for plain numbers.
    pub(crate) fn median(&self) -> Option<String> {
        let NotationCandidate { notation, .. } = self.notation()?;
        let Some(distinct) = self.distinct.listed() else {
            return self.sketch.as_ref()?.median().map(|number| notation.write(number));
        };
        let mut counts: Vec<(f64, String, u64)> =
            distinct.iter().filter_map(|(text, value)| Some((notation.read(&text)?, text, value.count))).collect();
        counts.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut rank = counts.iter().map(|(_, _, count)| count).sum::<u64>().checked_sub(1)? / 2;
        counts.into_iter().find_map(|(_, text, count)| match rank.checked_sub(count) {
            Some(rest) => {
                rank = rest;
                None
            }
            None => Some(text),
        })
    }

    /// Whether most values occur only once.
    pub(crate) fn is_mostly_unique(&self) -> bool {
        match self.distinct.listed() {
            Some(distinct) => self.present >= 20 && distinct.len() as u64 * 2 > self.present,
            None => self.distinct.mostly_new(),
        }
    }

    /// Whether all values are distinct.
    pub(crate) fn all_differ(&self) -> bool {
        let listed = self.distinct.listed();
        listed.map_or(self.distinct.mostly_new(), |distinct| distinct.len() as u64 == self.present)
    }

    /// The most frequent values with their counts, for messages.
    pub(crate) fn shown(&self) -> String {
        const SHOWN: usize = 10;
        let Some(distinct) = self.distinct.listed() else {
            return format!("numbers from {} to {}", self.min, self.max);
        };
        let mut counts: Vec<(String, u64)> = distinct.iter().map(|(text, value)| (text, value.count)).collect();
        counts.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
        let shown = |(text, count): &(String, u64)| {
            let start = text.chars().take(40).collect::<String>();
            format!("{start:?} ({})", counted(*count, "row"))
        };
        let mut parts: Vec<String> = counts.iter().take(SHOWN).map(shown).collect();
        if counts.len() > SHOWN {
            parts.push(format!("and {} other values", counts.len() - SHOWN));
        }
        parts.join(", ")
    }
}

/// Whether the median of a column may be needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Median {
    Wanted,
    Unwanted,
}

/// The listed plain numbers with their counts; `None` if there is no sketch to add them to.
fn counts(distinct: &DistinctValues, sketch: &Option<QuantileSketch>) -> Option<Vec<(f64, u64)>> {
    sketch.as_ref()?;
    let number = |value: &DistinctValue| match value.class {
        TextClass::Number(number) => Some((number, value.count)),
        TextClass::OtherDate | TextClass::Word => None,
    };
    Some(distinct.listed()?.iter().filter_map(|(_, value)| number(value)).collect())
}

/// The coarsest grid that contains all numbers, as first value, step and number of steps; `None` if
/// the grid has more than `max_steps` steps.
pub(crate) fn grid(numbers: &[Decimal], max_steps: u32) -> Option<(Decimal, Decimal, u32)> {
    let exponent = numbers.iter().map(|number| number.exponent()).min()?;
    let units: Vec<i128> = numbers.iter().map(|number| number.units(exponent)).collect::<Option<_>>()?;
    let (min, max) = (*units.iter().min()?, *units.iter().max()?);
    let step = units.iter().try_fold(0, |gcd, value| Some(greatest_common_divisor(gcd, value.checked_sub(min)?)))?;
    if step == 0 {
        return None;
    }
    let steps = u32::try_from(max.checked_sub(min)? / step).ok().filter(|steps| *steps <= max_steps)?;
    Some((Decimal::from_units(min, exponent)?, Decimal::from_units(step, exponent)?, steps))
}

fn greatest_common_divisor(a: i128, b: i128) -> i128 {
    if b == 0 { a.abs() } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grid_is_the_coarsest_one() {
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
        taken(texts, 1)
    }

    fn taken<T: AsRef<str>>(texts: &[T], first: u64) -> ColumnStats {
        let mut stats = ColumnStats::new(Median::Wanted);
        for (row, text) in (first..).zip(texts) {
            stats.take(RowLocation { file: 0, position: FileLocation::Row(row) }, text.as_ref(), true, &[]);
        }
        stats
    }

    #[test]
    fn values_are_sorted_as_numbers_or_as_texts() {
        assert_eq!(column(&["10", "9", "9.0", "-1"]).values().unwrap(), ["-1", "9", "10"]);
        assert_eq!(column(&["b", "10", "9", "b"]).values().unwrap(), ["10", "9", "b"]);
        assert!(column(&["-0", "1", "-0.0"]).min.is_sign_positive());
        let second = RowLocation { file: 0, position: FileLocation::Row(2) };
        assert_eq!(column(&["b", "?", "NA", ""]).missing, Some((second, 3)));
    }

    #[test]
    fn medians_and_most_common_values_are_values_of_the_column() {
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
        assert!(stats.values().is_none() && stats.is_mostly_unique() && stats.notation().is_some() && !stats.counting);
        let repeated: Vec<String> = (0..4).flat_map(|_| (0..66_000).map(|n| n.to_string())).collect();
        assert!(column(&repeated).values().is_none());
    }

    /// Divides the texts at these positions, serialises the statistics of every part, and merges
    /// them in two ways: from the first to the last, and in pairs.
    fn merged<T: AsRef<str>>(texts: &[T], cuts: &[usize]) -> [ColumnStats; 2] {
        let mut parts: Vec<ColumnStats> = vec![];
        let ends = cuts.iter().copied().chain([texts.len()]);
        let mut start = 0;
        for end in ends {
            let part = taken(&texts[start..end], start as u64 + 1);
            parts.push(serde_json::from_str(&serde_json::to_string(&part).unwrap()).unwrap());
            start = end;
        }
        let mut in_order = ColumnStats::new(Median::Wanted);
        parts.iter().for_each(|part| in_order.merge(part.clone()));
        while parts.len() > 1 {
            let pair = |pair: &[ColumnStats]| {
                let mut left = pair[0].clone();
                pair.get(1).into_iter().for_each(|right| left.merge(right.clone()));
                left
            };
            parts = parts.chunks(2).map(pair).collect();
        }
        [in_order, parts.remove(0)]
    }

    fn check<T: AsRef<str>>(what: &str, texts: &[T], cuts: &[usize]) {
        // The serialised form has everything, including locations and orders.
        let shown = |stats: &ColumnStats| serde_json::to_string(stats).unwrap();
        let whole = column(texts);
        for stats in merged(texts, cuts) {
            assert!(shown(&stats) == shown(&whole), "{what} cut at {cuts:?}");
            assert_eq!(stats.median(), whole.median(), "{what}");
        }
    }

    #[test]
    fn merged_parts_equal_the_whole_column() {
        let many = |count: usize, text: &dyn Fn(usize) -> String| (0..count).map(text).collect::<Vec<String>>();
        for (what, texts) in [
            ("counting", many(60, &|n| (n + 5).to_string())),
            ("nearly counting", many(60, &|n| (n + n / 41).to_string())),
            ("money", many(60, &|n| if n % 9 == 0 { n.to_string() } else { format!("${},000", n + 1) })),
            ("commas", many(60, &|n| format!("{},{:03}", n + 1, n * 7))),
            ("commas and a point", many(60, &|n| if n == 31 { "1.5".into() } else { format!("{},5", n + 1) })),
            ("two currencies", many(60, &|n| if n == 44 { "5 €".into() } else { format!("${n},000") })),
            ("dates", many(60, &|n| format!("2024-02-{:02}", n % 28 + 1))),
            (
                "dates and a number",
                many(60, &|n| if n == 7 { "7".into() } else { format!("2024-02-{:02}", n % 28 + 1) }),
            ),
            ("other dates", many(60, &|n| format!("{}/2/2024", n % 28 + 1))),
            ("words", many(60, &|n| ["a", "NA", "b", "", "c c"][n * n % 5].to_owned())),
            ("leading zeros", many(60, &|n| format!("{n:05}"))),
            ("a number at last", many(60, &|n| if n < 59 { "x".into() } else { "1".into() })),
            ("long", many(60, &|n| if n == 33 { "y".repeat(5000) } else { n.to_string() })),
        ] {
            for cuts in [vec![], vec![0], vec![60], vec![30], vec![1, 2, 3, 59], vec![7, 7, 20, 31, 32, 33, 34, 45]] {
                check(what, &texts, &cuts);
            }
        }
    }

    #[test]
    fn merged_parts_equal_the_whole_column_with_too_many_values() {
        let many = |count: u64, text: &dyn Fn(u64) -> u64| (0..count).map(|n| text(n).to_string()).collect::<Vec<_>>();
        for (what, texts) in [
            ("all new", many(140_000, &|n| n * 7919 % 140_009)),
            ("twice each", many(180_000, &|n| n / 2)),
            ("few at first", many(200_000, &|n| if n < 66_000 { n % 10 } else { n })),
            ("as many as can be", many(140_000, &|n| n % 65_536)),
            ("one more", many(140_000, &|n| if n == 139_000 { 1 << 40 } else { n % 65_536 })),
            ("one more just in time", many(140_000, &|n| if n == 131_070 { 1 << 40 } else { n % 65_536 })),
            ("one more just too late", many(140_000, &|n| if n == 131_071 { 1 << 40 } else { n % 65_536 })),
        ] {
            for cuts in [vec![70_000], vec![10, 66_000, 131_071]] {
                check(what, &texts, &cuts);
            }
        }
        let new = |at: u64| column(&many(140_000, &|n| if n == at { 1 << 40 } else { n % 65_536 })).all_differ();
        assert!(new(131_070) && !new(131_071));
    }
}
