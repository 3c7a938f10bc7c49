//! The search as a program: sum of the shares, tournament, who qualifies, one-hot bits of the
//! winner, its cost; again for every further rank.

use crate::circuit::gates::{GateSize, add_inputs, choose, none, one_hot, right_is_less};
use crate::circuit::program::{CircuitBuilder, CircuitProgram, ReadPattern, Wire, XorSum};
use crate::params::SealedParams;

/// A program, made once for all searches of a shape.
#[derive(Debug)]
pub struct Circuit {
    pub(crate) shape: SealedParams,
    pub(crate) gates: CircuitProgram,
    pub(crate) winners: Vec<Winner>,
}

/// What is known about the winner of one tournament.
#[derive(Debug)]
pub(crate) struct Winner {
    /// Whether it qualifies, in lane 0.
    pub(crate) qualifies: Wire,
    /// Its cost, lowest bit first, in lane 0; 0 if it does not qualify.
    pub(crate) cost: Vec<Wire>,
    /// A plane with a 1 in its row, or none if it does not qualify.
    pub(crate) chosen: Wire,
}

/// What a search costs each server, exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CircuitCost {
    /// ANDs of single bits.
    pub ands: u64,
    /// Rounds of messages, the input included.
    pub rounds: u64,
    /// Bytes that one server sends to its peers with random bits from the operating system, frames
    /// included.
    pub bytes: u64,
    /// The same with random bits from keys.
    pub bytes_keyed: u64,
    /// Bytes of the longest message of one round.
    pub longest_round: u64,
    /// Bytes of memory that a party takes at most, random bits that are ahead of their use
    /// included. The shares that it is made from are the caller's, who may forget them then.
    pub memory: u64,
}

impl Circuit {
    /// The program for this shape.
    pub fn new(shape: &SealedParams) -> Circuit {
        let size = (shape.words(), shape.lanes());
        let mut builder = CircuitBuilder::new(shape.bits, size);
        let mut values = add_inputs(&mut builder, shape.bits, size);
        let mut winners: Vec<Winner> = Vec::with_capacity(shape.top);
        for rank in 0..shape.top {
            if let Some(before) = rank.checked_sub(1) {
                // The winner before loses from now on. Its highest bit, one of the violations, is
                // enough: a row that does not qualify is found by nobody, whichever it is.
                let (value, chosen) = (values[shape.bits - 1].all(), winners[before].chosen.all());
                let without = builder.and(size, XorSum::of([value]), XorSum::of([chosen]), XorSum::of([value, chosen]));
                values[shape.bits - 1] = without;
            }
            winners.push(winner(&mut builder, shape, size, &values));
        }
        let mut kept = vec![];
        for winner in &winners {
            kept.extend([winner.qualifies, winner.chosen]);
            kept.extend(&winner.cost);
        }
        Circuit { shape: *shape, gates: builder.finish(&kept), winners }
    }

    /// The shape that it is for.
    pub fn shape(&self) -> &SealedParams {
        &self.shape
    }

    /// What a search costs.
    pub fn cost(&self) -> CircuitCost {
        let rounds = || self.gates.stages.iter().filter(|stage| !stage.ands.is_empty());
        let gates = rounds().flat_map(|stage| &stage.ands);
        let input = self.shape.bits * self.shape.words();
        let rounds_bytes: u64 = rounds().map(|stage| framed(stage.words())).sum();
        let ahead = self.shape.lead_words().max(self.shape.words_before());
        let memory = 2 * self.gates.memory + self.zero_words().min(ahead);
        CircuitCost {
            ands: gates.map(|gate| gate.words as u64 * u64::from(gate.lanes)).sum(),
            rounds: 1 + rounds().count() as u64,
            bytes: 2 * framed(input) + rounds_bytes + framed(self.zero_words()),
            bytes_keyed: framed(input) + rounds_bytes,
            longest_round: rounds().map(|stage| framed(stage.words())).max().unwrap_or(0).max(framed(input)),
            memory: 8 * memory as u64,
        }
    }

    /// Words of zero-sharings that a search takes: one for each word of ANDs, then those of the
    /// answers.
    pub fn zero_words(&self) -> usize {
        let ands: usize = self.gates.stages.iter().map(|stage| stage.words()).sum();
        ands + self.shape.top * self.shape.answer_words()
    }
}

/// Bytes of a message of some words in frames.
fn framed(words: usize) -> u64 {
    8 * (words + words.div_ceil(crate::params::FRAME_WORDS)) as u64
}

/// The tournament: neighbours meet, the lower row wins ties, words first and then the lanes of the
/// last word.
fn winner(
    builder: &mut CircuitBuilder,
    shape: &SealedParams,
    (mut words, mut lanes): GateSize,
    values: &[Wire],
) -> Winner {
    let mut values = values.to_vec();
    let mut index: Vec<Wire> = vec![];
    for level in 0.. {
        let sides = match (words, lanes) {
            (1, 1) => break,
            (1, _) => [ReadPattern::EvenLanes, ReadPattern::OddLanes],
            _ => [ReadPattern::Even, ReadPattern::Odd],
        };
        (words, lanes) = if words > 1 { (words.div_ceil(2), lanes) } else { (1, lanes.div_ceil(2)) };
        let size = (words, lanes);
        let read = |wires: &[Wire], side: usize, beyond: bool| {
            let term = |wire: &Wire| crate::circuit::program::XorTerm { beyond, ..wire.read(sides[side]) };
            wires.iter().map(term).collect::<Vec<_>>()
        };
        // Who has no neighbour meets the value 2^k − 1, and wins.
        let (left, right) = (read(&values, 0, true), read(&values, 1, true));
        let choice = right_is_less(builder, size, &left, &right, shape.block(level));
        values = left.iter().zip(&right).map(|(&l, &r)| choose(builder, size, choice, l, r)).collect();
        let (left, right) = (read(&index, 0, false), read(&index, 1, false));
        index = left.iter().zip(&right).map(|(&l, &r)| choose(builder, size, choice, l, r)).collect();
        index.push(choice);
    }
    let bit = (1, 1);
    let qualifies = none(builder, bit, &values[shape.cost_bits..]);
    let cost = values[..shape.cost_bits]
        .iter()
        .map(|value| builder.and(bit, XorSum::of([qualifies.all()]), XorSum::of([value.all()]), XorSum::default()))
        .collect();
    let chosen = one_hot(builder, (shape.words(), shape.lanes()), qualifies, &index);
    Winner { qualifies, cost, chosen }
}
