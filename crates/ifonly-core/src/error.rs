//! What can go wrong in a search that was sent.

use crate::candidates::ImpossibleValue;
use crate::decode::DecodeError;
use crate::phase::PhaseError;

/// What went wrong during a search, and whose fault it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// Silence or lies beyond what the deployment bears.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// An answer that is not what the scheme says.
    #[error(transparent)]
    Round(PhaseError),
    /// A value that honest servers cannot give.
    #[error(transparent)]
    Implausible(#[from] ImpossibleValue),
    /// Servers with different root keys, versions or parameters.
    #[error(
        "servers {first} and {second} disagree about keys or parameters; their operators must compare key epochs and bundles"
    )]
    KeyCheck {
        /// Counted from 1.
        first: usize,
        /// Counted from 1.
        second: usize,
    },
    /// Not enough answers, because some were no answers.
    #[error("the responses of servers {servers:?} are malformed, and too few others answered")]
    Malformed {
        /// Counted from 1.
        servers: Vec<usize>,
    },
    /// A scheme that needs everybody, and somebody did not answer.
    #[error("servers {servers:?} gave no answer, and all are needed")]
    Missing {
        /// Counted from 1.
        servers: Vec<usize>,
    },
    /// Answers of servers that did not run the same search.
    #[error("the answers do not fit together ({0}): a server lied or holds another database")]
    Unfitting(&'static str),
    /// The fetched bytes are no record.
    #[error("the fetched bytes are not a record: a server lied or holds another database")]
    NotARecord,
    /// The record is not the institution's.
    #[error(
        "the fetched record is not signed by the institution's key: a server forged it, or serves records of another bundle"
    )]
    Forged,
    /// The record does not have the cost that was decoded for it.
    #[error(
        "the fetched record does not have the cost that was decoded for it: a server lied or holds another database"
    )]
    WrongRecord,
    /// Somebody stopped halfway.
    #[error("the search was not led to its end: there is an outcome only after the last step")]
    Unfinished,
}

impl From<PhaseError> for SearchError {
    fn from(error: PhaseError) -> SearchError {
        match error {
            PhaseError::Decode(error) => SearchError::Decode(error),
            other => SearchError::Round(other),
        }
    }
}
