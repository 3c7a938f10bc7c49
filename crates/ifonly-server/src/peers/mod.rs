//! Sessions between the three servers of a sealed search: connections, handshake, limits.
//!
//! The client's message to each server opens a session. Server n connects to its next server and
//! accepts connections from its previous server. A server may have several frontends behind a load
//! balancer. Its previous server does not know which frontend has the client's message, so it opens
//! a stream to each of them. The frontend with the session answers. The messages are specified in
//! docs/sealed.md, sections 4 to 6; [`ifonly_sealed`] computes.

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

/// Limits of sessions between servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PeerLimits {
    /// Maximum number of concurrent sessions. Server 1 enforces it for all three servers.
    pub sessions: usize,
    /// Maximum number of streams that wait for their session.
    pub waiting: usize,
    /// How long a session waits for both peers, in seconds.
    pub join_seconds: u64,
    /// Time limit of the computation, in seconds.
    pub session_seconds: u64,
}

impl Default for PeerLimits {
    fn default() -> PeerLimits {
        PeerLimits { sessions: 4, waiting: 64, join_seconds: 15, session_seconds: 60 }
    }
}

/// The connections of one server to its two peers.
pub struct PeerNetwork {
    server: usize,
    limits: PeerLimits,
    randomness: RandomnessMode,
    /// One per frontend of the next server.
    connectors: Vec<Arc<PeerConnector>>,
    rendezvous: Arc<SessionRendezvous>,
    prefetched: Arc<PrefetchedRandomness>,
    session_slots: Arc<Semaphore>,
}

impl std::fmt::Debug for PeerNetwork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PeerNetwork(server {}, {:?})", self.server, self.limits)
    }
}

/// Both streams of a session, before the handshake.
struct JoinedStreams {
    streams: PeerStreams,
    /// Random words that this server sent to the next server before the session.
    drawn: Option<PrefetchedWords>,
    /// Random words that this server received from the previous server before the session.
    received: Option<PrefetchedWords>,
    guard: SessionGuard,
    deadline: Instant,
}

/// A session that all three servers have opened. Dropping it frees its slot.
pub(crate) struct OpenSession {
    streams: PeerStreams,
    randomness: SessionRandomness,
    prefetched: Arc<PrefetchedRandomness>,
    /// Connector for the random words of the next session.
    connector: Option<Arc<PeerConnector>>,
    guard: SessionGuard,
    _slot: Option<OwnedSemaphorePermit>,
}

/// Source of the random bits of a session.
enum SessionRandomness {
    /// Words that were drawn and received before the session. The session draws the rest.
    Drawn(Option<PrefetchedWords>, Option<PrefetchedWords>),
    /// Keys shared with the previous server and with the next server.
    Keyed(TranscriptKeys, TranscriptKeys),
}

impl OpenSession {
    /// The random bits of the session, for a party with this circuit.
    pub(crate) fn randomness(&mut self, circuit: &Arc<Circuit>) -> PartyRandomness {
        match &mut self.randomness {
            SessionRandomness::Drawn(drawn, received) => {
                self.prefetched.set_circuit(circuit);
                PartyRandomness::Prefetched(PrefetchedWords::for_session(circuit, drawn.take(), received.take()))
            }
            SessionRandomness::Keyed(previous, next) => {
                PartyRandomness::Keyed { with_previous: previous.clone(), with_next: next.clone() }
            }
        }
    }

    /// Runs the party to its end. Afterwards starts to send random words for the next session,
    /// unless the random bits come from keys.
    pub(crate) async fn run(self, party: Party, limit: Duration) -> Result<Party, SessionError> {
        let OpenSession { streams, randomness, prefetched, connector, guard, _slot } = self;
        let party = streams.run(party, limit).await;
        drop(guard);
        if let (SessionRandomness::Drawn(..), Some(connector)) = (randomness, connector) {
            tokio::spawn(prefetched.fill(connector));
        }
        party
    }
}

impl PeerNetwork {
    fn new(
        server: usize,
        limits: PeerLimits,
        randomness: RandomnessMode,
        connectors: impl IntoIterator<Item = Connector>,
    ) -> PeerNetwork {
        PeerNetwork {
            server,
            limits,
            randomness,
            connectors: connectors.into_iter().map(|connect| Arc::new(PeerConnector::new(connect))).collect(),
            rendezvous: Arc::new(SessionRendezvous::new(limits.waiting)),
            prefetched: Arc::default(),
            session_slots: Arc::new(Semaphore::new(limits.sessions.clamp(1, Semaphore::MAX_PERMITS))),
        }
    }

    /// Three servers in one process, connected through memory.
    pub fn in_memory(limits: PeerLimits) -> [PeerNetwork; 3] {
        PeerNetwork::in_memory_with(limits, RandomnessMode::System)
    }

    /// Three servers in one process with this source of random bits.
    pub(crate) fn in_memory_with(limits: PeerLimits, randomness: RandomnessMode) -> [PeerNetwork; 3] {
        let endpoints: [Endpoint; 3] =
            std::array::from_fn(|_| (Arc::new(SessionRendezvous::new(limits.waiting)), Arc::default()));
        std::array::from_fn(|index| {
            let next = memory_connector(&endpoints[(index + 1) % 3], limits);
            let (rendezvous, prefetched) = endpoints[index].clone();
            PeerNetwork { rendezvous, prefetched, ..PeerNetwork::new(index + 1, limits, randomness, [next]) }
        })
    }

    /// Source of random bits; the servers compare it in the handshake.
    pub(crate) fn randomness(&self) -> RandomnessMode {
        self.randomness
    }

    /// Opens a session with both peers.
    pub(crate) async fn open(&self, context: &SessionContext) -> Result<OpenSession, SessionError> {
        let joined = self.join(context).await?;
        self.handshake(joined, context).await
    }

    /// Opens the stream to the next server and waits for the stream of the previous server.
    async fn join(&self, context: &SessionContext) -> Result<JoinedStreams, SessionError> {
        let deadline = Instant::now() + Duration::from_secs(self.limits.join_seconds);
        let [next_server, previous_server] = [Peer::Next, Peer::Previous].map(|peer| peer.of(self.server));
        let absent = |server| SessionError::Absent { server, seconds: self.limits.join_seconds };
        let guard = self.prefetched.start_session();
        let mut awaited = self.rendezvous.expect(&context.tau).ok_or(SessionError::Duplicate)?;
        let opened = tokio::time::timeout_at(deadline, self.stream_to_next(&context.tau));
        let next = opened.await.map_err(|_| absent(next_server))?;
        let (next, drawn) = next.map_err(|error| SessionError::Stream { server: next_server, error })?;
        let arrived = tokio::time::timeout_at(deadline, awaited.stream()).await;
        let mut previous = arrived.map_err(|_| absent(previous_server))?;
        let received = previous.received.take();
        Ok(JoinedStreams { streams: PeerStreams::new(self.server, next, previous), drawn, received, guard, deadline })
    }

    /// Runs the handshake. Returns when all three servers are ready to compute.
    async fn handshake(&self, joined: JoinedStreams, context: &SessionContext) -> Result<OpenSession, SessionError> {
        let JoinedStreams { mut streams, drawn, received, guard, deadline } = joined;
        let until = |deadline| SessionDeadline { deadline, seconds: self.limits.join_seconds };
        let name = streams.greet(context, until(deadline)).await?;
        let slot = match self.server {
            1 => Some(self.session_slot(deadline).await?),
            _ => None,
        };
        streams.send_confirmation(&name).await?;
        // Sent together with the confirmation, so that it takes no extra round trip.
        let own_key = match context.randomness {
            RandomnessMode::System => None,
            RandomnessMode::Keys => Some(streams.send_key().await?),
        };
        // Server 1 may get its slot only at the deadline; its confirmation needs time to arrive.
        let confirmation = until(deadline + Duration::from_secs(1));
        streams.receive_confirmations(&name, confirmation).await?;
        let randomness = match own_key {
            None => SessionRandomness::Drawn(drawn, received),
            Some(own_key) => {
                let previous_key = streams.receive_key(confirmation).await?;
                SessionRandomness::Keyed(context.pair_keys(*previous_key, &name), context.pair_keys(*own_key, &name))
            }
        };
        let (prefetched, connector) = (self.prefetched.clone(), self.only_connector().cloned());
        Ok(OpenSession { streams, randomness, prefetched, connector, guard, _slot: slot })
    }

    /// The connector to the next server, if that has one frontend. Only then this server knows
    /// before a session which frontend will have it.
    fn only_connector(&self) -> Option<&Arc<PeerConnector>> {
        self.connectors.first().filter(|_| self.connectors.len() == 1)
    }

    /// The stream with prefetched random words if there is one, otherwise a new stream.
    async fn stream_to_next(&self, tau: &Tau) -> Result<(PeerStream, Option<PrefetchedWords>), PeerStreamError> {
        if let Some((stream, prefetched)) = self.prefetched.take()
            && stream.send_name(tau).await
        {
            return Ok((stream, Some(prefetched)));
        }
        let (mut opening, several) = (JoinSet::new(), self.connectors.len() > 1);
        for connector in &self.connectors {
            let (connector, tau) = (connector.clone(), *tau);
            opening.spawn(async move {
                loop {
                    match connector.open(&tau).await {
                        // This frontend may have the session, so retry until a stream there ends.
                        Err(PeerStreamError::Refused(FULL)) if several => tokio::time::sleep(RETRY_PAUSE).await,
                        result => return result,
                    }
                }
            });
        }
        let mut last_error = PeerStreamError::Unreachable("no address is configured".into());
        // Uses the first frontend that has the session. Returning ends the other streams.
        while let Some(result) = opening.join_next().await {
            match result {
                Ok(Ok(stream)) => return Ok((stream, None)),
                Ok(Err(error)) => last_error = error,
                Err(error) => last_error = PeerStreamError::Broken(error.to_string()),
            }
        }
        Err(last_error)
    }

    async fn session_slot(&self, deadline: Instant) -> Result<OwnedSemaphorePermit, SessionError> {
        let slot = tokio::time::timeout_at(deadline, self.session_slots.clone().acquire_owned()).await;
        slot.ok().and_then(Result::ok).ok_or(SessionError::NoSlot { seconds: self.limits.join_seconds })
    }

    /// Time limit of the computation.
    pub(crate) fn limit(&self) -> Duration {
        Duration::from_secs(self.limits.session_seconds)
    }
}

/// Status of a server whose limit of waiting streams is reached.
const FULL: u16 = 503;
/// Pause before a retry after [`FULL`].
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// State of a server that its previous server connects to: waiting streams, prefetched randomness.
type Endpoint = (Arc<SessionRendezvous>, Arc<PrefetchedRandomness>);

/// Connects to this endpoint through memory.
fn memory_connector(endpoint: &Endpoint, limits: PeerLimits) -> Connector {
    let endpoint = endpoint.clone();
    Box::new(move || {
        let endpoint = endpoint.clone();
        Box::pin(async move {
            let (ours, theirs) = tokio::io::duplex(1 << 20);
            tokio::spawn(serve(theirs, endpoint, limits));
            Ok(Box::new(ours) as Box<dyn stream::ByteStream>)
        })
    })
}

/// Serves one connection from the previous server.
async fn serve(connection: impl stream::ByteStream + 'static, (rendezvous, prefetched): Endpoint, limits: PeerLimits) {
    // One more for the stream with prefetched random words.
    let most = u32::try_from(limits.waiting + limits.sessions + 1).unwrap_or(u32::MAX);
    let arrived =
        move |tau, stream| rendezvous.arrive(tau, stream, Instant::now() + Duration::from_secs(limits.join_seconds));
    stream::serve_connection(connection, most, arrived, move || prefetched.receive_slot()).await;
}

#[cfg(test)]
mod tests;
