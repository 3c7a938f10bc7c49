//! Answers with a lifted gate ([`ifonly_algebra::lifted`]): one 32-bit word per row.
//!
//! The draws of a row depend on its stored number. So words are computed in stored order, tile by
//! tile, and finished words are moved to their positions:
//!
//! 1. `lookups` adds up one table entry per feature.
//! 2. `gate` turns the sum and the draws into a word; `words` does both for a tile.
//! 3. `buckets` moves words to the buckets of the row order. Each bucket is shuffled when the
//!    answer reaches it.
//!
//! `decode` is the client's side.

pub(crate) mod answer;
pub(crate) mod buckets;
pub(crate) mod decode;
pub(crate) mod gate;
pub(crate) mod lookups;
pub(crate) mod words;

pub use answer::LiftedQuery;
