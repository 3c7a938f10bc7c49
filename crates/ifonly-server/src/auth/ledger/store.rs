//! What ledgers in another process have in common: connections, what this process has seen, and
//! what to make of a store's word.

use crate::auth::ledger::pool::Pool;
use crate::auth::ledger::{Ledger, LedgerError};
use ifonly_algebra::random::{OsRandom, RandomSource};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Connections of one process to its store. Spends of one token follow each other in the store
/// anyway; several connections let those of others share its flushes.
const CONNECTIONS: usize = 4;

/// Counts are at most this, which a 64-bit float and a signed integer hold exactly.
const MOST: u64 = (1 << 53) - 1;

/// A store that counts.
pub(crate) trait CounterStore: Send + Sync {
    /// A connection that has been found fit for use.
    type Connection: Send;

    /// Where it is, without user and password.
    fn shown(&self) -> String;

    /// Connects, and refuses a store that is set up to forget.
    fn connect(&self) -> Result<Self::Connection, LedgerError>;

    /// Makes the ledger with this identity if there is none; the identity that it has.
    fn identify(&self, connection: &mut Self::Connection, proposal: &str) -> Result<String, LedgerError>;

    /// Whether nothing shows yet that the connection is over.
    fn is_open(&self, connection: &mut Self::Connection) -> bool;

    /// In one step: if the ledger is the one that is meant and has counted at least `seen`, counts
    /// one more on top of the larger of its count and `floor`, unless that is `limit` already.
    fn spend(&self, connection: &mut Self::Connection, claim: &SpendRequest<'_>) -> Result<SpendOutcome, LedgerError>;
}

/// What is to be counted.
#[derive(Debug)]
pub(crate) struct SpendRequest<'a> {
    pub(crate) identity: &'a str,
    pub(crate) line: &'a str,
    pub(crate) limit: u64,
    /// What this process has seen of this store.
    pub(crate) seen: u64,
    /// What this process knows from before a reload.
    pub(crate) floor: u64,
}

/// What a store says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpendOutcome {
    /// Counted; so many are now.
    Counted(u64),
    /// The limit was reached before.
    Spent,
    /// There is less than was seen.
    Less,
    /// It is another ledger, or none.
    Another,
}

/// A ledger in a store.
pub(crate) struct StoreLedger<S: CounterStore> {
    store: S,
    /// Drawn when the ledger was made: whoever lost it cannot make the same again.
    identity: String,
    connections: Pool<S::Connection>,
    marks: Mutex<HashMap<String, Marks>>,
    timeout: Duration,
}

/// What a process knows of one line.
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

    /// One request on a connection that is put back only if all went well.
    fn ask(&self, claim: &SpendRequest<'_>) -> Result<SpendOutcome, LedgerError> {
        let busy = || LedgerError::Unreachable {
            store: self.store.shown(),
            reason: "all connections to it are waiting".into(),
        };
        let mut place = self.connections.take(self.timeout).ok_or_else(busy)?;
        // A store that was restarted has closed its connections. Nothing was asked on this one yet,
        // so another may be made.
        let idle = place.connection.take().and_then(|mut idle| self.store.is_open(&mut idle).then_some(idle));
        let mut connection = match idle {
            Some(connection) => connection,
            None => self.store.connect()?,
        };
        let verdict = self.store.spend(&mut connection, claim)?;
        place.connection = Some(connection);
        Ok(verdict)
    }
}

impl<S: CounterStore> Ledger for StoreLedger<S> {
    fn spend(&self, line: &str, limit: u64) -> Result<bool, LedgerError> {
        let limit = limit.min(MOST);
        // Replies may overtake each other, so what counts is what was seen before asking.
        let Marks { seen, floor } =
            self.marks.lock().unwrap_or_else(PoisonError::into_inner).get(line).copied().unwrap_or_default();
        let forgotten = |reason| Err(LedgerError::Forgotten { store: self.store.shown(), reason });
        match self.ask(&SpendRequest { identity: &self.identity, line, limit, seen, floor })? {
            SpendOutcome::Counted(count) if count > seen.max(floor) && count <= limit => {
                let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
                let mark = marks.entry(line.into()).or_default();
                mark.seen = count.max(mark.seen);
                Ok(true)
            }
            SpendOutcome::Spent => Ok(false),
            SpendOutcome::Counted(_) | SpendOutcome::Less => forgotten("it has counted less than this server has seen"),
            SpendOutcome::Another => forgotten("the ledger in it is not the one that this server opened"),
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
        write!(f, "Remote({})", self.store.shown())
    }
}
