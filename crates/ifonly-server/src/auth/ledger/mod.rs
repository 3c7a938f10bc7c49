//! The ledger: durable counts of the searches that tokens have spent, in a file, in PostgreSQL, or
//! in Redis or Valkey. The stores need the features `postgres` and `redis`.
//!
//! All frontends of one server share a ledger. A store increments a count and compares it with the
//! limit in one atomic step, so two frontends cannot both spend the last search. If the server does
//! not know whether a request was counted, it refuses the request and does not retry: the user may
//! lose a search, but no search is spent twice.
//!
//! A store may lose counts: it is restored from an old backup, emptied, or restarted without the
//! data it had in memory. The process therefore remembers the highest count it has seen. If the
//! store has less, or is not the ledger that was opened, all spending stops until the store is
//! restored or the server is reloaded. A reload continues from the counts that the process
//! remembers.
//!
//! A *line* is the key of one count: the name of a token and a message kind, such as `a phase0`.

mod file;
mod location;
#[cfg(any(feature = "postgres", feature = "redis"))]
mod pool;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;
#[cfg(any(feature = "postgres", feature = "redis"))]
mod runtime;
#[cfg(any(feature = "postgres", feature = "redis"))]
mod store;
#[cfg(any(feature = "postgres", feature = "redis"))]
mod tls;

pub(crate) use file::FileLedger;
pub use location::LedgerConfig;
pub(crate) use location::{DEFAULT_TIMEOUT, deserialize_some};

use location::LedgerLocation;
use std::collections::HashMap;
use std::path::PathBuf;

/// Counts of spent searches, shared by all processes that open the same ledger.
pub trait Ledger: Send + Sync + std::fmt::Debug {
    /// Increments the count of `line` unless it has reached `limit`; returns whether it did. After
    /// an error the count may or may not have changed, and the request must be refused. This may
    /// wait for a lock or the network, so call it on a blocking thread.
    fn spend(&self, line: &str, limit: u64) -> Result<bool, LedgerError>;

    /// The counts that this process remembers, by line.
    fn known(&self) -> HashMap<String, u64>;

    /// Adopts the counts that another ledger of this process remembers.
    fn inherit(&self, known: HashMap<String, u64>);
}

/// Why a ledger cannot be used. The texts name stores without users and passwords.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LedgerError {
    /// The file cannot be used, or is not the file that was opened.
    #[error("ledger {path}: {error}")]
    File {
        /// Which file.
        path: PathBuf,
        /// The error of the operating system.
        error: std::io::Error,
    },
    /// The configuration of the ledger is invalid.
    #[error("ledger: {0}")]
    Config(String),
    /// The program was compiled without this kind of store.
    #[error(
        "ledger: this program was built without {0}; use a released program, image or wheel, or build it with the \
         cargo feature `stores`"
    )]
    NotBuilt(&'static str),
    /// The store is unreachable or unusable. No request was sent, so nothing was counted.
    #[error("ledger {store}: {reason}")]
    Unreachable {
        /// The store, without user and password.
        store: String,
        /// The reason.
        reason: String,
    },
    /// The settings of the store allow it to lose counts.
    #[error("ledger {store} is not durable: {reason}")]
    NotDurable {
        /// The store, without user and password.
        store: String,
        /// The setting, and its required value.
        reason: String,
    },
    /// The store refused the request, so nothing was counted.
    #[error("ledger {store} refused to count: {reason}")]
    Refused {
        /// The store, without user and password.
        store: String,
        /// The reason.
        reason: String,
    },
    /// The request was sent, but its result is unknown.
    #[error("ledger {store} did not confirm a count: {reason}")]
    Unconfirmed {
        /// The store, without user and password.
        store: String,
        /// The reason.
        reason: String,
    },
    /// The store has lower counts than this process has seen.
    #[error(
        "ledger {store} has lost counts ({reason}); restore it, or reload the server to continue from the counts it \
         remembers"
    )]
    CountsLost {
        /// The store, without user and password.
        store: String,
        /// How the server noticed it.
        reason: &'static str,
    },
}

/// Opens the ledger that the configuration names. `server` is the default name of the ledger in a
/// store with several ledgers. The daemon passes the name of the dataset and the server index, so
/// that two servers that share a store by mistake do not mix their counts.
pub fn open(config: &LedgerConfig, server: &str) -> Result<Box<dyn Ledger>, LedgerError> {
    let server = config.name.as_deref().unwrap_or(server);
    let url = match config.location()? {
        LedgerLocation::File(path) => return Ok(Box::new(FileLedger::open(&path, config.timeout())?)),
        LedgerLocation::Url(url) => url,
    };
    // Connections have their own runtime, which must not block a thread of another runtime, so a
    // new thread opens the store.
    let opened = std::thread::scope(|scope| scope.spawn(|| open_store(&url, config, server)).join());
    opened.unwrap_or_else(|_| Err(LedgerError::Config("internal error while opening it".into())))
}

/// Opens the store of a URL. `LedgerConfig::location` has checked its scheme.
#[cfg_attr(not(all(feature = "postgres", feature = "redis")), allow(unused_variables))]
fn open_store(url: &str, config: &LedgerConfig, server: &str) -> Result<Box<dyn Ledger>, LedgerError> {
    if url.starts_with("postgres") {
        #[cfg(feature = "postgres")]
        return Ok(Box::new(postgres::open(url, config, server)?));
        #[cfg(not(feature = "postgres"))]
        return Err(LedgerError::NotBuilt("PostgreSQL"));
    }
    #[cfg(feature = "redis")]
    return Ok(Box::new(redis::open(url, config, server)?));
    #[cfg(not(feature = "redis"))]
    Err(LedgerError::NotBuilt("Redis and Valkey"))
}

#[cfg(all(test, not(all(feature = "postgres", feature = "redis"))))]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_was_not_built_is_refused_with_the_way_to_get_it() {
        let stores = [
            ("postgres://h/d", "PostgreSQL", cfg!(feature = "postgres")),
            ("valkey://h", "Redis and Valkey", cfg!(feature = "redis")),
        ];
        for (url, name, _) in stores.into_iter().filter(|&(_, _, is_built)| !is_built) {
            let error = open(&LedgerConfig::new(url), "test/1").unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("cargo feature `stores`"), "{error}");
        }
    }
}
