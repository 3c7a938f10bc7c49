//! Rendezvous of sessions with the streams of the previous server. Either may come first; both are
//! matched by transcript digest.
//!
//! The number of waiting streams is limited. At the limit, a new stream displaces the oldest one of
//! the client class with the most waiting streams. So a client that opens sessions at one server
//! only displaces its own streams. Waiting sessions are limited by the places of
//! [`PeerNetwork`](crate::peers::PeerNetwork).

use crate::peers::client_class::ClientClass;
use crate::peers::stream::PeerStream;
use http::StatusCode;
use ifonly_core::transcript::Tau;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Waiting streams and waiting sessions.
pub(crate) struct SessionRendezvous {
    max_streams: usize,
    entries: Mutex<HashMap<Tau, RendezvousEntry>>,
    arrivals: AtomicU64,
}

enum RendezvousEntry {
    /// The stream came first.
    Arrived(WaitingStream),
    /// The session came first.
    Awaited(oneshot::Sender<PeerStream>),
}

/// A stream that waits for its session.
struct WaitingStream {
    stream: PeerStream,
    class: ClientClass,
    /// Order of arrival.
    number: u64,
    until: Instant,
}

impl SessionRendezvous {
    pub(crate) fn new(max_streams: usize) -> SessionRendezvous {
        SessionRendezvous { max_streams: max_streams.max(1), entries: Mutex::default(), arrivals: AtomicU64::new(0) }
    }

    /// Adds a stream of a client of this class, which waits for its session until `until`. Returns
    /// the status to answer if the stream is refused.
    pub(crate) fn arrive(
        &self,
        tau: Tau,
        class: ClientClass,
        stream: PeerStream,
        until: Instant,
    ) -> Result<(), StatusCode> {
        if stream.is_over() {
            return Err(StatusCode::GONE);
        }
        let mut entries = self.entries();
        let now = Instant::now();
        entries.retain(|_, entry| match entry {
            RendezvousEntry::Arrived(waiting) => waiting.until > now && !waiting.stream.is_over(),
            RendezvousEntry::Awaited(_) => true,
        });
        match entries.remove(&tau) {
            // The session has given up.
            Some(RendezvousEntry::Awaited(session)) if session.is_closed() => return Err(StatusCode::GONE),
            Some(RendezvousEntry::Awaited(session)) => {
                return stream.take().and_then(|stream| session.send(stream).ok()).ok_or(StatusCode::GONE);
            }
            // The previous server has started again, perhaps at another frontend. The later stream
            // replaces the earlier one.
            Some(RendezvousEntry::Arrived(_)) => {}
            None => {
                if let Some(displaced) = self.next_to_displace(&entries, class) {
                    // Dropping the stream ends it.
                    entries.remove(&displaced);
                }
            }
        }
        let number = self.arrivals.fetch_add(1, Ordering::Relaxed);
        entries.insert(tau, RendezvousEntry::Arrived(WaitingStream { stream, class, number, until }));
        Ok(())
    }

    /// At the limit, the oldest stream of the class with the most waiting streams, counting the new
    /// stream of class `new`.
    fn next_to_displace(&self, entries: &HashMap<Tau, RendezvousEntry>, new: ClientClass) -> Option<Tau> {
        let waiting = || {
            entries.iter().filter_map(|(tau, entry)| match entry {
                RendezvousEntry::Arrived(waiting) => Some((tau, waiting)),
                RendezvousEntry::Awaited(_) => None,
            })
        };
        let mut counts: HashMap<ClientClass, usize> = HashMap::new();
        waiting().for_each(|(_, waiting)| *counts.entry(waiting.class).or_default() += 1);
        if counts.values().sum::<usize>() < self.max_streams {
            return None;
        }
        *counts.entry(new).or_default() += 1;
        let count = |waiting: &WaitingStream| counts.get(&waiting.class).copied();
        let victim = waiting().max_by_key(|(_, waiting)| (count(waiting), std::cmp::Reverse(waiting.number)));
        victim.map(|(tau, _)| *tau)
    }

    /// Waits for the stream of a session. `None` if another session waits with the same transcript
    /// digest.
    pub(crate) fn expect(&self, tau: &Tau) -> Option<AwaitedStream<'_>> {
        let mut entries = self.entries();
        let (sender, stream) = oneshot::channel();
        let arrived = match entries.remove(tau) {
            Some(RendezvousEntry::Arrived(arrived)) => arrived.stream.take(),
            Some(first @ RendezvousEntry::Awaited(_)) => {
                entries.insert(*tau, first);
                return None;
            }
            None => None,
        };
        match arrived {
            // Cannot fail: this function still holds the receiver.
            Some(arrived) => drop(sender.send(arrived)),
            None => drop(entries.insert(*tau, RendezvousEntry::Awaited(sender))),
        }
        Some(AwaitedStream { rendezvous: self, tau: *tau, stream })
    }

    /// Number of streams that wait for a session, for tests.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.entries()
            .values()
            .filter(|entry| matches!(entry, RendezvousEntry::Arrived(waiting) if !waiting.stream.is_over()))
            .count()
    }

    /// Whether no stream and no session waits, for tests.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.entries().is_empty()
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<Tau, RendezvousEntry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A session that waits for its stream. Dropping it removes its entry.
pub(crate) struct AwaitedStream<'r> {
    rendezvous: &'r SessionRendezvous,
    tau: Tau,
    stream: oneshot::Receiver<PeerStream>,
}

impl AwaitedStream<'_> {
    /// The stream; pending forever if it does not arrive.
    pub(crate) async fn stream(&mut self) -> PeerStream {
        match (&mut self.stream).await {
            Ok(stream) => stream,
            Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for AwaitedStream<'_> {
    fn drop(&mut self) {
        self.stream.close();
        let mut entries = self.rendezvous.entries();
        if matches!(entries.get(&self.tau), Some(RendezvousEntry::Awaited(session)) if session.is_closed()) {
            entries.remove(&self.tau);
        }
    }
}
