//! Requests to a shard: HTTP/1.1 over mutual TLS, a connection for each request at a time, kept
//! open for the next.

use crate::shards::tls::ShardTls;
use bytes::{Buf, Bytes};
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(5);
/// Idle connections that are kept.
const KEPT: usize = 16;
/// Bytes read at a time.
const BUFFER: usize = 64 << 10;
/// The most of a refusal that is repeated in a log.
const REASON: usize = 500;

/// A shard as its front sees it.
pub(crate) struct ShardClient {
    address: String,
    inside: ShardTls,
    /// How long it may be silent.
    patience: Duration,
    idle: Mutex<Vec<SendRequest<Full<Bytes>>>>,
}

impl std::fmt::Debug for ShardClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Shard({})", self.address)
    }
}

/// A response that is being read. Its connection is kept if it was read to its end.
pub(crate) struct ShardResponse {
    shard: Arc<ShardClient>,
    body: Incoming,
    length: u64,
    sender: Option<SendRequest<Full<Bytes>>>,
}

impl ShardClient {
    pub(crate) fn new(address: String, inside: ShardTls, patience: Duration) -> ShardClient {
        ShardClient { address, inside, patience, idle: Mutex::default() }
    }

    /// Host and port.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Asks; the error names the shard.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<ShardResponse, String> {
        let named = |error: String| format!("shard {}: {error}", self.address);
        loop {
            // A kept connection may be dead without anybody having noticed: then another one is
            // taken. Asking twice is asking once.
            let (mut sender, kept) = match self.kept() {
                Some(sender) => (sender, true),
                None => (self.dial().await.map_err(named)?, false),
            };
            let request = Request::builder()
                .method(&method)
                .uri(path)
                .header(header::HOST, "shard")
                .body(Full::new(body.clone()))
                .map_err(|error| named(error.to_string()))?;
            let answered = tokio::time::timeout(self.patience, sender.send_request(request)).await;
            let response = match answered {
                Err(_) => return Err(named(format!("no answer within {} s", self.patience.as_secs()))),
                Ok(Err(_)) if kept => continue,
                Ok(Err(error)) => return Err(named(format!("the connection broke: {error}"))),
                Ok(Ok(response)) => response,
            };
            let (status, length) = (response.status(), response.headers().get(header::CONTENT_LENGTH));
            let length = length.and_then(|length| length.to_str().ok()?.parse().ok());
            let mut reply =
                ShardResponse { shard: self.clone(), body: response.into_body(), length: 0, sender: Some(sender) };
            return match (status, length) {
                (StatusCode::OK, Some(length)) => {
                    reply.length = length;
                    Ok(reply)
                }
                (StatusCode::OK, None) => Err(named("its answer has no length".into())),
                (status, _) => {
                    let reason = reply.next().await.ok().flatten().unwrap_or_default();
                    let reason = String::from_utf8_lossy(&reason[..reason.len().min(REASON)]).into_owned();
                    Err(named(format!("{status}: {}", reason.trim())))
                }
            };
        }
    }

    fn kept(&self) -> Option<SendRequest<Full<Bytes>>> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        std::iter::from_fn(|| idle.pop()).find(|sender| sender.is_ready() && !sender.is_closed())
    }

    async fn dial(&self) -> Result<SendRequest<Full<Bytes>>, String> {
        let connecting = async {
            let socket = TcpStream::connect(&self.address).await?;
            socket.set_nodelay(true)?;
            TlsConnector::from(self.inside.client()).connect(ShardTls::name(), socket).await
        };
        let stream = match tokio::time::timeout(CONNECT, connecting).await {
            Err(_) => return Err(format!("no connection within {} s", CONNECT.as_secs())),
            Ok(Err(error)) => return Err(format!("cannot be reached: {error}")),
            Ok(Ok(stream)) => stream,
        };
        if !self.inside.is_shown(stream.get_ref().1.peer_certificates()) {
            return Err("it shows another certificate than shards.certificate".into());
        }
        let mut builder = Builder::new();
        builder.max_buf_size(BUFFER);
        let (sender, connection) = builder
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| format!("it does not speak HTTP: {error}"))?;
        tokio::spawn(async move {
            let _ = connection.await;
        });
        Ok(sender)
    }
}

impl ShardResponse {
    /// Bytes of the whole body.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// The next bytes; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, String> {
        let named = |error: String| format!("shard {}: {error}", self.shard.address);
        loop {
            let frame = tokio::time::timeout(self.shard.patience, self.body.frame()).await;
            match frame {
                Err(_) => return Err(named(format!("silent for {} s", self.shard.patience.as_secs()))),
                Ok(Some(Err(error))) => return Err(named(format!("its answer broke off: {error}"))),
                Ok(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) if data.has_remaining() => return Ok(Some(data)),
                    _ => continue,
                },
                Ok(None) => {
                    if let Some(sender) = self.sender.take() {
                        let mut idle = self.shard.idle.lock().unwrap_or_else(PoisonError::into_inner);
                        if idle.len() < KEPT {
                            idle.push(sender);
                        }
                    }
                    return Ok(None);
                }
            }
        }
    }

    /// All of it, which must be `length` bytes.
    pub(crate) async fn whole(mut self, length: usize) -> Result<Vec<u8>, String> {
        if self.length != length as u64 {
            return Err(format!("shard {}: {} bytes instead of {length}", self.shard.address, self.length));
        }
        let mut whole = Vec::with_capacity(length);
        while let Some(bytes) = self.next().await? {
            whole.extend_from_slice(&bytes);
        }
        Ok(whole)
    }
}
