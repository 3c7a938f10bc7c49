//! The servers of a sealed search talk to each other: who they are, how they are reached, how many sessions at once.
//!
//! A session is opened by the user's message at each of the three. Server n dials the server after it and is dialled by the one before.

mod ahead;
mod line;
mod lobby;
mod session;
pub(crate) mod tls;

use ahead::{Busy, Store};
use ifonly_core::transcript::Tau;
use ifonly_sealed::{Ahead, Circuit, Party, Randomness, Subject};
use line::LineError;
use line::{Dial, Dialler, Line};
use lobby::Lobby;
use session::Lines;
pub(crate) use session::SessionError;
use std::sync::Arc;
use std::time::Duration;
pub use tls::{NextServer, PeersConfig, PreviousServer, Station, StationError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// How much is too much between servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PeerLimits {
    /// Sessions that compute at once; server 1 decides for all three.
    pub sessions: usize,
    /// Sessions that wait for a peer or for their turn.
    pub waiting: usize,
    /// How long a session waits for the other two.
    pub open_seconds: u64,
    /// How long it may take from then on.
    pub session_seconds: u64,
}

impl Default for PeerLimits {
    fn default() -> PeerLimits {
        PeerLimits { sessions: 4, waiting: 64, open_seconds: 15, session_seconds: 60 }
    }
}

/// One server's end of the lines to the two others.
pub struct Peers {
    server: usize,
    limits: PeerLimits,
    dialler: Arc<Dialler>,
    lobby: Arc<Lobby>,
    store: Arc<Store>,
    places: Arc<Semaphore>,
}

impl std::fmt::Debug for Peers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Peers(of server {}, {:?})", self.server, self.limits)
    }
}

/// A session that all three have opened; its place is free again when it is dropped.
pub(crate) struct Opened {
    lines: Lines,
    /// What this server sent the next one before, and what the previous one sent.
    drawn: Option<Ahead>,
    received: Option<Ahead>,
    store: Arc<Store>,
    dialler: Arc<Dialler>,
    busy: Busy,
    _place: Option<OwnedSemaphorePermit>,
}

impl Opened {
    /// The random bits of the session, for a party of this circuit.
    pub(crate) fn randomness(&mut self, circuit: &Arc<Circuit>) -> Randomness {
        self.store.expect(circuit);
        Randomness::DrawnAhead(Ahead::joined(circuit, self.drawn.take(), self.received.take()))
    }

    /// Runs the machine to its end; afterwards random bits for the next session go ahead.
    pub(crate) async fn run(self, party: Party, limit: Duration) -> Result<Party, SessionError> {
        let Opened { lines, store, dialler, busy, _place, .. } = self;
        let party = lines.run(party, limit).await;
        drop(busy);
        tokio::spawn(store.fill(dialler));
        party
    }
}

impl Peers {
    fn new(server: usize, limits: PeerLimits, dial: Dial) -> Peers {
        Peers {
            server,
            limits,
            dialler: Arc::new(Dialler::new(dial)),
            lobby: Arc::new(Lobby::new(limits.waiting)),
            store: Arc::default(),
            places: Arc::new(Semaphore::new(limits.sessions.clamp(1, Semaphore::MAX_PERMITS))),
        }
    }

    /// Three servers in one process, each of which reaches the next one through memory.
    pub fn in_memory(limits: PeerLimits) -> [Peers; 3] {
        let rooms: [Rooms; 3] = std::array::from_fn(|_| (Arc::new(Lobby::new(limits.waiting)), Arc::default()));
        std::array::from_fn(|place| {
            let next = rooms[(place + 1) % 3].clone();
            let dial: Dial = Box::new(move || {
                let next = next.clone();
                Box::pin(async move {
                    let (ours, theirs) = tokio::io::duplex(1 << 20);
                    tokio::spawn(serve(theirs, next, limits));
                    Ok(Box::new(ours) as Box<dyn line::Carrier>)
                })
            });
            let (lobby, store) = rooms[place].clone();
            Peers { lobby, store, ..Peers::new(place + 1, limits, dial) }
        })
    }

    /// Meets the two others for a session.
    pub(crate) async fn open(&self, subject: &Subject) -> Result<Opened, SessionError> {
        let deadline = Instant::now() + Duration::from_secs(self.limits.open_seconds);
        let away = |server| SessionError::Away { server, seconds: self.limits.open_seconds };
        let [next_server, previous_server] = [self.server % 3 + 1, (self.server + 1) % 3 + 1];
        let busy = self.store.busy();
        let mut expected = self.lobby.expect(&subject.tau).ok_or(SessionError::Twice)?;
        let dialled = tokio::time::timeout_at(deadline, self.line_to_next(&subject.tau));
        let next = dialled.await.map_err(|_| away(next_server))?;
        let (next, drawn) = next.map_err(|error| SessionError::Line { server: next_server, error })?;
        let arrived = tokio::time::timeout_at(deadline, expected.line()).await;
        let mut previous = arrived.map_err(|_| away(previous_server))?;
        let received = previous.received.take();
        let mut lines = Lines::new(self.server, next, previous);
        // The next server has the stream, and may itself still wait for its user: it is the one that has not come.
        let name = tokio::time::timeout_at(deadline, lines.meet(subject)).await.map_err(|_| away(next_server))??;
        let place = match self.server {
            1 => Some(self.place(deadline).await?),
            _ => None,
        };
        lines.confirm(&name).await?;
        // Server 1 may have let the whole time pass before it had a place.
        let patience = deadline + Duration::from_secs(1);
        let confirmed = tokio::time::timeout_at(patience, lines.confirmed(&name)).await;
        confirmed.map_err(|_| away(if self.server == 1 { next_server } else { 1 }))??;
        let (store, dialler) = (self.store.clone(), self.dialler.clone());
        Ok(Opened { lines, drawn, received, store, dialler, busy, _place: place })
    }

    /// The stream that is ready, with what was sent on it, or a new one.
    async fn line_to_next(&self, tau: &Tau) -> Result<(Line, Option<Ahead>), LineError> {
        if let Some((line, ahead)) = self.store.take()
            && line.name(tau).await
        {
            return Ok((line, Some(ahead)));
        }
        Ok((self.dialler.open(tau).await?, None))
    }

    async fn place(&self, deadline: Instant) -> Result<OwnedSemaphorePermit, SessionError> {
        let place = tokio::time::timeout_at(deadline, self.places.clone().acquire_owned()).await;
        place.ok().and_then(Result::ok).ok_or(SessionError::Full { seconds: self.limits.open_seconds })
    }

    /// How long a session may take once it is open.
    pub(crate) fn limit(&self) -> Duration {
        Duration::from_secs(self.limits.session_seconds)
    }
}

/// Where streams of the server before wait, and how much it may send ahead.
type Rooms = (Arc<Lobby>, Arc<Store>);

/// Serves one connection from the server before.
async fn serve(carrier: impl line::Carrier + 'static, (lobby, store): Rooms, limits: PeerLimits) {
    // One more for the stream that is ready.
    let most = u32::try_from(limits.waiting + limits.sessions + 1).unwrap_or(u32::MAX);
    let arrived = move |tau, line| lobby.arrive(tau, line, Instant::now() + Duration::from_secs(limits.open_seconds));
    line::answer(carrier, most, arrived, move || store.room()).await;
}

#[cfg(test)]
mod tests;
