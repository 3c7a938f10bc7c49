//! Client side of a sealed search: additive shares of the table, and decoding of the three answers.

use crate::error::SealedError;
use crate::params::{SealedParams, lane_mask};
use ifonly_algebra::random::RandomSource;

/// Splits a table into three additive shares mod 2^k. The first two are uniform, and the third is
/// the table minus both. Any two shares are uniform.
pub fn share(bits: usize, table: &[u64], random: &mut dyn RandomSource) -> [Vec<u64>; 3] {
    let mask = lane_mask(bits.min(64) as u32);
    let mut draw = |_: &u64| random.below(1 << bits.min(63));
    let first: Vec<u64> = table.iter().map(&mut draw).collect();
    let second: Vec<u64> = table.iter().map(&mut draw).collect();
    let rest = |((entry, a), b): ((&u64, &u64), &u64)| entry.wrapping_sub(*a).wrapping_sub(*b) & mask;
    let third = table.iter().zip(&first).zip(&second).map(rest).collect();
    [first, second, third]
}

/// A row that the search found.
#[derive(Clone, PartialEq, Eq)]
pub struct SealedResult {
    /// Cost of the row.
    pub cost: u64,
    /// Encoded record (all-or-nothing transform), as the servers store it.
    pub record: Vec<u8>,
}

impl std::fmt::Debug for SealedResult {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SealedResult(..)")
    }
}

/// Decodes the answers of the three servers: for each rank the row, or `None` if no further row
/// matches. Answers of honest servers XOR to zero in this case. If a server falsified such a rank,
/// it becomes a row whose record cannot be opened: an error would tell the server that no row
/// matches.
pub fn combine(params: &SealedParams, answers: [&[u8]; 3]) -> Result<Vec<Option<SealedResult>>, SealedError> {
    if answers.iter().any(|answer| answer.len() != params.answer_bytes()) {
        return Err(SealedError::Answers("an answer has the wrong length"));
    }
    let [first, second, third] = answers;
    let sum: Vec<u8> = first.iter().zip(second).zip(third).map(|((a, b), c)| a ^ b ^ c).collect();
    sum.chunks(8 + params.record_bytes)
        .map(|part| {
            let (word, record) =
                part.split_first_chunk::<8>().ok_or(SealedError::Answers("an answer has the wrong length"))?;
            let word = u64::from_le_bytes(*word);
            if word & !lane_mask(params.cost_bits as u32 + 1) != 0 {
                return Err(SealedError::Answers("a cost has too many bits"));
            }
            let is_zero = word == 0 && record.iter().all(|&byte| byte == 0);
            Ok((!is_zero).then(|| SealedResult { cost: word >> 1, record: record.to_vec() }))
        })
        .collect()
}
