//! The common part of ledgers in a store: a connection pool, the counts that this process has seen,
//! and the interpretation of the replies.
//!
//! A [`CounterStore`] increments a count in one atomic step. [`StoreLedger`] detects a store that
//! has lost counts: it sends the highest count it has seen, and the identity of the ledger.

use crate::auth::ledger::pool::Pool;
use crate::auth::ledger::{Ledger, LedgerError};
use ifonly_algebra::random::{OsRandom, RandomSource};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Connections of one process to its store. The store serialises the requests of one token; with
/// several connections, requests of different tokens share its flushes.
const CONNECTIONS: usize = 4;

/// Maximum count. A 64-bit float and a signed integer represent it exactly.
const MAX_COUNT: u64 = (1 << 53) - 1;

/// A store with atomic counters.
pub(crate) trait CounterStore: Send + Sync {
    /// A connection to a store whose settings were checked.
    type Connection: Send;

    /// The URL of the store without user and password, for errors.
    fn display_url(&self) -> String;

    /// Connects, and refuses a store whose settings allow it to lose counts.
    fn connect(&self) -> Result<Self::Connection, LedgerError>;

    /// Returns the identity of the ledger; creates the ledger with the identity `proposal` if it is
    /// missing.
    fn identify(&self, connection: &mut Self::Connection, proposal: &str) -> Result<String, LedgerError>;

    /// Whether an idle connection still seems open.
    fn is_open(&self, connection: &mut Self::Connection) -> bool;

    /// In one atomic step: checks the identity of the ledger and that its count is at least `seen`,
    /// then sets the count to max(count, `floor`) + 1, unless the maximum has reached `limit`.
    fn spend(&self, connection: &mut Self::Connection, request: &SpendRequest<'_>)
    -> Result<SpendOutcome, LedgerError>;
}

/// A request to increment the count of one line.
#[derive(Debug)]
pub(crate) struct SpendRequest<'a> {
    pub(crate) identity: &'a str,
    pub(crate) line: &'a str,
    pub(crate) limit: u64,
    /// The highest count that this process has seen in this store.
    pub(crate) seen: u64,
    /// The count that this process remembers from before a reload.
    pub(crate) floor: u64,
}

/// The result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpendOutcome {
    /// The request was counted; the new count.
    Counted(u64),
    /// The limit is reached; nothing was counted.
    LimitReached,
    /// The count is lower than `seen`.
    CountDecreased,
    /// The ledger has another identity, or is missing.
    OtherLedger,
}

/// A ledger in a store.
pub(crate) struct StoreLedger<S: CounterStore> {
    store: S,
    /// Random, drawn when the ledger was created, so a ledger that was created again differs.
    identity: String,
    connections: Pool<S::Connection>,
    marks: Mutex<HashMap<String, Marks>>,
    timeout: Duration,
}

/// What this process knows about one line; see [`SpendRequest`].
#[derive(Clone, Copy, Debug, Default)]
struct Marks {
    seen: u64,
    floor: u64,
}

impl<S: CounterStore> StoreLedger<S> {
    pub(crate) fn open(store: S, timeout: Duration) -> Result<StoreLedger<S>, LedgerError> {
        let mut connection = store.connect()?;
        let mut proposal = [0; 16];
        OsRandom::default().fill(&mut proposal);
        let identity = store.identify(&mut connection, &hex::encode(proposal))?;
        let connections = Pool::new(connection, CONNECTIONS);
        Ok(StoreLedger { store, identity, connections, marks: Mutex::default(), timeout })
    }

    /// Sends a request on a pooled connection, which returns to the pool only on success.
    fn request(&self, request: &SpendRequest<'_>) -> Result<SpendOutcome, LedgerError> {
        let busy = || LedgerError::Unreachable {
            store: self.store.display_url(),
            reason: "all connections are in use".into(),
        };
        let mut pooled = self.connections.take(self.timeout).ok_or_else(busy)?;
        // A restarted store has closed the idle connections. This request was not sent yet, so a
        // new connection is safe.
        let idle = pooled.connection.take().and_then(|mut idle| self.store.is_open(&mut idle).then_some(idle));
        let mut connection = match idle {
            Some(connection) => connection,
            None => self.store.connect()?,
        };
        let outcome = self.store.spend(&mut connection, request)?;
        pooled.connection = Some(connection);
        Ok(outcome)
    }
}

impl<S: CounterStore> Ledger for StoreLedger<S> {
    fn spend(&self, line: &str, limit: u64) -> Result<bool, LedgerError> {
        let limit = limit.min(MAX_COUNT);
        // Replies of parallel requests arrive in any order, so the request uses the count that was
        // seen before it was sent.
        let Marks { seen, floor } =
            self.marks.lock().unwrap_or_else(PoisonError::into_inner).get(line).copied().unwrap_or_default();
        let counts_lost = |reason| Err(LedgerError::CountsLost { store: self.store.display_url(), reason });
        match self.request(&SpendRequest { identity: &self.identity, line, limit, seen, floor })? {
            SpendOutcome::Counted(count) if count > seen.max(floor) && count <= limit => {
                let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
                let mark = marks.entry(line.into()).or_default();
                mark.seen = count.max(mark.seen);
                Ok(true)
            }
            SpendOutcome::LimitReached => Ok(false),
            SpendOutcome::Counted(_) | SpendOutcome::CountDecreased => {
                counts_lost("its count is lower than this server has seen")
            }
            SpendOutcome::OtherLedger => counts_lost("it is not the ledger that this server opened"),
        }
    }

    fn known(&self) -> HashMap<String, u64> {
        let marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        marks.iter().map(|(line, mark)| (line.clone(), mark.seen.max(mark.floor))).collect()
    }

    fn inherit(&self, known: HashMap<String, u64>) {
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        for (line, count) in known {
            let mark = marks.entry(line).or_default();
            mark.floor = count.max(mark.floor);
        }
    }
}

impl<S: CounterStore> std::fmt::Debug for StoreLedger<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StoreLedger({})", self.store.display_url())
    }
}
