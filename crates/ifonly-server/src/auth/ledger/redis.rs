//! A ledger in Redis or Valkey: one hash, a field per line, counted by a script, which runs as one
//! step.
//!
//! A Redis keeps its data in memory, so it is asked at every connection whether it would forget: it
//! must be a primary, write its append-only file, and evict nothing.

use crate::auth::ledger::redis_url::{RedisEndpoint, RedisUrl};
use crate::auth::ledger::resp::{RespConnection, RespReply};
use crate::auth::ledger::store::{CounterStore, SpendOutcome, SpendRequest, StoreLedger};
use crate::auth::ledger::{LedgerConfig, LedgerError, tls};
use rustls::ClientConfig;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

/// Numbers are written without an exponent. The one write comes last: an error before it has
/// changed nothing.
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

/// Makes the ledger if there is none.
const IDENTIFY: &str = "\
redis.call('HSETNX', KEYS[1], 'identity', ARGV[1])
return redis.call('HGET', KEYS[1], 'identity')";

pub(crate) fn open(url: &str, config: &LedgerConfig, server: &str) -> Result<StoreLedger<Redis>, LedgerError> {
    let unreadable = || LedgerError::Place("its URL cannot be read; write redis://user:password@host:6379/0".into());
    let url = RedisUrl::parse(url).ok_or_else(unreadable)?;
    let tls = match url.at {
        RedisEndpoint::Host { tls: true, .. } => Some(tls::client(config.ca.as_deref())?),
        _ => None,
    };
    let (timeout, replicas) = (config.timeout(), config.replicas);
    StoreLedger::open(Redis { url, tls, timeout, replicas, key: format!("ifonly:ledger:{server}") }, timeout)
}

/// Where it is, and what is asked of it.
pub(crate) struct Redis {
    url: RedisUrl,
    tls: Option<Arc<ClientConfig>>,
    timeout: Duration,
    /// How many replicas must have a count.
    replicas: u32,
    key: String,
}

impl Redis {
    fn unreachable(&self, reason: impl ToString) -> LedgerError {
        LedgerError::Unreachable { store: self.shown(), reason: reason.to_string() }
    }

    /// A command before anything is counted, which must succeed.
    fn prepare(&self, line: &mut RespConnection, words: &[&[u8]]) -> Result<RespReply, LedgerError> {
        match line.ask(words) {
            Ok(RespReply::Error(said)) => {
                // Some refusals repeat the command's words, passwords among them; the first word
                // says what kind it is.
                let kind = said.split(' ').next().unwrap_or_default();
                let command = String::from_utf8_lossy(words.first().copied().unwrap_or_default()).into_owned();
                Err(self.unreachable(format!("it refuses {command}: {kind}")))
            }
            Ok(reply) => Ok(reply),
            Err(error) => Err(self.unreachable(self.reason(&error))),
        }
    }

    /// What the system means.
    fn reason(&self, error: &std::io::Error) -> String {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                format!("it said nothing for {} seconds", self.timeout.as_secs())
            }
            _ => error.to_string(),
        }
    }

    /// Refuses a store that would forget.
    fn check(&self, info: &str) -> Result<(), LedgerError> {
        let value = |key: &str| info.lines().find_map(|line| line.trim().strip_prefix(key)?.strip_prefix(':'));
        let careless = |reason: &str| Err(LedgerError::Careless { store: self.shown(), reason: reason.into() });
        if value("loading").is_some_and(|loading| loading != "0") {
            return Err(self.unreachable("it is still reading its data"));
        }
        if value("role") != Some("master") {
            return careless("it is a replica; name the primary");
        }
        if value("maxmemory_policy") != Some("noeviction") {
            return careless("it may evict counts when memory is short; set maxmemory-policy to noeviction");
        }
        if value("aof_enabled") != Some("1") {
            return careless("it keeps its data in memory only, or in snapshots; set appendonly to yes");
        }
        Ok(())
    }
}

impl CounterStore for Redis {
    type Connection = RespConnection;

    fn shown(&self) -> String {
        self.url.to_string()
    }

    fn connect(&self) -> Result<RespConnection, LedgerError> {
        let line = RespConnection::connect(&self.url.at, self.tls.as_ref(), self.timeout);
        let mut line = line.map_err(|error| self.unreachable(self.reason(&error)))?;
        match (&self.url.user, &self.url.password) {
            (None, None) => {}
            (None, Some(password)) => drop(self.prepare(&mut line, &[b"AUTH", password.as_bytes()])?),
            (Some(user), password) => {
                let password = password.as_deref().unwrap_or_default();
                self.prepare(&mut line, &[b"AUTH", user.as_bytes(), password.as_bytes()])?;
            }
        }
        if self.url.database != 0 {
            self.prepare(&mut line, &[b"SELECT", self.url.database.to_string().as_bytes()])?;
        }
        match self.prepare(&mut line, &[b"INFO"])? {
            RespReply::Text(info) => self.check(&info).map(|()| line),
            _ => Err(self.unreachable("it does not say how it is set up")),
        }
    }

    fn identify(&self, line: &mut RespConnection, proposal: &str) -> Result<String, LedgerError> {
        let words = [b"EVAL", IDENTIFY.as_bytes(), b"1", self.key.as_bytes(), proposal.as_bytes()];
        match self.prepare(line, &words)? {
            RespReply::Text(identity) => Ok(identity),
            _ => Err(self.unreachable("it holds something else under the ledger's name")),
        }
    }

    fn is_open(&self, line: &mut RespConnection) -> bool {
        line.is_open()
    }

    fn spend(&self, line: &mut RespConnection, claim: &SpendRequest<'_>) -> Result<SpendOutcome, LedgerError> {
        let lost = |reason: String| LedgerError::Lost { store: self.shown(), reason };
        let numbers = [claim.limit, claim.seen, claim.floor].map(|number| number.to_string());
        let [limit, seen, floor] = [0, 1, 2].map(|place: usize| numbers[place].as_bytes());
        let (key, identity) = (self.key.as_bytes(), claim.identity.as_bytes());
        let words = [b"EVAL", SPEND.as_bytes(), b"1", key, identity, claim.line.as_bytes(), limit, seen, floor];
        let count = match line.ask(&words) {
            Ok(RespReply::Number(-2)) => return Ok(SpendOutcome::Another),
            Ok(RespReply::Number(-1)) => return Ok(SpendOutcome::Less),
            Ok(RespReply::Number(0)) => return Ok(SpendOutcome::Spent),
            Ok(RespReply::Number(count)) => {
                u64::try_from(count).map_err(|_| lost("it gave a count below zero".into()))?
            }
            Ok(RespReply::Error(reason)) => return Err(LedgerError::Refused { store: self.shown(), reason }),
            Ok(_) => return Err(lost("it gave no count".into())),
            Err(error) => return Err(lost(self.reason(&error))),
        };
        if self.replicas > 0 {
            // Half of the time, so that its reply comes before ours is over.
            let patience = (self.timeout.as_millis() / 2).to_string();
            let replicas = self.replicas.to_string();
            match line.ask(&[b"WAIT", replicas.as_bytes(), patience.as_bytes()]) {
                Ok(RespReply::Number(have)) if have >= i64::from(self.replicas) => {}
                Ok(_) => return Err(lost(format!("fewer than {} replicas have it", self.replicas))),
                Err(error) => return Err(lost(self.reason(&error))),
            }
        }
        Ok(SpendOutcome::Counted(count))
    }
}
