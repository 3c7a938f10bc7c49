//! Selects the nearest rows from the decoded values.
//!
//! Values pass through a `CandidateFilter` in blocks and are then discarded. What remains is
//! which rows match and the k nearest. The filter is data-oblivious: no branch depends on a value.
//! So the time until the next request reveals nothing to servers, not even to a lying one.
//!
//! A row with an impossible value, which honest servers cannot send, does not match. It is no error
//! of the search: a lying server can make the costs of chosen rows impossible, and an error would
//! tell it, through what the user does next, whether one of them matches.

use crate::field::Field;
use crate::interpolate::DecodedWords;
use crate::lifted::LiftedResult;
use crate::oblivious_top_k::{OUT, ObliviousTopK, mask};
use crate::phase::{PhaseValues, ReferenceValues};
use crate::scheme::DecodeRule;
use crate::scheme::instance::SchemeInstance;
use ifonly_algebra::wipe::wipe;
use zeroize::{Zeroize, Zeroizing};

/// Number of values read at a time. It is even, so that blocks contain whole rows.
const BLOCK: usize = 1024;
/// Ranks are signed with an absolute value below 2^62. With this added, they compare as unsigned
/// numbers below `OUT`. Larger ranks are impossible values, so their order does not matter.
const BIAS: u64 = 1 << 62;

/// The matching rows by position, and the nearest of them. A smaller rank is nearer.
#[derive(Clone, Default)]
pub struct Candidates {
    /// Nearest first; entries with the rank `OUT` come last.
    nearest: Vec<(u64, usize)>,
    theta: Vec<bool>,
    count: usize,
    meaning: Meaning,
    work: u64,
    has_impossible: bool,
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
        wipe(&mut self.theta);
    }
}

impl std::fmt::Debug for Candidates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Candidates(..)")
    }
}

/// What a scheme reveals about the cost of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodedCost {
    /// The cost.
    Exactly(u64),
    /// The cost plus a mask: the cost is at most this, and at least this − (d_min − 1).
    AtMost(u64),
    /// Only the rank among all rows is known.
    Unknown,
}

impl Candidates {
    /// Reads the values of a phase and keeps the k nearest rows. `theta` are the rows that the
    /// phase before selected, if there was one.
    pub fn read(
        instance: &SchemeInstance,
        phase: usize,
        decoded: &PhaseValues,
        theta: &[bool],
        k: usize,
    ) -> Candidates {
        let mut filter = CandidateFilter::new(instance, phase, theta, decoded.reference(), k);
        filter.take_values(decoded);
        filter.finish()
    }

    /// What a decoder of a lifted gate found. The matching positions are not listed: no later phase
    /// needs them.
    pub(crate) fn of_lifted(result: &LiftedResult) -> Candidates {
        let rank = |cost: u64| cost.wrapping_add(BIAS) & OUT | OUT & mask(cost == u64::MAX);
        Candidates {
            nearest: result.nearest.iter().map(|&(cost, position)| (rank(cost), position as usize)).collect(),
            theta: vec![],
            count: result.matching_rows as usize,
            meaning: Meaning::Exact,
            work: result.work,
            has_impossible: result.impossible != u64::MAX,
        }
    }

    /// Takes out which positions match.
    pub(crate) fn take_theta(&mut self) -> Vec<bool> {
        std::mem::take(&mut self.theta)
    }

    /// The number of matching positions.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Whether a row had a value that honest servers cannot send. Such rows do not match.
    pub fn has_impossible(&self) -> bool {
        self.has_impossible
    }

    /// The k nearest rows, nearest first. Of equal rows, the lower position is first.
    pub fn nearest(&self, k: usize) -> Vec<(usize, DecodedCost)> {
        let nearest = self.nearest.iter().take(k).filter(|&&(rank, _)| rank != OUT);
        nearest.map(|&(rank, position)| (position, self.cost(rank.wrapping_sub(BIAS) as i64))).collect()
    }

    /// The number of values read and compared. It depends only on public sizes.
    pub(crate) fn work(&self) -> u64 {
        self.work
    }

    fn cost(&self, rank: i64) -> DecodedCost {
        match self.meaning {
            Meaning::Exact | Meaning::Negated => DecodedCost::Exactly(rank.unsigned_abs()),
            Meaning::Masked => DecodedCost::AtMost(rank.unsigned_abs()),
            Meaning::Relative => DecodedCost::Unknown,
        }
    }
}

/// Reads the values of a phase row by row, in time that does not depend on them.
pub(crate) struct CandidateFilter {
    decode_rule: DecodeRule,
    field: Field,
    /// The largest possible value.
    bound: u64,
    /// The largest value of a matching row, with the decode rule `Scaled`.
    most: u64,
    /// The rows that the phase before selected, with the decode rule `Selected`.
    selected: Zeroizing<Vec<bool>>,
    /// The value of a row that no share selects.
    empty: u64,
    smallest: ObliviousTopK,
    /// Answered positions read so far.
    position: usize,
    /// Rank of the last row, lowest and highest rank, with the decode rule `Difference`.
    walk: (i64, i64, i64),
    candidates: Candidates,
}

impl std::fmt::Debug for CandidateFilter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CandidateFilter(..)")
    }
}

impl CandidateFilter {
    /// A filter for one phase. `theta` are the rows that the phase before selected.
    pub(crate) fn new(
        instance: &SchemeInstance,
        phase: usize,
        theta: &[bool],
        reference: ReferenceValues,
        k: usize,
    ) -> CandidateFilter {
        let (scheme, params) = (instance.scheme(), instance.params());
        let decode_rule = scheme.phases[phase].decode_rule;
        let meaning = match decode_rule {
            DecodeRule::Gain => Meaning::Negated,
            DecodeRule::Masked => Meaning::Masked,
            DecodeRule::Zeros | DecodeRule::Difference => Meaning::Relative,
            _ => Meaning::Exact,
        };
        // Values are below 2^62, so a larger bound has no effect.
        let word = |bound: u128| u64::try_from(bound).unwrap_or(u64::MAX);
        // Allocated with the final size, because growing would leave unwiped copies.
        let matching = Vec::with_capacity(params.rows);
        let mut filter = CandidateFilter {
            decode_rule,
            field: instance.field().clone(),
            bound: word((scheme.bound)(params)),
            most: reference.most,
            selected: Zeroizing::new(if matches!(decode_rule, DecodeRule::Selected) { theta.to_vec() } else { vec![] }),
            empty: reference.empty,
            smallest: ObliviousTopK::new(k),
            position: 0,
            walk: (0, 0, 0),
            candidates: Candidates {
                nearest: vec![],
                theta: matching,
                count: 0,
                meaning,
                work: 0,
                has_impossible: false,
            },
        };
        if matches!(decode_rule, DecodeRule::Difference) {
            // Ranks are relative to the first row.
            filter.candidates.theta.push(true);
            filter.smallest.take(&[BIAS], 0);
        }
        filter
    }

    /// Reads the values of the next rows.
    pub(crate) fn take(&mut self, words: DecodedWords<'_>) {
        match words {
            DecodedWords::Narrow(words) => self.read_words(words),
            DecodedWords::Wide(words) => self.read_words(words),
        }
    }

    /// Reads all values of a phase.
    pub(crate) fn take_values(&mut self, decoded: &PhaseValues) {
        let mut words = Zeroizing::new(Vec::with_capacity(BLOCK));
        for block in decoded.values.chunks(BLOCK) {
            words.clear();
            words.extend(block.iter().map(|element| element.value()));
            self.take(DecodedWords::Wide(&words));
        }
    }

    /// The candidates.
    pub(crate) fn finish(self) -> Candidates {
        let CandidateFilter { mut candidates, smallest, .. } = self;
        let (nearest, compared) = smallest.finish();
        candidates.count = candidates.theta.iter().map(|&matches| usize::from(matches)).sum();
        candidates.work = candidates.theta.len() as u64 + compared;
        candidates.nearest = nearest;
        candidates
    }

    fn read_words<W: Copy + Into<u64>>(&mut self, words: &[W]) {
        words.chunks(BLOCK).for_each(|block| self.read_block(block));
    }

    fn read_block<W: Copy + Into<u64>>(&mut self, words: &[W]) {
        let (bound, most, empty) = (self.bound, self.most, self.empty);
        let values = words.iter().map(|&word| word.into());
        match self.decode_rule {
            DecodeRule::Cost | DecodeRule::Masked => self.read_rows(values, |_, v| Row::new(v <= bound, true, v)),
            DecodeRule::Gain => self.read_rows(values, |_, v| Row::new(v <= bound, true, v.wrapping_neg())),
            DecodeRule::Zeros => self.read_rows(values, |_, v| Row::new(true, v == 0, 0)),
            DecodeRule::Scaled => self.read_rows(values, |_, v| Row::new(v <= bound, v <= most, v)),
            DecodeRule::Selected => {
                let theta = std::mem::take(&mut self.selected);
                self.read_rows(values, |i, v| {
                    let selected = theta.get(i).copied().unwrap_or_default();
                    Row::new(selected & (v <= bound) | !selected & (v == empty), selected, v)
                });
                self.selected = theta;
            }
            DecodeRule::Gated => {
                let pairs = words.as_chunks().0.iter().map(|&[gate, cost]| (gate.into(), cost.into()));
                self.read_rows(pairs, |_, (gate, cost): (u64, u64)| {
                    Row::new((gate != 0) | (cost <= bound), gate == 0, cost)
                });
            }
            DecodeRule::Difference => {
                // d_{i+1} = d_i − (d_i − d_{i+1}). Possible ranks differ by at most half the bound.
                let (q, mut walk) = (self.field.q(), self.walk);
                self.read_rows(values, |_, v| {
                    let (rank, lowest, highest) = &mut walk;
                    // The same as `Field::signed`, without a branch.
                    let difference = v.wrapping_sub(q & mask(v > q / 2)) as i64;
                    *rank = rank.saturating_sub(difference);
                    (*lowest, *highest) = ((*lowest).min(*rank), (*highest).max(*rank));
                    Row::new(highest.abs_diff(*lowest) <= bound / 2, true, *rank as u64)
                });
                self.walk = walk;
            }
        }
    }

    /// Reads the rows of one block.
    fn read_rows<V>(&mut self, values: impl ExactSizeIterator<Item = V>, mut read: impl FnMut(usize, V) -> Row) {
        let mut ranks = Zeroizing::new([0; BLOCK]);
        let (count, first) = (values.len(), self.candidates.theta.len());
        self.candidates.theta.resize(first + count, false);
        let mut has_impossible = self.candidates.has_impossible;
        let slots = self.candidates.theta[first..].iter_mut().zip(ranks.iter_mut());
        for (offset, ((matches, rank), value)) in slots.zip(values).enumerate() {
            let row = read(self.position + offset, value);
            *matches = row.possible & row.matches;
            *rank = row.rank.wrapping_add(BIAS) & OUT | OUT & mask(!*matches);
            has_impossible |= !row.possible;
        }
        self.candidates.has_impossible = has_impossible;
        self.smallest.take(&ranks[..count], first);
        self.position += count;
    }
}

/// The meaning of a decoded value for its row.
struct Row {
    possible: bool,
    matches: bool,
    /// A signed number in two's complement.
    rank: u64,
}

impl Row {
    fn new(possible: bool, matches: bool, rank: u64) -> Row {
        Row { possible, matches, rank }
    }
}
