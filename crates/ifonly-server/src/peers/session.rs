//! One search among three servers: they meet, make sure that they mean the same search, and run the
//! machine.
//!
//! Before anything is computed, every server tells both others what it was asked (a [`Subject`])
//! and a number that it drew; the session's name follows, and each confirms it to both others.
//! Server 1 confirms when it has a place for the session, so that three servers with many sessions
//! never wait for each other in a circle; whoever has both confirmations begins. Where random bits
//! come from keys, each draws one for the session and sends it to the next server beside its
//! confirmation.

use crate::peers::stream::{PeerStream, PeerStreamError, framed};
use bytes::Bytes;
use ifonly_algebra::random::{OsRandom, RandomSource};
use ifonly_sealed::{
    ExpectedFrame, FrameOutcome, HandshakeMismatch, Party, Peer, SealedError as MachineError, SessionContext,
    SessionRandom,
};
use std::time::Duration;
use tokio::time::Instant;
use zeroize::Zeroizing;

/// Why a session came to nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SessionError {
    /// The line to a peer.
    #[error("server {server} {error}")]
    Line {
        /// Which server.
        server: usize,
        /// What became of it.
        error: PeerStreamError,
    },
    /// A peer broke the rules of the machine.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// A peer did not come in time.
    #[error("server {server} did not come to the session within {seconds} seconds")]
    Away {
        /// Which server.
        server: usize,
        /// The limit.
        seconds: u64,
    },
    /// A peer was too slow.
    #[error("server {server} took longer than {seconds} seconds; due was {due}")]
    UploadTimeout {
        /// Which server.
        server: usize,
        /// The limit.
        seconds: u64,
        /// What it owed.
        due: ExpectedFrame,
    },
    /// A peer was asked something else.
    #[error("server {server} has another {what} for this session")]
    Differs {
        /// Which server.
        server: usize,
        /// In what.
        what: &'static str,
    },
    /// A peer whose key for the session is none.
    #[error("server {server} sent a key of {length} bytes for this session, where 32 were due")]
    Key {
        /// Which server.
        server: usize,
        /// How many there were.
        length: usize,
    },
    /// A peer that does not speak this.
    #[error("server {server} does not speak this version of the servers' protocol")]
    Version {
        /// Which server.
        server: usize,
    },
    /// The same message came twice.
    #[error("this search is under way already")]
    Twice,
    /// No place.
    #[error("no place for another session within {seconds} seconds")]
    Full {
        /// The limit.
        seconds: u64,
    },
}

/// How long the others may take to come to a session.
#[derive(Clone, Copy)]
pub(crate) struct SessionDeadline {
    pub(crate) deadline: Instant,
    /// What is said of it.
    pub(crate) seconds: u64,
}

/// Both lines of a session, the next server's first.
pub(crate) struct PeerStreams {
    server: usize,
    lines: [PeerStream; 2],
}

const PEERS: [Peer; 2] = [Peer::Next, Peer::Previous];

impl PeerStreams {
    pub(crate) fn new(server: usize, next: PeerStream, previous: PeerStream) -> PeerStreams {
        PeerStreams { server, lines: [next, previous] }
    }

    /// Where frames for the next server and the previous one go in, so that tests can harm some.
    #[cfg(test)]
    pub(crate) fn ends(&mut self) -> [&mut tokio::sync::mpsc::Sender<Bytes>; 2] {
        self.lines.each_mut().map(|line| &mut line.to)
    }

    /// Tells the others what this server was asked, hears the same from them, and gives the
    /// session's name.
    pub(crate) async fn meet(
        &mut self,
        subject: &SessionContext,
        until: SessionDeadline,
    ) -> Result<[u8; 32], SessionError> {
        let mut nonces = [SessionRandom::default(); 3];
        OsRandom::default().fill(&mut nonces[self.server - 1]);
        self.tell(&subject.greeting(self.server, &nonces[self.server - 1])).await?;
        for (peer, heard) in PEERS.into_iter().zip(self.hear(until).await?) {
            let server = peer.of(self.server);
            nonces[server - 1] = subject.read_greeting(server, &heard).map_err(|misfit| match misfit {
                HandshakeMismatch::Version => SessionError::Version { server },
                HandshakeMismatch::Differs(what) => SessionError::Differs { server, what },
            })?;
        }
        Ok(subject.session(&nonces))
    }

    /// Says that this server is ready to begin.
    pub(crate) async fn confirm(&mut self, name: &[u8; 32]) -> Result<(), SessionError> {
        self.tell(name).await
    }

    /// Waits until both others are.
    pub(crate) async fn confirmed(&mut self, name: &[u8; 32], until: SessionDeadline) -> Result<(), SessionError> {
        for (peer, heard) in PEERS.into_iter().zip(self.hear(until).await?) {
            if heard[..] != name[..] {
                return Err(SessionError::Differs { server: peer.of(self.server), what: "name" });
            }
        }
        Ok(())
    }

    /// Draws the key that this server and the next one share in this session, and sends it there.
    /// The line is theirs alone.
    pub(crate) async fn give_key(&mut self) -> Result<Zeroizing<SessionRandom>, SessionError> {
        let mut key = Zeroizing::new(SessionRandom::default());
        OsRandom::default().fill(&mut key[..]);
        let gone = |_| self.broken(Peer::Next, "it closed the session");
        self.lines[0].to.send(framed(&key[..])).await.map_err(gone)?;
        Ok(key)
    }

    /// The key that the previous server drew.
    pub(crate) async fn take_key(&mut self, until: SessionDeadline) -> Result<Zeroizing<SessionRandom>, SessionError> {
        let server = Peer::Previous.of(self.server);
        let heard = hear(server, &mut self.lines[1], until).await?;
        let key = SessionRandom::try_from(&heard[..]).map_err(|_| SessionError::Key { server, length: heard.len() })?;
        Ok(Zeroizing::new(key))
    }

    async fn tell(&mut self, frame: &[u8]) -> Result<(), SessionError> {
        for (peer, line) in PEERS.into_iter().zip(&self.lines) {
            let gone = |_| self.broken(peer, "it closed the session");
            line.to.send(framed(frame)).await.map_err(gone)?;
        }
        Ok(())
    }

    /// A frame of each. Where both are missing, the next server is named: it has the stream, and
    /// may itself still wait for its user.
    async fn hear(&mut self, until: SessionDeadline) -> Result<[Bytes; 2], SessionError> {
        let server = self.server;
        let [next, previous] = &mut self.lines;
        let (next, previous) =
            (hear(Peer::Next.of(server), next, until), hear(Peer::Previous.of(server), previous, until));
        let (next, previous) = tokio::try_join!(biased; next, previous)?;
        Ok([next, previous])
    }

    fn broken(&self, peer: Peer, reason: &str) -> SessionError {
        SessionError::Line { server: peer.of(self.server), error: PeerStreamError::Broken(reason.into()) }
    }

    /// Runs the machine to its end. It computes between its waits, so it belongs on a thread that
    /// may be busy.
    pub(crate) async fn run(mut self, mut party: Party, limit: Duration) -> Result<Party, SessionError> {
        let deadline = Instant::now() + limit;
        let mut random = OsRandom::default();
        let mut frame = vec![];
        let mut pending: [Option<Bytes>; 2] = [None, None];
        let mut held: [Option<Bytes>; 2] = [None, None];
        let mut ended = [false; 2];
        loop {
            let mut moved = false;
            for (place, peer) in PEERS.into_iter().enumerate() {
                if pending[place].is_none() && party.next_frame(peer, &mut random, &mut frame)? {
                    pending[place] = Some(framed(&frame));
                }
                if let Some(bytes) = pending[place].take() {
                    match self.lines[place].to.try_reserve() {
                        Ok(room) => {
                            room.send(bytes);
                            moved = true;
                        }
                        Err(_) => pending[place] = Some(bytes),
                    }
                }
                if let Some(bytes) = held[place].take() {
                    match party.receive(peer, &bytes)? {
                        FrameOutcome::Yes => moved = true,
                        FrameOutcome::NotYet => held[place] = Some(bytes),
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
            let PeerStreams { server, lines: [next, previous] } = &mut self;
            let server = *server;
            let broken = |peer: Peer| {
                let error = PeerStreamError::Broken("it closed the session".into());
                SessionError::Line { server: peer.of(server), error }
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
                heard = next.from.next(), if held[0].is_none() && !ended[0] => {
                    take(&mut party, Peer::Next, server, heard, &mut held[0], &mut ended[0])?;
                }
                heard = previous.from.next(), if held[1].is_none() && !ended[1] => {
                    take(&mut party, Peer::Previous, server, heard, &mut held[1], &mut ended[1])?;
                }
                () = tokio::time::sleep_until(deadline) => {
                    let (peer, due) = party.behind();
                    return Err(SessionError::UploadTimeout { server: peer.of(server), seconds: limit.as_secs(), due });
                }
            }
        }
    }
}

impl PeerStreams {
    /// Says that nothing more comes, and stays until the others have said so too: whoever hangs up
    /// before that takes what is on its way back with them.
    async fn close(self, deadline: Instant) {
        let [next, previous] = self.lines;
        let rest = async |PeerStream { to, mut from, .. }: PeerStream| {
            drop(to);
            while let Ok(Some(_)) = from.next().await {}
        };
        let _ = tokio::time::timeout_at(deadline, async { tokio::join!(rest(next), rest(previous)) }).await;
    }
}

/// The next frame of `server`, which must not be its last.
async fn hear(server: usize, line: &mut PeerStream, until: SessionDeadline) -> Result<Bytes, SessionError> {
    let heard = tokio::time::timeout_at(until.deadline, line.from.next()).await;
    let heard = heard.map_err(|_| SessionError::Away { server, seconds: until.seconds })?;
    let closed = || PeerStreamError::Broken("it closed the session".into());
    let frame = heard.and_then(|frame| frame.ok_or_else(closed));
    frame.map_err(|error| SessionError::Line { server, error })
}

/// Keeps a frame for the party, or tells it that a peer has no more.
fn take(
    party: &mut Party,
    peer: Peer,
    server: usize,
    heard: Result<Option<Bytes>, PeerStreamError>,
    held: &mut Option<Bytes>,
    ended: &mut bool,
) -> Result<(), SessionError> {
    match heard {
        Ok(Some(frame)) => *held = Some(frame),
        Ok(None) => {
            *ended = true;
            party.peer_closed(peer)?;
        }
        Err(error) => return Err(SessionError::Line { server: peer.of(server), error }),
    }
    Ok(())
}
