//! Errors of a search that has been started.

use crate::decode::DecodeError;
use crate::phase::PhaseError;

/// Why a search failed, and which servers are at fault if that is known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// More servers are silent or lie than the deployment tolerates.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The answers of a phase do not have the form that the scheme requires.
    #[error(transparent)]
    Phase(PhaseError),
    /// Servers have different root keys or data.
    #[error(
        "servers {first} and {second} have different root keys or data; their operators must compare key fingerprints and bundles"
    )]
    KeyCheck {
        /// Server index, from 1.
        first: usize,
        /// Server index, from 1.
        second: usize,
    },
    /// Too few answers remain because some were malformed.
    #[error("the responses of servers {servers:?} are malformed, and too few other servers answered")]
    Malformed {
        /// Server index, from 1.
        servers: Vec<usize>,
    },
    /// A scheme needs the answers of all servers, and some are missing.
    #[error("servers {servers:?} gave no answer, and this scheme needs the answers of all servers")]
    Missing {
        /// Server index, from 1.
        servers: Vec<usize>,
    },
    /// The servers did not run the same search.
    #[error("the answers are inconsistent ({0}): a server lied or holds another database")]
    Inconsistent(&'static str),
    /// `finish` was called too early.
    #[error("finish() was called before the last step of the search")]
    Unfinished,
}

/// Why a fetched record is not accepted. This is never an error of the search: an error that
/// appears only for some results would tell a lying server which result the user has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordRefusal {
    /// The fetched bytes are not a record.
    #[error("the fetched bytes are not a record")]
    NotARecord,
    /// The record is not signed by the institution.
    #[error("the fetched record is not signed by the institution's key")]
    Forged,
    /// The record does not have the cost that was decoded for it.
    #[error("the fetched record does not have the cost that was decoded for it")]
    WrongCost,
}

impl From<PhaseError> for SearchError {
    fn from(error: PhaseError) -> SearchError {
        match error {
            PhaseError::Decode(error) => SearchError::Decode(error),
            other => SearchError::Phase(other),
        }
    }
}
