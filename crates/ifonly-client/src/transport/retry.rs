//! Retries and a deadline for one server.
//!
//! After a transient error the client sends the same bytes again; the deadline covers all attempts
//! and pauses. The policy is fixed before the search and does not depend on it. A retry has the
//! same transcript and gets the same answer, so neither the server nor the client learns more from
//! it. Waiting uses a [`Clock`], so the policy is the same for sockets and browsers.

use crate::search::pacing::Clock;
use crate::transport::{
    Exchange, ManifestResponse, ResponseSink, ServerRequest, Transport, TransportError, TransportFuture,
};
use futures_util::future::{Either, select};
use std::sync::Arc;
use std::time::Duration;

/// A transport that retries after transient errors.
pub struct Retrying {
    inner: Arc<dyn Transport>,
    policy: RetryPolicy,
    clock: Arc<dyn Clock>,
}

impl Retrying {
    /// Wraps a transport in this policy.
    pub fn new(inner: Arc<dyn Transport>, policy: RetryPolicy, clock: Arc<dyn Clock>) -> Retrying {
        Retrying { inner, policy, clock }
    }
}

impl std::fmt::Debug for Retrying {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Retrying({}, {:?})", self.inner.name(), self.policy)
    }
}

impl Exchange for Retrying {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn address(&self) -> Option<String> {
        self.inner.address()
    }

    fn certificate_key(&self) -> Option<[u8; 32]> {
        self.inner.certificate_key()
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        self.inner.clock()
    }

    fn fetch_manifest(&self) -> TransportFuture<'_, ManifestResponse> {
        Box::pin(self.policy.with_deadline(&*self.clock, async {
            let mut attempt = 1;
            loop {
                match self.inner.fetch_manifest().await {
                    Err(error) if self.policy.pause_before_retry(attempt, &error, &*self.clock).await => attempt += 1,
                    result => return result,
                }
            }
        }))
    }

    fn send<'a>(&'a self, request: ServerRequest, response: &'a mut dyn ResponseSink) -> TransportFuture<'a, ()> {
        Box::pin(self.policy.with_deadline(&*self.clock, async move {
            let mut attempt = 1;
            loop {
                match self.inner.send(request.clone(), &mut *response).await {
                    Err(error) if self.policy.pause_before_retry(attempt, &error, &*self.clock).await => attempt += 1,
                    result => return result,
                }
                response.restart();
            }
        }))
    }
}

/// The clock of the Tokio runtime.
#[cfg(feature = "http")]
#[derive(Clone, Copy, Debug)]
pub struct TokioClock(tokio::time::Instant);

#[cfg(feature = "http")]
impl TokioClock {
    /// A clock that starts now.
    pub fn start() -> TokioClock {
        TokioClock(tokio::time::Instant::now())
    }
}

#[cfg(feature = "http")]
impl Clock for TokioClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    fn wait_until(&self, time: Duration) -> TransportFuture<'_, ()> {
        Box::pin(async move {
            match self.0.checked_add(time) {
                Some(then) => tokio::time::sleep_until(then).await,
                // The time is out of range, so it never comes.
                None => std::future::pending().await,
            }
            Ok(())
        })
    }
}

/// When and how often [`Retrying`] sends the same bytes again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The largest number of attempts.
    pub attempts: u32,
    /// The pause before the second attempt. It doubles with every further attempt.
    pub pause: Duration,
    /// The longest time of one exchange, including all attempts and pauses.
    pub deadline: Duration,
}

impl Default for RetryPolicy {
    fn default() -> RetryPolicy {
        RetryPolicy { attempts: 3, pause: Duration::from_millis(250), deadline: Duration::from_secs(120) }
    }
}

impl RetryPolicy {
    /// Decides after a failed attempt, counted from 1, whether to retry, and waits if so.
    async fn pause_before_retry(&self, attempt: u32, error: &TransportError, clock: &dyn Clock) -> bool {
        if attempt >= self.attempts || !error.is_transient() {
            return false;
        }
        let pause = self.pause.saturating_mul(1u32.checked_shl(attempt - 1).unwrap_or(u32::MAX));
        let retry_after = match error {
            TransportError::Busy { retry_after, .. } => *retry_after,
            _ => Duration::ZERO,
        };
        clock.wait_until(clock.now().saturating_add(pause.max(retry_after))).await.is_ok()
    }

    /// Runs all attempts and pauses until the deadline.
    async fn with_deadline<T>(
        &self,
        clock: &dyn Clock,
        attempts: impl Future<Output = Result<T, TransportError>>,
    ) -> Result<T, TransportError> {
        let deadline = clock.wait_until(clock.now().saturating_add(self.deadline));
        match select(std::pin::pin!(attempts), deadline).await {
            Either::Left((result, _)) => result,
            Either::Right((Ok(()), _)) => Err(TransportError::TimedOut(self.deadline)),
            // If the clock fails, there is no deadline.
            Either::Right((Err(_), attempts)) => attempts.await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use ifonly_core::http_api::Route;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// Fails this many times in the middle of the response, then answers.
    struct Fails(u32, TransportError, AtomicU32);

    impl Exchange for Fails {
        fn name(&self) -> String {
            "test server".into()
        }

        fn fetch_manifest(&self) -> TransportFuture<'_, ManifestResponse> {
            Box::pin(async { Err(self.1.clone()) })
        }

        fn send<'a>(&'a self, _: ServerRequest, response: &'a mut dyn ResponseSink) -> TransportFuture<'a, ()> {
            response.part(b"half");
            let fails = self.2.fetch_add(1, Ordering::Relaxed) < self.0;
            Box::pin(async move {
                if fails {
                    return Err(self.1.clone());
                } else {
                    response.part(b" and half")
                }
                Ok(())
            })
        }
    }

    async fn after(failures: u32, error: TransportError) -> (u32, Result<String, TransportError>) {
        let inner = Arc::new(Fails(failures, error, AtomicU32::new(0)));
        let mut response = vec![];
        let request = ServerRequest { route: Route::Answer, message: Bytes::new(), length: 13, credential: None };
        let retrying = Retrying::new(inner.clone(), RetryPolicy::default(), Arc::new(TokioClock::start()));
        let sent = retrying.send(request, &mut response).await;
        let text = sent.map(|()| String::from_utf8(response).unwrap());
        (inner.2.load(Ordering::Relaxed), text)
    }

    #[tokio::test(start_paused = true)]
    async fn only_transient_errors_are_retried_and_each_attempt_starts_from_the_beginning() {
        let broken = TransportError::Unreachable("reset".into());
        let complete = Ok("half and half".to_owned());
        assert_eq!(after(2, broken.clone()).await, (3, complete));
        assert_eq!(after(3, broken.clone()).await, (3, Err(broken)));
        let refused = TransportError::Refused { status: 400, problem: None, detail: String::new() };
        assert_eq!(after(1, refused.clone()).await, (1, Err(refused)));
    }

    #[tokio::test(start_paused = true)]
    async fn the_deadline_covers_every_pause() {
        let retry_after = Duration::from_secs(1_000_000);
        let busy = TransportError::Busy { status: 503, problem: None, detail: None, retry_after };
        assert_eq!(after(1, busy).await, (1, Err(TransportError::TimedOut(RetryPolicy::default().deadline))));
    }
}
