//! One server of a sealed search: its registers, its randomness and its state machine. Only
//! semi-honest security is implemented.

pub(crate) mod planes;
pub(crate) mod registers;
pub(crate) mod semi_honest;
pub(crate) mod zero_sharing;
