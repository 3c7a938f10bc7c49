//! Client of a shard: HTTP/1.1 over mutual TLS. Each connection carries one request at a time; idle
//! connections are pooled.

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

/// Time limit for connecting, including the TLS handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of idle connections.
const MAX_IDLE: usize = 16;
/// Size of the read buffer in bytes.
const BUFFER: usize = 64 << 10;
/// Maximum length of a reason from the shard in a log line, in bytes.
const MAX_REASON: usize = 500;

/// Connections of a frontend to one shard.
pub(crate) struct ShardClient {
    address: String,
    tls: ShardTls,
    /// Maximum time without a byte from the shard.
    stall_timeout: Duration,
    idle: Mutex<Vec<SendRequest<Full<Bytes>>>>,
}

impl std::fmt::Debug for ShardClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ShardClient({})", self.address)
    }
}

/// A response that is being read. After its last byte the connection returns to the pool.
pub(crate) struct ShardResponse {
    shard: Arc<ShardClient>,
    body: Incoming,
    length: u64,
    sender: Option<SendRequest<Full<Bytes>>>,
}

impl ShardClient {
    pub(crate) fn new(address: String, tls: ShardTls, stall_timeout: Duration) -> ShardClient {
        ShardClient { address, tls, stall_timeout, idle: Mutex::default() }
    }

    /// Host and port.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Sends a request. The error names the shard.
    pub(crate) async fn request(
        self: &Arc<Self>,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<ShardResponse, String> {
        let named = |error: String| format!("shard {}: {error}", self.address);
        loop {
            // A pooled connection may have broken without notice; then another one is used.
            // Requests are idempotent, so a repetition is safe.
            let (mut sender, pooled) = match self.pooled() {
                Some(sender) => (sender, true),
                None => (self.connect().await.map_err(named)?, false),
            };
            let request = Request::builder()
                .method(&method)
                .uri(path)
                .header(header::HOST, "shard")
                .body(Full::new(body.clone()))
                .map_err(|error| named(error.to_string()))?;
            let result = tokio::time::timeout(self.stall_timeout, sender.send_request(request)).await;
            let response = match result {
                Err(_) => return Err(named(format!("no response within {} s", self.stall_timeout.as_secs()))),
                Ok(Err(_)) if pooled => continue,
                Ok(Err(error)) => return Err(named(format!("connection broken: {error}"))),
                Ok(Ok(response)) => response,
            };
            let (status, length) = (response.status(), response.headers().get(header::CONTENT_LENGTH));
            let length = length.and_then(|length| length.to_str().ok()?.parse().ok());
            let mut response =
                ShardResponse { shard: self.clone(), body: response.into_body(), length: 0, sender: Some(sender) };
            return match (status, length) {
                (StatusCode::OK, Some(length)) => {
                    response.length = length;
                    Ok(response)
                }
                (StatusCode::OK, None) => Err(named("the response has no Content-Length".into())),
                (status, _) => {
                    let reason = response.next().await.ok().flatten().unwrap_or_default();
                    let reason = String::from_utf8_lossy(&reason[..reason.len().min(MAX_REASON)]).into_owned();
                    Err(named(format!("{status}: {}", reason.trim())))
                }
            };
        }
    }

    fn pooled(&self) -> Option<SendRequest<Full<Bytes>>> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        std::iter::from_fn(|| idle.pop()).find(|sender| sender.is_ready() && !sender.is_closed())
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, String> {
        let connecting = async {
            let socket = TcpStream::connect(&self.address).await?;
            socket.set_nodelay(true)?;
            TlsConnector::from(self.tls.client()).connect(ShardTls::name(), socket).await
        };
        let stream = match tokio::time::timeout(CONNECT_TIMEOUT, connecting).await {
            Err(_) => return Err(format!("no connection within {} s", CONNECT_TIMEOUT.as_secs())),
            Ok(Err(error)) => return Err(format!("cannot connect: {error}")),
            Ok(Ok(stream)) => stream,
        };
        if !self.tls.is_shown(stream.get_ref().1.peer_certificates()) {
            return Err("it presents another certificate than shards.certificate".into());
        }
        let mut builder = Builder::new();
        builder.max_buf_size(BUFFER);
        let (sender, connection) =
            builder.handshake(TokioIo::new(stream)).await.map_err(|error| format!("HTTP handshake failed: {error}"))?;
        tokio::spawn(async move {
            let _ = connection.await;
        });
        Ok(sender)
    }
}

impl ShardResponse {
    /// Length of the body in bytes.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// The next bytes; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, String> {
        let named = |error: String| format!("shard {}: {error}", self.shard.address);
        loop {
            let frame = tokio::time::timeout(self.shard.stall_timeout, self.body.frame()).await;
            match frame {
                Err(_) => return Err(named(format!("no data for {} s", self.shard.stall_timeout.as_secs()))),
                Ok(Some(Err(error))) => {
                    return Err(named(format!("connection closed before the response was complete: {error}")));
                }
                Ok(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) if data.has_remaining() => return Ok(Some(data)),
                    _ => continue,
                },
                Ok(None) => {
                    if let Some(sender) = self.sender.take() {
                        let mut idle = self.shard.idle.lock().unwrap_or_else(PoisonError::into_inner);
                        if idle.len() < MAX_IDLE {
                            idle.push(sender);
                        }
                    }
                    return Ok(None);
                }
            }
        }
    }

    /// The complete body, which must have `length` bytes.
    pub(crate) async fn complete(mut self, length: usize) -> Result<Vec<u8>, String> {
        if self.length != length as u64 {
            return Err(format!(
                "shard {}: the response has {} bytes instead of {length}",
                self.shard.address, self.length
            ));
        }
        let mut body = Vec::with_capacity(length);
        while let Some(bytes) = self.next().await? {
            body.extend_from_slice(&bytes);
        }
        Ok(body)
    }
}
