//! The servers of a sealed search talk to each other: who they are, how they are reached, how many sessions at once.
//!
//! A session is opened by the user's message at each of the three. Server n dials the server after it and is dialled by the one before.

mod line;
mod lobby;
mod session;
pub(crate) mod tls;

use ifonly_sealed::Party;
use line::{Dial, Dialler};
use lobby::Lobby;
use session::Lines;
pub(crate) use session::{SessionError, Subject};
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
    dialler: Dialler,
    lobby: Arc<Lobby>,
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
    _place: Option<OwnedSemaphorePermit>,
}

impl Opened {
    /// Runs the machine to its end.
    pub(crate) async fn run(self, party: Party, limit: Duration) -> Result<Party, SessionError> {
        let Opened { lines, _place } = self;
        lines.run(party, limit).await
    }
}

impl Peers {
    fn new(server: usize, limits: PeerLimits, dial: Dial) -> Peers {
        Peers {
            server,
            limits,
            dialler: Dialler::new(dial),
            lobby: Arc::new(Lobby::new(limits.waiting)),
            places: Arc::new(Semaphore::new(limits.sessions.clamp(1, Semaphore::MAX_PERMITS))),
        }
    }

    /// Three servers in one process, each of which reaches the next one through memory.
    pub fn in_memory(limits: PeerLimits) -> [Peers; 3] {
        let lobbies: [Arc<Lobby>; 3] = std::array::from_fn(|_| Arc::new(Lobby::new(limits.waiting)));
        std::array::from_fn(|place| {
            let next = lobbies[(place + 1) % 3].clone();
            let dial: Dial = Box::new(move || {
                let next = next.clone();
                Box::pin(async move {
                    let (ours, theirs) = tokio::io::duplex(1 << 20);
                    tokio::spawn(serve(theirs, next, limits));
                    Ok(Box::new(ours) as Box<dyn line::Carrier>)
                })
            });
            Peers { lobby: lobbies[place].clone(), ..Peers::new(place + 1, limits, dial) }
        })
    }

    /// Meets the two others for a session.
    pub(crate) async fn open(&self, subject: &Subject) -> Result<Opened, SessionError> {
        let deadline = Instant::now() + Duration::from_secs(self.limits.open_seconds);
        let away = |server| SessionError::Away { server, seconds: self.limits.open_seconds };
        let [next_server, previous_server] = [self.server % 3 + 1, (self.server + 1) % 3 + 1];
        let mut expected = self.lobby.expect(&subject.tau).ok_or(SessionError::Twice)?;
        let dialled = tokio::time::timeout_at(deadline, self.dialler.open(&subject.tau));
        let next = dialled.await.map_err(|_| away(next_server))?;
        let next = next.map_err(|error| SessionError::Line { server: next_server, error })?;
        let arrived = tokio::time::timeout_at(deadline, expected.line()).await;
        let previous = arrived.map_err(|_| away(previous_server))?;
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
        Ok(Opened { lines, _place: place })
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

/// Serves one connection from the server before.
async fn serve(carrier: impl line::Carrier + 'static, lobby: Arc<Lobby>, limits: PeerLimits) {
    let most = u32::try_from(limits.waiting + limits.sessions).unwrap_or(u32::MAX);
    line::answer(carrier, most, move |tau, line| {
        lobby.arrive(tau, line, Instant::now() + Duration::from_secs(limits.open_seconds))
    })
    .await;
}

#[cfg(test)]
mod tests;
