//! Where streams from the server before wait for their session, and sessions for their stream:
//! either may come first.

use crate::peers::stream::PeerStream;
use http::StatusCode;
use ifonly_core::transcript::Tau;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// At most so many streams wait for a session; a session's own user is at the door while it waits
/// for a stream.
pub(crate) struct SessionRendezvous {
    most: usize,
    slots: Mutex<HashMap<Tau, RendezvousEntry>>,
}

enum RendezvousEntry {
    /// The stream was first; it may wait until then.
    Arrived(PeerStream, Instant),
    /// The session was first.
    Awaited(oneshot::Sender<PeerStream>),
}

impl SessionRendezvous {
    pub(crate) fn new(most: usize) -> SessionRendezvous {
        SessionRendezvous { most, slots: Mutex::new(HashMap::new()) }
    }

    /// A stream for a session, which may come until `until`.
    pub(crate) fn arrive(&self, tau: Tau, line: PeerStream, until: Instant) -> Result<(), StatusCode> {
        if line.is_over() {
            return Err(StatusCode::GONE);
        }
        let mut slots = self.slots();
        let now = Instant::now();
        slots.retain(
            |_, slot| !matches!(slot, RendezvousEntry::Arrived(line, until) if *until <= now || line.is_over()),
        );
        match slots.remove(&tau) {
            // Somebody who gave up meanwhile needs no stream.
            Some(RendezvousEntry::Awaited(session)) if session.is_closed() => Err(StatusCode::GONE),
            Some(RendezvousEntry::Awaited(session)) => {
                line.take().and_then(|line| session.send(line).ok()).ok_or(StatusCode::GONE)
            }
            // The server before has begun anew, perhaps at another of its fronts; only one of the
            // two can be meant.
            Some(RendezvousEntry::Arrived(..)) => {
                slots.insert(tau, RendezvousEntry::Arrived(line, until));
                Ok(())
            }
            None if slots.values().filter(|slot| matches!(slot, RendezvousEntry::Arrived(..))).count() >= self.most => {
                Err(StatusCode::SERVICE_UNAVAILABLE)
            }
            None => {
                slots.insert(tau, RendezvousEntry::Arrived(line, until));
                Ok(())
            }
        }
    }

    /// The stream of a session, as soon as it is there; `None` if another session has the same
    /// transcript.
    pub(crate) fn expect(&self, tau: &Tau) -> Option<AwaitedStream<'_>> {
        let mut slots = self.slots();
        let (sender, line) = oneshot::channel();
        let arrived = match slots.remove(tau) {
            Some(RendezvousEntry::Arrived(arrived, _)) => arrived.take(),
            Some(first @ RendezvousEntry::Awaited(_)) => {
                slots.insert(*tau, first);
                return None;
            }
            None => None,
        };
        match arrived {
            // The receiver is here, so it takes it.
            Some(arrived) => drop(sender.send(arrived)),
            None => drop(slots.insert(*tau, RendezvousEntry::Awaited(sender))),
        }
        Some(AwaitedStream { rendezvous: self, tau: *tau, line })
    }

    /// Streams that wait for a session, for tests.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.slots()
            .values()
            .filter(|slot| matches!(slot, RendezvousEntry::Arrived(line, _) if !line.is_over()))
            .count()
    }

    /// Whether nobody waits here, for tests.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.slots().is_empty()
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<Tau, RendezvousEntry>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A session that waits; gives up its seat on drop.
pub(crate) struct AwaitedStream<'l> {
    rendezvous: &'l SessionRendezvous,
    tau: Tau,
    line: oneshot::Receiver<PeerStream>,
}

impl AwaitedStream<'_> {
    /// The stream. Never, if it does not come.
    pub(crate) async fn line(&mut self) -> PeerStream {
        match (&mut self.line).await {
            Ok(line) => line,
            Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for AwaitedStream<'_> {
    fn drop(&mut self) {
        self.line.close();
        let mut slots = self.rendezvous.slots();
        if matches!(slots.get(&self.tau), Some(RendezvousEntry::Awaited(session)) if session.is_closed()) {
            slots.remove(&self.tau);
        }
    }
}
