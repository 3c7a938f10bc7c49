//! The servers of a sealed search talk to each other: who they are, how they are reached, how many
//! sessions at once.
//!
//! A session is opened by the user's message at each of the three. Server n dials the server after
//! it and is dialled by the one before. A server may be several fronts behind a balancer: then
//! nobody knows which of them has the user's message, so all of them are dialled, and the one that
//! has it answers.

pub(crate) mod listener;
mod prefetch;
mod rendezvous;
mod session;
mod stream;

use ifonly_algebra::keys::TranscriptKeys;
use ifonly_core::transcript::Tau;
pub use ifonly_sealed::RandomnessMode;
use ifonly_sealed::{Circuit, Party, PartyRandomness, Peer, PrefetchedWords, SessionContext};
pub use listener::{NextServer, PeerListener, PeerListenerError, PeersConfig, PreviousServer};
use prefetch::{PrefetchedRandomness, SessionGuard};
use rendezvous::SessionRendezvous;
pub(crate) use session::SessionError;
use session::{PeerStreams, SessionDeadline};
use std::sync::Arc;
use std::time::Duration;
use stream::{Connector, PeerConnector, PeerStream, PeerStreamError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
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
    pub join_seconds: u64,
    /// How long it may take from then on.
    pub session_seconds: u64,
}

impl Default for PeerLimits {
    fn default() -> PeerLimits {
        PeerLimits { sessions: 4, waiting: 64, join_seconds: 15, session_seconds: 60 }
    }
}

/// One server's end of the lines to the two others.
pub struct PeerNetwork {
    server: usize,
    limits: PeerLimits,
    source: RandomnessMode,
    /// One for each front of the next server.
    diallers: Vec<Arc<PeerConnector>>,
    rendezvous: Arc<SessionRendezvous>,
    store: Arc<PrefetchedRandomness>,
    places: Arc<Semaphore>,
}

impl std::fmt::Debug for PeerNetwork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Peers(of server {}, {:?})", self.server, self.limits)
    }
}

/// Both lines of a session, before anything was said on them.
struct Reached {
    lines: PeerStreams,
    /// What this server sent the next one before, and what the previous one sent.
    drawn: Option<PrefetchedWords>,
    received: Option<PrefetchedWords>,
    busy: SessionGuard,
    deadline: Instant,
}

/// A session that all three have opened; its place is free again when it is dropped.
pub(crate) struct OpenSession {
    lines: PeerStreams,
    bits: Bits,
    store: Arc<PrefetchedRandomness>,
    /// Where random bits for the next session can go ahead.
    dialler: Option<Arc<PeerConnector>>,
    busy: SessionGuard,
    _place: Option<OwnedSemaphorePermit>,
}

/// Where the session's random bits come from.
enum Bits {
    /// What was drawn and received before the session; the rest follows in it.
    Drawn(Option<PrefetchedWords>, Option<PrefetchedWords>),
    /// The keys that this server shares with the previous one and with the next one.
    Keyed(TranscriptKeys, TranscriptKeys),
}

impl OpenSession {
    /// The random bits of the session, for a party of this circuit.
    pub(crate) fn randomness(&mut self, circuit: &Arc<Circuit>) -> PartyRandomness {
        match &mut self.bits {
            Bits::Drawn(drawn, received) => {
                self.store.expect(circuit);
                PartyRandomness::DrawnAhead(PrefetchedWords::joined(circuit, drawn.take(), received.take()))
            }
            Bits::Keyed(previous, next) => {
                PartyRandomness::Keyed { with_previous: previous.clone(), with_next: next.clone() }
            }
        }
    }

    /// Runs the machine to its end; afterwards random bits for the next session go ahead, where
    /// they are drawn.
    pub(crate) async fn run(self, party: Party, limit: Duration) -> Result<Party, SessionError> {
        let OpenSession { lines, bits, store, dialler, busy, _place } = self;
        let party = lines.run(party, limit).await;
        drop(busy);
        if let (Bits::Drawn(..), Some(dialler)) = (bits, dialler) {
            tokio::spawn(store.fill(dialler));
        }
        party
    }
}

impl PeerNetwork {
    fn new(
        server: usize,
        limits: PeerLimits,
        source: RandomnessMode,
        dials: impl IntoIterator<Item = Connector>,
    ) -> PeerNetwork {
        PeerNetwork {
            server,
            limits,
            source,
            diallers: dials.into_iter().map(|dial| Arc::new(PeerConnector::new(dial))).collect(),
            rendezvous: Arc::new(SessionRendezvous::new(limits.waiting)),
            store: Arc::default(),
            places: Arc::new(Semaphore::new(limits.sessions.clamp(1, Semaphore::MAX_PERMITS))),
        }
    }

    /// Three servers in one process, each of which reaches the next one through memory.
    pub fn in_memory(limits: PeerLimits) -> [PeerNetwork; 3] {
        PeerNetwork::in_memory_with(limits, RandomnessMode::System)
    }

    /// The same, with random bits from where `source` says.
    pub(crate) fn in_memory_with(limits: PeerLimits, source: RandomnessMode) -> [PeerNetwork; 3] {
        let rooms: [Rooms; 3] =
            std::array::from_fn(|_| (Arc::new(SessionRendezvous::new(limits.waiting)), Arc::default()));
        std::array::from_fn(|place| {
            let next = through_memory(&rooms[(place + 1) % 3], limits);
            let (rendezvous, store) = rooms[place].clone();
            PeerNetwork { rendezvous, store, ..PeerNetwork::new(place + 1, limits, source, [next]) }
        })
    }

    /// Where random bits come from; part of what all three compare.
    pub(crate) fn source(&self) -> RandomnessMode {
        self.source
    }

    /// Meets the two others for a session.
    pub(crate) async fn open(&self, subject: &SessionContext) -> Result<OpenSession, SessionError> {
        let reached = self.reach(subject).await?;
        self.agree(reached, subject).await
    }

    /// A stream to each of the two others.
    async fn reach(&self, subject: &SessionContext) -> Result<Reached, SessionError> {
        let deadline = Instant::now() + Duration::from_secs(self.limits.join_seconds);
        let [next_server, previous_server] = [Peer::Next, Peer::Previous].map(|peer| peer.of(self.server));
        let away = |server| SessionError::Away { server, seconds: self.limits.join_seconds };
        let busy = self.store.busy();
        let mut expected = self.rendezvous.expect(&subject.tau).ok_or(SessionError::Twice)?;
        let dialled = tokio::time::timeout_at(deadline, self.line_to_next(&subject.tau));
        let next = dialled.await.map_err(|_| away(next_server))?;
        let (next, drawn) = next.map_err(|error| SessionError::Line { server: next_server, error })?;
        let arrived = tokio::time::timeout_at(deadline, expected.line()).await;
        let mut previous = arrived.map_err(|_| away(previous_server))?;
        let received = previous.received.take();
        Ok(Reached { lines: PeerStreams::new(self.server, next, previous), drawn, received, busy, deadline })
    }

    /// Makes sure that all three mean the same, and begins when all are ready.
    async fn agree(&self, reached: Reached, subject: &SessionContext) -> Result<OpenSession, SessionError> {
        let Reached { mut lines, drawn, received, busy, deadline } = reached;
        let until = |deadline| SessionDeadline { deadline, seconds: self.limits.join_seconds };
        let name = lines.meet(subject, until(deadline)).await?;
        let place = match self.server {
            1 => Some(self.place(deadline).await?),
            _ => None,
        };
        lines.confirm(&name).await?;
        // Beside the confirmation, so that nobody waits for it longer than for that.
        let given = match subject.source {
            RandomnessMode::System => None,
            RandomnessMode::Keys => Some(lines.give_key().await?),
        };
        // Server 1 may have let the whole time pass before it had a place.
        let patience = until(deadline + Duration::from_secs(1));
        lines.confirmed(&name, patience).await?;
        let bits = match given {
            None => Bits::Drawn(drawn, received),
            Some(given) => {
                let taken = lines.take_key(patience).await?;
                Bits::Keyed(subject.pair_keys(*taken, &name), subject.pair_keys(*given, &name))
            }
        };
        let (store, dialler) = (self.store.clone(), self.only_dialler().cloned());
        Ok(OpenSession { lines, bits, store, dialler, busy, _place: place })
    }

    /// The way to the next server, if it is one process: only then it is known before a session who
    /// will have it.
    fn only_dialler(&self) -> Option<&Arc<PeerConnector>> {
        self.diallers.first().filter(|_| self.diallers.len() == 1)
    }

    /// The stream that is ready, with what was sent on it, or a new one.
    async fn line_to_next(&self, tau: &Tau) -> Result<(PeerStream, Option<PrefetchedWords>), PeerStreamError> {
        if let Some((line, ahead)) = self.store.take()
            && line.name(tau).await
        {
            return Ok((line, Some(ahead)));
        }
        let (mut asking, several) = (JoinSet::new(), self.diallers.len() > 1);
        for dialler in &self.diallers {
            let (dialler, tau) = (dialler.clone(), *tau);
            asking.spawn(async move {
                loop {
                    match dialler.open(&tau).await {
                        // This may be the one that has the session, and somebody will leave.
                        Err(PeerStreamError::Refused(FULL)) if several => tokio::time::sleep(AGAIN).await,
                        answered => return answered,
                    }
                }
            });
        }
        let mut failed = PeerStreamError::Unreachable("it has no address".into());
        // The first one that has the session; the others are told by the end of their streams.
        while let Some(answered) = asking.join_next().await {
            match answered {
                Ok(Ok(line)) => return Ok((line, None)),
                Ok(Err(error)) => failed = error,
                Err(error) => failed = PeerStreamError::Broken(error.to_string()),
            }
        }
        Err(failed)
    }

    async fn place(&self, deadline: Instant) -> Result<OwnedSemaphorePermit, SessionError> {
        let place = tokio::time::timeout_at(deadline, self.places.clone().acquire_owned()).await;
        place.ok().and_then(Result::ok).ok_or(SessionError::Full { seconds: self.limits.join_seconds })
    }

    /// How long a session may take once it is open.
    pub(crate) fn limit(&self) -> Duration {
        Duration::from_secs(self.limits.session_seconds)
    }
}

/// What a server says that has no seat for another stream.
const FULL: u16 = 503;
/// When it is asked again.
const AGAIN: Duration = Duration::from_millis(200);

/// Where streams of the server before wait, and how much it may send ahead.
type Rooms = (Arc<SessionRendezvous>, Arc<PrefetchedRandomness>);

/// A way to these rooms.
fn through_memory(rooms: &Rooms, limits: PeerLimits) -> Connector {
    let rooms = rooms.clone();
    Box::new(move || {
        let rooms = rooms.clone();
        Box::pin(async move {
            let (ours, theirs) = tokio::io::duplex(1 << 20);
            tokio::spawn(serve(theirs, rooms, limits));
            Ok(Box::new(ours) as Box<dyn stream::ByteStream>)
        })
    })
}

/// Serves one connection from the server before.
async fn serve(carrier: impl stream::ByteStream + 'static, (rendezvous, store): Rooms, limits: PeerLimits) {
    // One more for the stream that is ready.
    let most = u32::try_from(limits.waiting + limits.sessions + 1).unwrap_or(u32::MAX);
    let arrived =
        move |tau, line| rendezvous.arrive(tau, line, Instant::now() + Duration::from_secs(limits.join_seconds));
    stream::answer(carrier, most, arrived, move || store.room()).await;
}

#[cfg(test)]
mod tests;
