//! Which versions of the database a server holds: the current one, and for a while those before it.
//!
//! A message names the manifest that its client has read. After a reload, searches that began under
//! the old manifest are answered from the old database until the grace is over.

use crate::compute::database::{AontRecords, Database};
use crate::shards::ShardSet;
use bytes::Bytes;
use ifonly_algebra::keys::RootKey;
use ifonly_bundle::{Bundle, BundleMetadata};
use ifonly_core::aont;
use ifonly_core::server_protocol::{Refusal, ServerProtocol};
use ifonly_scan::parts::LocalRecords;
use ifonly_values::manifest::Manifest;
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

/// Why a server cannot serve what it was given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A server number that no scheme asks.
    #[error("server {index} is asked by no scheme of this bundle; servers count from 1 to {servers}")]
    Index {
        /// As configured.
        index: u8,
        /// The most servers of any scheme.
        servers: usize,
    },
    /// Without a key there are no pads.
    #[error("no root key was given; `ifonly keygen` makes one, and all servers need the same")]
    NoKey,
    /// Two keys for one epoch.
    #[error("two root keys are for epoch {0}; every epoch has one")]
    Epoch(u32),
    /// The current epoch has no key.
    #[error("the manifest's current key epoch is {0}, and no root key for it was given")]
    NoCurrentKey(u32),
    /// Other data or another key under a manifest that is served: messages name manifests, so
    /// nobody could tell the two apart.
    #[error(
        "the bundle has the manifest of one that is served, but other data or another root key for epoch {0}, and searches could not tell \
         them apart; build it with another --data-version, give a new root key another epoch, or stop the server and start it again"
    )]
    Indistinct(u32),
}

/// One version, ready to answer.
#[derive(Debug)]
pub struct LoadedBundle {
    index: u8,
    manifest: Bytes,
    digest: [u8; 32],
    /// By which two versions with one manifest are known to be the same.
    checks: Vec<(u32, String)>,
    most_records: u64,
    longest_message: usize,
    record_length: usize,
    protocol: ServerProtocol,
    database: Database,
}

impl LoadedBundle {
    /// Server `index`'s replica. It shares the bundle's rows and seals every record under every
    /// key, straight from where the bundle has them, which takes a moment for large databases; the
    /// records as they were are not needed any more.
    ///
    /// The manifest does not cover the rows, since everybody could then test guesses at the
    /// database. Its keys do instead: every root key is mixed with the bundle's data digest, so
    /// servers with different data have different key-check values.
    pub fn new(bundle: &Bundle, index: u8, keys: Vec<RootKey>) -> Result<LoadedBundle, LoadError> {
        let manifest = bundle.manifest();
        let keys = check_keys(manifest, keys, &bundle.data_digest())?;
        let loaded = |database| LoadedBundle::of(manifest, index, keys.clone(), database);
        let empty = loaded(Database::new(bundle.rows().clone(), vec![]))?;
        let sealed_length = manifest.record_length() + aont::OVERHEAD;
        let seal = |key: &RootKey| {
            let mut bytes = vec![0; sealed_length * manifest.rows()];
            let places = bytes.chunks_exact_mut(sealed_length);
            for (row, (record, sealed)) in (0..).zip(bundle.records().zip(places)) {
                empty.protocol.encode_record_into(key, row, record, sealed);
            }
            AontRecords { epoch: key.epoch(), records: LocalRecords::new(0, sealed_length, bytes).into() }
        };
        let sealed = keys.iter().map(seal).collect();
        Ok(LoadedBundle { database: Database::new(bundle.rows().clone(), sealed), ..empty })
    }

    /// Server `index`'s front: `shards` makes, from the keys that are bound to the data, whoever
    /// has the rows.
    pub(crate) fn frontend<E: From<LoadError>>(
        outline: &BundleMetadata,
        index: u8,
        keys: Vec<RootKey>,
        shards: impl FnOnce(&[RootKey]) -> Result<Arc<ShardSet>, E>,
    ) -> Result<LoadedBundle, E> {
        let keys = check_keys(outline.manifest(), keys, &outline.data_digest())?;
        let database = Database::of_shards(shards(&keys)?);
        Ok(LoadedBundle::of(outline.manifest(), index, keys, database)?)
    }

    fn of(manifest: &Manifest, index: u8, keys: Vec<RootKey>, database: Database) -> Result<LoadedBundle, LoadError> {
        let servers = manifest.servers();
        if index == 0 || usize::from(index) > servers {
            return Err(LoadError::Index { index, servers });
        }
        let record_length = manifest.record_length();
        let checks = keys.iter().map(|key| (key.epoch(), shard_check(key))).collect();
        let protocol =
            ServerProtocol::new(index, manifest.digest(), manifest.instances().cloned(), keys, record_length)
                .with_sealed(manifest.sealed().cloned());
        Ok(LoadedBundle {
            index,
            manifest: manifest.json().to_owned().into(),
            digest: manifest.digest(),
            checks,
            most_records: manifest.top_limit() as u64,
            longest_message: protocol.longest_message(),
            record_length,
            protocol,
            database,
        })
    }

    /// Which server this is, counted from 1.
    pub fn index(&self) -> u8 {
        self.index
    }

    /// The manifest as it is served.
    pub fn manifest(&self) -> Bytes {
        self.manifest.clone()
    }

    /// The manifest's digest.
    pub(crate) fn digest(&self) -> &[u8; 32] {
        &self.digest
    }

    /// The most records of one search.
    pub(crate) fn most_records(&self) -> u64 {
        self.most_records
    }

    /// Bytes of every record.
    pub(crate) fn record_length(&self) -> usize {
        self.record_length
    }

    /// The first epoch for which this version and another one with the same manifest have different
    /// data or keys.
    fn differs(&self, other: &LoadedBundle) -> Option<u32> {
        let differ = |(epoch, check): &(u32, String)| {
            other.checks.iter().any(|(same, other)| same == epoch && other != check).then_some(*epoch)
        };
        self.checks.iter().find_map(differ)
    }

    /// Checks messages.
    pub fn protocol(&self) -> &ServerProtocol {
        &self.protocol
    }

    /// Computes answers.
    pub fn database(&self) -> &Database {
        &self.database
    }
}

/// Keys of different epochs, the current one among them, each bound to the data.
pub(crate) fn check_keys(
    manifest: &Manifest,
    keys: Vec<RootKey>,
    data_digest: &[u8; 32],
) -> Result<Vec<RootKey>, LoadError> {
    if keys.is_empty() {
        return Err(LoadError::NoKey);
    }
    let twice = |(place, key): (usize, &RootKey)| {
        keys[..place].iter().any(|other| other.epoch() == key.epoch()).then_some(key.epoch())
    };
    if let Some(epoch) = keys.iter().enumerate().find_map(twice) {
        return Err(LoadError::Epoch(epoch));
    }
    let current = manifest.header_context().epoch;
    if keys.iter().all(|key| key.epoch() != current) {
        return Err(LoadError::NoCurrentKey(current));
    }
    Ok(keys.iter().map(|key| bound(key, data_digest)).collect())
}

/// The root key of servers that hold the same data.
fn bound(key: &RootKey, data_digest: &[u8; 32]) -> RootKey {
    let mut hasher = blake3::Hasher::new_keyed(key.expose());
    hasher.update(b"ifonly bundle v1").update(data_digest);
    RootKey::new(key.epoch(), *hasher.finalize().as_bytes())
}

/// What a shard and its front say to show each other that they have the same bound key, without
/// showing it.
pub(crate) fn shard_check(key: &RootKey) -> String {
    blake3::Hasher::new_keyed(key.expose()).update(b"ifonly shard v1").finalize().to_hex().to_string()
}

/// The current version and those still in grace.
#[derive(Debug)]
pub struct BundleVersions {
    loaded_bundles: RwLock<Vec<(Arc<LoadedBundle>, Option<Instant>)>>,
}

impl BundleVersions {
    /// With one version.
    pub(crate) fn new(loaded: LoadedBundle) -> BundleVersions {
        BundleVersions { loaded_bundles: RwLock::new(vec![(Arc::new(loaded), None)]) }
    }

    /// Makes `holding` the current version; the one before is answered for `grace` longer. The same
    /// manifest replaces its earlier version at once, and gives the same answers; other data under
    /// it are refused. Searches that began with the old data could otherwise not go on, and while
    /// servers are reloaded one after another their answers would contradict each other: nobody
    /// could say which data a first message means.
    pub fn replace(&self, loaded: LoadedBundle, grace: Duration) -> Result<(), LoadError> {
        let now = Instant::now();
        let mut loaded_bundles = self.loaded_bundles.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        let served = |(_, until): &&(_, Option<Instant>)| until.is_none_or(|until| until > now);
        let same = loaded_bundles.iter().filter(served).filter(|(earlier, _)| earlier.digest == loaded.digest);
        if let Some(epoch) = same.into_iter().find_map(|(earlier, _)| loaded.differs(earlier)) {
            return Err(LoadError::Indistinct(epoch));
        }
        loaded_bundles
            .retain(|(earlier, until)| earlier.digest != loaded.digest && until.is_none_or(|until| until > now));
        loaded_bundles.iter_mut().for_each(|(_, until)| {
            until.get_or_insert(now + grace);
        });
        loaded_bundles.insert(0, (Arc::new(loaded), None));
        Ok(())
    }

    /// The current version.
    pub fn current(&self) -> Option<Arc<LoadedBundle>> {
        self.all().into_iter().next()
    }

    /// All versions that are answered, the current one first. Drops those whose grace is over.
    pub(crate) fn all(&self) -> Vec<Arc<LoadedBundle>> {
        let now = Instant::now();
        let over = |until: &Option<Instant>| until.is_some_and(|until| until <= now);
        let live: Vec<Arc<LoadedBundle>> = {
            let loaded_bundles = self.loaded_bundles.read().unwrap_or_else(|poisoned| poisoned.into_inner());
            if !loaded_bundles.iter().any(|(_, until)| over(until)) {
                return loaded_bundles.iter().map(|(loaded, _)| loaded.clone()).collect();
            }
            loaded_bundles.iter().filter(|(_, until)| !over(until)).map(|(loaded, _)| loaded.clone()).collect()
        };
        let mut loaded_bundles = self.loaded_bundles.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        loaded_bundles.retain(|(_, until)| !over(until));
        live
    }

    /// The longest message that any version takes.
    pub(crate) fn longest_message(&self) -> usize {
        self.all().iter().map(|loaded| loaded.longest_message).max().unwrap_or(0)
    }

    /// The version with this manifest digest.
    pub(crate) fn find(&self, digest: &[u8; 32]) -> Result<Arc<LoadedBundle>, Refusal> {
        self.all().into_iter().find(|loaded| loaded.digest == *digest).ok_or(Refusal::Manifest)
    }
}
