//! An approximate distribution of numbers in bounded memory: counts in at most 65,536 intervals.
//!
//! An interval has the doubles that agree in their leading bits. The number of these bits is the
//! largest for which there are at most 65,536 non-empty intervals. It depends on the set of numbers
//! only, not on their order. So merged sketches of parts equal the sketch of the whole column
//! exactly.

use std::collections::HashMap;

const MAX_INTERVALS: usize = 65_536;

/// Counts per interval.
#[derive(Clone, Default, serde::Serialize, serde::Deserialize)]
#[serde(from = "SerialSketch", into = "SerialSketch")]
pub(crate) struct QuantileSketch {
    /// Number of trailing bits that numbers of one interval may differ in.
    open: u32,
    intervals: HashMap<u64, Interval, ahash::RandomState>,
}

#[derive(Clone, Copy)]
struct Interval {
    count: u64,
    least: f64,
}

impl QuantileSketch {
    /// Adds a number that occurs `count` times.
    pub(crate) fn take(&mut self, number: f64, count: u64) {
        let key = ordered_bits(number) >> self.open;
        self.add(key, Interval { count, least: number });
    }

    /// Adds the counts of another sketch.
    pub(crate) fn merge(&mut self, other: QuantileSketch) {
        self.widen(other.open);
        for (key, interval) in other.intervals {
            // `self.open` may have grown in an earlier iteration.
            self.add(key >> (self.open - other.open), interval);
        }
    }

    /// The approximate median: the least number of the interval with the lower median.
    pub(crate) fn median(&self) -> Option<f64> {
        let mut intervals: Vec<&Interval> = self.intervals.values().collect();
        intervals.sort_by(|a, b| a.least.total_cmp(&b.least));
        let mut rank = intervals.iter().map(|interval| interval.count).sum::<u64>().checked_sub(1)? / 2;
        intervals.into_iter().find_map(|interval| match rank.checked_sub(interval.count) {
            Some(rest) => {
                rank = rest;
                None
            }
            None => Some(interval.least),
        })
    }

    fn add(&mut self, key: u64, interval: Interval) {
        let known = self.intervals.entry(key).or_insert(Interval { count: 0, least: interval.least });
        known.count += interval.count;
        known.least = known.least.min(interval.least);
        while self.intervals.len() > MAX_INTERVALS {
            self.widen(self.open + 1);
        }
    }

    /// Merges intervals until `open` trailing bits are ignored.
    fn widen(&mut self, open: u32) {
        if open <= self.open {
            return;
        }
        let narrower = std::mem::take(&mut self.intervals);
        let shift = open - self.open;
        self.open = open;
        for (key, interval) in narrower {
            let known = self.intervals.entry(key >> shift).or_insert(Interval { count: 0, least: interval.least });
            known.count += interval.count;
            known.least = known.least.min(interval.least);
        }
    }
}

/// Maps a number to an integer so that the order of numbers is the order of integers.
fn ordered_bits(number: f64) -> u64 {
    let bits = number.to_bits();
    if number.is_sign_negative() { !bits } else { bits | 1 << 63 }
}

/// The serialised form: interval, count and bits of the least number, in ascending order.
#[derive(serde::Serialize, serde::Deserialize)]
struct SerialSketch {
    open: u32,
    intervals: Vec<(u64, u64, u64)>,
}

impl From<QuantileSketch> for SerialSketch {
    fn from(sketch: QuantileSketch) -> SerialSketch {
        let entry = |(&key, interval): (&u64, &Interval)| (key, interval.count, interval.least.to_bits());
        let mut intervals: Vec<(u64, u64, u64)> = sketch.intervals.iter().map(entry).collect();
        intervals.sort_unstable();
        SerialSketch { open: sketch.open, intervals }
    }
}

impl From<SerialSketch> for QuantileSketch {
    fn from(serial: SerialSketch) -> QuantileSketch {
        let interval = |(key, count, least)| (key, Interval { count, least: f64::from_bits(least) });
        // Limited, because a shift by 64 bits would overflow.
        QuantileSketch { open: serial.open.min(63), intervals: serial.intervals.into_iter().map(interval).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_close_and_do_not_depend_on_order_or_parts() {
        let numbers: Vec<f64> = (0..300_000u64).map(|n| (n * 7919 % 300_007) as f64 / 7.0 - 10_000.0).collect();
        let of = |numbers: &[f64]| {
            let mut sketch = QuantileSketch::default();
            numbers.iter().for_each(|&number| sketch.take(number, 1));
            sketch
        };
        let whole = of(&numbers);
        let mut sorted = numbers.clone();
        sorted.sort_by(f64::total_cmp);
        let exact = sorted[(sorted.len() - 1) / 2];
        let median = whole.median().unwrap();
        assert!((median - exact).abs() < 30.0 && numbers.contains(&median), "{median} instead of {exact}");
        for at in [0, 1, 65_536, 100_000, 299_999] {
            let (first, second) = numbers.split_at(at);
            let (mut forward, mut backward) = (of(first), of(second));
            forward.merge(of(second));
            backward.merge(of(first));
            for merged in [forward, backward] {
                assert_eq!(serde_json::to_string(&merged).unwrap(), serde_json::to_string(&whole).unwrap(), "{at}");
            }
        }
    }
}
