//! The client's side of a lifted gate: what two words of a row mean, and the interface of decoders.
//!
//! A decoder processes the answers of both servers while they arrive. Its time must not depend on
//! what it decodes. `ifonly-core` has a plain decoder, `ifonly-scan` a faster one.

use crate::field::{Field, FieldElement};
use crate::interpolate::MalformedAnswer;
use crate::lifted::LiftedFormat;
use zeroize::Zeroize;

/// The decoded words of one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiftedValue {
    /// The difference of the gates; zero if the row matches.
    pub gate: FieldElement,
    /// The cost if the row matches, otherwise a uniform number.
    pub cost: FieldElement,
}

/// Decodes the words of both servers for one row; `None` if a word is malformed.
pub fn decode_word(format: &LiftedFormat, first: u32, second: u32) -> Option<LiftedValue> {
    let ((first_cost, first_gate), (second_cost, second_gate)) = (format.split(first)?, format.split(second)?);
    Some(decode_elements(format, [first_gate, first_cost], [second_gate, second_cost]))
}

/// The same for words that are already split into gate and cost.
pub fn decode_elements(format: &LiftedFormat, first: [FieldElement; 2], second: [FieldElement; 2]) -> LiftedValue {
    let gate = format.gate_field().sub(first[0], second[0]);
    let doubled = format.cost_field().sub(first[1], second[1]);
    LiftedValue { gate, cost: halve(format.cost_field(), doubled) }
}

/// a/2, without a branch: q is odd.
fn halve(field: &Field, a: FieldElement) -> FieldElement {
    field.reduce((a.value() >> 1) + (a.value() & 1) * field.q().div_ceil(2))
}

/// How a client reads the two answers of a search.
#[derive(Clone, Debug)]
pub struct LiftedPlan {
    /// The format of the words.
    pub format: LiftedFormat,
    /// Added to every decoded cost, in F_q; known to the client only. Wiped on drop.
    pub offset: FieldElement,
    /// The largest possible cost of a matching row.
    pub bound: u64,
    /// The number of rows in each answer.
    pub rows: usize,
    /// The number of nearest rows to find.
    pub top: usize,
}

impl Drop for LiftedPlan {
    fn drop(&mut self) {
        self.offset.zeroize();
    }
}

/// What a client learns from two complete answers. Wiped on drop.
#[derive(Clone, PartialEq, Eq, Zeroize)]
#[zeroize(drop)]
pub struct LiftedResult {
    /// Cost and position of the nearest matching rows whose cost is possible, nearest first; of
    /// equal costs the lower position is first. There are always as many entries as were asked for.
    /// Those beyond the number of such rows have the cost `u64::MAX`.
    pub nearest: Vec<(u64, u64)>,
    /// The number of matching rows whose cost is possible.
    pub matching_rows: u64,
    /// The first position of a row whose gate is open and whose cost is above the bound, which
    /// honest servers cannot send; `u64::MAX` if there is none.
    pub impossible: u64,
    /// The number of values read and compared. It depends only on the plan.
    pub work: u64,
}

// Costs and positions are as secret as the query, so they are not printed.
impl std::fmt::Debug for LiftedResult {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LiftedResult(..)")
    }
}

/// Decodes the answers of both servers while they arrive, in time that does not depend on them.
pub trait LiftedDecoder: Send {
    /// Reads the rows that both answers contain and that were not read before. `answers` are the
    /// received parts of both answers from their beginning. None may be longer than a complete
    /// answer.
    fn advance(&mut self, answers: [&[u8]; 2]) -> Result<(), MalformedAnswer>;

    /// What the rows that were read mean.
    fn finish(self: Box<Self>) -> LiftedResult;
}
