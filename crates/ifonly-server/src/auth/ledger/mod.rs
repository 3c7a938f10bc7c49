//! Where spent sessions are counted: a file, PostgreSQL, or Redis and its kin (Valkey), as the
//! configuration says.
//!
//! All fronts of one logical server share a ledger, and none of them sells what another has sold: a
//! store counts one more and compares with the limit in one step. Whoever cannot know that a spend
//! was counted refuses, and nothing is asked a second time: a spend whose reply was lost may be
//! lost to the user, and is never sold twice.
//!
//! A store may forget: it is restored from an old copy, emptied, or restarted without what it held
//! in memory. What a process has seen counted is never forgotten as long as it runs. A store that
//! has less, or that is not the one that was opened, ends all spending until it is put back or the
//! server is reloaded, and a reload goes on from what the process knows.

mod file;
mod location;
mod pool;
mod postgres;
mod redis;
mod redis_url;
mod resp;
mod store;
mod tls;

pub(crate) use file::FileLedger;
pub use location::LedgerConfig;
pub(crate) use location::{PATIENCE, some};

use location::LedgerLocation;
use std::collections::HashMap;
use std::path::PathBuf;

/// Counts of what was spent, shared by whoever has opened the same one.
pub trait Ledger: Send + Sync + std::fmt::Debug {
    /// Counts one more under `line` unless `limit` are counted there already; whether it did. After
    /// an error it may have counted or not, and nothing may be given for it. May wait for a lock or
    /// a network, so it belongs on a thread that may block.
    fn spend(&self, line: &str, limit: u64) -> Result<bool, LedgerError>;

    /// What this process knows to be spent.
    fn known(&self) -> HashMap<String, u64>;

    /// Counts on from what another ledger of this process knew.
    fn inherit(&self, known: HashMap<String, u64>);
}

/// Why a ledger cannot be used. Names places without users and passwords.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LedgerError {
    /// A file that cannot be used, or is not the one that was read.
    #[error("ledger {path}: {error}")]
    File {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// Something about the configuration.
    #[error("ledger: {0}")]
    Place(String),
    /// Nothing was asked: there is no connection, or no store that may be used.
    #[error("ledger {store}: {reason}")]
    Unreachable {
        /// Where.
        store: String,
        /// What it said.
        reason: String,
    },
    /// The store would forget, by how it is set up.
    #[error("ledger {store} may forget what was spent: {reason}")]
    Careless {
        /// Where.
        store: String,
        /// Which setting, and what it must be.
        reason: String,
    },
    /// The store was asked and refused, so nothing was counted.
    #[error("ledger {store} did not count: {reason}")]
    Refused {
        /// Where.
        store: String,
        /// What it said.
        reason: String,
    },
    /// The store was asked and did not say what it did.
    #[error("ledger {store} was asked to count one and no reply came: {reason}")]
    Lost {
        /// Where.
        store: String,
        /// What happened.
        reason: String,
    },
    /// The store has less than this process has seen.
    #[error(
        "ledger {store} has forgotten what was spent ({reason}); put it back, or reload the server to go on from what it remembers"
    )]
    Forgotten {
        /// Where.
        store: String,
        /// By what it is seen.
        reason: &'static str,
    },
}

/// Opens the ledger that the configuration names. `server` says whose counts these are where a
/// store holds several: by default the dataset's name and the server's number, so that two logical
/// servers which are given one store by mistake do not mix.
pub fn open(config: &LedgerConfig, server: &str) -> Result<Box<dyn Ledger>, LedgerError> {
    let server = config.name.as_deref().unwrap_or(server);
    let url = match config.place()? {
        LedgerLocation::File(path) => return Ok(Box::new(FileLedger::open(&path, config.timeout())?)),
        LedgerLocation::Url(url) => url,
    };
    // A store with a runtime of its own may not be waited for on a thread that drives another
    // runtime.
    let opening = || -> Result<Box<dyn Ledger>, LedgerError> {
        match url.split(':').next().unwrap_or_default() {
            "postgres" | "postgresql" => Ok(Box::new(postgres::open(&url, config, server)?)),
            _ => Ok(Box::new(redis::open(&url, config, server)?)),
        }
    };
    let opened = std::thread::scope(|scope| scope.spawn(opening).join());
    opened.unwrap_or_else(|_| Err(LedgerError::Place("opening it failed; this is a fault of the program".into())))
}
