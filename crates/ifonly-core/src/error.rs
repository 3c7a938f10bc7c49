//! Errors of a search that has been started.

use crate::candidates::ImpossibleValue;
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
    /// A decoded value that answers of honest servers cannot produce.
    #[error(transparent)]
    ImpossibleValue(#[from] ImpossibleValue),
    /// Servers have different root keys, versions or parameters.
    #[error(
        "servers {first} and {second} have different keys, data or parameters; their operators must compare key epochs and bundles"
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
    /// The fetched bytes are not a record.
    #[error("the fetched bytes are not a record: a server lied or holds another database")]
    NotARecord,
    /// The record is not signed by the institution.
    #[error(
        "the fetched record is not signed by the institution's key: a server forged it, or serves records of another bundle"
    )]
    Forged,
    /// The record does not have the cost that was decoded for it.
    #[error(
        "the fetched record does not have the cost that was decoded for it: a server lied or holds another database"
    )]
    WrongRecord,
    /// `finish` was called too early.
    #[error("finish() was called before the last step of the search")]
    Unfinished,
}

impl From<PhaseError> for SearchError {
    fn from(error: PhaseError) -> SearchError {
        match error {
            PhaseError::Decode(error) => SearchError::Decode(error),
            other => SearchError::Phase(other),
        }
    }
}
