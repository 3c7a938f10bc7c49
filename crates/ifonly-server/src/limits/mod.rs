//! Limits on load: the admission queue, fair permits, the eviction of idle connections and
//! transfers, and the throttling of log lines.

pub(crate) mod admission;
pub(crate) mod descriptors;
pub(crate) mod eviction;
pub(crate) mod fair_permits;
pub(crate) mod log_throttle;
