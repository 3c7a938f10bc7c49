//! About how numbers are spread, in bounded memory: how many lie in each of at most 65,536
//! intervals.
//!
//! The intervals are those of doubles that have their first bits in common, as many bits as the
//! intervals can be told apart with. That follows from the set of numbers alone, never from their
//! order, so parts of a column give what the whole column gives, bit by bit.

use std::collections::HashMap;

const MAX_INTERVALS: usize = 65_536;

/// Counts by interval.
#[derive(Clone, Default, serde::Serialize, serde::Deserialize)]
#[serde(from = "Sent", into = "Sent")]
pub(crate) struct QuantileSketch {
    /// How many of the last bits an interval leaves open.
    open: u32,
    intervals: HashMap<u64, Interval, ahash::RandomState>,
}

#[derive(Clone, Copy)]
struct Interval {
    count: u64,
    least: f64,
}

impl QuantileSketch {
    /// Takes a number that came so many times.
    pub(crate) fn take(&mut self, number: f64, count: u64) {
        let key = ordered(number) >> self.open;
        self.add(key, Interval { count, least: number });
    }

    /// Takes what another one has taken.
    pub(crate) fn merge(&mut self, other: QuantileSketch) {
        self.widen(other.open);
        for (key, interval) in other.intervals {
            // Adding may have opened more bits.
            self.add(key >> (self.open - other.open), interval);
        }
    }

    /// A number in the middle; of two, the smaller one.
    pub(crate) fn median(&self) -> Option<f64> {
        let mut intervals: Vec<&Interval> = self.intervals.values().collect();
        intervals.sort_by(|a, b| a.least.total_cmp(&b.least));
        let mut left = intervals.iter().map(|interval| interval.count).sum::<u64>().checked_sub(1)? / 2;
        intervals.into_iter().find_map(|interval| match left.checked_sub(interval.count) {
            Some(rest) => {
                left = rest;
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

    fn widen(&mut self, open: u32) {
        if open <= self.open {
            return;
        }
        let narrow = std::mem::take(&mut self.intervals);
        let by = open - self.open;
        self.open = open;
        for (key, interval) in narrow {
            let known = self.intervals.entry(key >> by).or_insert(Interval { count: 0, least: interval.least });
            known.count += interval.count;
            known.least = known.least.min(interval.least);
        }
    }
}

/// The bits of a number, in the order of numbers.
fn ordered(number: f64) -> u64 {
    let bits = number.to_bits();
    if number.is_sign_negative() { !bits } else { bits | 1 << 63 }
}

/// How it travels: interval, count and the bits of the least number, from the lowest up.
#[derive(serde::Serialize, serde::Deserialize)]
struct Sent {
    open: u32,
    intervals: Vec<(u64, u64, u64)>,
}

impl From<QuantileSketch> for Sent {
    fn from(spread: QuantileSketch) -> Sent {
        let sent = |(&key, interval): (&u64, &Interval)| (key, interval.count, interval.least.to_bits());
        let mut intervals: Vec<(u64, u64, u64)> = spread.intervals.iter().map(sent).collect();
        intervals.sort_unstable();
        Sent { open: spread.open, intervals }
    }
}

impl From<Sent> for QuantileSketch {
    fn from(sent: Sent) -> QuantileSketch {
        let interval = |(key, count, least)| (key, Interval { count, least: f64::from_bits(least) });
        // No number has more bits than these to leave open.
        QuantileSketch { open: sent.open.min(63), intervals: sent.intervals.into_iter().map(interval).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_near_and_do_not_depend_on_order_or_parts() {
        let numbers: Vec<f64> = (0..300_000u64).map(|n| (n * 7919 % 300_007) as f64 / 7.0 - 10_000.0).collect();
        let of = |numbers: &[f64]| {
            let mut spread = QuantileSketch::default();
            numbers.iter().for_each(|&number| spread.take(number, 1));
            spread
        };
        let whole = of(&numbers);
        let mut sorted = numbers.clone();
        sorted.sort_by(f64::total_cmp);
        let right = sorted[(sorted.len() - 1) / 2];
        let median = whole.median().unwrap();
        assert!((median - right).abs() < 30.0 && numbers.contains(&median), "{median} instead of {right}");
        for at in [0, 1, 65_536, 100_000, 299_999] {
            let (frontend, back) = numbers.split_at(at);
            let (mut ahead, mut behind) = (of(frontend), of(back));
            ahead.merge(of(back));
            behind.merge(of(frontend));
            for merged in [ahead, behind] {
                assert_eq!(serde_json::to_string(&merged).unwrap(), serde_json::to_string(&whole).unwrap(), "{at}");
            }
        }
    }
}
