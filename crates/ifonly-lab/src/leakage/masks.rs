//! The leakage of Mask-PCR: costs plus masks that are uniform on `0..D`, with `D = d_min`.
//!
//! A tuple z of masked costs has probability `N(z) / ((n)_M·D^M)`. N(z) is the number of tuples of
//! distinct members whose class is in the window `z_i − D + 1 ..= z_i`. [`Windows`] counts them for
//! ascending z; its state is the number of members taken from each of the last D − 1 classes. The
//! leakage is `H(z) − M log D`.
//!
//! With a shuffle the user sees the multiset {z}. It is still random for given rows, so the leakage
//! is `H({z}) − E H({z} | k)`, where k are the classes of the rows. `H({z} | k)` is the entropy of
//! {z} for the population that consists of exactly these rows.

use std::collections::HashMap;

use super::classes::Classes;
use super::closed::{log2_factorial, order_entropy, tuple_entropy};
use super::multisets::{Counts, visit_multisets};
use crate::leakage::model::{RowOrder, SamplingRule};

/// The largest number of states. With more, the probability becomes NaN.
const STATE_LIMIT: usize = 20_000;

/// The exact leakage for one x.
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

/// The counts with every gap reduced to at most d_min. Masked costs of two classes can be equal
/// only if the gap is below d_min, so all larger gaps give the same entropy.
fn spaced(counts: &Counts, d_min: u32) -> Counts {
    let (mut previous, mut position) = (None, 0);
    let reduce_gap = |&(class, k): &(i64, u32)| {
        position += previous.map_or(0, |previous: i64| (class - previous).min(i64::from(d_min)));
        previous = Some(class);
        (position, k)
    };
    counts.iter().map(reduce_gap).collect()
}

/// The population that consists of exactly these rows.
pub(crate) fn population(counts: &Counts) -> Classes {
    Classes::new(counts.iter().map(|&(class, k)| (class, f64::from(k))))
}

/// `log₂` of the probability of each tuple with these counts of masked costs; NaN if there are too
/// many states.
pub(crate) fn log2_probability(classes: &Classes, z: &Counts, d_min: u32, drawing: SamplingRule) -> f64 {
    let mut windows = Windows::start(classes, d_min, drawing);
    for &(value, k) in z {
        windows = windows.add(value, k);
    }
    windows.log2_probability()
}

/// The entropy of the tuple z, and the part of it that the order carries.
fn masked_entropies(classes: &Classes, m: u32, d_min: u32, drawing: SamplingRule) -> (f64, f64) {
    if drawing == SamplingRule::WithReplacement {
        // The masked costs are independent. Each class contributes its size to the D values from
        // its cost on.
        let masked = Classes::new(
            classes.sizes.iter().flat_map(|&(class, size)| (0..i64::from(d_min)).map(move |mask| (class + mask, size))),
        );
        return (tuple_entropy(&masked, m, drawing), order_entropy(&masked, m, drawing));
    }
    let mut sums = Sums { all_orders: log2_factorial(m), ..Sums::default() };
    descend(&Windows::start(classes, d_min, drawing), i64::MIN, m, 0.0, &mut sums);
    (sums.tuple, sums.orders)
}

/// `H(record | z)` for distinct rows: the entropy of the row with the smallest masked cost.
pub(crate) fn record_bits(classes: &Classes, m: u32, d_min: u32) -> f64 {
    let start = Windows::start(classes, d_min, SamplingRule::WithoutReplacement);
    let mut sums = Sums { all_orders: log2_factorial(m), z: Some(Counts::new()), ..Sums::default() };
    descend(&start, i64::MIN, m, 0.0, &mut sums);
    sums.record
}

/// The entropy of the row with the smallest masked cost, given all masked costs.
fn record_entropy(windows: &Windows, z: &Counts) -> f64 {
    let Some(&(smallest, k)) = z.first() else { return 0.0 };
    let rest: Counts = [(smallest, k - 1)].into_iter().filter(|&(_, k)| k > 0).chain(z[1..].iter().copied()).collect();
    // For each class of the window: n_c times the number of ways to draw the other rows.
    let weight = |&(class, size): &(i64, f64)| {
        let others = Classes::new(windows.classes.sizes.iter().copied().chain([(class, -1.0)]));
        let log = log2_probability(&others, &rest, windows.d_min as u32, SamplingRule::WithoutReplacement);
        (size, size * log.exp2())
    };
    let weights: Vec<(f64, f64)> = windows.window(smallest).iter().map(weight).collect();
    let total: f64 = weights.iter().map(|&(_, weight)| weight).sum();
    let bits = |&(size, weight): &(f64, f64)| weight / total * (size * total / weight).log2();
    weights.iter().filter(|&&(_, weight)| weight > 0.0).map(bits).sum()
}

/// The number of distinct masked costs.
pub(crate) fn kinds(classes: &Classes, d_min: u32) -> f64 {
    let mut values: Vec<i64> =
        classes.sizes.iter().flat_map(|&(class, _)| (0..i64::from(d_min)).map(move |mask| class + mask)).collect();
    values.sort_unstable();
    values.dedup();
    values.len() as f64
}

#[derive(Default)]
struct Sums {
    tuple: f64,
    orders: f64,
    all_orders: f64,
    record: f64,
    /// The masked costs so far, if `record` is wanted.
    z: Option<Counts>,
}

/// Enumerates the multisets of z and adds up their entropies. `after` is the last value, `repeats`
/// the log₂ of the product of the factorials of the counts so far.
fn descend(windows: &Windows, after: i64, left: u32, repeats: f64, sums: &mut Sums) {
    if left == 0 {
        let (log_tuple, log_orders) = (windows.log2_probability(), sums.all_orders - repeats);
        let probability = (log_tuple + log_orders).exp2();
        sums.tuple -= probability * log_tuple;
        sums.orders += probability * log_orders;
        if let Some(z) = &sums.z {
            sums.record += probability * record_entropy(windows, z);
        }
        return;
    }
    let mut value = after;
    while let Some(next) = windows.next_value(value) {
        value = next;
        for k in 1..=left {
            let extended = windows.add(value, k);
            if extended.states.is_empty() {
                break;
            }
            sums.z.iter_mut().for_each(|z| z.push((value, k)));
            descend(&extended, value, left - k, repeats + log2_factorial(k), sums);
            if let Some(z) = &mut sums.z {
                z.pop();
            }
        }
    }
}

/// Counts the assignments of masked costs, in ascending order, to members of the population.
#[derive(Clone)]
struct Windows<'a> {
    classes: &'a Classes,
    d_min: i64,
    drawing: SamplingRule,
    /// The members taken from recent classes, with the probability of this state divided by
    /// `2^scale`.
    states: Vec<(Counts, f64)>,
    scale: f64,
    added: u32,
}

impl<'a> Windows<'a> {
    fn start(classes: &'a Classes, d_min: u32, drawing: SamplingRule) -> Self {
        let states = vec![(Counts::new(), 1.0)];
        Windows { classes, d_min: i64::from(d_min), drawing, states, scale: 0.0, added: 0 }
    }

    /// The classes from which a masked cost can have this value.
    fn window(&self, value: i64) -> &'a [(i64, f64)] {
        let sizes = &self.classes.sizes;
        let from = sizes.partition_point(|&(class, _)| class <= value - self.d_min);
        let to = sizes.partition_point(|&(class, _)| class <= value);
        &sizes[from..to]
    }

    /// The smallest possible masked cost above `after`.
    fn next_value(&self, after: i64) -> Option<i64> {
        let sizes = &self.classes.sizes;
        if after > i64::MIN && !self.window(after + 1).is_empty() {
            return Some(after + 1);
        }
        sizes.get(sizes.partition_point(|&(class, _)| class <= after)).map(|&(class, _)| class)
    }

    /// Adds k masked costs of this value, which is larger than all previous ones.
    fn add(&self, value: i64, k: u32) -> Self {
        let window = self.window(value);
        let mut states: Vec<(Counts, f64)> = Vec::new();
        if self.states.len() > STATE_LIMIT {
            return Windows { states: vec![(Counts::new(), f64::NAN)], added: self.added + k, ..*self };
        }
        for (taken, weight) in &self.states {
            let relevant: Counts = taken.iter().filter(|&&(class, _)| class > value - self.d_min).copied().collect();
            self.spread(window, k, relevant, *weight, &mut states);
        }
        // Equal states are merged, in sorted order, so that the sums are reproducible.
        states.sort_unstable_by(|left, right| left.0.cmp(&right.0));
        states.dedup_by(|next, merged| {
            let same = next.0 == merged.0;
            if same {
                merged.1 += next.1;
            }
            same
        });
        // Each cost selects one of the remaining members and one of D masks.
        let mut scale = self.scale;
        for j in 0..k {
            let left = match self.drawing {
                SamplingRule::WithoutReplacement => self.classes.total - f64::from(self.added + j),
                SamplingRule::WithReplacement => self.classes.total,
            };
            scale -= (left * self.d_min as f64).log2();
        }
        let peak = states.iter().map(|&(_, weight)| weight).fold(0.0, f64::max);
        if peak > 0.0 {
            states.iter_mut().for_each(|(_, weight)| *weight /= peak);
            scale += peak.log2();
        }
        Windows { states, scale, added: self.added + k, ..*self }
    }

    /// Distributes `left` costs over the classes of the window, and pushes the resulting states.
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
                // The product of the last factors is the binomial coefficient (left choose here).
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
