//! Builds the circuit of a search: sum of the shares, count of the matching rows if there is a
//! floor, tournament, match bit, cost and one-hot bits of the winner. Every further rank repeats
//! all but the sum and the count (docs/sealed.md, section 8).

use crate::circuit::gates::{GateSize, add_counts, add_inputs, at_least, choose, none, one_hot, right_is_less};
use crate::circuit::program::{CircuitBuilder, CircuitProgram, ReadPattern, Wire, XorSum};
use crate::params::SealedParams;

/// The circuit for one set of parameters. All searches with these parameters can share it.
#[derive(Debug)]
pub struct Circuit {
    pub(crate) params: SealedParams,
    pub(crate) program: CircuitProgram,
    pub(crate) winners: Vec<Winner>,
}

/// Wires of the result of one tournament.
#[derive(Debug)]
pub(crate) struct Winner {
    /// 1 if the winner matches; in lane 0.
    pub(crate) matches: Wire,
    /// Cost of the winner, lowest bit first, in lane 0; 0 if the winner does not match.
    pub(crate) cost: Vec<Wire>,
    /// One-hot bit plane of the winner; all 0 if the winner does not match.
    pub(crate) chosen: Wire,
}

/// Exact cost of a search for each server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CircuitCost {
    /// Number of AND gates on single bits.
    pub ands: u64,
    /// Number of message rounds, including the input.
    pub rounds: u64,
    /// Bytes that one server sends to its peers in randomness mode `system`, including frame
    /// headers.
    pub bytes: u64,
    /// Bytes that one server sends to its peers in randomness mode `keys`.
    pub bytes_keyed: u64,
    /// Length of the longest message of one round in bytes.
    pub longest_round: u64,
    /// Maximum memory of a party in bytes, including unused random words. It does not include the
    /// additive shares, which the caller may drop once the party exists.
    pub memory: u64,
}

impl Circuit {
    /// Builds the circuit for these parameters.
    pub fn new(params: &SealedParams) -> Circuit {
        let size = (params.words(), params.lanes());
        let mut builder = CircuitBuilder::new(params.bits, size);
        let mut values = add_inputs(&mut builder, params.bits, size);
        let enough = (params.floor > 1).then(|| enough_matches(&mut builder, params, size, &values));
        let mut winners: Vec<Winner> = Vec::with_capacity(params.top);
        for rank in 0..params.top {
            if let Some(before) = rank.checked_sub(1) {
                // Makes the previous winner lose. Setting its highest bit is enough: this bit
                // counts violated gates, so the row no longer matches.
                let (value, chosen) = (values[params.bits - 1].all(), winners[before].chosen.all());
                let without = builder.and(size, XorSum::of([value]), XorSum::of([chosen]), XorSum::of([value, chosen]));
                values[params.bits - 1] = without;
            }
            winners.push(winner(&mut builder, params, size, &values, enough));
        }
        let mut outputs = vec![];
        for winner in &winners {
            outputs.extend([winner.matches, winner.chosen]);
            outputs.extend(&winner.cost);
        }
        Circuit { params: *params, program: builder.finish(&outputs), winners }
    }

    /// The parameters of this circuit.
    pub fn params(&self) -> &SealedParams {
        &self.params
    }

    /// The cost of a search.
    pub fn cost(&self) -> CircuitCost {
        let rounds = || self.program.rounds.iter().filter(|round| !round.ands.is_empty());
        let gates = rounds().flat_map(|round| &round.ands);
        let input = self.params.bits * self.params.words();
        let rounds_bytes: u64 = rounds().map(|round| framed(round.words())).sum();
        let unused = self.params.lead_words().max(self.params.prefetch_words());
        let memory = 2 * self.program.memory + self.zero_words().min(unused);
        CircuitCost {
            ands: gates.map(|gate| gate.words as u64 * u64::from(gate.lanes)).sum(),
            rounds: 1 + rounds().count() as u64,
            bytes: 2 * framed(input) + rounds_bytes + framed(self.zero_words()),
            bytes_keyed: framed(input) + rounds_bytes,
            longest_round: rounds().map(|round| framed(round.words())).max().unwrap_or(0).max(framed(input)),
            memory: 8 * memory as u64,
        }
    }

    /// Words of zero sharing that a search uses: one for each word of AND gates, then those of the
    /// answers.
    pub fn zero_words(&self) -> usize {
        let ands: usize = self.program.rounds.iter().map(|round| round.words()).sum();
        ands + self.params.top * self.params.answer_words()
    }
}

/// Length of a message of `words` words in bytes, including frame headers.
fn framed(words: usize) -> u64 {
    8 * (words + words.div_ceil(crate::params::FRAME_WORDS)) as u64
}

/// How a level of a tree reads the two entries of each pair, and the size of the result: pairs of
/// words, then pairs of lanes. `None` if only one entry remains.
fn pairs((words, lanes): GateSize) -> Option<([ReadPattern; 2], GateSize)> {
    match (words, lanes) {
        (1, 1) => None,
        (1, _) => Some(([ReadPattern::EvenLanes, ReadPattern::OddLanes], (1, lanes.div_ceil(2)))),
        _ => Some(([ReadPattern::Even, ReadPattern::Odd], (words.div_ceil(2), lanes))),
    }
}

/// 1 in lane 0 if at least `floor` rows match: a tree of adders over the match bits of all rows.
/// About two ANDs per row, and one for each bit but one that counts violated gates. It takes fewer
/// rounds than the tournament, which runs at the same time.
fn enough_matches(builder: &mut CircuitBuilder, params: &SealedParams, mut size: GateSize, values: &[Wire]) -> Wire {
    let mut count = vec![none(builder, size, &values[params.cost_bits..])];
    while let Some((sides, half)) = pairs(size) {
        size = half;
        let [left, right] = sides.map(|side| count.iter().map(|wire| wire.read(side)).collect::<Vec<_>>());
        count = add_counts(builder, size, &left, &right);
    }
    at_least(builder, &count, params.floor)
}

/// The tournament: a tree of pairwise minima over neighbours, first over words, then over the lanes
/// of the last word. The lower row wins ties.
fn winner(
    builder: &mut CircuitBuilder,
    params: &SealedParams,
    (mut words, mut lanes): GateSize,
    values: &[Wire],
    enough: Option<Wire>,
) -> Winner {
    let mut values = values.to_vec();
    let mut index: Vec<Wire> = vec![];
    for level in 0.. {
        let Some((sides, size)) = pairs((words, lanes)) else { break };
        (words, lanes) = size;
        let read = |wires: &[Wire], side: usize, beyond: bool| {
            let term = |wire: &Wire| crate::circuit::program::XorTerm { beyond, ..wire.read(sides[side]) };
            wires.iter().map(term).collect::<Vec<_>>()
        };
        // An unpaired entry is compared with the value 2^k − 1, and wins.
        let (left, right) = (read(&values, 0, true), read(&values, 1, true));
        let choice = right_is_less(builder, size, &left, &right, params.block(level));
        values = left.iter().zip(&right).map(|(&l, &r)| choose(builder, size, choice, l, r)).collect();
        let (left, right) = (read(&index, 0, false), read(&index, 1, false));
        index = left.iter().zip(&right).map(|(&l, &r)| choose(builder, size, choice, l, r)).collect();
        index.push(choice);
    }
    let bit = (1, 1);
    let mut matches = none(builder, bit, &values[params.cost_bits..]);
    if let Some(enough) = enough {
        let [all, enough] = [matches, enough].map(|wire| XorSum::of([wire.all()]));
        matches = builder.and(bit, all, enough, XorSum::default());
    }
    let cost = values[..params.cost_bits]
        .iter()
        .map(|value| builder.and(bit, XorSum::of([matches.all()]), XorSum::of([value.all()]), XorSum::default()))
        .collect();
    let chosen = one_hot(builder, (params.words(), params.lanes()), matches, &index);
    Winner { matches, cost, chosen }
}
