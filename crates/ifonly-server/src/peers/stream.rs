//! The line between two servers: one HTTP/2 connection that stays open, and a stream on it for
//! every session.
//!
//! HTTP/2 brings what many sessions on one line need: each has its own window, so one that is slow
//! holds back nobody else, and each can end by itself. Server n dials the server after it and is
//! dialled by the one before, so there is one connection per pair, or one for each front where the
//! next server has several. A stream is answered as soon as the session is there too.

use bytes::{Buf, Bytes, BytesMut};
use http::{Request, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use ifonly_core::transcript::Tau;
use ifonly_sealed::{FRAME_WORDS, FrameOutcome, HEADER_BYTES, PrefetchedWords};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Mutex, OwnedSemaphorePermit, mpsc, oneshot};

/// The longest frame: a part of a step. Everything else between servers is shorter.
const MOST_FRAME: usize = HEADER_BYTES + 8 * FRAME_WORDS;
/// Frames that wait for the network.
const WAITING_FRAMES: usize = 32;
/// Bytes of a session that may be on their way to a server that has not read them.
const STREAM_WINDOW: u32 = 1 << 20;
/// Bytes of all sessions of a line together.
const LINE_WINDOW: u32 = 16 << 20;
/// How often a silent line is asked whether it still is one.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
const PATH: &str = "/session/";
/// Where a stream is opened before its session.
const AHEAD_PATH: &str = "/ahead";
/// What such a stream says when its session is known; random bits begin with a zero.
const NAMED: &[u8; 8] = b"session ";

/// Anything that carries bytes both ways.
pub(crate) trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

/// How the next server is reached.
pub(crate) type Connector = Box<dyn Fn() -> ConnectFuture + Send + Sync>;
/// A connection to it, or why there is none.
pub(crate) type ConnectFuture = Pin<Box<dyn Future<Output = std::io::Result<Box<dyn ByteStream>>> + Send>>;

/// Why a line gives nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PeerStreamError {
    /// No connection.
    #[error("cannot be reached: {0}")]
    Unreachable(String),
    /// It was reached and does not want this session.
    #[error("refused the session (status {0})")]
    Refused(u16),
    /// The connection or the stream broke.
    #[error("went away: {0}")]
    Broken(String),
    /// A frame longer than any is.
    #[error("sent a frame of {0} bytes, more than any has")]
    TooLong(usize),
}

/// One session's stream to one peer.
pub(crate) struct PeerStream {
    /// Takes frames made by [`framed`].
    pub(crate) to: mpsc::Sender<Bytes>,
    /// Gives frames without their length.
    pub(crate) from: FrameReader,
    /// Random bits that the peer sent before the session.
    pub(crate) received: Option<PrefetchedWords>,
    /// Tells the peer, where it waits for that, that a session here has taken the stream.
    taken: Option<oneshot::Sender<()>>,
}

impl PeerStream {
    fn new(to: mpsc::Sender<Bytes>, body: Incoming) -> PeerStream {
        PeerStream { to, from: FrameReader::new(body), received: None, taken: None }
    }

    /// Whether the peer no longer wants it: it broke, or a session was found elsewhere.
    pub(crate) fn is_over(&self) -> bool {
        self.to.is_closed() || self.taken.as_ref().is_some_and(oneshot::Sender::is_closed)
    }

    /// The stream of a session that is here; `None` if the peer no longer wants it.
    pub(crate) fn take(mut self) -> Option<PeerStream> {
        match self.taken.take() {
            Some(taken) => taken.send(()).ok().map(|()| self),
            None => (!self.is_over()).then_some(self),
        }
    }

    /// Says whose stream this is, where it was opened before its session; false if it broke.
    pub(crate) async fn name(&self, tau: &Tau) -> bool {
        self.to.send(framed(&[&NAMED[..], tau].concat())).await.is_ok()
    }

    /// Takes in what is sent ahead, until the stream says whose it is.
    async fn named(mut self, mut ahead: PrefetchedWords) -> Option<(Tau, PeerStream)> {
        loop {
            let frame = self.from.next().await.ok()??;
            if let Some(tau) = frame.strip_prefix(&NAMED[..]) {
                self.received = Some(ahead);
                return Some((tau.try_into().ok()?, self));
            }
            // More than there is room for, or anything else: nobody needs such a stream. The
            // sender's number does not matter here.
            if !matches!(ahead.receive(0, &frame), Ok(FrameOutcome::Yes)) {
                return None;
            }
        }
    }
}

/// A frame as it goes over the line: its length, then its bytes.
pub(crate) fn framed(frame: &[u8]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(4 + frame.len());
    // Frames are 16 kilobytes at most.
    bytes.extend_from_slice(&(frame.len() as u32).to_le_bytes());
    bytes.extend_from_slice(frame);
    bytes.freeze()
}

/// The frames that come.
pub(crate) struct FrameReader {
    body: Incoming,
    buffer: BytesMut,
}

impl FrameReader {
    fn new(body: Incoming) -> FrameReader {
        FrameReader { body, buffer: BytesMut::new() }
    }

    /// The next frame; `None` after the last. May be dropped while it waits, nothing is lost.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, PeerStreamError> {
        loop {
            if let Some(length) = self.buffer.first_chunk::<4>() {
                let length = u32::from_le_bytes(*length) as usize;
                if length > MOST_FRAME {
                    return Err(PeerStreamError::TooLong(length));
                }
                if self.buffer.len() >= 4 + length {
                    self.buffer.advance(4);
                    return Ok(Some(self.buffer.split_to(length).freeze()));
                }
            }
            match self.body.frame().await {
                Some(Ok(part)) => {
                    if let Ok(data) = part.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
                Some(Err(error)) => return Err(PeerStreamError::Broken(error.to_string())),
                None if self.buffer.is_empty() => return Ok(None),
                None => return Err(PeerStreamError::Broken("a frame ends early".into())),
            }
        }
    }
}

/// What a session sends, as a body.
pub(crate) struct FrameBody(mpsc::Receiver<Bytes>);

fn outgoing() -> (mpsc::Sender<Bytes>, FrameBody) {
    let (to, frames) = mpsc::channel(WAITING_FRAMES);
    (to, FrameBody(frames))
}

impl Body for FrameBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|frame| frame.map(|bytes| Ok(Frame::data(bytes))))
    }
}

/// The dialling end: keeps the connection, makes it anew when it broke.
pub(crate) struct PeerConnector {
    dial: Connector,
    /// The connection, and how many there were before it.
    connection: Mutex<Option<(u64, SendRequest<FrameBody>)>>,
}

impl PeerConnector {
    pub(crate) fn new(dial: Connector) -> PeerConnector {
        PeerConnector { dial, connection: Mutex::new(None) }
    }

    /// A stream for the session of this transcript.
    pub(crate) async fn open(&self, tau: &Tau) -> Result<PeerStream, PeerStreamError> {
        self.stream(format!("{PATH}{}", hex::encode(tau))).await
    }

    /// A stream for a session to come.
    pub(crate) async fn open_ahead(&self) -> Result<PeerStream, PeerStreamError> {
        self.stream(AHEAD_PATH.into()).await
    }

    async fn stream(&self, path: String) -> Result<PeerStream, PeerStreamError> {
        let (number, connection) = self.connected(None).await?;
        match post(connection, &path).await {
            // It may have died since it was last used, and nobody noticed.
            Err(PeerStreamError::Broken(_)) => post(self.connected(Some(number)).await?.1, &path).await,
            other => other,
        }
    }

    /// The connection, made anew if there is none or if it is the one with the number `dead`.
    async fn connected(&self, dead: Option<u64>) -> Result<(u64, SendRequest<FrameBody>), PeerStreamError> {
        let mut connection = self.connection.lock().await;
        if let Some((number, open)) = connection.as_ref()
            && !open.is_closed()
            && Some(*number) != dead
        {
            return Ok((*number, open.clone()));
        }
        let number = connection.as_ref().map_or(0, |(number, _)| number + 1);
        let unreachable = |reason: String| PeerStreamError::Unreachable(reason);
        let carrier = (self.dial)().await.map_err(|error| unreachable(error.to_string()))?;
        let (open, driver) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(KEEP_ALIVE)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(LINE_WINDOW)
            .handshake(TokioIo::new(carrier))
            .await
            .map_err(|error| unreachable(error.to_string()))?;
        // Its end shows in the next session, which dials again.
        tokio::spawn(driver);
        *connection = Some((number, open.clone()));
        Ok((number, open))
    }
}

/// Opens a stream on a connection.
async fn post(mut connection: SendRequest<FrameBody>, path: &str) -> Result<PeerStream, PeerStreamError> {
    let (to, body) = outgoing();
    let request = Request::post(path).body(body).map_err(|error| PeerStreamError::Broken(error.to_string()))?;
    let response =
        connection.send_request(request).await.map_err(|error| PeerStreamError::Broken(error.to_string()))?;
    match response.status() {
        StatusCode::OK => Ok(PeerStream::new(to, response.into_body())),
        status => Err(PeerStreamError::Refused(status.as_u16())),
    }
}

/// The answering end: serves a connection from the server before, and hands every session's stream
/// to `arrived`, which says whether it is wanted. `room` says how much may be sent ahead of a
/// session.
pub(crate) async fn answer(
    carrier: impl ByteStream + 'static,
    sessions: u32,
    arrived: impl Fn(Tau, PeerStream) -> Result<(), StatusCode> + Clone + Send + 'static,
    room: impl Fn() -> Option<(PrefetchedWords, OwnedSemaphorePermit)> + Clone + Send + 'static,
) {
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let (arrived, room) = (arrived.clone(), room.clone());
        async move {
            let (to, body) = outgoing();
            let path = request.uri().path();
            let tau = path.strip_prefix(PATH).and_then(|text| {
                let mut tau = Tau::default();
                hex::decode_to_slice(text, &mut tau).ok().map(|()| tau)
            });
            let taken = match tau {
                Some(tau) => {
                    let (taken, session) = oneshot::channel();
                    match arrived(tau, PeerStream { taken: Some(taken), ..PeerStream::new(to, request.into_body()) }) {
                        // Answered when there is a session: of several fronts, this is how the peer
                        // finds the one that has it.
                        Ok(()) => session.await.map_err(|_| StatusCode::GONE),
                        refused => refused,
                    }
                }
                None if path == AHEAD_PATH => room().ok_or(StatusCode::SERVICE_UNAVAILABLE).map(|(ahead, place)| {
                    let line = PeerStream::new(to, request.into_body());
                    tokio::spawn(async move {
                        if let Some((tau, line)) = line.named(ahead).await {
                            drop(place);
                            // Whom nobody wants is dropped, which ends it.
                            let _ = arrived(tau, line);
                        }
                    });
                }),
                None => Err(StatusCode::NOT_FOUND),
            };
            let mut response = Response::new(body);
            if let Err(status) = taken {
                *response.status_mut() = status;
            }
            Ok::<_, Infallible>(response)
        }
    });
    let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(KEEP_ALIVE)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(LINE_WINDOW)
        .max_concurrent_streams(sessions)
        // Where there are several fronts, all but one lose every session's stream. The limit is
        // against strangers, and this is a server we know.
        .max_pending_accept_reset_streams(usize::MAX)
        .serve_connection(TokioIo::new(carrier), service);
    // Errors here are the peer's going away; whoever waits for it on a session hears of it there.
    let _ = connection.await;
}
