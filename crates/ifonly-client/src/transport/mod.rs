//! One server as the client sees it: something that takes a message and gives as many bytes as the
//! protocol says.

use crate::search::pacing::Clock;
use bytes::Bytes;
use ifonly_core::http_api::{CHECKSUM_LENGTH, ProblemType, Route};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// What a transport will give.
#[cfg(not(target_family = "wasm"))]
pub type TransportFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, TransportError>> + Send + 'a>>;
/// What a transport will give. In a browser it stays on its thread.
#[cfg(target_family = "wasm")]
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = Result<T, TransportError>> + 'a>>;

/// The way to one server. Timers and retries, where there are any, are the transport's.
#[cfg(not(target_family = "wasm"))]
pub trait Transport: Exchange + Send + Sync {}
/// The way to one server. Timers and retries, where there are any, are the transport's.
#[cfg(target_family = "wasm")]
pub trait Transport: Exchange {}
#[cfg(not(target_family = "wasm"))]
impl<T: Exchange + Send + Sync> Transport for T {}
#[cfg(target_family = "wasm")]
impl<T: Exchange> Transport for T {}

/// What a [`Transport`] does.
pub trait Exchange {
    /// What people call it: its address.
    fn name(&self) -> String;

    /// Asks who it is and what it offers.
    fn greet(&self) -> TransportFuture<'_, ManifestResponse>;

    /// The address at which it proved who it is, where there is such a thing; it is compared with
    /// the manifest's.
    fn address(&self) -> Option<String> {
        None
    }

    /// The clock by which requests to it are paced (see [`pace`](crate::search::pacing)). Whoever
    /// can see when requests leave must have one; within a process there is nobody to see it.
    fn clock(&self) -> Option<Arc<dyn Clock>> {
        None
    }

    /// Sends a message. The response's bytes go to `response` as they come, exactly `call.length`
    /// in the end; anything else is an error, found before memory is used for it. After an error,
    /// what was received is worth nothing.
    fn send<'a>(&'a self, call: ServerRequest, response: &'a mut dyn ResponseSink) -> TransportFuture<'a, ()>;
}

/// A message to one server. It holds shares, so it cannot be printed.
#[derive(Clone)]
pub struct ServerRequest {
    /// Where it goes.
    pub route: Route,
    /// The message.
    pub message: Bytes,
    /// How many bytes the response has.
    pub length: usize,
}

/// Takes a response piece by piece.
pub trait ResponseSink: Send {
    /// The next bytes.
    fn part(&mut self, bytes: &[u8]);

    /// What came so far is worth nothing; the response comes again from its beginning.
    fn restart(&mut self);
}

/// Keeps the bytes.
impl ResponseSink for Vec<u8> {
    fn part(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    fn restart(&mut self) {
        self.clear();
    }
}

/// What a server says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestResponse {
    /// Which server it is, counted from 1.
    pub index: u8,
    /// The manifest, as it came.
    pub manifest: Bytes,
    /// Manifests before it that are still answered, the newest first: a server that has just been
    /// reloaded has one.
    pub earlier: Vec<Bytes>,
}

impl ManifestResponse {
    /// All that it offers, the newest first.
    pub(crate) fn offers(&self) -> impl Iterator<Item = &Bytes> {
        std::iter::once(&self.manifest).chain(&self.earlier)
    }
}

/// Why a server gave nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// No connection, or one that broke.
    #[error("cannot be reached: {0}")]
    Unreachable(String),
    /// Nothing listens there.
    #[error("cannot be reached: nothing listens at this address (connection refused)")]
    ConnectionRefused,
    /// Its certificate is signed by nobody whom this machine trusts.
    #[error("has a certificate from an authority that is not trusted here")]
    UnknownAuthority,
    /// Asked with TLS, it answers without.
    #[error("does not speak TLS at this address")]
    NoTls,
    /// Asked without TLS, it answers something else.
    #[error("does not speak plain HTTP at this address")]
    NotPlain,
    /// The answer broke off.
    #[error("the answer broke off: {0}")]
    CutOff(String),
    /// No answer in time.
    #[error("no answer within {} seconds", .0.as_secs_f32())]
    UploadTimeout(Duration),
    /// It cannot answer for now.
    #[error(
        "cannot answer at the moment ({status}{}){}",
        named(.problem), .detail.as_ref().map_or(String::new(), |detail| format!(": {detail}"))
    )]
    Busy {
        /// HTTP status.
        status: u16,
        /// The problem document's type, if it has one of ours.
        problem: Option<ProblemType>,
        /// What it says, shortened, if it says anything.
        detail: Option<String>,
        /// How long it asks to wait.
        retry_after: Duration,
    },
    /// It does not take the request.
    #[error("refused ({status}{}): {detail}", named(.problem))]
    Refused {
        /// HTTP status.
        status: u16,
        /// The problem document's type, if it has one of ours.
        problem: Option<ProblemType>,
        /// What it says, shortened.
        detail: String,
    },
    /// Another number of bytes than the protocol says.
    #[error("answered with {have} bytes instead of {need}")]
    Length {
        /// Bytes, or what it claims.
        have: u64,
        /// Bytes expected.
        need: usize,
    },
    /// The bytes changed on the way.
    #[error("the answer was damaged on the way: its checksum does not fit")]
    Damaged,
    /// Not an ifonly server.
    #[error("is not an ifonly server: {0}")]
    NotAServer(&'static str),
    /// A manifest that cannot be right.
    #[error("offers something that cannot be right: {0}")]
    Manifest(String),
}

impl TransportError {
    /// Whether the same bytes may be sent again: nothing here depends on what they hide.
    pub fn is_transient(&self) -> bool {
        use TransportError::{Busy, ConnectionRefused, CutOff, Damaged, Unreachable};
        matches!(self, Unreachable(_) | ConnectionRefused | CutOff(_) | Damaged | Busy { .. })
    }
}

fn named(problem: &Option<ProblemType>) -> String {
    problem.map_or(String::new(), |problem| format!(", {}", problem.name()))
}

/// A response on its way: what follows it is its checksum, the first bytes of its BLAKE3 hash. It
/// is no defence against a lying server, but damage between server and client must not pass for
/// "nobody qualifies".
pub struct ChecksumVerifier<'a> {
    response: &'a mut dyn ResponseSink,
    length: usize,
    received: usize,
    hasher: blake3::Hasher,
    checksum: Vec<u8>,
}

impl<'a> ChecksumVerifier<'a> {
    /// For a response of `length` bytes, which goes to `response`.
    pub fn new(length: usize, response: &'a mut dyn ResponseSink) -> ChecksumVerifier<'a> {
        ChecksumVerifier { response, length, received: 0, hasher: blake3::Hasher::new(), checksum: vec![] }
    }

    /// The next bytes of the body.
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

    /// Whether all of it came, undamaged.
    pub fn finish(self) -> Result<(), TransportError> {
        if self.checksum.len() != CHECKSUM_LENGTH {
            return Err(self.wrong_length(0));
        }
        match self.hasher.finalize().as_bytes().starts_with(&self.checksum) {
            true => Ok(()),
            false => Err(TransportError::Damaged),
        }
    }

    fn wrong_length(&self, more: usize) -> TransportError {
        let have = (self.received + self.checksum.len() + more) as u64;
        TransportError::Length { have, need: self.length + CHECKSUM_LENGTH }
    }
}

impl std::fmt::Debug for ChecksumVerifier<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Checked({} of {} bytes)", self.received, self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &[u8], length: usize, step: usize) -> Result<Vec<u8>, TransportError> {
        let mut response = vec![];
        let mut checked = ChecksumVerifier::new(length, &mut response);
        body.chunks(step).try_for_each(|part| checked.part(part))?;
        checked.finish()?;
        Ok(response)
    }

    #[test]
    fn a_body_is_its_response_and_the_hash_of_it() {
        let response: Vec<u8> = (0..100).collect();
        let mut body = response.clone();
        body.extend(&blake3::hash(&response).as_bytes()[..CHECKSUM_LENGTH]);
        for step in [1, 7, 16, 200] {
            assert_eq!(read(&body, 100, step), Ok(response.clone()));
            let length = |have| Err(TransportError::Length { have, need: 116 });
            assert_eq!(read(&body[..115], 100, step), length(115));
            let long = [&body[..], &[0; 3]].concat();
            assert!(matches!(read(&long, 100, step), Err(TransportError::Length { have: 117.., need: 116 })));
            for place in [0, 50, 99, 100, 115] {
                let mut bent = body.clone();
                bent[place] ^= 4;
                assert_eq!(read(&bent, 100, step), Err(TransportError::Damaged));
            }
        }
    }
}

#[cfg(feature = "http")]
pub mod http;
pub mod response;
pub mod retry;
