//! One server of a sealed search: its registers, its randomness and its protocol steps.

pub(crate) mod planes;
pub(crate) mod registers;
pub(crate) mod semi_honest;
pub(crate) mod zero_sharing;
