//! Public parameters of a sealed search. They determine the length of every message.
//!
//! A bit plane holds one bit of every row. It has `words` = ⌈rows/64⌉ words and uses `lanes` =
//! ⌈rows/words⌉ lanes of each word; lane l is the bit of weight 2^l. Row i is in word `i mod
//! words`, lane `⌊i/words⌋`, so neighbouring words hold neighbouring rows. Positions without a row
//! in the lanes in use hold the value 2^k − 1, which never matches. The other lanes are 0.

use crate::error::SealedError;
use ifonly_core::aont::MAX_RECORD;
use ifonly_core::params::Params;
use ifonly_core::scheme::sealed::{MAX_BITS, MAX_TOP, SealedScheme};

/// Maximum number of payload words in one frame: 16 KiB, the size of one TLS record.
pub const FRAME_WORDS: usize = 2048;

/// Maximum length of an encoded record.
const MOST_RECORD: usize = SealedScheme::encoded_record_length(MAX_RECORD);

/// Public parameters of a search, equal at the client and at all three servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SealedParams {
    pub(crate) rows: usize,
    pub(crate) bits: usize,
    pub(crate) cost_bits: usize,
    pub(crate) top: usize,
    pub(crate) record_bytes: usize,
    pub(crate) floor: usize,
}

impl SealedParams {
    /// Parameters for the nearest of `rows` rows. Values have `bits` bits (k): the lower
    /// `cost_bits` bits (c) are the cost, the others count violated gates. Records are empty unless
    /// [`SealedParams::record_bytes`] sets their length.
    pub fn new(rows: usize, bits: usize, cost_bits: usize) -> Result<SealedParams, SealedError> {
        check_range("the number of rows", rows, 1, Params::MAX_ROWS)?;
        check_range("the number of bits of a value", bits, 1, MAX_BITS as usize)?;
        check_range("the number of bits of a cost", cost_bits, 0, bits - 1)?;
        Ok(SealedParams { rows, bits, cost_bits, top: 1, record_bytes: 0, floor: 1 })
    }

    /// Sets how many of the nearest rows to find.
    pub fn top(self, top: usize) -> Result<SealedParams, SealedError> {
        check_range("the number of rows to find", top, 1, MAX_TOP)?;
        Ok(SealedParams { top, ..self })
    }

    /// Sets the length of a record in bytes.
    pub fn record_bytes(self, record_bytes: usize) -> Result<SealedParams, SealedError> {
        check_range("the length of a record", record_bytes, 0, MOST_RECORD)?;
        Ok(SealedParams { record_bytes, ..self })
    }

    /// Sets the floor: if fewer rows match, the search finds no row.
    pub fn floor(self, floor: usize) -> Result<SealedParams, SealedError> {
        check_range("the floor of matching rows", floor, 1, self.rows)?;
        Ok(SealedParams { floor, ..self })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of bits of a value (k).
    pub fn bits(&self) -> usize {
        self.bits
    }

    /// Number of rows to find.
    pub fn ranks(&self) -> usize {
        self.top
    }

    /// Length of one server's answer in bytes: a word and a record for each rank.
    pub fn answer_bytes(&self) -> usize {
        self.top * (8 + self.record_bytes)
    }

    /// Words of a bit plane.
    pub(crate) fn words(&self) -> usize {
        self.rows.div_ceil(64)
    }

    /// Lanes in use of each word.
    pub(crate) fn lanes(&self) -> u32 {
        self.rows.div_ceil(self.words()) as u32
    }

    /// Block size of the comparison in one level of the tournament, in bits. Within a block the
    /// comparison is a ripple; a tree joins the blocks. Long blocks need fewer ANDs, short blocks
    /// fewer rounds. The first level has half of all pairs, and its ripple overlaps with that of
    /// the sum, so it adds hardly any rounds. Later levels have fewer pairs, so rounds weigh more.
    /// Blocks shorter than three bits do not save rounds.
    pub(crate) fn block(&self, level: u32) -> usize {
        let halved = self.bits.div_ceil(1usize.checked_shl(level).unwrap_or(usize::MAX));
        halved.max(3)
    }

    /// Words of zero sharing that the answer of one rank uses.
    pub(crate) fn answer_words(&self) -> usize {
        1 + self.record_bytes.div_ceil(8)
    }

    /// Maximum number of random words that a server has drawn or received but not used. This is
    /// enough to keep a connection busy, and at most four bytes per row for large tables. The limit
    /// must be equal at all three servers, or they could wait for each other.
    pub(crate) fn lead_words(&self) -> usize {
        (self.rows / 2).clamp(2 * FRAME_WORDS, 64 * FRAME_WORDS)
    }

    /// Maximum number of random words that a server sends before a session exists: about six bytes
    /// per row, in full frames.
    pub(crate) fn prefetch_words(&self) -> usize {
        (3 * (self.rows / 4)).next_multiple_of(FRAME_WORDS)
    }
}

/// Mask of the lower `lanes` bits.
pub(crate) fn lane_mask(lanes: u32) -> u64 {
    u64::MAX.checked_shr(64 - lanes).unwrap_or(0)
}

fn check_range(what: &'static str, value: usize, least: usize, most: usize) -> Result<(), SealedError> {
    let error = SealedError::ParamOutOfRange { what, value: value as u64, least: least as u64, most: most as u64 };
    if (least..=most).contains(&value) { Ok(()) } else { Err(error) }
}
