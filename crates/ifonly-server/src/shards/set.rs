//! The shards of a frontend: their addresses, their rows, and whether all rows are available.
//!
//! A frontend requests the identity of every shard. It accepts a shard with the same manifest, keys
//! and data. It answers queries while the rows of all shards are exactly the rows of the database.
//! Addresses may come from a file, which is read again when it changes. The frontend finds a new or
//! restarted shard within a second.

use super::addresses::{UnavailableShard, addresses};
use super::service::ShardIdentity;
use super::tls::{ShardTls, ShardTlsError};
use crate::bundle::loaded::shard_check;
use crate::compute::database::{AontRecords, DatabaseParts};
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

/// Interval for reading the file of addresses, and for probing while rows are missing.
const SHORT_INTERVAL: Duration = Duration::from_millis(500);
/// Interval for probing while all rows are available; also the time limit of one probe.
const LONG_INTERVAL: Duration = Duration::from_secs(5);
/// Maximum length of the identity of a shard in bytes.
const MAX_IDENTITY: u64 = 64 << 10;

/// Configuration of the shards of a frontend.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ShardsConfig {
    /// Addresses of the shards, `host:port`; the prefix `https://` is ignored.
    pub addresses: Vec<String>,
    /// File with one address per line; read again when it changes.
    pub file: Option<PathBuf>,
    /// Certificate that frontends and shards share (PEM file).
    pub certificate: PathBuf,
    /// Private key of the certificate (PEM file).
    pub key: PathBuf,
    /// Maximum time without a byte of a response, in seconds.
    pub stall_seconds: u64,
}

impl Default for ShardsConfig {
    fn default() -> ShardsConfig {
        let (certificate, key) = Default::default();
        ShardsConfig { addresses: vec![], file: None, certificate, key, stall_seconds: 20 }
    }
}

/// Why the shards do not form a complete server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShardsError {
    /// The file of addresses is missing or invalid.
    #[error("shards: {path}: {reason}")]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// There are too many addresses.
    #[error("shards: {have} addresses are configured; the limit is {most}")]
    TooMany {
        /// Number of different addresses.
        have: usize,
        /// The limit.
        most: usize,
    },
    /// A shard serves another bundle.
    #[error("shard {address} serves another bundle (manifest digest {manifest})")]
    OtherBundle {
        /// The shard.
        address: String,
        /// Digest of its manifest.
        manifest: String,
    },
    /// A shard has another root key, or other data under the same manifest.
    #[error(
        "shard {address} has another root key for key epoch {epoch} than this frontend, or other data under the same manifest"
    )]
    OtherKey {
        /// The shard.
        address: String,
        /// The key epoch.
        epoch: u32,
    },
    /// Two shards serve the same rows.
    #[error("shards {first} and {second} both serve row {row}")]
    Overlap {
        /// The first shard.
        first: String,
        /// The second shard.
        second: String,
        /// The first common row, counted from 0.
        row: usize,
    },
    /// A shard serves rows that do not exist.
    #[error("shard {address} serves rows {} to {}, but the database has {total} rows", rows.start, rows.end)]
    Beyond {
        /// The shard.
        address: String,
        /// Its rows.
        rows: Range<usize>,
        /// Number of rows of the database.
        total: usize,
    },
    /// No available shard serves these rows.
    #[error("no shard serves rows {} to {}{}", rows.start, rows.end, if unavailable.is_empty() { String::new() } else { format!(" ({})", unavailable.join("; ")) })]
    Missing {
        /// The missing rows.
        rows: Range<usize>,
        /// Why shards are not available.
        unavailable: Vec<String>,
    },
    /// The parts of the shards do not form a table.
    #[error(transparent)]
    Parts(#[from] PartError),
}

impl ShardsError {
    /// The rows that are not available, if the error concerns some.
    pub(crate) fn rows(&self) -> Option<Range<usize>> {
        match self {
            ShardsError::Missing { rows, .. } => Some(rows.clone()),
            ShardsError::Parts(error) => rows_of(error),
            _ => None,
        }
    }

    /// Whether the error may disappear without a change of the configuration.
    pub(crate) fn is_temporary(&self) -> bool {
        matches!(self, ShardsError::Missing { .. } | ShardsError::File { .. })
    }
}

/// The shards of one version of the database.
pub struct ShardSet {
    config: ShardsConfig,
    tls: ShardTls,
    manifest: String,
    rows: usize,
    max_levels: Arc<[u32]>,
    record_length: usize,
    checks: Vec<(u32, String)>,
    runtime: Handle,
    state: RwLock<State>,
    /// Signals that a request failed and that shards must be probed at once.
    wake: Notify,
}

impl std::fmt::Debug for ShardSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ShardSet({:?})", self.config.addresses)
    }
}

/// A shard and its rows.
type KnownShard = (Arc<ShardClient>, Range<usize>);

struct State {
    known: Vec<KnownShard>,
    parts: Result<Arc<DatabaseParts>, ShardsError>,
}

impl ShardSet {
    /// The shards for the database of this manifest and these keys, which are bound to its data.
    /// Sends no request yet.
    pub(crate) fn new(
        config: ShardsConfig,
        manifest: &Manifest,
        keys: &[RootKey],
        runtime: Handle,
    ) -> Result<ShardSet, ShardTlsError> {
        let tls = ShardTls::load(&config.certificate, &config.key)?;
        let parts = Err(ShardsError::Missing {
            rows: 0..manifest.rows(),
            unavailable: vec!["no shard has been probed yet".into()],
        });
        Ok(ShardSet {
            config,
            tls,
            manifest: hex::encode(manifest.digest()),
            rows: manifest.rows(),
            max_levels: manifest.schema().max_levels().into(),
            record_length: manifest.record_length() + aont::OVERHEAD,
            checks: keys.iter().map(|key| (key.epoch(), shard_check(key))).collect(),
            runtime,
            state: RwLock::new(State { known: vec![], parts }),
            wake: Notify::new(),
        })
    }

    /// The parts that are available now, or the reason why rows are missing.
    pub(crate) fn parts(&self) -> Result<Arc<DatabaseParts>, ShardsError> {
        self.state.read().unwrap_or_else(PoisonError::into_inner).parts.clone()
    }

    /// Starts a probe at once, because a request failed.
    pub(crate) fn request_probe(&self) {
        self.wake.notify_one();
    }

    /// Probes all shards once and updates the parts. Returns the unavailable shards if all rows
    /// are available without them.
    pub(crate) async fn probe(&self) -> Result<Vec<UnavailableShard>, ShardsError> {
        let found = self.find_shards().await;
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let (known, unavailable) = found.inspect_err(|error| state.parts = Err(error.clone()))?;
        let same = |(a, b): (&KnownShard, &KnownShard)| Arc::ptr_eq(&a.0, &b.0) && a.1 == b.1;
        if state.parts.is_err() || state.known.len() != known.len() || !state.known.iter().zip(&known).all(same) {
            let parts = self.parts_of(&known);
            state.known = known;
            state.parts = parts.map(Arc::new);
        }
        state.parts.clone().map(|_| unavailable)
    }

    /// Probes the shards repeatedly until this set is dropped.
    pub(crate) fn watch(self: &Arc<Self>) {
        let weak = Arc::downgrade(self);
        self.runtime.spawn(async move {
            let (mut last_error, mut warned) = (None, vec![]);
            while let Some(shards) = Weak::upgrade(&weak) {
                let probed = shards.probe().await;
                if let Ok(unavailable) = &probed {
                    warned = warn_once(warned, unavailable);
                }
                let current = probed.err();
                match &current {
                    Some(error) if current != last_error => {
                        tracing::error!(%error, "rows are missing; searches are refused")
                    }
                    None if last_error.is_some() => tracing::info!("all rows are available"),
                    _ => {}
                }
                let file = addresses(&shards.config).ok();
                let pause = if current.is_some() { SHORT_INTERVAL } else { LONG_INTERVAL };
                last_error = current;
                let mut waited = Duration::ZERO;
                while waited < pause {
                    let woken = tokio::time::timeout(SHORT_INTERVAL, shards.wake.notified()).await.is_ok();
                    waited += SHORT_INTERVAL;
                    if woken || addresses(&shards.config).ok() != file {
                        break;
                    }
                }
            }
        });
    }

    /// The available shards in the order of their rows, and the unavailable shards. An error if the
    /// available shards do not serve exactly all rows.
    async fn find_shards(&self) -> Result<(Vec<KnownShard>, Vec<UnavailableShard>), ShardsError> {
        let (addresses, mut unavailable) = addresses(&self.config)?;
        let shards: Vec<Arc<ShardClient>> = {
            let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
            let known = |address: &str| state.known.iter().find(|(shard, _)| shard.address() == address);
            let stall_timeout = Duration::from_secs(self.config.stall_seconds);
            let shard = |address: String| match known(&address) {
                Some((shard, _)) => shard.clone(),
                None => Arc::new(ShardClient::new(address, self.tls.clone(), stall_timeout)),
            };
            addresses.into_iter().map(shard).collect()
        };
        let probes: Vec<_> = shards
            .into_iter()
            .map(|shard| {
                self.runtime.spawn(async move {
                    let identity = tokio::time::timeout(LONG_INTERVAL, identity(&shard)).await;
                    let late =
                        || Err(format!("shard {}: no response within {} s", shard.address(), LONG_INTERVAL.as_secs()));
                    (shard.clone(), identity.unwrap_or_else(|_| late()))
                })
            })
            .collect();
        let mut known = vec![];
        for probe in probes {
            match probe.await {
                Ok((shard, Ok(identity))) => {
                    let rows = self.check_identity(&shard, &identity)?;
                    known.push((shard, rows));
                }
                Ok((shard, Err(reason))) => {
                    unavailable.push(UnavailableShard { address: shard.address().into(), reason })
                }
                Err(error) => {
                    unavailable.push(UnavailableShard { address: "a shard".into(), reason: error.to_string() })
                }
            }
        }
        known.sort_by_key(|(_, rows)| (rows.start, rows.end));
        let missing = |rows, unavailable: Vec<UnavailableShard>| {
            let unavailable = unavailable.into_iter().map(|shard| shard.reason).collect();
            Err(ShardsError::Missing { rows, unavailable })
        };
        let mut next = 0;
        let mut previous: Option<&KnownShard> = None;
        for entry in &known {
            let (shard, rows) = entry;
            if let Some((other, _)) = previous.filter(|_| rows.start < next) {
                let (first, second) = (other.address().into(), shard.address().into());
                return Err(ShardsError::Overlap { first, second, row: rows.start });
            }
            if rows.start > next {
                return missing(next..rows.start, unavailable);
            }
            (next, previous) = (rows.end, Some(entry));
        }
        if next == self.rows { Ok((known, unavailable)) } else { missing(next..self.rows, unavailable) }
    }

    /// The rows of a shard, if it serves this database.
    fn check_identity(&self, shard: &ShardClient, identity: &ShardIdentity) -> Result<Range<usize>, ShardsError> {
        let address = || shard.address().to_owned();
        if identity.manifest != self.manifest {
            // An unchecked value must not inject other characters into the log.
            let manifest = identity.manifest.chars().filter(char::is_ascii_hexdigit).take(64).collect();
            return Err(ShardsError::OtherBundle { address: address(), manifest });
        }
        if let Some((epoch, _)) = self.checks.iter().find(|check| !identity.keys.contains(check)) {
            return Err(ShardsError::OtherKey { address: address(), epoch: *epoch });
        }
        let rows = identity.rows.0..identity.rows.1;
        if rows.start < rows.end && rows.end <= self.rows {
            Ok(rows)
        } else {
            Err(ShardsError::Beyond { address: address(), rows, total: self.rows })
        }
    }

    fn parts_of(&self, known: &[KnownShard]) -> Result<DatabaseParts, ShardsError> {
        let remotes = || {
            let remote = |(shard, rows): &KnownShard| RemoteShard {
                shard: shard.clone(),
                rows: rows.clone(),
                runtime: self.runtime.clone(),
            };
            known.iter().map(remote)
        };
        let part =
            |remote| -> Arc<dyn RowPart> { Arc::new(RemoteRows { remote, max_levels: self.max_levels.clone() }) };
        let rows = RowParts::new(remotes().map(part).collect())?;
        let length = self.record_length;
        let records = self.checks.iter().map(|&(epoch, _)| {
            let part = |remote| -> Arc<dyn RecordPart> { Arc::new(RemoteRecords { remote, epoch, length }) };
            Ok(AontRecords { epoch, records: RecordParts::new(remotes().map(part).collect())? })
        });
        Ok(DatabaseParts { rows, records: records.collect::<Result<_, PartError>>()? })
    }

    /// Waits until all rows are available. Returns early on an error that is not temporary.
    pub(crate) async fn complete(&self, limit: Duration) -> Result<(), ShardsError> {
        let deadline = tokio::time::Instant::now() + limit;
        loop {
            match self.probe().await {
                Err(error) if error.is_temporary() && tokio::time::Instant::now() < deadline => {
                    tokio::time::sleep(SHORT_INTERVAL).await
                }
                result => return result.map(|_| ()),
            }
        }
    }
}

/// The rows that a part could not provide, if the error concerns some.
pub(crate) fn rows_of(error: &PartError) -> Option<Range<usize>> {
    match error {
        PartError::Unavailable { rows, .. } | PartError::NotReduced(rows) => Some(rows.clone()),
        _ => None,
    }
}

/// Logs a warning for each unavailable shard that is not in `warned`. Returns the addresses of all
/// unavailable shards.
fn warn_once(warned: Vec<String>, unavailable: &[UnavailableShard]) -> Vec<String> {
    for shard in unavailable.iter().filter(|shard| !warned.contains(&shard.address)) {
        tracing::warn!(reason = shard.reason, "redundant shard is unreachable; fix it or remove its address");
    }
    unavailable.iter().map(|shard| shard.address.clone()).collect()
}

async fn identity(shard: &Arc<ShardClient>) -> Result<ShardIdentity, String> {
    let response = shard.request(Method::GET, IDENTITY, Bytes::new()).await?;
    let length = response.length();
    if length > MAX_IDENTITY {
        return Err(format!(
            "shard {}: its identity has {length} bytes; the limit is {MAX_IDENTITY} bytes",
            shard.address()
        ));
    }
    let text = response.complete(length as usize).await?;
    serde_json::from_slice(&text)
        .map_err(|error| format!("shard {}: its identity is not valid JSON: {error}", shard.address()))
}
