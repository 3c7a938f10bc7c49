//! Throttling of log lines that an attacker can cause at will, such as failed handshakes.
//!
//! At most one line is logged in ten seconds. Each line has the number of lines that were
//! suppressed before it.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Minimum time between two log lines.
const INTERVAL: Duration = Duration::from_secs(10);

/// The time of the last log line, and the number of lines suppressed since.
#[derive(Default)]
pub(crate) struct LogThrottle(Mutex<(Option<Instant>, u64)>);

impl LogThrottle {
    /// Whether a line may be logged at `now`: `Some` with the number of lines suppressed since the
    /// last one, or `None` after counting this line as suppressed.
    pub(crate) fn allow(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, suppressed) = &mut *state;
        if last.is_some_and(|last| now.saturating_duration_since(last) < INTERVAL) {
            *suppressed = suppressed.saturating_add(1);
            return None;
        }
        *last = Some(now);
        Some(std::mem::take(suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_per_interval_is_allowed_and_the_others_are_counted() {
        let (throttle, start) = (LogThrottle::default(), Instant::now());
        let at = |milliseconds| throttle.allow(start + Duration::from_millis(milliseconds));
        assert_eq!([0, 0, 9_999].map(at), [Some(0), None, None]);
        // The interval starts anew with every allowed line.
        assert_eq!([10_000, 10_001, 19_999].map(at), [Some(2), None, None]);
        assert_eq!([60_000, 70_000].map(at), [Some(2), Some(0)]);
    }
}
