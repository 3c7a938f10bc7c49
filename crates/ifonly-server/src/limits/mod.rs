//! Limits on load: the admission queue and the eviction of idle connections.

pub(crate) mod admission;
pub(crate) mod eviction;
