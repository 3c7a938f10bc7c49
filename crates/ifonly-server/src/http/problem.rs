//! Problem documents (RFC 9457): every refusal is `application/problem+json` that states the reason
//! and what to do.
//!
//! The registry is `docs/protocol.md#122-problems`. No problem depends on the secret of a query,
//! because a server cannot learn it.

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use ifonly_core::http_api::{PROBLEM_TYPE, ProblemType};
use ifonly_core::server_protocol::Refusal;
use std::ops::Range;

/// Why the server refused a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The request has no token, or an unknown one.
    #[error("this server requires a valid bearer token; ask its operator for one")]
    Unauthorized,
    /// The budget of the token is exhausted.
    #[error("this token has no searches left; ask the operator for more")]
    BudgetExhausted,
    /// The ledger is unavailable, so the server cannot count the request.
    #[error("the server cannot count searches at the moment; retry later")]
    LedgerUnavailable,
    /// The admission queue or the memory for transfers is full.
    #[error("too many requests; retry after the time in Retry-After")]
    Overloaded {
        /// Value of Retry-After, in seconds.
        retry_after: u64,
    },
    /// The body is longer than the longest message.
    #[error("the message is too long; messages to this server have at most {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The body did not arrive in time.
    #[error("the message did not arrive in time; the limit is {seconds} s")]
    UploadTimeout {
        /// The limit in seconds.
        seconds: u64,
    },
    /// The connection ended before the body was complete.
    #[error("the message is incomplete; the connection ended before its last byte")]
    IncompleteBody,
    /// The protocol refused the message.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The message was sent to the wrong path.
    #[error("wrong path for this message; send it to {path}")]
    WrongPath {
        /// The right path.
        path: &'static str,
    },
    /// The three servers could not complete a sealed search.
    #[error("the sealed search failed: {0}")]
    PeerFailure(String),
    /// Shards are unavailable. The text names rows only: addresses of shards are not public.
    #[error("{} are temporarily unavailable; retry later, and tell the operator if this persists", describe(.0))]
    ShardsUnavailable(
        /// The rows, if they are known.
        Option<Range<usize>>,
    ),
    /// An internal error of the server.
    #[error("internal error of the server; its log has the reason")]
    Internal,
    /// The path does not exist.
    #[error("no such path; available: /v1/manifest, /v1/answer, /v1/record")]
    NotFound,
    /// The path does not allow the method.
    #[error("this path allows only {allow}")]
    MethodNotAllowed {
        /// The allowed method.
        allow: &'static str,
    },
}

fn describe(rows: &Option<Range<usize>>) -> String {
    rows.as_ref().map_or("some rows".into(), |rows| format!("rows {} to {}", rows.start, rows.end))
}

impl Problem {
    /// The problem type of the registry.
    pub fn kind(&self) -> ProblemType {
        match self {
            Problem::Unauthorized => ProblemType::Unauthorized,
            Problem::BudgetExhausted => ProblemType::BudgetExhausted,
            Problem::LedgerUnavailable => ProblemType::LedgerUnavailable,
            Problem::Overloaded { .. } => ProblemType::Overloaded,
            Problem::TooLarge { .. } => ProblemType::TooLarge,
            Problem::UploadTimeout { .. } => ProblemType::UploadTimeout,
            Problem::IncompleteBody => ProblemType::IncompleteBody,
            Problem::Refused(Refusal::Manifest) => ProblemType::UnknownManifest,
            Problem::Refused(Refusal::Epoch(_)) => ProblemType::UnknownKeyEpoch,
            Problem::Refused(Refusal::Scheme(_)) => ProblemType::SchemeNotOffered,
            Problem::Refused(Refusal::Server { .. }) => ProblemType::WrongServer,
            Problem::Refused(Refusal::Version(_)) => ProblemType::UnsupportedVersion,
            Problem::Refused(Refusal::Ticket) => ProblemType::WrongTicket,
            Problem::Refused(_) => ProblemType::Malformed,
            Problem::WrongPath { .. } => ProblemType::WrongPath,
            Problem::PeerFailure(_) => ProblemType::PeerFailure,
            Problem::ShardsUnavailable(_) => ProblemType::ShardsUnavailable,
            Problem::Internal => ProblemType::Internal,
            Problem::NotFound => ProblemType::NotFound,
            Problem::MethodNotAllowed { .. } => ProblemType::MethodNotAllowed,
        }
    }

    /// The HTTP status.
    pub fn status(&self) -> StatusCode {
        match self {
            Problem::Unauthorized => StatusCode::UNAUTHORIZED,
            Problem::BudgetExhausted => StatusCode::TOO_MANY_REQUESTS,
            Problem::LedgerUnavailable | Problem::Overloaded { .. } | Problem::ShardsUnavailable(_) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Problem::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Problem::UploadTimeout { .. } => StatusCode::REQUEST_TIMEOUT,
            Problem::Refused(Refusal::Manifest | Refusal::Epoch(_)) => StatusCode::CONFLICT,
            Problem::Refused(Refusal::Scheme(_)) => StatusCode::UNPROCESSABLE_ENTITY,
            Problem::Refused(Refusal::Server { .. }) => StatusCode::MISDIRECTED_REQUEST,
            Problem::Refused(Refusal::Ticket) => StatusCode::FORBIDDEN,
            Problem::Refused(_) | Problem::WrongPath { .. } | Problem::IncompleteBody => StatusCode::BAD_REQUEST,
            Problem::PeerFailure(_) => StatusCode::FAILED_DEPENDENCY,
            Problem::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Problem::NotFound => StatusCode::NOT_FOUND,
            Problem::MethodNotAllowed { .. } => StatusCode::METHOD_NOT_ALLOWED,
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = self.status();
        let document = serde_json::json!({
            "type": self.kind().urn(),
            "title": status.canonical_reason().unwrap_or("Error"),
            "status": status.as_u16(),
            "detail": self.to_string(),
        });
        let mut response = (status, document.to_string()).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_TYPE));
        match self {
            Problem::Unauthorized => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            Problem::Overloaded { retry_after } => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from(retry_after));
            }
            Problem::ShardsUnavailable(_) => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            Problem::LedgerUnavailable => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("10"));
            }
            Problem::MethodNotAllowed { allow } => {
                headers.insert(header::ALLOW, HeaderValue::from_static(allow));
            }
            _ => {}
        }
        response
    }
}
