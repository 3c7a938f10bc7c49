//! One server of a sealed search: its [session], its shares at a [security level](share_protocol)
//! and its randomness.

pub(crate) mod planes;
pub(crate) mod randomness;
pub(crate) mod registers;
pub(crate) mod semi_honest;
pub(crate) mod session;
pub(crate) mod share_protocol;
pub(crate) mod zero_sharing;
