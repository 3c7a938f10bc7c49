//! A ledger in Redis or Valkey: one hash with a field per line. A script, which runs atomically,
//! increments the counts.
//!
//! Redis keeps its data in memory and may lose it. At every connection the ledger checks the
//! settings: the server must be a primary, write an append-only file, and evict nothing.

use crate::auth::ledger::redis_url::{RedisEndpoint, RedisUrl};
use crate::auth::ledger::resp::{RespConnection, RespReply};
use crate::auth::ledger::store::{CounterStore, SpendOutcome, SpendRequest, StoreLedger};
use crate::auth::ledger::{LedgerConfig, LedgerError, tls};
use rustls::ClientConfig;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

/// Increments a count. The result is the new count, 0 if the limit is reached, -1 if the count is
/// below `seen`, or -2 if the ledger has another identity. `%.0f` writes numbers without an
/// exponent. The only write is the last command, so an error has changed nothing.
const SPEND: &str = "\
local key, identity, line = KEYS[1], ARGV[1], ARGV[2]
local limit, seen, floor = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
if redis.call('HGET', key, 'identity') ~= identity then return -2 end
local spent = tonumber(redis.call('HGET', key, line) or '0')
if spent < seen then return -1 end
if spent < floor then spent = floor end
if spent >= limit then return 0 end
redis.call('HSET', key, line, string.format('%.0f', spent + 1))
return spent + 1";

/// Creates the ledger if it is missing; returns its identity.
const IDENTIFY: &str = "\
redis.call('HSETNX', KEYS[1], 'identity', ARGV[1])
return redis.call('HGET', KEYS[1], 'identity')";

pub(crate) fn open(url: &str, config: &LedgerConfig, server: &str) -> Result<StoreLedger<Redis>, LedgerError> {
    let invalid = || LedgerError::Config("invalid URL; use redis://user:password@host:6379/0".into());
    let url = RedisUrl::parse(url).ok_or_else(invalid)?;
    let tls = match url.endpoint {
        RedisEndpoint::Host { tls: true, .. } => Some(tls::client(config.ca.as_deref())?),
        _ => None,
    };
    let (timeout, replicas) = (config.timeout(), config.replicas);
    StoreLedger::open(Redis { url, tls, timeout, replicas, key: format!("ifonly:ledger:{server}") }, timeout)
}

/// The store and its settings.
pub(crate) struct Redis {
    url: RedisUrl,
    tls: Option<Arc<ClientConfig>>,
    timeout: Duration,
    /// How many replicas must confirm a count.
    replicas: u32,
    key: String,
}

impl Redis {
    fn unreachable(&self, reason: impl ToString) -> LedgerError {
        LedgerError::Unreachable { store: self.display_url(), reason: reason.to_string() }
    }

    /// Runs a command that must succeed before anything is counted.
    fn prepare(&self, connection: &mut RespConnection, words: &[&[u8]]) -> Result<RespReply, LedgerError> {
        match connection.command(words) {
            Ok(RespReply::Error(text)) => {
                // Some error replies repeat the command, and with it the password. The first word
                // is the kind of the error.
                let kind = text.split(' ').next().unwrap_or_default();
                let command = String::from_utf8_lossy(words.first().copied().unwrap_or_default()).into_owned();
                Err(self.unreachable(format!("the command {command} failed: {kind}")))
            }
            Ok(reply) => Ok(reply),
            Err(error) => Err(self.unreachable(self.reason(&error))),
        }
    }

    /// The text of an I/O error.
    fn reason(&self, error: &std::io::Error) -> String {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                format!("no reply within {} s", self.timeout.as_secs())
            }
            _ => error.to_string(),
        }
    }

    /// Checks the output of `INFO`: refuses a store that may lose counts.
    fn check(&self, info: &str) -> Result<(), LedgerError> {
        let value = |key: &str| info.lines().find_map(|line| line.trim().strip_prefix(key)?.strip_prefix(':'));
        let not_durable =
            |reason: &str| Err(LedgerError::NotDurable { store: self.display_url(), reason: reason.into() });
        if value("loading").is_some_and(|loading| loading != "0") {
            return Err(self.unreachable("it is still loading its data"));
        }
        if value("role") != Some("master") {
            return not_durable("it is a replica; use the address of the primary");
        }
        if value("maxmemory_policy") != Some("noeviction") {
            return not_durable("it may evict counts when memory is short; set maxmemory-policy to noeviction");
        }
        if value("aof_enabled") != Some("1") {
            return not_durable("it keeps its data only in memory or in snapshots; set appendonly to yes");
        }
        Ok(())
    }
}

impl CounterStore for Redis {
    type Connection = RespConnection;

    fn display_url(&self) -> String {
        self.url.to_string()
    }

    fn connect(&self) -> Result<RespConnection, LedgerError> {
        let connection = RespConnection::connect(&self.url.endpoint, self.tls.as_ref(), self.timeout);
        let mut connection = connection.map_err(|error| self.unreachable(self.reason(&error)))?;
        match (&self.url.user, &self.url.password) {
            (None, None) => {}
            (None, Some(password)) => drop(self.prepare(&mut connection, &[b"AUTH", password.as_bytes()])?),
            (Some(user), password) => {
                let password = password.as_deref().unwrap_or_default();
                self.prepare(&mut connection, &[b"AUTH", user.as_bytes(), password.as_bytes()])?;
            }
        }
        if self.url.database != 0 {
            self.prepare(&mut connection, &[b"SELECT", self.url.database.to_string().as_bytes()])?;
        }
        match self.prepare(&mut connection, &[b"INFO"])? {
            RespReply::Text(info) => self.check(&info).map(|()| connection),
            _ => Err(self.unreachable("the reply to INFO is invalid")),
        }
    }

    fn identify(&self, connection: &mut RespConnection, proposal: &str) -> Result<String, LedgerError> {
        let words = [b"EVAL", IDENTIFY.as_bytes(), b"1", self.key.as_bytes(), proposal.as_bytes()];
        match self.prepare(connection, &words)? {
            RespReply::Text(identity) => Ok(identity),
            _ => Err(self.unreachable("the key of the ledger contains other data")),
        }
    }

    fn is_open(&self, connection: &mut RespConnection) -> bool {
        connection.is_open()
    }

    fn spend(&self, connection: &mut RespConnection, request: &SpendRequest<'_>) -> Result<SpendOutcome, LedgerError> {
        let unconfirmed = |reason: String| LedgerError::Unconfirmed { store: self.display_url(), reason };
        let numbers = [request.limit, request.seen, request.floor].map(|number| number.to_string());
        let [limit, seen, floor] = [0, 1, 2].map(|index: usize| numbers[index].as_bytes());
        let (key, identity) = (self.key.as_bytes(), request.identity.as_bytes());
        let words = [b"EVAL", SPEND.as_bytes(), b"1", key, identity, request.line.as_bytes(), limit, seen, floor];
        let count = match connection.command(&words) {
            Ok(RespReply::Number(-2)) => return Ok(SpendOutcome::OtherLedger),
            Ok(RespReply::Number(-1)) => return Ok(SpendOutcome::CountDecreased),
            Ok(RespReply::Number(0)) => return Ok(SpendOutcome::LimitReached),
            Ok(RespReply::Number(count)) => {
                u64::try_from(count).map_err(|_| unconfirmed("the count is negative".into()))?
            }
            Ok(RespReply::Error(reason)) => return Err(LedgerError::Refused { store: self.display_url(), reason }),
            Ok(_) => return Err(unconfirmed("the reply is not a count".into())),
            Err(error) => return Err(unconfirmed(self.reason(&error))),
        };
        if self.replicas > 0 {
            // Half of the timeout, so that the reply arrives before the read times out.
            let wait_milliseconds = (self.timeout.as_millis() / 2).to_string();
            let replicas = self.replicas.to_string();
            match connection.command(&[b"WAIT", replicas.as_bytes(), wait_milliseconds.as_bytes()]) {
                Ok(RespReply::Number(have)) if have >= i64::from(self.replicas) => {}
                Ok(_) => {
                    return Err(unconfirmed(format!(
                        "too few replicas confirmed the count; required: {}",
                        self.replicas
                    )));
                }
                Err(error) => return Err(unconfirmed(self.reason(&error))),
            }
        }
        Ok(SpendOutcome::Counted(count))
    }
}
