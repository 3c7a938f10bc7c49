//! The common case of decoding: as many answers as it needs and none to check them by.
//!
//! Then there is nothing to correct, and every value is one linear combination of the servers'
//! symbols. Who can compute it faster than [`agree`](crate::decode::agree) on unpacked symbols, and
//! as the answers arrive, is an [`Interpolate`]; a a search uses it where it applies and falls back
//! where an answer cannot be read.

use crate::field::{Field, FieldElement};
use zeroize::Zeroize;

/// How the symbols of N servers become values: `value = constant + Σ_n w_n·A_n`, one constant per
/// symbol of a row.
#[derive(Clone, Debug)]
pub struct InterpolationPlan {
    /// F_q.
    pub field: Field,
    /// One per server.
    pub weights: Vec<FieldElement>,
    /// One per symbol of a row: what the user knows. Wiped on drop.
    pub constants: Vec<FieldElement>,
}

impl Drop for InterpolationPlan {
    fn drop(&mut self) {
        self.constants.zeroize();
    }
}

/// Values of consecutive rows, in words as wide as the field needs.
#[derive(Clone, Copy, Debug)]
pub enum DecodedWords<'a> {
    /// Below 2^32.
    Narrow(&'a [u32]),
    /// Anything.
    Wide(&'a [u64]),
}

/// Some answer is not the packed form of symbols of the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedAnswer;

/// Computes [`Interpolation`]s.
pub trait Interpolator: Sync {
    /// Gets ready for the answers of one phase, `rows` rows long.
    fn begin(&self, interpolation: InterpolationPlan, rows: usize) -> Box<dyn InterpolationStream>;
}

/// One phase's answers on their way to values.
pub trait InterpolationStream: Send {
    /// Hands the values of rows that all answers hold by now, and that were not visited before, to
    /// `visit`, in order and in runs of whole rows. `answers` are the packed answers from their
    /// beginning, one per weight and none longer than the right length; once all of them are whole,
    /// every row has been visited. Values may have been visited before an answer turns out
    /// unreadable.
    fn advance(&mut self, answers: &[&[u8]], visit: &mut dyn FnMut(DecodedWords<'_>)) -> Result<(), MalformedAnswer>;
}
