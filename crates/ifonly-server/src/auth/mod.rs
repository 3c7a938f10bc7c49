//! Authorisation: who may search, and how often.
//!
//! [`Authorisation`] is the interface for every way to authorise. The first one is
//! [`account_tokens`]: one bearer token per account, whose searches a [ledger] counts. A way may
//! require a credential in every request, or only in the first message of a search: later messages
//! carry the ticket of the search, which the protocol checks before anything is charged.

pub mod account_tokens;
pub mod ledger;

use crate::http::problem::Problem;
use http::{HeaderMap, HeaderName, header};
use ifonly_core::transcript::{MessageKind, Tau};
use ledger::Ledger;

/// The request headers that can carry a credential. Pages of allowed origins may send them.
pub(crate) const CREDENTIAL_HEADERS: [HeaderName; 1] = [header::AUTHORIZATION];

/// A way to authorise searches.
pub trait Authorisation: std::fmt::Debug + Send + Sync {
    /// Checks the credentials in the headers of a request, before its body is read. Requests for
    /// the manifest are admitted, but never charged.
    fn admit(&self, headers: &HeaderMap) -> Result<Pass, Problem>;

    /// Charges one request to the pass. The message is valid, and the server can answer it. The
    /// configuration may have been reloaded since the request was admitted, so the pass is checked
    /// again. This may wait for a store, so call it on a blocking thread.
    fn spend(&self, pass: &Pass, stage: &Stage) -> Result<(), Problem>;

    /// The ledger that counts, if there is one.
    fn ledger(&self) -> Option<&dyn Ledger>;

    /// Adopts the counts of `previous`, so that a reload renews no budget, whatever happened to the
    /// ledger.
    fn inherit(&self, previous: &dyn Authorisation) {
        if let (Some(ledger), Some(previous)) = (self.ledger(), previous.ledger()) {
            ledger.inherit(previous.known());
        }
    }
}

/// What an admitted request has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pass {
    /// The way to authorise that admitted the request. No other way accepts the pass.
    pub way: &'static str,
    /// The hash of the credential; `None` for a request without a credential.
    pub credential: Option<blake3::Hash>,
}

/// One request of a search, to be charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// τ of the first message of the search. A repeated request has the same.
    pub search: Tau,
    /// The kind of the message.
    pub kind: MessageKind,
    /// How many requests of this kind one search may make.
    pub per_search: u64,
    /// How many searches the request counts as: a sealed search for several rows counts as several.
    pub searches: u64,
}
