//! Random bits that go to the next server while no session runs here.
//!
//! They travel on a stream that is opened before its session: the next session of this server takes
//! it over, with what was sent on it, and tells the next server whose it is. So both ends count
//! alike, whatever else goes on, and nothing is used twice: a stream that breaks, or a session that
//! fails, takes its bits with it. There is one such stream at a time, with about six bytes a row.

use crate::peers::stream::{PeerConnector, PeerStream, framed};
use ifonly_algebra::random::OsRandom;
use ifonly_sealed::{Circuit, PrefetchedWords};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// What one server has drawn and received for searches to come.
pub(crate) struct PrefetchedRandomness {
    /// That of the last search: the next one is most likely like it.
    usual: Mutex<Option<Arc<Circuit>>>,
    /// The stream to the next server, and what was sent on it.
    ready: Mutex<Option<(PeerStream, PrefetchedWords)>>,
    /// Whoever fills a stream.
    filling: Arc<Semaphore>,
    /// Streams of the previous server that are being filled. A second one, because the first may
    /// not be known to be broken.
    arriving: Arc<Semaphore>,
    sessions: watch::Sender<usize>,
}

/// A session, as long as it runs.
pub(crate) struct SessionGuard(watch::Sender<usize>);

impl Drop for SessionGuard {
    fn drop(&mut self) {
        self.0.send_modify(|sessions| *sessions = sessions.saturating_sub(1));
    }
}

impl Default for PrefetchedRandomness {
    fn default() -> PrefetchedRandomness {
        PrefetchedRandomness {
            usual: Mutex::default(),
            ready: Mutex::default(),
            filling: Arc::new(Semaphore::new(1)),
            arriving: Arc::new(Semaphore::new(2)),
            sessions: watch::Sender::new(0),
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PrefetchedRandomness {
    /// Nothing is sent ahead while this is held.
    pub(crate) fn busy(&self) -> SessionGuard {
        self.sessions.send_modify(|sessions| *sessions += 1);
        SessionGuard(self.sessions.clone())
    }

    /// What the next search will most likely be like.
    pub(crate) fn expect(&self, circuit: &Arc<Circuit>) {
        *locked(&self.usual) = Some(circuit.clone());
    }

    /// The stream that is ready, if there is one.
    pub(crate) fn take(&self) -> Option<(PeerStream, PrefetchedWords)> {
        locked(&self.ready).take().filter(|(line, _)| !line.to.is_closed())
    }

    /// What is ready, for tests.
    #[cfg(test)]
    pub(crate) fn state(&self) -> Option<String> {
        locked(&self.ready).as_ref().map(|(_, ahead)| format!("{ahead:?}"))
    }

    /// Room for what the previous server sends ahead, and the right to fill it; none before the
    /// first search.
    pub(crate) fn room(&self) -> Option<(PrefetchedWords, OwnedSemaphorePermit)> {
        let circuit = locked(&self.usual).clone()?;
        Some((PrefetchedWords::before(&circuit), self.arriving.clone().try_acquire_owned().ok()?))
    }

    /// Opens a stream and fills it while no session runs. Ends when it is full, was taken or broke;
    /// the next session asks again.
    pub(crate) async fn fill(self: Arc<PrefetchedRandomness>, dialler: Arc<PeerConnector>) {
        let Ok(_filling) = self.filling.clone().try_acquire_owned() else { return };
        let mut sessions = self.sessions.subscribe();
        if sessions.wait_for(|running| *running == 0).await.is_err() || locked(&self.ready).is_some() {
            return;
        }
        // Only now: sessions of another kind may have passed meanwhile.
        let Some(circuit) = locked(&self.usual).clone() else { return };
        let Ok(line) = dialler.open_ahead().await else { return };
        *locked(&self.ready) = Some((line, PrefetchedWords::before(&circuit)));
        let (mut random, mut frame) = (OsRandom::default(), vec![]);
        while sessions.wait_for(|running| *running == 0).await.is_ok() {
            let Some(to) = locked(&self.ready).as_ref().map(|(line, _)| line.to.clone()) else { return };
            let Ok(room) = to.reserve_owned().await else {
                locked(&self.ready).take();
                return;
            };
            // It may have been taken while there was no room; only this task puts another one
            // there.
            let mut ready = locked(&self.ready);
            let Some((_, ahead)) = ready.as_mut() else { return };
            if !ahead.next_frame(&mut random, &mut frame) {
                return;
            }
            room.send(framed(&frame));
        }
    }
}
