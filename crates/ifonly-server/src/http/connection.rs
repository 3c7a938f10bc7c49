//! One connection: what it waits for, and when it has waited long enough.
//!
//! From the first byte of the handshake to the headers of the first request it has a time limit,
//! whatever it says in between, and between requests another one. While requests are inside, it has
//! as long as the limits of all parts of a request together. A connection that waits for its client
//! has a [place](crate::limits::eviction) that somebody else may get.

use crate::config::Limits;
use crate::limits::eviction::PoolSlot;
use http_body::{Body, Frame, SizeHint};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

/// A client's connection, as its requests see it.
#[derive(Debug)]
pub(crate) struct ClientConnection {
    address: IpAddr,
    slot: PoolSlot,
    state: watch::Sender<State>,
    closed: Notify,
}

#[derive(Clone, Copy, Debug)]
struct State {
    /// Requests whose answer has not gone out.
    requests: usize,
    /// Whether there has been any.
    greeted: bool,
    /// Since when it has been like that.
    since: Instant,
}

impl ClientConnection {
    /// A connection from this address, which has just been made.
    pub(crate) fn new(address: IpAddr, slot: PoolSlot) -> Arc<ClientConnection> {
        let state = State { requests: 0, greeted: false, since: Instant::now() };
        Arc::new(ClientConnection { address, slot, state: watch::Sender::new(state), closed: Notify::new() })
    }

    /// Whose it is, for limits per address.
    pub(crate) fn address(&self) -> IpAddr {
        self.address
    }

    /// Ends it.
    pub(crate) fn close(&self) {
        self.closed.notify_one();
    }

    /// A request has come.
    pub(crate) fn request(self: &Arc<ClientConnection>) -> RequestGuard {
        self.state.send_modify(|state| {
            *state = State { requests: state.requests + 1, greeted: true, since: Instant::now() };
        });
        RequestGuard(self.clone())
    }

    /// Something is done for it that needs no network.
    pub(crate) fn work(self: &Arc<ClientConnection>) -> BusyGuard {
        self.slot.work();
        BusyGuard(self.clone())
    }

    /// Resolves when it is to end: it was closed, somebody else has got its place, or it has waited
    /// too long.
    pub(crate) async fn over(&self, limits: &Limits) {
        tokio::select! {
            () = self.closed.notified() => {}
            () = self.slot.evicted() => {}
            () = self.waited(limits) => {}
        }
    }

    async fn waited(&self, limits: &Limits) {
        let mut changes = self.state.subscribe();
        loop {
            let State { requests, greeted, since } = *changes.borrow_and_update();
            let seconds = match (requests, greeted) {
                (0, false) => limits.request_seconds,
                (0, true) => limits.idle_seconds,
                // Messages and answers have limits of their own; this is for whatever else is not
                // read, such as a manifest.
                _ => limits.upload_seconds.saturating_add(limits.queue_seconds).saturating_add(limits.answer_seconds),
            };
            tokio::select! {
                // The sender is in `self`, so this is always a change.
                _ = changes.changed() => {}
                () = tokio::time::sleep_until(since + Duration::from_secs(seconds)) => return,
            }
        }
    }
}

/// A request of a connection; dropped when its answer has gone out.
#[derive(Debug)]
pub(crate) struct RequestGuard(Arc<ClientConnection>);

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.0.state.send_modify(|state| {
            *state = State { requests: state.requests.saturating_sub(1), since: Instant::now(), ..*state };
        });
    }
}

/// Something is done for the connection.
#[derive(Debug)]
pub(crate) struct BusyGuard(Arc<ClientConnection>);

impl Drop for BusyGuard {
    fn drop(&mut self) {
        self.0.slot.rest();
    }
}

/// A response's body, which keeps its request inside.
#[derive(Debug)]
pub(crate) struct TrackedBody<B> {
    body: B,
    _inside: RequestGuard,
}

impl<B> TrackedBody<B> {
    pub(crate) fn new(body: B, inside: RequestGuard) -> TrackedBody<B> {
        TrackedBody { body, _inside: inside }
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

    /// After how many seconds it is over; with nothing else to do, the paused clock jumps there.
    async fn lasted(connection: &ClientConnection) -> u64 {
        let began = Instant::now();
        connection.over(&LIMITS()).await;
        began.elapsed().as_secs()
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_request_it_is_over_soon_and_without_another_later() {
        let pool = EvictingPool::new(9);
        assert_eq!(lasted(&connection(&pool)).await, 10);
        let greeted = connection(&pool);
        drop(greeted.request());
        assert_eq!(lasted(&greeted).await, 60);
    }

    #[tokio::test(start_paused = true)]
    async fn while_a_request_is_inside_it_lasts_and_then_idles_from_its_end() {
        let pool = EvictingPool::new(9);
        let connection = connection(&pool);
        let (inside, also) = (connection.request(), connection.request());
        drop(also);
        let leaving = async {
            tokio::time::sleep(Duration::from_secs(100)).await;
            drop(inside);
        };
        let (time, ()) = tokio::join!(lasted(&connection), leaving);
        assert_eq!(time, 160);
        // Nobody reads the response: 30 seconds to upload, 30 to wait and 120 to be answered are
        // all there is.
        let _unread = connection.request();
        assert_eq!(lasted(&connection).await, 180);
    }

    #[tokio::test(start_paused = true)]
    async fn it_gives_way_and_can_be_closed_at_once() {
        let pool = EvictingPool::new(1);
        let (first, second) = (connection(&pool), connection(&pool));
        assert_eq!(lasted(&first).await, 0);
        second.close();
        assert_eq!(lasted(&second).await, 0);
        let third = connection(&pool);
        let _working = third.work();
        assert!(pool.enter(third.address(), 1).is_none(), "nobody displaces what is at work");
    }
}
