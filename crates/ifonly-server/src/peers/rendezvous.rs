//! Rendezvous of sessions with the streams of the previous server. Either may come first; both are
//! matched by transcript digest.

use crate::peers::stream::PeerStream;
use http::StatusCode;
use ifonly_core::transcript::Tau;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Waiting streams and waiting sessions. Only streams are limited here: a waiting session holds the
/// slot of its client's request.
pub(crate) struct SessionRendezvous {
    max_streams: usize,
    entries: Mutex<HashMap<Tau, RendezvousEntry>>,
}

enum RendezvousEntry {
    /// The stream came first; it waits until this time.
    Arrived(PeerStream, Instant),
    /// The session came first.
    Awaited(oneshot::Sender<PeerStream>),
}

impl SessionRendezvous {
    pub(crate) fn new(max_streams: usize) -> SessionRendezvous {
        SessionRendezvous { max_streams, entries: Mutex::new(HashMap::new()) }
    }

    /// Adds a stream, which waits for its session until `until`. Returns the status to answer if
    /// the stream is refused.
    pub(crate) fn arrive(&self, tau: Tau, stream: PeerStream, until: Instant) -> Result<(), StatusCode> {
        if stream.is_over() {
            return Err(StatusCode::GONE);
        }
        let mut entries = self.entries();
        let now = Instant::now();
        entries.retain(
            |_, entry| !matches!(entry, RendezvousEntry::Arrived(stream, until) if *until <= now || stream.is_over()),
        );
        match entries.remove(&tau) {
            // The session has given up.
            Some(RendezvousEntry::Awaited(session)) if session.is_closed() => Err(StatusCode::GONE),
            Some(RendezvousEntry::Awaited(session)) => {
                stream.take().and_then(|stream| session.send(stream).ok()).ok_or(StatusCode::GONE)
            }
            // The previous server has started again, perhaps at another frontend. The later stream
            // replaces the earlier one.
            Some(RendezvousEntry::Arrived(..)) => {
                entries.insert(tau, RendezvousEntry::Arrived(stream, until));
                Ok(())
            }
            None if entries.values().filter(|entry| matches!(entry, RendezvousEntry::Arrived(..))).count()
                >= self.max_streams =>
            {
                Err(StatusCode::SERVICE_UNAVAILABLE)
            }
            None => {
                entries.insert(tau, RendezvousEntry::Arrived(stream, until));
                Ok(())
            }
        }
    }

    /// Waits for the stream of a session. `None` if another session waits with the same transcript
    /// digest.
    pub(crate) fn expect(&self, tau: &Tau) -> Option<AwaitedStream<'_>> {
        let mut entries = self.entries();
        let (sender, stream) = oneshot::channel();
        let arrived = match entries.remove(tau) {
            Some(RendezvousEntry::Arrived(arrived, _)) => arrived.take(),
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
            .filter(|entry| matches!(entry, RendezvousEntry::Arrived(stream, _) if !stream.is_over()))
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
