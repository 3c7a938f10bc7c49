//! From decoded values to the nearest rows.
//!
//! Values pass through a `Sieve`, run by run, and are forgotten; what stays is which rows qualify and the k nearest.

use crate::deployment::Deployment;
use crate::field::Field;
use crate::interpolate::Words;
use crate::round::Values;
use crate::scheme::Reading;
use std::collections::BinaryHeap;
use zeroize::{Zeroize, Zeroizing};

/// Values that are widened at a time.
const RUN: usize = 1024;

/// The rows that may be chosen, by position, and the nearest of them; a smaller rank is nearer.
#[derive(Clone, Default)]
pub struct Candidates {
    /// The farthest on top.
    nearest: BinaryHeap<(i64, usize)>,
    theta: Vec<bool>,
    count: usize,
    meaning: Meaning,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Meaning {
    #[default]
    Exact,
    Negated,
    Masked,
    Relative,
}

impl Drop for Candidates {
    fn drop(&mut self) {
        std::mem::take(&mut self.nearest).into_vec().zeroize();
        self.theta.zeroize();
    }
}

impl std::fmt::Debug for Candidates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Candidates(..)")
    }
}

/// What a scheme says about the cost of the row it found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Price {
    /// This.
    Exactly(u64),
    /// At most this, and at least this less d_min − 1.
    AtMost(u64),
    /// Only its place among the others.
    Unknown,
}

/// A decoded value that no honest servers could have led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("position {position} decodes to an impossible value: a server lied or holds another database")]
pub struct Implausible {
    /// Counted from 0.
    pub position: usize,
}

impl Candidates {
    /// Reads the values of a phase and keeps the k nearest rows. `theta` is what the phase before found, if there was one.
    pub fn read(
        deployment: &Deployment,
        phase: usize,
        decoded: &Values,
        theta: &[bool],
        k: usize,
    ) -> Result<Candidates, Implausible> {
        let empty = decoded.empty_row.first().map_or(0, |symbol| symbol.value());
        let mut sieve = Sieve::new(deployment, phase, theta, empty, k);
        // An even number at a time, so that runs are of whole rows.
        let mut words = Zeroizing::new(Vec::with_capacity(RUN));
        for run in decoded.values.chunks(RUN) {
            words.clear();
            words.extend(run.iter().map(|symbol| symbol.value()));
            sieve.take(Words::Wide(&words));
        }
        sieve.finish()
    }

    /// Which positions qualify, without leaving it here.
    pub(crate) fn take_theta(&mut self) -> Vec<bool> {
        std::mem::take(&mut self.theta)
    }

    /// How many positions qualify.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// The k nearest of those that were kept, nearest first; ties go to the lower position.
    pub fn nearest(&self, k: usize) -> Vec<(usize, Price)> {
        let mut order = self.nearest.clone().into_sorted_vec();
        let nearest = order.iter().take(k).map(|&(rank, position)| (position, self.price(rank))).collect();
        order.zeroize();
        nearest
    }

    fn price(&self, rank: i64) -> Price {
        match self.meaning {
            Meaning::Exact => Price::Exactly(rank.unsigned_abs()),
            Meaning::Negated => Price::Exactly((-rank).unsigned_abs()),
            Meaning::Masked => Price::AtMost(rank.unsigned_abs()),
            Meaning::Relative => Price::Unknown,
        }
    }
}

/// Reads the values of a phase, row after row.
pub(crate) struct Sieve {
    reading: Reading,
    field: Field,
    /// The largest value that honest servers can lead to.
    bound: u64,
    /// The largest value of a row that qualifies, where a scheme has such a thing.
    most: u64,
    /// What the phase before found, where that matters.
    before: Zeroizing<Vec<bool>>,
    /// The value of a row that no share selects.
    empty: u64,
    k: usize,
    /// A row must be nearer than this to be kept.
    limit: i64,
    /// Values read.
    position: usize,
    /// The rank of the last row, and the least and largest so far, where values are differences.
    walk: (i64, i64, i64),
    kept: Candidates,
    fault: Option<Implausible>,
}

impl std::fmt::Debug for Sieve {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sieve(..)")
    }
}

impl Sieve {
    /// For one phase: `before` is what the phase before found, `empty` the value of a row that no share selects.
    pub(crate) fn new(deployment: &Deployment, phase: usize, before: &[bool], empty: u64, k: usize) -> Sieve {
        let (scheme, params) = (deployment.scheme(), deployment.params());
        let reading = scheme.phases[phase].reading;
        let meaning = match reading {
            Reading::Gain => Meaning::Negated,
            Reading::Masked => Meaning::Masked,
            Reading::Zeros | Reading::Difference => Meaning::Relative,
            _ => Meaning::Exact,
        };
        // Values are below 2^62, so that a larger bound says nothing.
        let word = |bound: u128| u64::try_from(bound).unwrap_or(u64::MAX);
        let most = if let Reading::Scaled(most) = reading { most(params) } else { 0 };
        // Room for all that is ever kept, so that nothing is left behind by growing.
        let nearest = BinaryHeap::with_capacity(k.min(params.rows) + 1);
        let theta = Vec::with_capacity(params.rows);
        let mut sieve = Sieve {
            reading,
            field: deployment.field().clone(),
            bound: word((scheme.bound)(params)),
            most: word(most),
            before: Zeroizing::new(if matches!(reading, Reading::Selected) { before.to_vec() } else { vec![] }),
            empty,
            k,
            limit: if k == 0 { i64::MIN } else { i64::MAX },
            position: 0,
            walk: (0, 0, 0),
            kept: Candidates { nearest, theta, count: 0, meaning },
            fault: None,
        };
        if matches!(reading, Reading::Difference) {
            // Ranks are relative to the first row.
            sieve.kept.theta.push(true);
            if k > 0 {
                sieve.keep(0, 0);
            }
        }
        sieve
    }

    /// The values of the next rows.
    pub(crate) fn take(&mut self, words: Words<'_>) {
        match words {
            Words::Narrow(words) => self.put(words),
            Words::Wide(words) => self.put(words),
        }
    }

    /// What was found, or the first value that cannot be.
    pub(crate) fn finish(mut self) -> Result<Candidates, Implausible> {
        self.kept.count = self.kept.theta.iter().filter(|&&qualifies| qualifies).count();
        self.fault.map_or(Ok(self.kept), Err)
    }

    fn put<W: Copy + Into<u64>>(&mut self, words: &[W]) {
        let (bound, most, empty) = (self.bound, self.most, self.empty);
        let values = words.iter().map(|&word| word.into());
        match self.reading {
            Reading::Cost | Reading::Masked => self.each(values, |_, v| (v <= bound).then_some(Some(v as i64))),
            Reading::Gain => self.each(values, |_, v| (v <= bound).then_some(Some(-(v as i64)))),
            Reading::Zeros => self.each(values, |_, v| Some((v == 0).then_some(0))),
            Reading::Scaled(_) => {
                self.each(values, |_, v| (v <= bound).then_some((v <= most).then_some(v as i64)));
            }
            Reading::Selected => {
                let before = std::mem::take(&mut self.before);
                self.each(values, |i, v| match before.get(i) {
                    Some(true) => (v <= bound).then_some(Some(v as i64)),
                    _ => (v == empty).then_some(None),
                });
                self.before = before;
            }
            Reading::Gated => {
                let pairs = words.as_chunks().0.iter().map(|&[gate, cost]| (gate.into(), cost.into()));
                self.each(pairs, |_, (gate, cost): (u64, u64)| match gate {
                    0 => (cost <= bound).then_some(Some(cost as i64)),
                    _ => Some(None),
                });
            }
            Reading::Difference => {
                // d_{i+1} = d_i − (d_i − d_{i+1}). Honest ranks spread over at most half the bound.
                let (field, mut walk) = (self.field.clone(), self.walk);
                self.each(values, |_, v| {
                    let (rank, lowest, highest) = &mut walk;
                    *rank = rank.saturating_sub(field.signed(field.symbol(v).unwrap_or_default()));
                    (*lowest, *highest) = ((*lowest).min(*rank), (*highest).max(*rank));
                    (highest.abs_diff(*lowest) <= bound / 2).then_some(Some(*rank))
                });
                self.walk = walk;
            }
        }
    }

    /// `read` gives a row's rank, none if it does not qualify, or nothing if the value cannot be.
    fn each<V>(
        &mut self,
        values: impl ExactSizeIterator<Item = V>,
        mut read: impl FnMut(usize, V) -> Option<Option<i64>>,
    ) {
        if self.fault.is_some() {
            return;
        }
        let mut theta = std::mem::take(&mut self.kept.theta);
        let first = theta.len();
        theta.resize(first + values.len(), false);
        let mut limit = self.limit;
        for (run, (qualifies, value)) in theta[first..].iter_mut().zip(values).enumerate() {
            let Some(rank) = read(self.position + run, value) else {
                self.fault = Some(Implausible { position: self.position + run });
                break;
            };
            *qualifies = rank.is_some();
            // Rows come in order, so a row of equal rank is the later one and stays out.
            if let Some(rank) = rank.filter(|&rank| rank < limit) {
                self.keep(rank, first + run);
                limit = self.limit;
            }
        }
        self.position += theta.len() - first;
        self.kept.theta = theta;
    }

    #[cold]
    fn keep(&mut self, rank: i64, place: usize) {
        self.kept.nearest.push((rank, place));
        if self.kept.nearest.len() > self.k {
            self.kept.nearest.pop();
        }
        if self.kept.nearest.len() == self.k {
            self.limit = self.kept.nearest.peek().map_or(i64::MAX, |&(rank, _)| rank);
        }
    }
}
