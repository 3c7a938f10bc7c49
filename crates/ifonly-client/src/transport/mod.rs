//! The transport to one server: it sends a message and delivers a response of known length.
//!
//! Implementations are [`http`] (sockets), `ifonly-wasm` (`fetch`) and transports inside a process.
//! [`retry`] wraps any of them. A transport does not look into messages.

use crate::search::pacing::Clock;
use crate::transport::credential::Credential;
use bytes::Bytes;
use ifonly_core::http_api::{CHECKSUM_LENGTH, ProblemType, Route};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// A pending result of a transport.
#[cfg(not(target_family = "wasm"))]
pub type TransportFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, TransportError>> + Send + 'a>>;
/// A pending result of a transport. In a browser it stays on one thread.
#[cfg(target_family = "wasm")]
pub type TransportFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, TransportError>> + 'a>>;

/// The transport to one server. Timeouts and retries are part of the transport, if it has any.
#[cfg(not(target_family = "wasm"))]
pub trait Transport: Exchange + Send + Sync {}
/// The transport to one server. Timeouts and retries are part of the transport, if it has any.
#[cfg(target_family = "wasm")]
pub trait Transport: Exchange {}
#[cfg(not(target_family = "wasm"))]
impl<T: Exchange + Send + Sync> Transport for T {}
#[cfg(target_family = "wasm")]
impl<T: Exchange> Transport for T {}

/// The operations of a [`Transport`].
pub trait Exchange {
    /// Name of the server for messages to the user, usually its address.
    fn name(&self) -> String;

    /// Fetches the index and the manifests of the server.
    fn fetch_manifest(&self) -> TransportFuture<'_, ManifestResponse>;

    /// The authenticated address of the server, if there is one. The client compares it with the
    /// addresses in the manifest.
    fn address(&self) -> Option<String> {
        None
    }

    /// A hash of the public key in the certificate that the server has shown, if it is known.
    fn certificate_key(&self) -> Option<[u8; 32]> {
        None
    }

    /// The clock for [pacing](crate::search::pacing) requests. Every transport over which a server
    /// can observe departure times must have one; a transport inside a process needs none.
    fn clock(&self) -> Option<Arc<dyn Clock>> {
        None
    }

    /// Sends a message and passes the response to `response` as its bytes arrive. Another length
    /// than `request.length` is an error, which is detected before memory is used for the excess.
    /// After an error, the bytes that were passed on are invalid.
    fn send<'a>(&'a self, request: ServerRequest, response: &'a mut dyn ResponseSink) -> TransportFuture<'a, ()>;
}

/// A message to one server. It contains secret shares, so it does not implement `Debug`.
#[derive(Clone)]
pub struct ServerRequest {
    /// The path.
    pub route: Route,
    /// The message.
    pub message: Bytes,
    /// Length of the response in bytes, without its checksum.
    pub length: usize,
    /// Authorises the search; in its first message only.
    pub credential: Option<Credential>,
}

/// Receives a response in parts.
pub trait ResponseSink: Send {
    /// The next bytes.
    fn part(&mut self, bytes: &[u8]);

    /// Discards all bytes so far. The response starts again from its beginning.
    fn restart(&mut self);
}

impl ResponseSink for Vec<u8> {
    fn part(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    fn restart(&mut self) {
        self.clear();
    }
}

/// A server's response to a request for its manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestResponse {
    /// The index that the server claims, from 1.
    pub index: u8,
    /// The current manifest.
    pub manifest: ServedManifest,
    /// Previous manifests for which the server still answers, newest first. A server has some
    /// during the grace period after a reload.
    pub previous: Vec<ServedManifest>,
}

/// A manifest and what its response says about the server's root keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedManifest {
    /// The JSON, as received.
    pub json: Bytes,
    /// The header with the fingerprints of the root keys; empty if it is missing.
    pub key_fingerprints: String,
}

impl ManifestResponse {
    /// The response of a server that serves one manifest and publishes no fingerprints.
    pub fn of(index: u8, json: Bytes) -> ManifestResponse {
        ManifestResponse { index, manifest: ServedManifest { json, key_fingerprints: String::new() }, previous: vec![] }
    }

    /// What the server says about its manifest with this JSON, if it serves it.
    pub(crate) fn serves(&self, json: &Bytes) -> Option<&ServedManifest> {
        self.manifests().find(|served| served.json == *json)
    }

    /// All manifests for which the server answers, newest first.
    pub(crate) fn manifests(&self) -> impl Iterator<Item = &ServedManifest> {
        std::iter::once(&self.manifest).chain(&self.previous)
    }
}

/// Why a server gave no valid response. The texts are predicates: the name of the server precedes
/// them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// The connection could not be opened, or it failed.
    #[error("cannot be reached: {0}")]
    Unreachable(String),
    /// No process listens at the address.
    #[error("cannot be reached: connection refused")]
    ConnectionRefused,
    /// No trusted certificate authority has signed the server's certificate.
    #[error("has a certificate from an authority that is not trusted here")]
    UnknownAuthority,
    /// The client used TLS, and the server answered without it.
    #[error("does not speak TLS at this address")]
    NoTls,
    /// The client used plain HTTP, and the server did not answer with HTTP.
    #[error("does not speak plain HTTP at this address")]
    NotPlain,
    /// The connection ended within a response.
    #[error("closed the connection before the response was complete: {0}")]
    CutOff(String),
    /// The server did not answer before the deadline.
    #[error("did not answer within {}", seconds(.0))]
    TimedOut(Duration),
    /// The server is temporarily unable to answer.
    #[error(
        "cannot answer at the moment (HTTP {status}{}){}",
        named(.problem), .detail.as_ref().map_or(String::new(), |detail| format!(": {detail}"))
    )]
    Busy {
        /// HTTP status.
        status: u16,
        /// Type of the problem document, if it is a known one.
        problem: Option<ProblemType>,
        /// Detail of the problem document, shortened.
        detail: Option<String>,
        /// The time after which the client may retry.
        retry_after: Duration,
    },
    /// The server refused the request.
    #[error("refused the request (HTTP {status}{}): {detail}", named(.problem))]
    Refused {
        /// HTTP status.
        status: u16,
        /// Type of the problem document, if it is a known one.
        problem: Option<ProblemType>,
        /// Detail of the problem document, shortened.
        detail: String,
    },
    /// The response has a wrong length.
    #[error("sent a response of {have} bytes instead of {need}")]
    Length {
        /// Bytes received, or the announced length.
        have: u64,
        /// Expected bytes.
        need: usize,
    },
    /// The checksum of the response is wrong.
    #[error("sent a response with a wrong checksum; the data was damaged in transit")]
    Damaged,
    /// Not an ifonly server.
    #[error("is not an ifonly server: {0}")]
    NotAServer(&'static str),
    /// The manifest or the claimed index is invalid.
    #[error("sent an invalid manifest response: {0}")]
    Manifest(String),
}

impl TransportError {
    /// The codes of [`code`](TransportError::code), besides the names of problem types.
    pub const CODES: [&'static str; 8] =
        ["refused", "cut-off", "slow", "busy", "damaged", "not-a-server", "manifest", "unreachable"];

    /// The code of the error: the name of the server's problem type, or one of
    /// [`CODES`](TransportError::CODES).
    pub fn code(&self) -> &'static str {
        match self {
            TransportError::Refused { problem: Some(problem), .. }
            | TransportError::Busy { problem: Some(problem), .. } => problem.name(),
            TransportError::Refused { .. } => "refused",
            TransportError::CutOff(_) => "cut-off",
            TransportError::TimedOut(_) => "slow",
            TransportError::Busy { .. } => "busy",
            TransportError::Length { .. } | TransportError::Damaged => "damaged",
            TransportError::NotAServer(_) => "not-a-server",
            TransportError::Manifest(_) => "manifest",
            TransportError::Unreachable(_)
            | TransportError::ConnectionRefused
            | TransportError::UnknownAuthority
            | TransportError::NoTls
            | TransportError::NotPlain => "unreachable",
        }
    }

    /// Whether the client may retry. The answer does not depend on the content of the message.
    pub fn is_transient(&self) -> bool {
        use TransportError::{Busy, ConnectionRefused, CutOff, Damaged, Unreachable};
        matches!(self, Unreachable(_) | ConnectionRefused | CutOff(_) | Damaged | Busy { .. })
    }
}

fn named(problem: &Option<ProblemType>) -> String {
    problem.map_or(String::new(), |problem| format!(", {}", problem.name()))
}

fn seconds(time: &Duration) -> String {
    if *time == Duration::from_secs(1) { "1 second".into() } else { format!("{} seconds", time.as_secs_f32()) }
}

/// Verifies the checksum of a response while it arrives. The checksum follows the response and is
/// the beginning of its BLAKE3 hash. It does not protect against a lying server, but without it
/// damage in transit could look like the result "no row matches".
pub struct ChecksumVerifier<'a> {
    response: &'a mut dyn ResponseSink,
    length: usize,
    received: usize,
    hasher: blake3::Hasher,
    checksum: Vec<u8>,
}

impl<'a> ChecksumVerifier<'a> {
    /// Verifies a response of `length` bytes and passes it to `response`.
    pub fn new(length: usize, response: &'a mut dyn ResponseSink) -> ChecksumVerifier<'a> {
        ChecksumVerifier { response, length, received: 0, hasher: blake3::Hasher::new(), checksum: vec![] }
    }

    /// Takes the next bytes of the body.
    pub fn part(&mut self, bytes: &[u8]) -> Result<(), TransportError> {
        let (part, rest) = bytes.split_at(bytes.len().min(self.length - self.received));
        self.received += part.len();
        self.hasher.update(part);
        self.response.part(part);
        if self.checksum.len() + rest.len() > CHECKSUM_LENGTH {
            return Err(self.wrong_length(rest.len()));
        }
        self.checksum.extend_from_slice(rest);
        Ok(())
    }

    /// Checks that the response is complete and its checksum is right.
    pub fn finish(self) -> Result<(), TransportError> {
        if self.checksum.len() != CHECKSUM_LENGTH {
            return Err(self.wrong_length(0));
        }
        if self.hasher.finalize().as_bytes().starts_with(&self.checksum) {
            Ok(())
        } else {
            Err(TransportError::Damaged)
        }
    }

    fn wrong_length(&self, more: usize) -> TransportError {
        let have = (self.received + self.checksum.len() + more) as u64;
        TransportError::Length { have, need: self.length + CHECKSUM_LENGTH }
    }
}

impl std::fmt::Debug for ChecksumVerifier<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ChecksumVerifier({} of {} bytes)", self.received, self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &[u8], length: usize, step: usize) -> Result<Vec<u8>, TransportError> {
        let mut response = vec![];
        let mut verifier = ChecksumVerifier::new(length, &mut response);
        body.chunks(step).try_for_each(|part| verifier.part(part))?;
        verifier.finish()?;
        Ok(response)
    }

    #[test]
    fn a_body_is_the_response_followed_by_its_checksum() {
        let response: Vec<u8> = (0..100).collect();
        let mut body = response.clone();
        body.extend(&blake3::hash(&response).as_bytes()[..CHECKSUM_LENGTH]);
        for step in [1, 7, 16, 200] {
            assert_eq!(read(&body, 100, step), Ok(response.clone()));
            let length = |have| Err(TransportError::Length { have, need: 116 });
            assert_eq!(read(&body[..115], 100, step), length(115));
            let long = [&body[..], &[0; 3]].concat();
            assert!(matches!(read(&long, 100, step), Err(TransportError::Length { have: 117.., need: 116 })));
            for position in [0, 50, 99, 100, 115] {
                let mut damaged = body.clone();
                damaged[position] ^= 4;
                assert_eq!(read(&damaged, 100, step), Err(TransportError::Damaged));
            }
        }
    }
}

pub mod credential;
pub mod endpoint;
#[cfg(feature = "http")]
pub mod http;
pub mod response;
pub mod retry;
