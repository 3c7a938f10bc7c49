//! One session of three servers on its two streams: handshake, then the frames of the party.
//!
//! Each server sends its greeting ([`SessionContext`] and a nonce) to both peers, then the session
//! name as a confirmation. It starts to compute when it has both confirmations. Server 1 confirms
//! only when it has a permit for the session. One server alone decides, so servers with many
//! sessions cannot deadlock. In randomness mode `keys`, each server draws a key for the session and
//! sends it to its next server after the confirmation.

use crate::peers::stream::{PeerStream, PeerStreamError, framed};
use bytes::Bytes;
use ifonly_algebra::random::{OsRandom, RandomSource};
use ifonly_sealed::{
    ExpectedFrame, FrameOutcome, HandshakeMismatch, Party, Peer, SealedError, SessionContext, SessionRandom,
};
use std::time::Duration;
use tokio::time::Instant;
use zeroize::Zeroizing;

/// Why a session failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SessionError {
    /// The stream to a peer failed.
    #[error("server {server} {error}")]
    Stream {
        /// Index of the peer.
        server: usize,
        /// What failed.
        error: PeerStreamError,
    },
    /// A peer violated the protocol of the circuit evaluation.
    #[error(transparent)]
    Party(#[from] SealedError),
    /// A peer did not join in time.
    #[error("server {server} did not join the session within {seconds} s")]
    Absent {
        /// Index of the peer.
        server: usize,
        /// The limit.
        seconds: u64,
    },
    /// Neither peer joined in time.
    #[error("server {} and server {} did not join the session within {seconds} s", .servers[0], .servers[1])]
    BothAbsent {
        /// Indices of the peers.
        servers: [usize; 2],
        /// The limit.
        seconds: u64,
    },
    /// The session lost its place to another one.
    #[error("too many searches from this address wait for other servers; the oldest was ended")]
    Displaced,
    /// A peer was too slow.
    #[error("server {server} did not send a frame within the time limit of the session, {seconds} s; expected {due}")]
    Timeout {
        /// Index of the peer.
        server: usize,
        /// The limit.
        seconds: u64,
        /// The missing frame.
        due: ExpectedFrame,
    },
    /// The greeting of a peer differs.
    #[error("server {server} has a different {what} for this session")]
    Differs {
        /// Index of the peer.
        server: usize,
        /// Name of the differing field.
        what: &'static str,
    },
    /// The session key of a peer has the wrong length.
    #[error("server {server} sent a session key of length {length}; expected 32 bytes")]
    Key {
        /// Index of the peer.
        server: usize,
        /// Length in bytes.
        length: usize,
    },
    /// A peer uses another protocol version.
    #[error("server {server} uses another version of the protocol between servers")]
    Version {
        /// Index of the peer.
        server: usize,
    },
    /// A session with the same transcript digest waits already.
    #[error("another copy of this message is being processed")]
    Duplicate,
    /// The limit of concurrent sessions is reached.
    #[error("server 1 has too many concurrent sessions; no permit became free within {seconds} s")]
    NoPermit {
        /// The limit.
        seconds: u64,
    },
}

/// Deadline of the handshake.
#[derive(Clone, Copy)]
pub(crate) struct SessionDeadline {
    pub(crate) deadline: Instant,
    /// The configured limit, for error messages.
    pub(crate) seconds: u64,
}

/// Both streams of a session: to the next server, then to the previous server.
pub(crate) struct PeerStreams {
    server: usize,
    streams: [PeerStream; 2],
}

const PEERS: [Peer; 2] = [Peer::Next, Peer::Previous];
/// Reason in errors when a peer ends its stream too early.
const CLOSED: &str = "it closed the session";

impl PeerStreams {
    pub(crate) fn new(server: usize, next: PeerStream, previous: PeerStream) -> PeerStreams {
        PeerStreams { server, streams: [next, previous] }
    }

    /// The senders to the next and to the previous server, so that tests can alter frames.
    #[cfg(test)]
    pub(crate) fn senders(&mut self) -> [&mut tokio::sync::mpsc::Sender<Bytes>; 2] {
        self.streams.each_mut().map(|stream| &mut stream.to)
    }

    /// Exchanges greetings with both peers. Returns the session name.
    pub(crate) async fn greet(
        &mut self,
        context: &SessionContext,
        until: SessionDeadline,
    ) -> Result<[u8; 32], SessionError> {
        let mut nonces = [SessionRandom::default(); 3];
        OsRandom::default().fill(&mut nonces[self.server - 1]);
        self.send_to_both(&context.greeting(self.server, &nonces[self.server - 1])).await?;
        for (peer, greeting) in PEERS.into_iter().zip(self.receive_from_both(until).await?) {
            let server = peer.of(self.server);
            nonces[server - 1] = context.read_greeting(server, &greeting).map_err(|mismatch| match mismatch {
                HandshakeMismatch::Version => SessionError::Version { server },
                HandshakeMismatch::Differs(what) => SessionError::Differs { server, what },
            })?;
        }
        Ok(context.session(&nonces))
    }

    /// Tells both peers that this server is ready to compute.
    pub(crate) async fn send_confirmation(&mut self, name: &[u8; 32]) -> Result<(), SessionError> {
        self.send_to_both(name).await
    }

    /// Waits until both peers are ready.
    pub(crate) async fn receive_confirmations(
        &mut self,
        name: &[u8; 32],
        until: SessionDeadline,
    ) -> Result<(), SessionError> {
        for (peer, confirmed) in PEERS.into_iter().zip(self.receive_from_both(until).await?) {
            if confirmed[..] != name[..] {
                return Err(SessionError::Differs { server: peer.of(self.server), what: "session name" });
            }
        }
        Ok(())
    }

    /// Draws the pair key of this server and its next server and sends it there. TLS protects it on
    /// the way.
    pub(crate) async fn send_key(&mut self) -> Result<Zeroizing<SessionRandom>, SessionError> {
        let mut key = Zeroizing::new(SessionRandom::default());
        OsRandom::default().fill(&mut key[..]);
        let closed = |_| self.broken(Peer::Next, CLOSED);
        self.streams[0].to.send(framed(&key[..])).await.map_err(closed)?;
        Ok(key)
    }

    /// Receives the pair key that the previous server drew.
    pub(crate) async fn receive_key(
        &mut self,
        until: SessionDeadline,
    ) -> Result<Zeroizing<SessionRandom>, SessionError> {
        let server = Peer::Previous.of(self.server);
        let frame = receive_frame(server, &mut self.streams[1], until).await?;
        let key = SessionRandom::try_from(&frame[..]).map_err(|_| SessionError::Key { server, length: frame.len() })?;
        Ok(Zeroizing::new(key))
    }

    async fn send_to_both(&mut self, frame: &[u8]) -> Result<(), SessionError> {
        for (peer, stream) in PEERS.into_iter().zip(&self.streams) {
            let closed = |_| self.broken(peer, CLOSED);
            stream.to.send(framed(frame)).await.map_err(closed)?;
        }
        Ok(())
    }

    /// One frame from each peer. If both are missing, the error names the next server. It has
    /// accepted the stream, so its own session exists.
    async fn receive_from_both(&mut self, until: SessionDeadline) -> Result<[Bytes; 2], SessionError> {
        let server = self.server;
        let [next, previous] = &mut self.streams;
        let (next, previous) = (
            receive_frame(Peer::Next.of(server), next, until),
            receive_frame(Peer::Previous.of(server), previous, until),
        );
        let (next, previous) = tokio::try_join!(biased; next, previous)?;
        Ok([next, previous])
    }

    fn broken(&self, peer: Peer, reason: &str) -> SessionError {
        SessionError::Stream { server: peer.of(self.server), error: PeerStreamError::Broken(reason.into()) }
    }

    /// Runs the party to its end. The future computes between its waits, so it must run on a
    /// blocking thread.
    pub(crate) async fn run(mut self, mut party: Party, limit: Duration) -> Result<Party, SessionError> {
        let deadline = Instant::now() + limit;
        let mut random = OsRandom::default();
        let mut frame = vec![];
        let mut pending: [Option<Bytes>; 2] = [None, None];
        let mut unread: [Option<Bytes>; 2] = [None, None];
        let mut ended = [false; 2];
        loop {
            let mut moved = false;
            for (side, peer) in PEERS.into_iter().enumerate() {
                if pending[side].is_none() && party.next_frame(peer, &mut random, &mut frame)? {
                    pending[side] = Some(framed(&frame));
                }
                if let Some(bytes) = pending[side].take() {
                    match self.streams[side].to.try_reserve() {
                        Ok(room) => {
                            room.send(bytes);
                            moved = true;
                        }
                        Err(_) => pending[side] = Some(bytes),
                    }
                }
                if let Some(bytes) = unread[side].take() {
                    match party.receive(peer, &bytes)? {
                        FrameOutcome::Accepted => moved = true,
                        FrameOutcome::NotYet => unread[side] = Some(bytes),
                    }
                }
            }
            if moved {
                continue;
            }
            if party.is_finished() && pending == [None, None] {
                tokio::spawn(self.close(deadline));
                return Ok(party);
            }
            let PeerStreams { server, streams: [next, previous] } = &mut self;
            let server = *server;
            let broken = |peer: Peer| {
                let error = PeerStreamError::Broken(CLOSED.into());
                SessionError::Stream { server: peer.of(server), error }
            };
            tokio::select! {
                room = next.to.reserve(), if pending[0].is_some() => match (room, pending[0].take()) {
                    (Ok(room), Some(bytes)) => room.send(bytes),
                    _ => return Err(broken(Peer::Next)),
                },
                room = previous.to.reserve(), if pending[1].is_some() => match (room, pending[1].take()) {
                    (Ok(room), Some(bytes)) => room.send(bytes),
                    _ => return Err(broken(Peer::Previous)),
                },
                received = next.from.next(), if unread[0].is_none() && !ended[0] => {
                    store_frame(&mut party, Peer::Next, server, received, &mut unread[0], &mut ended[0])?;
                }
                received = previous.from.next(), if unread[1].is_none() && !ended[1] => {
                    store_frame(&mut party, Peer::Previous, server, received, &mut unread[1], &mut ended[1])?;
                }
                () = tokio::time::sleep_until(deadline) => {
                    let (peer, due) = party.waiting_for();
                    return Err(SessionError::Timeout { server: peer.of(server), seconds: limit.as_secs(), due });
                }
            }
        }
    }
}

impl PeerStreams {
    /// Ends both outgoing streams and reads until both peers end theirs. Dropping a stream earlier
    /// would reset it, and frames that are still in transit to the peer would be lost.
    async fn close(self, deadline: Instant) {
        let [next, previous] = self.streams;
        let drain = async |PeerStream { to, mut from, .. }: PeerStream| {
            drop(to);
            while let Ok(Some(_)) = from.next().await {}
        };
        let _ = tokio::time::timeout_at(deadline, async { tokio::join!(drain(next), drain(previous)) }).await;
    }
}

/// The next frame of `server`; an error if the stream has ended.
async fn receive_frame(server: usize, stream: &mut PeerStream, until: SessionDeadline) -> Result<Bytes, SessionError> {
    let received = tokio::time::timeout_at(until.deadline, stream.from.next()).await;
    let received = received.map_err(|_| SessionError::Absent { server, seconds: until.seconds })?;
    let closed = || PeerStreamError::Broken(CLOSED.into());
    let frame = received.and_then(|frame| frame.ok_or_else(closed));
    frame.map_err(|error| SessionError::Stream { server, error })
}

/// Stores a frame for the party, or tells the party that a peer has closed its stream.
fn store_frame(
    party: &mut Party,
    peer: Peer,
    server: usize,
    received: Result<Option<Bytes>, PeerStreamError>,
    unread: &mut Option<Bytes>,
    ended: &mut bool,
) -> Result<(), SessionError> {
    match received {
        Ok(Some(frame)) => *unread = Some(frame),
        Ok(None) => {
            *ended = true;
            party.peer_closed(peer)?;
        }
        Err(error) => return Err(SessionError::Stream { server: peer.of(server), error }),
    }
    Ok(())
}
