//! Limits on load: the admission queue, the eviction of idle connections and transfers, and the
//! throttling of log lines.

pub(crate) mod admission;
pub(crate) mod eviction;
pub(crate) mod log_throttle;
