//! The shards of a front: where they are, which rows they have, and whether these are all.
//!
//! A front asks every address what it is. It believes a shard that has the same manifest, the same
//! keys and the same data, and it answers while the rows of all shards together are exactly the
//! rows of the database. Addresses may come from a file that is read again when it changes: a shard
//! that was started elsewhere is taken in within a second, and so is one that is back.

use super::addresses::{UnavailableShard, addresses};
use super::service::ShardIdentity;
use super::tls::{ShardTls, ShardTlsError};
use crate::bundle::loaded::shard_check;
use crate::compute::database::{AontRecords, ShardLayout};
use crate::shards::client::ShardClient;
use crate::shards::remote_parts::{IDENTITY, RemoteRecords, RemoteRows, RemoteShard};
use bytes::Bytes;
use http::Method;
use ifonly_algebra::keys::RootKey;
use ifonly_core::aont;
use ifonly_scan::parts::{PartError, RecordPart, RecordParts, RowPart, RowParts};
use ifonly_values::manifest::Manifest;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::Notify;

/// How often the file is looked at, and shards that are missing are asked again.
const SOON: Duration = Duration::from_millis(500);
/// How often shards are asked while all is well.
const LATER: Duration = Duration::from_secs(5);
/// The longest answer of a shard about itself.
const MOST_IDENTITY: u64 = 64 << 10;

/// The shards of a front, in its configuration.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ShardsConfig {
    /// Their addresses, `host:port`; `https://` before it is read over.
    pub addresses: Vec<String>,
    /// A file with an address per line, read again when it changes.
    pub file: Option<PathBuf>,
    /// The certificate that front and shards show each other, PEM.
    pub certificate: PathBuf,
    /// Its private key, PEM.
    pub key: PathBuf,
    /// How long a shard may be silent while it answers.
    pub stall_seconds: u64,
}

impl Default for ShardsConfig {
    fn default() -> ShardsConfig {
        let (certificate, key) = Default::default();
        ShardsConfig { addresses: vec![], file: None, certificate, key, stall_seconds: 20 }
    }
}

/// Why shards do not make a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShardsError {
    /// The file of addresses cannot be read.
    #[error("shards: {path}: {reason}")]
    File {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// More addresses than a front asks.
    #[error("{have} addresses of shards; a front takes at most {most}")]
    TooMany {
        /// Different ones.
        have: usize,
        /// As many as there may be.
        most: usize,
    },
    /// A shard of another bundle.
    #[error("shard {address} has rows of another bundle (its manifest is {manifest})")]
    OtherBundle {
        /// Which shard.
        address: String,
        /// Its manifest's digest.
        manifest: String,
    },
    /// A shard with another root key, or with other data under the same manifest.
    #[error(
        "shard {address} has another root key for epoch {epoch} than this front, or other data under the same manifest"
    )]
    OtherKey {
        /// Which shard.
        address: String,
        /// Which epoch.
        epoch: u32,
    },
    /// Two shards with the same rows.
    #[error("shards {first} and {second} both have row {row}")]
    Overlap {
        /// The one.
        first: String,
        /// The other.
        second: String,
        /// Counted from 0.
        row: usize,
    },
    /// A shard with rows that the database does not have.
    #[error("shard {address} has rows {} to {}, and the database has {total}", rows.start, rows.end)]
    Beyond {
        /// Which shard.
        address: String,
        /// Its rows.
        rows: Range<usize>,
        /// All rows.
        total: usize,
    },
    /// Nobody has these rows.
    #[error("no shard has rows {} to {}{}", rows.start, rows.end, if away.is_empty() { String::new() } else { format!(" ({})", away.join("; ")) })]
    Missing {
        /// Which.
        rows: Range<usize>,
        /// Shards that did not answer.
        away: Vec<String>,
    },
    /// The parts do not fit together.
    #[error(transparent)]
    Parts(#[from] PartError),
}

impl ShardsError {
    /// Which rows cannot be had, where it is about some.
    pub(crate) fn rows(&self) -> Option<Range<usize>> {
        match self {
            ShardsError::Missing { rows, .. } => Some(rows.clone()),
            ShardsError::Parts(error) => rows_of(error),
            _ => None,
        }
    }

    /// Whether waiting may help.
    pub(crate) fn shared_scans(&self) -> bool {
        matches!(self, ShardsError::Missing { .. } | ShardsError::File { .. })
    }
}

/// The shards of one version of the database.
pub struct ShardSet {
    config: ShardsConfig,
    inside: ShardTls,
    manifest: String,
    rows: usize,
    ranges: Arc<[u32]>,
    record_length: usize,
    checks: Vec<(u32, String)>,
    runtime: Handle,
    state: RwLock<State>,
    /// A request has failed: look again at once.
    wake: Notify,
}

impl std::fmt::Debug for ShardSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Shards({:?})", self.config.addresses)
    }
}

/// A shard and its rows.
type Known = (Arc<ShardClient>, Range<usize>);

struct State {
    known: Vec<Known>,
    layout: Result<Arc<ShardLayout>, ShardsError>,
}

impl ShardSet {
    /// For the database of this manifest under these keys, which are bound to its data. Asks nobody
    /// yet.
    pub(crate) fn new(
        config: ShardsConfig,
        manifest: &Manifest,
        keys: &[RootKey],
        runtime: Handle,
    ) -> Result<ShardSet, ShardTlsError> {
        let inside = ShardTls::load(&config.certificate, &config.key)?;
        let layout = Err(ShardsError::Missing { rows: 0..manifest.rows(), away: vec!["nobody was asked yet".into()] });
        Ok(ShardSet {
            config,
            inside,
            manifest: hex::encode(manifest.digest()),
            rows: manifest.rows(),
            ranges: manifest.schema().max_levels().into(),
            record_length: manifest.record_length() + aont::OVERHEAD,
            checks: keys.iter().map(|key| (key.epoch(), shard_check(key))).collect(),
            runtime,
            state: RwLock::new(State { known: vec![], layout }),
            wake: Notify::new(),
        })
    }

    /// The rows as they can be had now, or why not.
    pub(crate) fn layout(&self) -> Result<Arc<ShardLayout>, ShardsError> {
        self.state.read().unwrap_or_else(PoisonError::into_inner).layout.clone()
    }

    /// Something could not be had: look who is there.
    pub(crate) fn doubt(&self) {
        self.wake.notify_one();
    }

    /// Asks all shards once. What contradicts is an error; what is missing may come later. Gives
    /// whoever is away although all rows are there.
    pub(crate) async fn probe(&self) -> Result<Vec<UnavailableShard>, ShardsError> {
        let found = self.look().await;
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let (known, away) = found.inspect_err(|error| state.layout = Err(error.clone()))?;
        let same = |(a, b): (&Known, &Known)| Arc::ptr_eq(&a.0, &b.0) && a.1 == b.1;
        if state.layout.is_err() || state.known.len() != known.len() || !state.known.iter().zip(&known).all(same) {
            let layout = self.layout_of(&known);
            state.known = known;
            state.layout = layout.map(Arc::new);
        }
        state.layout.clone().map(|_| away)
    }

    /// Asks again and again, as long as somebody has these shards.
    pub(crate) fn watch(self: &Arc<Self>) {
        let weak = Arc::downgrade(self);
        self.runtime.spawn(async move {
            let (mut before, mut missed) = (None, vec![]);
            while let Some(shards) = Weak::upgrade(&weak) {
                let surveyed = shards.probe().await;
                if let Ok(away) = &surveyed {
                    missed = warn_once(missed, away);
                }
                let now = surveyed.err();
                match &now {
                    Some(error) if now != before => tracing::error!(%error, "the shards are not complete"),
                    None if before.is_some() => tracing::info!("the shards are complete"),
                    _ => {}
                }
                let file = addresses(&shards.config).ok();
                let pause = if now.is_some() { SOON } else { LATER };
                before = now;
                let mut waited = Duration::ZERO;
                while waited < pause {
                    let woken = tokio::time::timeout(SOON, shards.wake.notified()).await.is_ok();
                    waited += SOON;
                    if woken || addresses(&shards.config).ok() != file {
                        break;
                    }
                }
            }
        });
    }

    /// Who is there, in the order of their rows, which are all rows; and who is not.
    async fn look(&self) -> Result<(Vec<Known>, Vec<UnavailableShard>), ShardsError> {
        let (addresses, mut away) = addresses(&self.config)?;
        let shards: Vec<Arc<ShardClient>> = {
            let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
            let known = |address: &str| state.known.iter().find(|(shard, _)| shard.address() == address);
            let patience = Duration::from_secs(self.config.stall_seconds);
            let shard = |address: String| match known(&address) {
                Some((shard, _)) => shard.clone(),
                None => Arc::new(ShardClient::new(address, self.inside.clone(), patience)),
            };
            addresses.into_iter().map(shard).collect()
        };
        let asking: Vec<_> = shards
            .into_iter()
            .map(|shard| {
                self.runtime.spawn(async move {
                    let identity = tokio::time::timeout(LATER, identity(&shard)).await;
                    let late = || Err(format!("shard {}: no answer within {} s", shard.address(), LATER.as_secs()));
                    (shard.clone(), identity.unwrap_or_else(|_| late()))
                })
            })
            .collect();
        let mut known = vec![];
        for asked in asking {
            match asked.await {
                Ok((shard, Ok(identity))) => {
                    let rows = self.believe(&shard, &identity)?;
                    known.push((shard, rows));
                }
                Ok((shard, Err(why))) => away.push(UnavailableShard { who: shard.address().into(), why }),
                Err(error) => away.push(UnavailableShard { who: "a shard".into(), why: error.to_string() }),
            }
        }
        known.sort_by_key(|(_, rows)| (rows.start, rows.end));
        let missing = |rows, away: Vec<UnavailableShard>| {
            let away = away.into_iter().map(|away| away.why).collect();
            Err(ShardsError::Missing { rows, away })
        };
        let mut next = 0;
        let mut before: Option<&Known> = None;
        for entry in &known {
            let (shard, rows) = entry;
            if let Some((other, _)) = before.filter(|_| rows.start < next) {
                let (first, second) = (other.address().into(), shard.address().into());
                return Err(ShardsError::Overlap { first, second, row: rows.start });
            }
            if rows.start > next {
                return missing(next..rows.start, away);
            }
            (next, before) = (rows.end, Some(entry));
        }
        match next == self.rows {
            true => Ok((known, away)),
            false => missing(next..self.rows, away),
        }
    }

    /// Which rows a shard has, if it is one of this database.
    fn believe(&self, shard: &ShardClient, identity: &ShardIdentity) -> Result<Range<usize>, ShardsError> {
        let address = || shard.address().to_owned();
        if identity.manifest != self.manifest {
            // Only hexadecimal digits of a stranger go into a log.
            let manifest = identity.manifest.chars().filter(char::is_ascii_hexdigit).take(64).collect();
            return Err(ShardsError::OtherBundle { address: address(), manifest });
        }
        if let Some((epoch, _)) = self.checks.iter().find(|check| !identity.keys.contains(check)) {
            return Err(ShardsError::OtherKey { address: address(), epoch: *epoch });
        }
        let rows = identity.rows.0..identity.rows.1;
        match rows.start < rows.end && rows.end <= self.rows {
            true => Ok(rows),
            false => Err(ShardsError::Beyond { address: address(), rows, total: self.rows }),
        }
    }

    fn layout_of(&self, known: &[Known]) -> Result<ShardLayout, ShardsError> {
        let remotes = || {
            let remote = |(shard, rows): &Known| RemoteShard {
                shard: shard.clone(),
                rows: rows.clone(),
                runtime: self.runtime.clone(),
            };
            known.iter().map(remote)
        };
        let part = |remote| -> Arc<dyn RowPart> { Arc::new(RemoteRows { remote, ranges: self.ranges.clone() }) };
        let rows = RowParts::new(remotes().map(part).collect())?;
        let length = self.record_length;
        let sealed = self.checks.iter().map(|&(epoch, _)| {
            let part = |remote| -> Arc<dyn RecordPart> { Arc::new(RemoteRecords { remote, epoch, length }) };
            Ok(AontRecords { epoch, records: RecordParts::new(remotes().map(part).collect())? })
        });
        Ok(ShardLayout { rows, sealed: sealed.collect::<Result<_, PartError>>()? })
    }

    /// Waits until all rows can be had, or until waiting does not help.
    pub(crate) async fn complete(&self, limit: Duration) -> Result<(), ShardsError> {
        let deadline = tokio::time::Instant::now() + limit;
        loop {
            match self.probe().await {
                Err(error) if error.shared_scans() && tokio::time::Instant::now() < deadline => {
                    tokio::time::sleep(SOON).await
                }
                result => return result.map(|_| ()),
            }
        }
    }
}

/// Which rows a part could not give, where it is about some.
pub(crate) fn rows_of(error: &PartError) -> Option<Range<usize>> {
    match error {
        PartError::Unavailable { rows, .. } | PartError::NoSymbol(rows) => Some(rows.clone()),
        _ => None,
    }
}

/// Warns of everybody who is away and not needed, once as long as it lasts. Gives who they are.
fn warn_once(before: Vec<String>, away: &[UnavailableShard]) -> Vec<String> {
    for away in away.iter().filter(|away| !before.contains(&away.who)) {
        tracing::warn!(reason = away.why, "all rows are there without this shard; take it off the list, or see to it");
    }
    away.iter().map(|away| away.who.clone()).collect()
}

async fn identity(shard: &Arc<ShardClient>) -> Result<ShardIdentity, String> {
    let reply = shard.ask(Method::GET, IDENTITY, Bytes::new()).await?;
    let length = reply.length();
    if length > MOST_IDENTITY {
        return Err(format!("shard {}: {length} bytes are no answer of a shard", shard.address()));
    }
    let text = reply.whole(length as usize).await?;
    serde_json::from_slice(&text)
        .map_err(|error| format!("shard {}: this is no answer of a shard: {error}", shard.address()))
}
