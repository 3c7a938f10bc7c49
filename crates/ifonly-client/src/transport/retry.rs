//! Asking one server, with patience: a deadline for the whole exchange, and the same bytes again
//! after a transport error.
//!
//! The policy is fixed beforehand and knows nothing of the search. A retry carries the same
//! transcript and gets the same answer, so it tells a server nothing and the user nothing more.
//! Waiting is a [`Clock`]'s matter, so sockets and browsers are asked by the same policy.

use crate::search::pacing::Clock;
use crate::transport::{
    Exchange, ManifestResponse, ResponseSink, ServerRequest, Transport, TransportError, TransportFuture,
};
use futures_util::future::{Either, select};
use std::sync::Arc;
use std::time::Duration;

/// A transport that is asked again when it fails in passing.
pub struct Retrying {
    inner: Arc<dyn Transport>,
    policy: RetryPolicy,
    clock: Arc<dyn Clock>,
}

impl Retrying {
    /// The same server, asked as `policy` says, by this clock.
    pub fn new(inner: Arc<dyn Transport>, policy: RetryPolicy, clock: Arc<dyn Clock>) -> Retrying {
        Retrying { inner, policy, clock }
    }
}

impl std::fmt::Debug for Retrying {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Patient({}, {:?})", self.inner.name(), self.policy)
    }
}

impl Exchange for Retrying {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn address(&self) -> Option<String> {
        self.inner.address()
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        self.inner.clock()
    }

    fn greet(&self) -> TransportFuture<'_, ManifestResponse> {
        Box::pin(self.policy.within(&*self.clock, async {
            let mut attempt = 1;
            loop {
                match self.inner.greet().await {
                    Err(error) if self.policy.again(attempt, &error, &*self.clock).await => attempt += 1,
                    result => return result,
                }
            }
        }))
    }

    fn send<'a>(&'a self, call: ServerRequest, response: &'a mut dyn ResponseSink) -> TransportFuture<'a, ()> {
        Box::pin(self.policy.within(&*self.clock, async move {
            let mut attempt = 1;
            loop {
                match self.inner.send(call.clone(), &mut *response).await {
                    Err(error) if self.policy.again(attempt, &error, &*self.clock).await => attempt += 1,
                    result => return result,
                }
                response.restart();
            }
        }))
    }
}

/// The runtime's clock.
#[cfg(feature = "http")]
#[derive(Clone, Copy, Debug)]
pub struct TokioClock(tokio::time::Instant);

#[cfg(feature = "http")]
impl TokioClock {
    /// One that starts now.
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
                // Nobody lives to see it.
                None => std::future::pending().await,
            }
            Ok(())
        })
    }
}

/// How patient a [`Patient`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How often the same bytes are sent at most.
    pub attempts: u32,
    /// The pause before the second attempt; it doubles with each.
    pub pause: Duration,
    /// How long one exchange may take, with all attempts and pauses.
    pub deadline: Duration,
}

impl Default for RetryPolicy {
    fn default() -> RetryPolicy {
        RetryPolicy { attempts: 3, pause: Duration::from_millis(250), deadline: Duration::from_secs(120) }
    }
}

impl RetryPolicy {
    /// Waits after a failed attempt, counted from 1, if there is to be another.
    async fn again(&self, attempt: u32, error: &TransportError, clock: &dyn Clock) -> bool {
        if attempt >= self.attempts || !error.is_transient() {
            return false;
        }
        let pause = self.pause.saturating_mul(1u32.checked_shl(attempt - 1).unwrap_or(u32::MAX));
        let asked = match error {
            TransportError::Busy { retry_after, .. } => *retry_after,
            _ => Duration::ZERO,
        };
        clock.wait_until(clock.now().saturating_add(pause.max(asked))).await.is_ok()
    }

    /// All attempts and pauses, as long as there is time.
    async fn within<T>(
        &self,
        clock: &dyn Clock,
        tries: impl Future<Output = Result<T, TransportError>>,
    ) -> Result<T, TransportError> {
        let deadline = clock.wait_until(clock.now().saturating_add(self.deadline));
        match select(std::pin::pin!(tries), deadline).await {
            Either::Left((result, _)) => result,
            Either::Right((Ok(()), _)) => Err(TransportError::UploadTimeout(self.deadline)),
            // A clock that cannot wait is no reason to give up.
            Either::Right((Err(_), tries)) => tries.await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use ifonly_core::http_api::Route;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// Fails so many times, halfway, then answers.
    struct Fails(u32, TransportError, AtomicU32);

    impl Exchange for Fails {
        fn name(&self) -> String {
            "it".into()
        }

        fn greet(&self) -> TransportFuture<'_, ManifestResponse> {
            Box::pin(async { Err(self.1.clone()) })
        }

        fn send<'a>(&'a self, _: ServerRequest, response: &'a mut dyn ResponseSink) -> TransportFuture<'a, ()> {
            response.part(b"half");
            let fails = self.2.fetch_add(1, Ordering::Relaxed) < self.0;
            Box::pin(async move {
                match fails {
                    true => return Err(self.1.clone()),
                    false => response.part(b" and half"),
                }
                Ok(())
            })
        }
    }

    async fn after(failures: u32, error: TransportError) -> (u32, Result<String, TransportError>) {
        let inner = Arc::new(Fails(failures, error, AtomicU32::new(0)));
        let mut response = vec![];
        let call = ServerRequest { route: Route::Answer, message: Bytes::new(), length: 13 };
        let retrying = Retrying::new(inner.clone(), RetryPolicy::default(), Arc::new(TokioClock::start()));
        let sent = retrying.send(call, &mut response).await;
        let text = sent.map(|()| String::from_utf8(response).unwrap());
        (inner.2.load(Ordering::Relaxed), text)
    }

    #[tokio::test(start_paused = true)]
    async fn transport_errors_are_retried_from_the_beginning_as_often_as_the_policy_says_and_others_never() {
        let broken = TransportError::Unreachable("reset".into());
        let whole = Ok("half and half".to_owned());
        assert_eq!(after(2, broken.clone()).await, (3, whole.clone()));
        assert_eq!(after(3, broken.clone()).await, (3, Err(broken)));
        let refused = TransportError::Refused { status: 400, problem: None, detail: String::new() };
        assert_eq!(after(1, refused.clone()).await, (1, Err(refused)));
    }

    #[tokio::test(start_paused = true)]
    async fn the_deadline_covers_every_wait() {
        let retry_after = Duration::from_secs(1_000_000);
        let busy = TransportError::Busy { status: 503, problem: None, detail: None, retry_after };
        assert_eq!(after(1, busy).await, (1, Err(TransportError::UploadTimeout(RetryPolicy::default().deadline))));
    }
}
