//! Error documents (RFC 9457): every refusal says who is at fault and what to do, as
//! `application/problem+json`.
//!
//! The table in `docs/operations.md` lists them all. None depends on what a query hides: a server
//! could not make one if it wanted to.

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use ifonly_core::http_api::{PROBLEM_TYPE, ProblemType};
use ifonly_core::server_protocol::Refusal;
use std::ops::Range;

/// Why a request got no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// No token, or one that is not known.
    #[error("this server answers only with a bearer token that it knows; ask its operator for one")]
    Unauthorized,
    /// The token has no sessions left.
    #[error("this token has no sessions left; ask the operator for more")]
    BudgetExhausted,
    /// The ledger of spent budgets cannot be written, so nothing may be spent.
    #[error("the server cannot record spent sessions at the moment; try again later")]
    LedgerUnavailable,
    /// More requests than the server takes at once.
    #[error("the server has as many requests as it can take; try again after the time in Retry-After")]
    Overloaded {
        /// Seconds.
        retry_after: u64,
    },
    /// The body is longer than any message can be.
    #[error("no message to this server is longer than {limit} bytes")]
    TooLarge {
        /// Bytes.
        limit: usize,
    },
    /// The body did not arrive in time.
    #[error("the message did not arrive within {seconds} seconds")]
    UploadTimeout {
        /// The limit.
        seconds: u64,
    },
    /// The body broke off.
    #[error("the message could not be read to its end")]
    IncompleteBody,
    /// The message was refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A record query at the path of answers, or the other way round.
    #[error("this message belongs to {path}")]
    WrongPath {
        /// The right one.
        path: &'static str,
    },
    /// A sealed search that the three servers did not bring to its end.
    #[error("the servers of this search did not bring it to its end: {0}; try again")]
    PeerFailure(String),
    /// Some of the server's rows are on machines that are not there. Which machines is nobody's
    /// business outside, so there is no room for words.
    #[error("{} of this server's database cannot be had at the moment; try again, and tell its operator if it stays so", away(.0))]
    ShardsUnavailable(
        /// Which rows, where that is known.
        Option<Range<usize>>,
    ),
    /// A fault of the server itself.
    #[error("the server failed; its operator finds the reason in its log")]
    Internal,
    /// No such path.
    #[error("there is nothing here; see /v1/manifest, /v1/answer and /v1/record")]
    NotFound,
    /// A path with another method.
    #[error("this path takes {allow} only")]
    MethodNotAllowed {
        /// The right one.
        allow: &'static str,
    },
}

fn away(rows: &Option<Range<usize>>) -> String {
    rows.as_ref().map_or("some rows".into(), |rows| format!("rows {} to {}", rows.start, rows.end))
}

impl Problem {
    /// What kind of problem this is.
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
