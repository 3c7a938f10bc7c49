//! One server as the client sees it: something that takes a message and gives as many bytes as the protocol says.

use bytes::Bytes;
use ifonly_core::service::Route;
use std::pin::Pin;
use std::time::Duration;

/// What a transport will give.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = Result<T, TransportError>> + Send + 'a>>;

/// The way to one server.
pub trait Transport: Send + Sync {
    /// What people call it: its address.
    fn name(&self) -> String;

    /// Asks who it is and what it offers.
    fn greet(&self) -> Pending<'_, Greeting>;

    /// Sends a message. The answer has exactly `length` bytes; anything else is an error, found before memory is used for it.
    fn send(&self, route: Route, message: Bytes, length: usize) -> Pending<'_, Bytes>;
}

/// What a server says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// Which server it is, counted from 1.
    pub index: u8,
    /// The manifest, as it came.
    pub manifest: Bytes,
}

/// Why a server gave nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// No connection, or one that broke.
    #[error("cannot be reached: {0}")]
    Unreachable(String),
    /// The answer broke off.
    #[error("the answer broke off: {0}")]
    CutOff(String),
    /// No answer in time.
    #[error("no answer within {} seconds", .0.as_secs_f32())]
    TooSlow(Duration),
    /// Too busy for now.
    #[error("overloaded; it asks to wait {} seconds", .retry_after.as_secs())]
    Busy {
        /// What it asks for.
        retry_after: Duration,
    },
    /// It does not take the request.
    #[error("refused ({status}{}): {detail}", .problem.as_ref().map_or(String::new(), |name| format!(", {name}")))]
    Refused {
        /// HTTP status.
        status: u16,
        /// The last part of the problem document's type.
        problem: Option<String>,
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
        use TransportError::{Busy, CutOff, Damaged, Unreachable};
        matches!(self, Unreachable(_) | CutOff(_) | Damaged | Busy { .. })
    }
}

/// Bytes of the checksum after every response.
pub const CHECKSUM_LENGTH: usize = 16;

/// The response of `length` bytes in a body that ends with its checksum, the first bytes of its BLAKE3 hash. It is no
/// defence against a lying server, but damage between server and client must not pass for "nobody qualifies".
pub fn unwrap(mut body: Bytes, length: usize) -> Result<Bytes, TransportError> {
    if body.len() != length + CHECKSUM_LENGTH {
        return Err(TransportError::Length { have: body.len() as u64, need: length + CHECKSUM_LENGTH });
    }
    let checksum = body.split_off(length);
    match blake3::hash(&body).as_bytes().starts_with(&checksum) {
        true => Ok(body),
        false => Err(TransportError::Damaged),
    }
}
