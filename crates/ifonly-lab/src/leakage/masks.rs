//! What Mask-PCR leaks: costs plus masks that are uniform on `0..D`, `D = d_min`.
//!
//! A tuple z of masked costs has probability `N(z) / ((n)_M·D^M)`, where N(z) counts the tuples of
//! distinct members whose class lies in the window `z_i − D + 1 ..= z_i`. [`Windows`] counts them
//! for ascending z, remembering only how many members of the last D − 1 classes are taken. The
//! leakage is `H(z) − M log D`.
//!
//! Under a shuffle the user sees the multiset of z; given the rows it still varies, so the leakage
//! is `H({z}) − E H({z} | k)`, and the second is the first for the population that consists of the
//! k rows themselves.

use std::collections::HashMap;

use super::classes::Classes;
use super::closed::{log2_factorial, order_entropy, tuple_entropy};
use super::multisets::{Counts, visit_multisets};
use crate::leakage::model::{RowOrder, SamplingRule};

/// More states than this are not followed: the probability is then not a number.
const STATES: usize = 20_000;

/// The leakage for one x, exactly.
pub(crate) fn leakage(classes: &Classes, m: u32, d_min: u32, drawing: SamplingRule, order: RowOrder) -> f64 {
    let (tuple, orders) = masked_entropies(classes, m, d_min, drawing);
    match order {
        RowOrder::Fixed => tuple - f64::from(m) * f64::from(d_min).log2(),
        RowOrder::Shuffled => {
            let mut known: HashMap<Counts, f64> = HashMap::new();
            let mut remaining = 0.0;
            visit_multisets(classes, m, drawing, &mut |counts, probability| {
                let spaced = spaced(counts, d_min);
                let entropy = *known.entry(spaced).or_insert_with_key(|counts| {
                    let (tuple, orders) =
                        masked_entropies(&population(counts), m, d_min, SamplingRule::WithoutReplacement);
                    tuple - orders
                });
                remaining += probability * entropy;
            });
            tuple - orders - remaining
        }
    }
}

/// The same counts moved together: only gaps below d_min let masked costs meet, so larger ones are
/// alike.
fn spaced(counts: &Counts, d_min: u32) -> Counts {
    let (mut before, mut place) = (None, 0);
    let move_up = |&(class, k): &(i64, u32)| {
        place += before.map_or(0, |before: i64| (class - before).min(i64::from(d_min)));
        before = Some(class);
        (place, k)
    };
    counts.iter().map(move_up).collect()
}

/// The population that consists of the rows themselves.
pub(crate) fn population(counts: &Counts) -> Classes {
    Classes::new(counts.iter().map(|&(class, k)| (class, f64::from(k))))
}

/// `log₂` of the probability of one tuple with these counts of masked costs; not a number if that
/// is too much work.
pub(crate) fn log2_probability(classes: &Classes, z: &Counts, d_min: u32, drawing: SamplingRule) -> f64 {
    let mut windows = Windows::start(classes, d_min, drawing);
    for &(value, k) in z {
        windows = windows.place(value, k);
    }
    windows.log2_probability()
}

/// The entropy of the tuple z, and the part of it that is the order.
fn masked_entropies(classes: &Classes, m: u32, d_min: u32, drawing: SamplingRule) -> (f64, f64) {
    if drawing == SamplingRule::WithReplacement {
        // The masked costs are independent: their classes are the costs' smeared by the mask.
        let smeared = Classes::new(
            classes.sizes.iter().flat_map(|&(class, size)| (0..i64::from(d_min)).map(move |mask| (class + mask, size))),
        );
        return (tuple_entropy(&smeared, m, drawing), order_entropy(&smeared, m, drawing));
    }
    let mut sums = Sums { tuple: 0.0, orders: 0.0, all_orders: log2_factorial(m) };
    descend(&Windows::start(classes, d_min, drawing), i64::MIN, m, 0.0, &mut sums);
    (sums.tuple, sums.orders)
}

/// The number of multisets of masked costs is that of this many kinds.
pub(crate) fn kinds(classes: &Classes, d_min: u32) -> f64 {
    let mut values: Vec<i64> =
        classes.sizes.iter().flat_map(|&(class, _)| (0..i64::from(d_min)).map(move |mask| class + mask)).collect();
    values.sort_unstable();
    values.dedup();
    values.len() as f64
}

struct Sums {
    tuple: f64,
    orders: f64,
    all_orders: f64,
}

/// Visits the multisets of z: `after` is the last value used, `repeats` the log of the factorials
/// of the counts so far.
fn descend(windows: &Windows, after: i64, left: u32, repeats: f64, sums: &mut Sums) {
    if left == 0 {
        let (log_tuple, log_orders) = (windows.log2_probability(), sums.all_orders - repeats);
        let probability = (log_tuple + log_orders).exp2();
        sums.tuple -= probability * log_tuple;
        sums.orders += probability * log_orders;
        return;
    }
    let mut value = after;
    while let Some(next) = windows.next_value(value) {
        value = next;
        for k in 1..=left {
            let placed = windows.place(value, k);
            if placed.states.is_empty() {
                break;
            }
            descend(&placed, value, left - k, repeats + log2_factorial(k), sums);
        }
    }
}

/// Counts placements of masked costs, in ascending order, on members of the population.
#[derive(Clone)]
struct Windows<'a> {
    classes: &'a Classes,
    d_min: i64,
    drawing: SamplingRule,
    /// Members taken in recent classes, with the probability of having got there, up to the factor
    /// `2^scale`.
    states: Vec<(Counts, f64)>,
    scale: f64,
    placed: u32,
}

impl<'a> Windows<'a> {
    fn start(classes: &'a Classes, d_min: u32, drawing: SamplingRule) -> Self {
        let states = vec![(Counts::new(), 1.0)];
        Windows { classes, d_min: i64::from(d_min), drawing, states, scale: 0.0, placed: 0 }
    }

    /// The classes that a masked cost of this value can come from.
    fn window(&self, value: i64) -> &'a [(i64, f64)] {
        let sizes = &self.classes.sizes;
        let from = sizes.partition_point(|&(class, _)| class <= value - self.d_min);
        let to = sizes.partition_point(|&(class, _)| class <= value);
        &sizes[from..to]
    }

    /// The smallest masked cost above this one.
    fn next_value(&self, after: i64) -> Option<i64> {
        let sizes = &self.classes.sizes;
        if after > i64::MIN && !self.window(after + 1).is_empty() {
            return Some(after + 1);
        }
        sizes.get(sizes.partition_point(|&(class, _)| class <= after)).map(|&(class, _)| class)
    }

    /// Places k masked costs of this value, larger than all before.
    fn place(&self, value: i64, k: u32) -> Self {
        let window = self.window(value);
        let mut states: Vec<(Counts, f64)> = Vec::new();
        if self.states.len() > STATES {
            return Windows { states: vec![(Counts::new(), f64::NAN)], placed: self.placed + k, ..*self };
        }
        for (taken, weight) in &self.states {
            let relevant: Counts = taken.iter().filter(|&&(class, _)| class > value - self.d_min).copied().collect();
            self.spread(window, k, relevant, *weight, &mut states);
        }
        // Ways that lead to the same state are one; in sorted order, so that sums do not depend on
        // anything else.
        states.sort_unstable_by(|left, right| left.0.cmp(&right.0));
        states.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 += next.1;
            }
            same
        });
        // Each placement draws from the members that are left, behind one of D masks.
        let mut scale = self.scale;
        for j in 0..k {
            let left = match self.drawing {
                SamplingRule::WithoutReplacement => self.classes.total - f64::from(self.placed + j),
                SamplingRule::WithReplacement => self.classes.total,
            };
            scale -= (left * self.d_min as f64).log2();
        }
        let peak = states.iter().map(|&(_, weight)| weight).fold(0.0, f64::max);
        if peak > 0.0 {
            states.iter_mut().for_each(|(_, weight)| *weight /= peak);
            scale += peak.log2();
        }
        Windows { states, scale, placed: self.placed + k, ..*self }
    }

    /// Distributes `left` costs over the window's classes, into states.
    fn spread(&self, window: &[(i64, f64)], left: u32, taken: Counts, weight: f64, states: &mut Vec<(Counts, f64)>) {
        let Some((&(class, size), rest)) = window.split_first() else {
            if left == 0 {
                states.push((taken, weight));
            }
            return;
        };
        let position = taken.binary_search_by_key(&class, |&(c, _)| c);
        let before = position.map_or(0, |i| taken[i].1);
        let mut weight = weight;
        for here in 0..=left {
            if here > 0 {
                let members = match self.drawing {
                    SamplingRule::WithoutReplacement => size - f64::from(before + here - 1),
                    SamplingRule::WithReplacement => size,
                };
                if members <= 0.0 {
                    break;
                }
                // Which of the costs go here: the binomial (left choose here), one factor at a
                // time.
                weight *= members * f64::from(left - here + 1) / f64::from(here);
            }
            let mut next = taken.clone();
            if here > 0 && self.drawing == SamplingRule::WithoutReplacement {
                match position {
                    Ok(i) => next[i].1 += here,
                    Err(i) => next.insert(i, (class, here)),
                }
            }
            self.spread(rest, left - here, next, weight, states);
        }
    }

    fn log2_probability(&self) -> f64 {
        self.states.iter().map(|&(_, weight)| weight).sum::<f64>().log2() + self.scale
    }
}
