//! What is public about a search, from which every length follows.
//!
//! A plane holds one bit of every row. It has `words` = ⌈rows/64⌉ words; row i stands in word `i
//! mod words`, lane `⌊i/words⌋` (lane l is the bit of weight 2^l), so that neighbouring words hold
//! neighbouring rows, and `lanes` = ⌈rows/words⌉ lanes are in use. Places without a row hold the
//! value 2^k − 1, which never qualifies; all other lanes are 0.

use crate::error::SealedError;
use ifonly_core::aont::MAX_RECORD;
use ifonly_core::params::Params;
use ifonly_core::scheme::sealed::{MOST_BITS, MOST_TOP, SealedScheme};

/// Words of payload in one frame at most: 16 KiB, as much as TLS sends in one piece.
pub const FRAME_WORDS: usize = 2048;

/// The longest record, with what sealing adds.
const MOST_RECORD: usize = SealedScheme::encoded_record_length(MAX_RECORD);

/// The public parameters of a search, the same at all three servers and the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SealedParams {
    pub(crate) rows: usize,
    pub(crate) bits: usize,
    pub(crate) cost_bits: usize,
    pub(crate) top: usize,
    pub(crate) record_bytes: usize,
}

impl SealedParams {
    /// The nearest of `rows` rows, whose values have `bits` bits (k), the lower `cost_bits` (c) of
    /// which are the cost and the others the violations. Records have no bytes until
    /// [`Shape::record_bytes`] says otherwise.
    pub fn new(rows: usize, bits: usize, cost_bits: usize) -> Result<SealedParams, SealedError> {
        within("the number of rows", rows, 1, Params::MAX_ROWS)?;
        within("the number of bits of a value", bits, 1, MOST_BITS as usize)?;
        within("the number of bits of a cost", cost_bits, 0, bits - 1)?;
        Ok(SealedParams { rows, bits, cost_bits, top: 1, record_bytes: 0 })
    }

    /// The `top` nearest rows, one after another.
    pub fn top(self, top: usize) -> Result<SealedParams, SealedError> {
        within("the number of rows to find", top, 1, MOST_TOP)?;
        Ok(SealedParams { top, ..self })
    }

    /// Records of this many bytes.
    pub fn record_bytes(self, record_bytes: usize) -> Result<SealedParams, SealedError> {
        within("the length of a record", record_bytes, 0, MOST_RECORD)?;
        Ok(SealedParams { record_bytes, ..self })
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bits of a value (k).
    pub fn bits(&self) -> usize {
        self.bits
    }

    /// How many rows are found.
    pub fn ranks(&self) -> usize {
        self.top
    }

    /// Bytes of the answer that each server gives: for each rank a word and the record.
    pub fn answer_bytes(&self) -> usize {
        self.top * (8 + self.record_bytes)
    }

    /// Words of a plane.
    pub(crate) fn words(&self) -> usize {
        self.rows.div_ceil(64)
    }

    /// Lanes of a word that are in use.
    pub(crate) fn lanes(&self) -> u32 {
        self.rows.div_ceil(self.words()) as u32
    }

    /// Bits that are compared by ripple in a level of the tournament; the blocks of so many bits
    /// are joined by a tree. Long blocks take few ANDs, short ones few rounds. The first level has
    /// half of all pairs, and its ripple runs along with that of the sum, so it costs hardly a
    /// round; from level to level pairs are fewer and rounds weigh more. Blocks of three take about
    /// as many rounds as shorter ones.
    pub(crate) fn block(&self, level: u32) -> usize {
        let halved = self.bits.div_ceil(1usize.checked_shl(level).unwrap_or(usize::MAX));
        halved.max(3)
    }

    /// Words of a zero-sharing that the answer of one rank takes.
    pub(crate) fn answer_words(&self) -> usize {
        1 + self.record_bytes.div_ceil(8)
    }

    /// How many random words a server may be ahead of their use in a search: enough to keep a line
    /// busy, at most four bytes a row where rows are many. The same at all three, or they might
    /// wait for each other.
    pub(crate) fn lead_words(&self) -> usize {
        (self.rows / 2).clamp(2 * FRAME_WORDS, 64 * FRAME_WORDS)
    }

    /// How many random words a server sends before there is a search: about six bytes a row, in
    /// whole frames.
    pub(crate) fn words_before(&self) -> usize {
        (3 * (self.rows / 4)).next_multiple_of(FRAME_WORDS)
    }
}

/// The lower `lanes` bits.
pub(crate) fn lane_mask(lanes: u32) -> u64 {
    u64::MAX.checked_shr(64 - lanes).unwrap_or(0)
}

fn within(what: &'static str, value: usize, least: usize, most: usize) -> Result<(), SealedError> {
    let refused = SealedError::Shape { what, value: value as u64, least: least as u64, most: most as u64 };
    if (least..=most).contains(&value) { Ok(()) } else { Err(refused) }
}
