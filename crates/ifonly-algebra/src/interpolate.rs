//! The interface for the common case of decoding: exactly as many answers as needed, and no
//! redundant ones.
//!
//! Then nothing can be corrected, and every value is a linear combination of one field element per
//! server. An [`Interpolator`] computes it from packed answers while they arrive, which is faster
//! than [`select_consistent`](crate::decode::select_consistent) on unpacked field elements. A
//! search uses it if it applies and falls back to `select_consistent` if an answer is malformed.
//! This module contains no implementation; see `ifonly-scan`.

use crate::field::{Field, FieldElement};
use crate::lifted::{LiftedDecoder, LiftedPlan};
use zeroize::Zeroize;

/// How the answers A_n of N servers become values: `value = constant + Σ_n w_n·A_n`, with one
/// constant per field element of a row.
#[derive(Clone, Debug)]
pub struct InterpolationPlan {
    /// F_q.
    pub field: Field,
    /// The weights w_n, one per server.
    pub weights: Vec<FieldElement>,
    /// One constant per field element of a row, known to the client only. Wiped on drop.
    pub constants: Vec<FieldElement>,
}

impl Drop for InterpolationPlan {
    fn drop(&mut self) {
        self.constants.zeroize();
    }
}

/// Values of consecutive rows, in the smallest words that hold every field element.
#[derive(Clone, Copy, Debug)]
pub enum DecodedWords<'a> {
    /// For q < 2^32.
    Narrow(&'a [u32]),
    /// For larger q.
    Wide(&'a [u64]),
}

/// An answer is not a valid packing of field elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedAnswer;

/// Computes [`InterpolationPlan`]s.
pub trait Interpolator: Sync {
    /// Starts decoding the answers of one phase, which have `rows` rows.
    fn begin(&self, plan: InterpolationPlan, rows: usize) -> Box<dyn InterpolationStream>;

    /// Starts decoding the answers of a [lifted gate](crate::lifted); `None` if this interpolator
    /// has no decoder for them.
    fn begin_lifted(&self, plan: &LiftedPlan) -> Option<Box<dyn LiftedDecoder>> {
        let _ = plan;
        None
    }
}

/// The decoder of one phase, which processes answers while they arrive.
pub trait InterpolationStream: Send {
    /// Passes the values of all rows that every answer contains, and that were not passed before,
    /// to `visit`: in order, and in runs of whole rows.
    ///
    /// `answers` are the received parts of the packed answers from their beginning, one per weight.
    /// None may be longer than a complete answer. When all answers are complete, every row has been
    /// visited. Some rows may have been visited before an answer proves to be malformed.
    fn advance(&mut self, answers: &[&[u8]], visit: &mut dyn FnMut(DecodedWords<'_>)) -> Result<(), MalformedAnswer>;
}
