//! HTTP/2 connections between two servers: one persistent connection, and one stream per session.
//!
//! HTTP/2 gives each session its own flow-control window, so a slow session does not delay others,
//! and each can end separately. Server n connects to its next server and accepts its previous
//! server. There is one connection per pair of servers, or one per frontend if the next server has
//! several. A server answers a stream when its session takes the stream.

use crate::peers::client_class::{CLASS_BYTES, ClientClass};
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

/// Maximum length of a frame: one part of a step. Frames of the handshake are shorter.
const MOST_FRAME: usize = HEADER_BYTES + 8 * FRAME_WORDS;
/// Maximum number of frames that wait for the network.
const QUEUED_FRAMES: usize = 32;
/// Flow-control window of one session in bytes.
const STREAM_WINDOW: u32 = 1 << 20;
/// Flow-control window of all sessions of a connection in bytes.
const CONNECTION_WINDOW: u32 = 16 << 20;
/// Interval of pings on an idle connection.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// Path of the stream of a session, followed by its transcript digest.
const SESSION_PATH: &str = "/session/";
/// Path of a stream that is opened before its session.
const PREFETCH_PATH: &str = "/ahead";
/// Header with the client class of a session, in hexadecimal.
const CLASS_HEADER: &str = "ifonly-client-class";
/// First bytes of the frame that names the session of such a stream. Frames of step 0 begin with a
/// zero byte.
const NAME_MAGIC: &[u8; 8] = b"session ";

/// A bidirectional byte stream.
pub(crate) trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

/// Connects to a frontend of the next server.
pub(crate) type Connector = Box<dyn Fn() -> ConnectFuture + Send + Sync>;
/// The connection, or the reason of the failure.
pub(crate) type ConnectFuture = Pin<Box<dyn Future<Output = std::io::Result<Box<dyn ByteStream>>> + Send>>;

/// Why a stream failed. The messages follow the words "server N".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PeerStreamError {
    /// The connection failed.
    #[error("cannot be reached: {0}")]
    Unreachable(String),
    /// The peer refused the stream.
    #[error("refused the session (status {0})")]
    Refused(u16),
    /// The connection or the stream broke.
    #[error("disconnected: {0}")]
    Broken(String),
    /// A frame exceeds the maximum length.
    #[error("sent a frame of {0} bytes; the limit is {limit} bytes", limit = MOST_FRAME)]
    TooLong(usize),
}

/// The stream of one session to one peer.
pub(crate) struct PeerStream {
    /// Takes frames made by [`framed`].
    pub(crate) to: mpsc::Sender<Bytes>,
    /// Returns frames without their length.
    pub(crate) from: FrameReader,
    /// Random words that the peer sent before the session.
    pub(crate) received: Option<PrefetchedWords>,
    /// Signals that a session has taken the stream, if the response still waits for that.
    taken: Option<oneshot::Sender<()>>,
}

impl PeerStream {
    fn new(to: mpsc::Sender<Bytes>, body: Incoming) -> PeerStream {
        PeerStream { to, from: FrameReader::new(body), received: None, taken: None }
    }

    /// Whether the stream has ended: it broke, or the peer found the session at another frontend.
    pub(crate) fn is_over(&self) -> bool {
        self.to.is_closed() || self.taken.as_ref().is_some_and(oneshot::Sender::is_closed)
    }

    /// Takes the stream for a session; `None` if the stream has ended.
    pub(crate) fn take(mut self) -> Option<PeerStream> {
        match self.taken.take() {
            Some(taken) => taken.send(()).ok().map(|()| self),
            None => (!self.is_over()).then_some(self),
        }
    }

    /// Names the session of a stream that was opened before it; false if the stream broke.
    pub(crate) async fn send_name(&self, tau: &Tau, class: ClientClass) -> bool {
        self.to.send(framed(&[&NAME_MAGIC[..], tau, &class.0].concat())).await.is_ok()
    }

    /// Receives random words until the stream names its session.
    async fn receive_until_named(mut self, mut prefetched: PrefetchedWords) -> Option<(Tau, ClientClass, PeerStream)> {
        loop {
            let frame = self.from.next().await.ok()??;
            if let Some(name) = frame.strip_prefix(&NAME_MAGIC[..]) {
                let (tau, class) = name.split_first_chunk()?;
                self.received = Some(prefetched);
                return Some((*tau, ClientClass(class.try_into().ok()?), self));
            }
            // Any other frame, or one beyond the limit, ends the stream. The server index would
            // only appear in the error, which is dropped.
            if !matches!(prefetched.receive(0, &frame), Ok(FrameOutcome::Accepted)) {
                return None;
            }
        }
    }
}

/// The encoding of a frame on a stream: its length, then its bytes.
pub(crate) fn framed(frame: &[u8]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(4 + frame.len());
    // No truncation: frames have at most `MOST_FRAME` bytes.
    bytes.extend_from_slice(&(frame.len() as u32).to_le_bytes());
    bytes.extend_from_slice(frame);
    bytes.freeze()
}

/// Reads frames from the body of a stream.
pub(crate) struct FrameReader {
    body: Incoming,
    buffer: BytesMut,
}

impl FrameReader {
    fn new(body: Incoming) -> FrameReader {
        FrameReader { body, buffer: BytesMut::new() }
    }

    /// The next frame; `None` after the last. Cancel-safe.
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
                None => return Err(PeerStreamError::Broken("the stream ended within a frame".into())),
            }
        }
    }
}

/// The frames that a session sends, as an HTTP body.
pub(crate) struct FrameBody(mpsc::Receiver<Bytes>);

fn frame_channel() -> (mpsc::Sender<Bytes>, FrameBody) {
    let (to, frames) = mpsc::channel(QUEUED_FRAMES);
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

/// Client side: keeps a connection to one frontend of the next server, and reconnects if it broke.
pub(crate) struct PeerConnector {
    connect: Connector,
    /// The connection and its number, counted from 0.
    connection: Mutex<Option<(u64, SendRequest<FrameBody>)>>,
}

impl PeerConnector {
    pub(crate) fn new(connect: Connector) -> PeerConnector {
        PeerConnector { connect, connection: Mutex::new(None) }
    }

    /// Opens the stream of the session with this transcript digest, for a client of this class.
    pub(crate) async fn open(&self, tau: &Tau, class: ClientClass) -> Result<PeerStream, PeerStreamError> {
        self.stream(format!("{SESSION_PATH}{}", hex::encode(tau)), class).await
    }

    /// Opens a stream for a future session.
    pub(crate) async fn open_prefetch(&self) -> Result<PeerStream, PeerStreamError> {
        self.stream(PREFETCH_PATH.into(), ClientClass::default()).await
    }

    /// The next stream uses a new connection. Streams of the current one run to their end.
    pub(crate) async fn disconnect(&self) {
        *self.connection.lock().await = None;
    }

    async fn stream(&self, path: String, class: ClientClass) -> Result<PeerStream, PeerStreamError> {
        let (number, connection) = self.connected(None).await?;
        match post(connection, &path, class).await {
            // The connection may have broken since its last use, so try once on a new one.
            Err(PeerStreamError::Broken(_)) => post(self.connected(Some(number)).await?.1, &path, class).await,
            other => other,
        }
    }

    /// The connection; reconnects if there is none, or if the connection has the number `dead`.
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
        let bytes = (self.connect)().await.map_err(|error| unreachable(error.to_string()))?;
        let (open, driver) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(KEEP_ALIVE)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .handshake(TokioIo::new(bytes))
            .await
            .map_err(|error| unreachable(error.to_string()))?;
        // The next session notices the end of the connection and reconnects.
        tokio::spawn(driver);
        *connection = Some((number, open.clone()));
        Ok((number, open))
    }
}

/// Opens a stream on a connection.
async fn post(
    mut connection: SendRequest<FrameBody>,
    path: &str,
    class: ClientClass,
) -> Result<PeerStream, PeerStreamError> {
    let (to, body) = frame_channel();
    let request = Request::post(path)
        .header(CLASS_HEADER, hex::encode(class.0))
        .body(body)
        .map_err(|error| PeerStreamError::Broken(error.to_string()))?;
    let response =
        connection.send_request(request).await.map_err(|error| PeerStreamError::Broken(error.to_string()))?;
    match response.status() {
        StatusCode::OK => Ok(PeerStream::new(to, response.into_body())),
        status => Err(PeerStreamError::Refused(status.as_u16())),
    }
}

/// Server side: serves a connection from the previous server. `arrived` gets the stream of every
/// session and returns an error status to refuse it. `receive_buffer` returns the buffer and the
/// permit for random words that are sent before a session, or `None` to refuse them.
pub(crate) async fn serve_connection(
    bytes: impl ByteStream + 'static,
    sessions: u32,
    arrived: impl Fn(Tau, ClientClass, PeerStream) -> Result<(), StatusCode> + Clone + Send + 'static,
    receive_buffer: impl Fn() -> Option<(PrefetchedWords, OwnedSemaphorePermit)> + Clone + Send + 'static,
) {
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let (arrived, receive_buffer) = (arrived.clone(), receive_buffer.clone());
        async move {
            let (to, body) = frame_channel();
            let path = request.uri().path();
            let tau = path.strip_prefix(SESSION_PATH).and_then(|text| {
                let mut tau = Tau::default();
                hex::decode_to_slice(text, &mut tau).ok().map(|()| tau)
            });
            let class = request.headers().get(CLASS_HEADER).and_then(|text| {
                let mut class = [0; CLASS_BYTES];
                hex::decode_to_slice(text, &mut class).ok().map(|()| ClientClass(class))
            });
            let taken = match tau.zip(class) {
                Some((tau, class)) => {
                    let (taken, session) = oneshot::channel();
                    match arrived(
                        tau,
                        class,
                        PeerStream { taken: Some(taken), ..PeerStream::new(to, request.into_body()) },
                    ) {
                        // Answers only when a session takes the stream. So the peer finds the
                        // frontend that has the session.
                        Ok(()) => session.await.map_err(|_| StatusCode::GONE),
                        refused => refused,
                    }
                }
                None if path == PREFETCH_PATH => {
                    receive_buffer().ok_or(StatusCode::SERVICE_UNAVAILABLE).map(|(prefetched, permit)| {
                        let stream = PeerStream::new(to, request.into_body());
                        tokio::spawn(async move {
                            if let Some((tau, class, stream)) = stream.receive_until_named(prefetched).await {
                                drop(permit);
                                // A refused stream is dropped, which ends it.
                                let _ = arrived(tau, class, stream);
                            }
                        });
                    })
                }
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
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_concurrent_streams(sessions)
        // With several frontends, the peer resets the stream of every session at all but one of
        // them. The limit protects from unknown clients, but this peer is authenticated.
        .max_pending_accept_reset_streams(usize::MAX)
        .serve_connection(TokioIo::new(bytes), service);
    // An error means that the peer disconnected. Its sessions notice that on their streams.
    let _ = connection.await;
}
