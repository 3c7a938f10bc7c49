//! One client connection and its time limits.
//!
//! - From the start of the TLS handshake to the headers of the first request: `request_seconds`,
//!   whatever the client sends in between.
//! - Between requests: `idle_seconds`.
//! - While requests are in progress: the sum of the limits of all parts of a request.
//!
//! The pool may [evict](crate::limits::eviction) a connection that waits for its client.

use crate::config::Limits;
use crate::limits::eviction::PoolEntry;
use http_body::{Body, Frame, SizeHint};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

/// The state of a client connection, shared by its requests.
#[derive(Debug)]
pub(crate) struct ClientConnection {
    address: IpAddr,
    entry: PoolEntry,
    state: watch::Sender<State>,
    closed: Notify,
}

#[derive(Clone, Copy, Debug)]
struct State {
    /// Requests whose response is not sent completely.
    requests: usize,
    /// Whether the connection had a request before.
    had_request: bool,
    /// The time of the last change.
    since: Instant,
}

impl ClientConnection {
    /// A new connection from this address.
    pub(crate) fn new(address: IpAddr, entry: PoolEntry) -> Arc<ClientConnection> {
        let state = State { requests: 0, had_request: false, since: Instant::now() };
        Arc::new(ClientConnection { address, entry, state: watch::Sender::new(state), closed: Notify::new() })
    }

    /// The address of the client, for limits per address.
    pub(crate) fn address(&self) -> IpAddr {
        self.address
    }

    /// Closes the connection.
    pub(crate) fn close(&self) {
        self.closed.notify_one();
    }

    /// Starts a request; it ends when the guard is dropped.
    pub(crate) fn request(self: &Arc<ClientConnection>) -> RequestGuard {
        self.state.send_modify(|state| {
            *state = State { requests: state.requests + 1, had_request: true, since: Instant::now() };
        });
        RequestGuard(self.clone())
    }

    /// Marks the connection as busy while the server computes for it, so that it is not evicted.
    pub(crate) fn begin_work(self: &Arc<ClientConnection>) -> BusyGuard {
        self.entry.begin_task();
        BusyGuard(self.clone())
    }

    /// Resolves when the connection must end: it was closed or evicted, or a time limit is over.
    pub(crate) async fn ended(&self, limits: &Limits) {
        tokio::select! {
            () = self.closed.notified() => {}
            () = self.entry.evicted() => {}
            () = self.timed_out(limits) => {}
        }
    }

    async fn timed_out(&self, limits: &Limits) {
        let mut changes = self.state.subscribe();
        loop {
            let State { requests, had_request, since } = *changes.borrow_and_update();
            let seconds = match (requests, had_request) {
                (0, false) => limits.request_seconds,
                (0, true) => limits.idle_seconds,
                // Messages and answers have their own limits. This limit is for other responses
                // that the client does not read, such as a manifest.
                _ => limits.upload_seconds.saturating_add(limits.queue_seconds).saturating_add(limits.answer_seconds),
            };
            tokio::select! {
                // The sender is in `self`, so this is never an error.
                _ = changes.changed() => {}
                () = tokio::time::sleep_until(since + Duration::from_secs(seconds)) => return,
            }
        }
    }
}

/// A request in progress; dropped when its response is sent.
#[derive(Debug)]
pub(crate) struct RequestGuard(Arc<ClientConnection>);

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.0.state.send_modify(|state| {
            *state = State { requests: state.requests.saturating_sub(1), since: Instant::now(), ..*state };
        });
    }
}

/// A busy connection; dropping the guard ends the work.
#[derive(Debug)]
pub(crate) struct BusyGuard(Arc<ClientConnection>);

impl Drop for BusyGuard {
    fn drop(&mut self) {
        self.0.entry.end_task();
    }
}

/// A response body that keeps its request in progress until it is dropped.
#[derive(Debug)]
pub(crate) struct TrackedBody<B> {
    body: B,
    _guard: RequestGuard,
}

impl<B> TrackedBody<B> {
    pub(crate) fn new(body: B, guard: RequestGuard) -> TrackedBody<B> {
        TrackedBody { body, _guard: guard }
    }
}

impl<B: Body + Unpin> Body for TrackedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::eviction::EvictingPool;

    const LIMITS: fn() -> Limits = || Limits { request_seconds: 10, idle_seconds: 60, ..Limits::default() };

    fn connection(pool: &Arc<EvictingPool>) -> Arc<ClientConnection> {
        let address = IpAddr::from([192, 0, 2, 1]);
        ClientConnection::new(address, pool.enter(address, 1).unwrap())
    }

    /// After how many seconds the connection ends. The paused clock jumps to the next timer.
    async fn lifetime(connection: &ClientConnection) -> u64 {
        let began = Instant::now();
        connection.ended(&LIMITS()).await;
        began.elapsed().as_secs()
    }

    #[tokio::test(start_paused = true)]
    async fn the_limits_before_the_first_request_and_between_requests_hold() {
        let pool = EvictingPool::new(9);
        assert_eq!(lifetime(&connection(&pool)).await, 10);
        let idle = connection(&pool);
        drop(idle.request());
        assert_eq!(lifetime(&idle).await, 60);
    }

    #[tokio::test(start_paused = true)]
    async fn the_idle_limit_starts_when_the_last_request_ends() {
        let pool = EvictingPool::new(9);
        let connection = connection(&pool);
        let (first, second) = (connection.request(), connection.request());
        drop(second);
        let end_request = async {
            tokio::time::sleep(Duration::from_secs(100)).await;
            drop(first);
        };
        let (time, ()) = tokio::join!(lifetime(&connection), end_request);
        assert_eq!(time, 160);
        // The client does not read the response: the limit is 30 s for the upload, 30 s in the
        // queue and 120 s for the response.
        let _unread = connection.request();
        assert_eq!(lifetime(&connection).await, 180);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_ends_when_it_is_evicted_or_closed_and_a_busy_one_is_not_evicted() {
        let pool = EvictingPool::new(1);
        let (first, second) = (connection(&pool), connection(&pool));
        assert_eq!(lifetime(&first).await, 0);
        second.close();
        assert_eq!(lifetime(&second).await, 0);
        let third = connection(&pool);
        let _busy = third.begin_work();
        assert!(pool.enter(third.address(), 1).is_none(), "a busy connection is not evicted");
    }
}
