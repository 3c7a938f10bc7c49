//! Asking one server, with patience: a deadline for the whole exchange, and the same bytes again after a transport error.
//!
//! The policy is fixed beforehand and knows nothing of the search. A retry carries the same transcript and gets the same
//! answer, so it tells a server nothing and the user nothing more.

use crate::transport::{Pending, TransportError};
use std::time::Duration;

/// How patient a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// How often the same bytes are sent at most.
    pub attempts: u32,
    /// The pause before the second attempt; it doubles with each.
    pub pause: Duration,
    /// How long one exchange may take, with all attempts and pauses.
    pub deadline: Duration,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy { attempts: 3, pause: Duration::from_millis(250), deadline: Duration::from_secs(120) }
    }
}

impl Policy {
    /// Tries until there is an answer, an error that will not pass, or no time left.
    pub async fn exchange<'a, T>(&self, attempt: impl Fn() -> Pending<'a, T>) -> Result<T, TransportError> {
        let tries = async {
            let mut pause = self.pause;
            for _ in 1..self.attempts {
                match attempt().await {
                    Err(error) if error.is_transient() => {
                        let asked = match error {
                            TransportError::Busy { retry_after } => retry_after,
                            _ => Duration::ZERO,
                        };
                        tokio::time::sleep(pause.max(asked)).await;
                        pause *= 2;
                    }
                    other => return other,
                }
            }
            attempt().await
        };
        tokio::time::timeout(self.deadline, tries).await.unwrap_or(Err(TransportError::TooSlow(self.deadline)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    async fn after(failures: u32, error: TransportError, policy: Policy) -> (u32, Result<(), TransportError>) {
        let tried = AtomicU32::new(0);
        let result = policy
            .exchange(|| {
                let number = tried.fetch_add(1, Ordering::Relaxed);
                let error = error.clone();
                Box::pin(async move { if number < failures { Err(error) } else { Ok(()) } })
            })
            .await;
        (tried.load(Ordering::Relaxed), result)
    }

    #[tokio::test(start_paused = true)]
    async fn transport_errors_are_retried_as_often_as_the_policy_says_and_others_never() {
        let policy = Policy::default();
        let broken = TransportError::Unreachable("reset".into());
        assert_eq!(after(2, broken.clone(), policy).await, (3, Ok(())));
        assert_eq!(after(3, broken.clone(), policy).await, (3, Err(broken)));
        let refused = TransportError::Refused { status: 400, problem: None, detail: String::new() };
        assert_eq!(after(1, refused.clone(), policy).await, (1, Err(refused)));
    }

    #[tokio::test(start_paused = true)]
    async fn the_deadline_covers_every_wait() {
        let busy = TransportError::Busy { retry_after: Duration::from_secs(1_000_000) };
        let policy = Policy::default();
        assert_eq!(after(1, busy, policy).await, (1, Err(TransportError::TooSlow(policy.deadline))));
    }
}
