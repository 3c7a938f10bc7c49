//! Sessions between the three servers of a sealed search: connections, handshake, limits.
//!
//! The client's message to each server opens a session. Server n connects to its next server and
//! accepts connections from its previous server. A server may have several frontends behind a load
//! balancer. Its previous server does not know which frontend has the client's message, so it opens
//! a stream to each of them. The frontend with the session answers. The messages are specified in
//! docs/sealed.md, sections 4 to 6; [`ifonly_sealed`] computes.
//!
//! A session is half-open until all three servers have met. A client can open such sessions at one
//! server only, so they are limited: a session takes a place, and at the limit the oldest session
//! of the address with the most places loses its own. Server 1 shares the permits for computations
//! fairly between addresses (`FairPermits`).

mod client_class;
pub(crate) mod listener;
mod prefetch;
mod rendezvous;
mod session;
mod stream;

use crate::limits::eviction::{EvictingPool, PoolEntry};
use crate::limits::fair_permits::{FairPermit, FairPermits};
use client_class::{ClassKey, ClientClass};
use ifonly_algebra::keys::TranscriptKeys;
use ifonly_core::transcript::Tau;
pub use ifonly_sealed::RandomnessMode;
use ifonly_sealed::{Circuit, Party, PartyRandomness, Peer, PrefetchedWords, SessionContext};
pub(crate) use listener::PeerTls;
use listener::RunningTls;
pub use listener::{NextServer, PeerListener, PeerListenerError, PeersConfig, PreviousServer};
use prefetch::{PrefetchedRandomness, SessionGuard};
use rendezvous::{AwaitedStream, SessionRendezvous};
pub(crate) use session::SessionError;
use session::{PeerStreams, SessionDeadline};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use stream::{Connector, PeerConnector, PeerStream, PeerStreamError};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Limits of sessions between servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PeerLimits {
    /// Maximum number of concurrent sessions. Server 1 enforces it for all three servers.
    pub sessions: usize,
    /// Maximum number of sessions that wait for a peer or for a permit, and of streams that wait
    /// for their session.
    pub waiting: usize,
    /// How long a session waits until both peers have joined it, in seconds.
    pub join_seconds: u64,
    /// How long a session of all three servers waits for a permit, in seconds.
    pub queue_seconds: u64,
    /// Time limit of the computation, in seconds.
    pub session_seconds: u64,
}

impl Default for PeerLimits {
    fn default() -> PeerLimits {
        PeerLimits { sessions: 4, waiting: 64, join_seconds: 5, queue_seconds: 15, session_seconds: 60 }
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
    /// Sessions that have not started to compute, by client address.
    half_open: Arc<EvictingPool>,
    session_permits: Arc<FairPermits>,
    class_key: ClassKey,
    /// `None` without TLS: in one process.
    tls: Option<RunningTls>,
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
    place: PoolEntry,
    client: IpAddr,
}

/// A session that all three servers have joined, with equal contexts. It waits for a permit.
pub(crate) struct MetSession {
    joined: JoinedStreams,
    context: SessionContext,
    name: [u8; 32],
}

/// A session that all three servers have opened. Dropping it frees its permit.
pub(crate) struct OpenSession {
    streams: PeerStreams,
    randomness: SessionRandomness,
    prefetched: Arc<PrefetchedRandomness>,
    /// Connector for the random words of the next session.
    connector: Option<Arc<PeerConnector>>,
    guard: SessionGuard,
    _permit: Option<FairPermit>,
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
        let OpenSession { streams, randomness, prefetched, connector, guard, _permit } = self;
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
            half_open: EvictingPool::new(limits.waiting.max(1) as u64),
            session_permits: FairPermits::new(limits.sessions),
            class_key: ClassKey::draw(),
            tls: None,
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

    /// Opens a session with both peers for the client with this address.
    #[cfg(test)]
    pub(crate) async fn open(&self, context: &SessionContext) -> Result<OpenSession, SessionError> {
        let met = self.meet(context, IpAddr::V4(std::net::Ipv4Addr::LOCALHOST)).await?;
        self.confirm(met).await
    }

    /// Meets both peers for the client with this address: joins their streams and compares the
    /// contexts.
    pub(crate) async fn meet(&self, context: &SessionContext, client: IpAddr) -> Result<MetSession, SessionError> {
        let joined = self.join(context, client).await?;
        self.greet(joined, context).await
    }

    /// Opens the stream to the next server and waits for the stream of the previous server.
    async fn join(&self, context: &SessionContext, client: IpAddr) -> Result<JoinedStreams, SessionError> {
        let deadline = Instant::now() + Duration::from_secs(self.limits.join_seconds);
        let place = self.half_open.enter(client, 1).ok_or(SessionError::Displaced)?;
        let guard = self.prefetched.start_session();
        let mut awaited = self.rendezvous.expect(&context.tau).ok_or(SessionError::Duplicate)?;
        let joining = self.join_both(context, self.class_key.class(client), &mut awaited, deadline);
        let ((next, drawn), mut previous) = unless_displaced(&place, joining).await?;
        let received = previous.received.take();
        let streams = PeerStreams::new(self.server, next, previous);
        Ok(JoinedStreams { streams, drawn, received, guard, deadline, place, client })
    }

    async fn join_both(
        &self,
        context: &SessionContext,
        class: ClientClass,
        awaited: &mut AwaitedStream<'_>,
        deadline: Instant,
    ) -> Result<((PeerStream, Option<PrefetchedWords>), PeerStream), SessionError> {
        let [next_server, previous_server] = [Peer::Next, Peer::Previous].map(|peer| peer.of(self.server));
        let seconds = self.limits.join_seconds;
        // A failed stream ends the session at once; an absent server only at the deadline, when it
        // is known whether the other one is absent too.
        let opened = async {
            match tokio::time::timeout_at(deadline, self.stream_to_next(&context.tau, class)).await {
                Ok(Err(error)) => Err(SessionError::Stream { server: next_server, error }),
                opened => Ok(opened.ok().and_then(Result::ok)),
            }
        };
        let arrived = async { Ok(tokio::time::timeout_at(deadline, awaited.stream()).await.ok()) };
        match tokio::try_join!(opened, arrived)? {
            (Some(next), Some(previous)) => Ok((next, previous)),
            (None, Some(_)) => Err(SessionError::Absent { server: next_server, seconds }),
            (Some(_), None) => Err(SessionError::Absent { server: previous_server, seconds }),
            (None, None) => Err(SessionError::BothAbsent { servers: [next_server, previous_server], seconds }),
        }
    }

    /// Compares the contexts of the three servers.
    async fn greet(&self, mut joined: JoinedStreams, context: &SessionContext) -> Result<MetSession, SessionError> {
        let until = SessionDeadline { deadline: joined.deadline, seconds: self.limits.join_seconds };
        let name = unless_displaced(&joined.place, joined.streams.greet(context, until)).await?;
        Ok(MetSession { joined, context: *context, name })
    }

    /// Ends the handshake. Returns when all three servers are ready to compute.
    pub(crate) async fn confirm(&self, met: MetSession) -> Result<OpenSession, SessionError> {
        let MetSession { joined, context, name } = met;
        let JoinedStreams { mut streams, drawn, received, guard, place, client, .. } = joined;
        let seconds = self.limits.queue_seconds;
        let deadline = Instant::now() + Duration::from_secs(seconds);
        let confirming = async {
            let permit = match self.server {
                1 => Some(self.session_permit(client, context.top.into(), deadline).await?),
                _ => None,
            };
            streams.send_confirmation(&name).await?;
            // Sent together with the confirmation, so that it takes no extra round trip.
            let own_key = match context.randomness {
                RandomnessMode::System => None,
                RandomnessMode::Keys => Some(streams.send_key().await?),
            };
            // Server 1 may get its permit only at the deadline; its confirmation needs time to
            // arrive.
            let confirmation = SessionDeadline { deadline: deadline + Duration::from_secs(1), seconds };
            streams.receive_confirmations(&name, confirmation).await?;
            let randomness = match own_key {
                None => SessionRandomness::Drawn(drawn, received),
                Some(own_key) => {
                    let previous_key = streams.receive_key(confirmation).await?;
                    let keys = |key: &[u8; 32]| context.pair_keys(*key, &name);
                    SessionRandomness::Keyed(keys(&previous_key), keys(&own_key))
                }
            };
            Ok((randomness, permit))
        };
        let (randomness, permit) = unless_displaced(&place, confirming).await?;
        let (prefetched, connector) = (self.prefetched.clone(), self.only_connector().cloned());
        Ok(OpenSession { streams, randomness, prefetched, connector, guard, _permit: permit })
    }

    /// The connector to the next server, if that has one frontend. Only then this server knows
    /// before a session which frontend will have it.
    fn only_connector(&self) -> Option<&Arc<PeerConnector>> {
        self.connectors.first().filter(|_| self.connectors.len() == 1)
    }

    /// The stream with prefetched random words if there is one, otherwise a new stream.
    async fn stream_to_next(
        &self,
        tau: &Tau,
        class: ClientClass,
    ) -> Result<(PeerStream, Option<PrefetchedWords>), PeerStreamError> {
        if let Some((stream, prefetched)) = self.prefetched.take()
            && stream.send_name(tau, class).await
        {
            return Ok((stream, Some(prefetched)));
        }
        let mut opening = JoinSet::new();
        for connector in &self.connectors {
            let (connector, tau) = (connector.clone(), *tau);
            opening.spawn(async move { connector.open(&tau, class).await });
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

    async fn session_permit(&self, client: IpAddr, weight: u64, deadline: Instant) -> Result<FairPermit, SessionError> {
        let permit = tokio::time::timeout_at(deadline, self.session_permits.acquire(client, weight)).await;
        permit.map_err(|_| SessionError::NoPermit { seconds: self.limits.queue_seconds })
    }

    /// Time limit of the computation.
    pub(crate) fn limit(&self) -> Duration {
        Duration::from_secs(self.limits.session_seconds)
    }
}

/// Runs a part of the handshake until the session loses its place.
async fn unless_displaced<T>(
    place: &PoolEntry,
    handshake: impl Future<Output = Result<T, SessionError>>,
) -> Result<T, SessionError> {
    tokio::select! {
        result = handshake => result,
        () = place.evicted() => Err(SessionError::Displaced),
    }
}

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
    // Streams of waiting sessions, of running sessions and of sessions that end. The previous
    // server has places for its sessions, so an honest one never reaches this limit.
    let most = limits.waiting.saturating_add(limits.sessions).saturating_mul(2).saturating_add(16);
    let most = u32::try_from(most).unwrap_or(u32::MAX);
    let join_limit = Duration::from_secs(limits.join_seconds);
    let arrived = move |tau, class, stream| rendezvous.arrive(tau, class, stream, Instant::now() + join_limit);
    stream::serve_connection(connection, most, arrived, move || prefetched.receive_buffer()).await;
}

#[cfg(test)]
mod tests;
