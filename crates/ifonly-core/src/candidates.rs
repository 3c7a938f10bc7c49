//! From decoded values to the nearest rows.
//!
//! Values pass through a `Sieve`, run by run, and are forgotten; what stays is which rows qualify
//! and the k nearest. All rows are read by the same steps whatever they hold: no branch depends on
//! a value, an impossible one ends nothing, and what was found is taken back by arithmetic. So the
//! time until the next request tells servers nothing, a lying one included.

use crate::field::Field;
use crate::interpolate::DecodedWords;
use crate::oblivious_top_k::{OUT, ObliviousTopK, mask, smaller};
use crate::phase::PhaseValues;
use crate::scheme::DecodeRule;
use crate::scheme::instance::SchemeInstance;
use zeroize::{Zeroize, Zeroizing};

/// Values that are read at a time; an even number, so that runs are of whole rows.
const RUN: usize = 1024;
/// Ranks are signed and below 2^62 in size; with this added, they compare as unsigned numbers below
/// `OUT`. Larger ones are impossible, so it does not matter what becomes of them.
const BIAS: u64 = 1 << 62;

/// The rows that may be chosen, by position, and the nearest of them; a smaller rank is nearer.
#[derive(Clone, Default)]
pub struct Candidates {
    /// Nearest first; what is out comes last.
    nearest: Vec<(u64, usize)>,
    theta: Vec<bool>,
    count: usize,
    meaning: Meaning,
    work: u64,
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
        self.nearest.zeroize();
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
pub enum DecodedCost {
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
pub struct ImpossibleValue {
    /// Counted from 0.
    pub position: usize,
}

impl Candidates {
    /// Reads the values of a phase and keeps the k nearest rows. `theta` is what the phase before
    /// found, if there was one.
    pub fn read(
        instance: &SchemeInstance,
        phase: usize,
        decoded: &PhaseValues,
        theta: &[bool],
        k: usize,
    ) -> Result<Candidates, ImpossibleValue> {
        let empty = decoded.empty_row.first().map_or(0, |element| element.value());
        let mut sieve = CandidateFilter::new(instance, phase, theta, empty, k);
        sieve.take_values(decoded);
        let (candidates, fault) = sieve.finish();
        fault.map_or(Ok(candidates), Err)
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
    pub fn nearest(&self, k: usize) -> Vec<(usize, DecodedCost)> {
        let nearest = self.nearest.iter().take(k).filter(|&&(rank, _)| rank != OUT);
        nearest.map(|&(rank, position)| (position, self.price(rank.wrapping_sub(BIAS) as i64))).collect()
    }

    /// How many values were read and compared for this: a number that public sizes decide.
    pub(crate) fn work(&self) -> u64 {
        self.work
    }

    fn price(&self, rank: i64) -> DecodedCost {
        match self.meaning {
            Meaning::Exact | Meaning::Negated => DecodedCost::Exactly(rank.unsigned_abs()),
            Meaning::Masked => DecodedCost::AtMost(rank.unsigned_abs()),
            Meaning::Relative => DecodedCost::Unknown,
        }
    }
}

/// Reads the values of a phase, row after row.
pub(crate) struct CandidateFilter {
    reading: DecodeRule,
    field: Field,
    /// The largest value that honest servers can lead to.
    bound: u64,
    /// The largest value of a row that qualifies, where a scheme has such a thing.
    most: u64,
    /// What the phase before found, where that matters.
    before: Zeroizing<Vec<bool>>,
    /// The value of a row that no share selects.
    empty: u64,
    smallest: ObliviousTopK,
    /// Values read.
    position: usize,
    /// The rank of the last row, and the least and largest so far, where values are differences.
    walk: (i64, i64, i64),
    kept: Candidates,
    /// Where the first impossible value is; beyond all rows where there is none.
    fault: u64,
}

impl std::fmt::Debug for CandidateFilter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sieve(..)")
    }
}

impl CandidateFilter {
    /// For one phase: `before` is what the phase before found, `empty` the value of a row that no
    /// share selects.
    pub(crate) fn new(
        instance: &SchemeInstance,
        phase: usize,
        before: &[bool],
        empty: u64,
        k: usize,
    ) -> CandidateFilter {
        let (scheme, params) = (instance.scheme(), instance.params());
        let reading = scheme.phases[phase].decode_rule;
        let meaning = match reading {
            DecodeRule::Gain => Meaning::Negated,
            DecodeRule::Masked => Meaning::Masked,
            DecodeRule::Zeros | DecodeRule::Difference => Meaning::Relative,
            _ => Meaning::Exact,
        };
        // Values are below 2^62, so that a larger bound says nothing.
        let word = |bound: u128| u64::try_from(bound).unwrap_or(u64::MAX);
        let most = if let DecodeRule::Scaled(most) = reading { most(params) } else { 0 };
        // Room for all that is ever kept, so that nothing is left behind by growing.
        let theta = Vec::with_capacity(params.rows);
        let mut sieve = CandidateFilter {
            reading,
            field: instance.field().clone(),
            bound: word((scheme.bound)(params)),
            most: word(most),
            before: Zeroizing::new(if matches!(reading, DecodeRule::Selected) { before.to_vec() } else { vec![] }),
            empty,
            smallest: ObliviousTopK::new(k),
            position: 0,
            walk: (0, 0, 0),
            kept: Candidates { nearest: vec![], theta, count: 0, meaning, work: 0 },
            fault: OUT,
        };
        if matches!(reading, DecodeRule::Difference) {
            // Ranks are relative to the first row.
            sieve.kept.theta.push(true);
            sieve.smallest.take(&[BIAS], 0);
        }
        sieve
    }

    /// The values of the next rows.
    pub(crate) fn take(&mut self, words: DecodedWords<'_>) {
        match words {
            DecodedWords::Narrow(words) => self.put(words),
            DecodedWords::Wide(words) => self.put(words),
        }
    }

    /// All values of a phase.
    pub(crate) fn take_values(&mut self, decoded: &PhaseValues) {
        let mut words = Zeroizing::new(Vec::with_capacity(RUN));
        for run in decoded.values.chunks(RUN) {
            words.clear();
            words.extend(run.iter().map(|element| element.value()));
            self.take(DecodedWords::Wide(&words));
        }
    }

    /// What was found, and the first value that cannot be; where there is one, nothing was found.
    pub(crate) fn finish(self) -> (Candidates, Option<ImpossibleValue>) {
        let CandidateFilter { mut kept, smallest, fault, .. } = self;
        let sound = fault == OUT;
        let mut count = 0;
        for qualifies in &mut kept.theta {
            *qualifies &= sound;
            count += usize::from(*qualifies);
        }
        let (mut nearest, compared) = smallest.finish();
        nearest.iter_mut().for_each(|(rank, _)| *rank |= OUT & mask(!sound));
        kept.work = kept.theta.len() as u64 + compared;
        (kept.nearest, kept.count) = (nearest, count);
        (kept, (!sound).then_some(ImpossibleValue { position: fault as usize }))
    }

    fn put<W: Copy + Into<u64>>(&mut self, words: &[W]) {
        words.chunks(RUN).for_each(|run| self.put_run(run));
    }

    fn put_run<W: Copy + Into<u64>>(&mut self, words: &[W]) {
        let (bound, most, empty) = (self.bound, self.most, self.empty);
        let values = words.iter().map(|&word| word.into());
        match self.reading {
            DecodeRule::Cost | DecodeRule::Masked => self.each(values, |_, v| Row::sound(v <= bound, true, v)),
            DecodeRule::Gain => self.each(values, |_, v| Row::sound(v <= bound, true, v.wrapping_neg())),
            DecodeRule::Zeros => self.each(values, |_, v| Row::sound(true, v == 0, 0)),
            DecodeRule::Scaled(_) => self.each(values, |_, v| Row::sound(v <= bound, v <= most, v)),
            DecodeRule::Selected => {
                let before = std::mem::take(&mut self.before);
                self.each(values, |i, v| {
                    let selected = before.get(i).copied().unwrap_or_default();
                    Row::sound(selected & (v <= bound) | !selected & (v == empty), selected, v)
                });
                self.before = before;
            }
            DecodeRule::Gated => {
                let pairs = words.as_chunks().0.iter().map(|&[gate, cost]| (gate.into(), cost.into()));
                self.each(pairs, |_, (gate, cost): (u64, u64)| {
                    Row::sound((gate != 0) | (cost <= bound), gate == 0, cost)
                });
            }
            DecodeRule::Difference => {
                // d_{i+1} = d_i − (d_i − d_{i+1}). Honest ranks spread over at most half the bound.
                let (q, mut walk) = (self.field.q(), self.walk);
                self.each(values, |_, v| {
                    let (rank, lowest, highest) = &mut walk;
                    // As `Field::signed` has it.
                    let difference = v.wrapping_sub(q & mask(v > q / 2)) as i64;
                    *rank = rank.saturating_sub(difference);
                    (*lowest, *highest) = ((*lowest).min(*rank), (*highest).max(*rank));
                    Row::sound(highest.abs_diff(*lowest) <= bound / 2, true, *rank as u64)
                });
                self.walk = walk;
            }
        }
    }

    /// The rows of one run.
    fn each<V>(&mut self, values: impl ExactSizeIterator<Item = V>, mut read: impl FnMut(usize, V) -> Row) {
        let mut ranks = Zeroizing::new([0; RUN]);
        let (count, first) = (values.len(), self.kept.theta.len());
        self.kept.theta.resize(first + count, false);
        let mut fault = self.fault;
        let places = self.kept.theta[first..].iter_mut().zip(ranks.iter_mut());
        for (run, ((qualifies, rank), value)) in places.zip(values).enumerate() {
            let row = read(self.position + run, value);
            *qualifies = row.qualifies;
            *rank = row.rank.wrapping_add(BIAS) & OUT | OUT & mask(!row.qualifies);
            fault = smaller(fault, (self.position + run) as u64 | OUT & mask(row.sound));
        }
        self.fault = fault;
        self.smallest.take(&ranks[..count], first);
        self.position += count;
    }
}

/// What a decoded value says about its row.
struct Row {
    sound: bool,
    qualifies: bool,
    /// A signed number in two's complement.
    rank: u64,
}

impl Row {
    fn sound(sound: bool, qualifies: bool, rank: u64) -> Row {
        Row { sound, qualifies, rank }
    }
}
