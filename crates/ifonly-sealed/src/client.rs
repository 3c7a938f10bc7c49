//! The user's ends: shares of the tables, and what three answers say.

use crate::error::SealedError;
use crate::params::{SealedParams, lane_mask};
use ifonly_algebra::random::RandomSource;

/// Three additive shares mod 2^k of a table: the first two are uniform, the third is what is left.
/// Any two are uniform.
pub fn share(bits: usize, table: &[u64], random: &mut dyn RandomSource) -> [Vec<u64>; 3] {
    let mask = lane_mask(bits.min(64) as u32);
    let mut draw = |_: &u64| random.below(1 << bits.min(63));
    let first: Vec<u64> = table.iter().map(&mut draw).collect();
    let second: Vec<u64> = table.iter().map(&mut draw).collect();
    let left = |((entry, a), b): ((&u64, &u64), &u64)| entry.wrapping_sub(*a).wrapping_sub(*b) & mask;
    let third = table.iter().zip(&first).zip(&second).map(left).collect();
    [first, second, third]
}

/// A row that was found.
#[derive(Clone, PartialEq, Eq)]
pub struct SealedResult {
    /// Its cost.
    pub cost: u64,
    /// Its record, as the servers keep it.
    pub record: Vec<u8>,
}

impl std::fmt::Debug for SealedResult {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Found(..)")
    }
}

/// What the answers of the three servers say: for each rank the row, or `None` if nobody (else)
/// qualifies.
pub fn combine(shape: &SealedParams, answers: [&[u8]; 3]) -> Result<Vec<Option<SealedResult>>, SealedError> {
    if answers.iter().any(|answer| answer.len() != shape.answer_bytes()) {
        return Err(SealedError::Answers("one has another length"));
    }
    let [first, second, third] = answers;
    let sum: Vec<u8> = first.iter().zip(second).zip(third).map(|((a, b), c)| a ^ b ^ c).collect();
    sum.chunks(8 + shape.record_bytes)
        .map(|part| {
            let (word, record) = part.split_first_chunk::<8>().ok_or(SealedError::Answers("one has another length"))?;
            let word = u64::from_le_bytes(*word);
            if word & !lane_mask(shape.cost_bits as u32 + 1) != 0 {
                return Err(SealedError::Answers("a cost has too many bits"));
            }
            if word & 1 == 1 {
                return Ok(Some(SealedResult { cost: word >> 1, record: record.to_vec() }));
            }
            // Honest servers give nothing but zeros then.
            if word != 0 || record.iter().any(|&byte| byte != 0) {
                return Err(SealedError::Answers("nobody qualifies, yet there is a record"));
            }
            Ok(None)
        })
        .collect()
}
