//! Prefetched randomness: random words that a server sends to its next server while it has no
//! session.
//!
//! The server opens a stream before its session exists. Its next session takes over this stream and
//! sends its name on it. So both ends agree on the number of words, and no word is used twice: if
//! the stream breaks or the session fails, its words are discarded. A server has at most one such
//! stream to its next server, with about six bytes per row.

use crate::peers::stream::{PeerConnector, PeerStream, framed};
use ifonly_algebra::random::OsRandom;
use ifonly_sealed::{Circuit, PrefetchedWords};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// Random words that a server has sent for its next session, and permits for those it receives.
pub(crate) struct PrefetchedRandomness {
    /// Circuit of the last session, as an estimate for the next one.
    last_circuit: Mutex<Option<Arc<Circuit>>>,
    /// The stream to the next server, and the words sent on it.
    ready: Mutex<Option<(PeerStream, PrefetchedWords)>>,
    /// Permit of the task that fills the stream.
    filling: Arc<Semaphore>,
    /// Permits for streams of the previous server without a session. There are two, because the
    /// first stream may have broken without notice.
    receiving: Arc<Semaphore>,
    /// Number of running sessions.
    sessions: watch::Sender<usize>,
}

/// Counts as a running session until it is dropped.
pub(crate) struct SessionGuard(watch::Sender<usize>);

impl Drop for SessionGuard {
    fn drop(&mut self) {
        self.0.send_modify(|sessions| *sessions = sessions.saturating_sub(1));
    }
}

impl Default for PrefetchedRandomness {
    fn default() -> PrefetchedRandomness {
        PrefetchedRandomness {
            last_circuit: Mutex::default(),
            ready: Mutex::default(),
            filling: Arc::new(Semaphore::new(1)),
            receiving: Arc::new(Semaphore::new(2)),
            sessions: watch::Sender::new(0),
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PrefetchedRandomness {
    /// Starts a session. No random words are prefetched while the guard exists.
    pub(crate) fn start_session(&self) -> SessionGuard {
        self.sessions.send_modify(|sessions| *sessions += 1);
        SessionGuard(self.sessions.clone())
    }

    /// Sets the circuit that the next session will probably have.
    pub(crate) fn set_circuit(&self, circuit: &Arc<Circuit>) {
        *locked(&self.last_circuit) = Some(circuit.clone());
    }

    /// Takes the stream with prefetched random words, if there is one.
    pub(crate) fn take(&self) -> Option<(PeerStream, PrefetchedWords)> {
        locked(&self.ready).take().filter(|(stream, _)| !stream.to.is_closed())
    }

    /// The prefetched words, for tests.
    #[cfg(test)]
    pub(crate) fn state(&self) -> Option<String> {
        locked(&self.ready).as_ref().map(|(_, words)| format!("{words:?}"))
    }

    /// Buffer and permit for a stream of random words from the previous server. `None` before the
    /// first session, or if no permit is free.
    pub(crate) fn receive_buffer(&self) -> Option<(PrefetchedWords, OwnedSemaphorePermit)> {
        let circuit = locked(&self.last_circuit).clone()?;
        Some((PrefetchedWords::before_session(&circuit), self.receiving.clone().try_acquire_owned().ok()?))
    }

    /// Opens a stream and sends random words on it while no session runs. Returns when the limit is
    /// reached, a session took the stream or the stream broke. The next session calls it again.
    pub(crate) async fn fill(self: Arc<PrefetchedRandomness>, connector: Arc<PeerConnector>) {
        let Ok(_filling) = self.filling.clone().try_acquire_owned() else { return };
        let mut sessions = self.sessions.subscribe();
        if sessions.wait_for(|running| *running == 0).await.is_err() || locked(&self.ready).is_some() {
            return;
        }
        // Read after the wait, because a session with another circuit may have ended meanwhile.
        let Some(circuit) = locked(&self.last_circuit).clone() else { return };
        let Ok(stream) = connector.open_prefetch().await else { return };
        *locked(&self.ready) = Some((stream, PrefetchedWords::before_session(&circuit)));
        let (mut random, mut frame) = (OsRandom::default(), vec![]);
        while sessions.wait_for(|running| *running == 0).await.is_ok() {
            let Some(to) = locked(&self.ready).as_ref().map(|(stream, _)| stream.to.clone()) else { return };
            let Ok(permit) = to.reserve_owned().await else {
                locked(&self.ready).take();
                return;
            };
            // A session may have taken the stream during the wait. Only this task stores a new one,
            // so `permit` belongs to the stored stream.
            let mut ready = locked(&self.ready);
            let Some((_, words)) = ready.as_mut() else { return };
            if !words.next_frame(&mut random, &mut frame) {
                return;
            }
            permit.send(framed(&frame));
        }
    }
}
