//! One bundle, loaded for one server: the protocol that checks messages, the database that computes
//! answers, and the root keys bound to the data.
//!
//! The public manifest does not cover the rows, because then anyone could test guesses of the
//! database. The keys do instead: every root key is hashed with the data digest of the bundle, so
//! servers with different data have different key-check values.

use crate::compute::database::{AontRecords, Database};
use crate::compute::sealed::CircuitCache;
use crate::shards::ShardSet;
use bytes::Bytes;
use ifonly_algebra::fingerprint::KeyFingerprint;
use ifonly_algebra::keys::RootKey;
use ifonly_bundle::{Bundle, BundleMetadata};
use ifonly_core::aont;
use ifonly_core::server_protocol::ServerProtocol;
use ifonly_scan::parts::LocalRecords;
use ifonly_values::manifest::Manifest;
use std::sync::Arc;

/// Why a server cannot serve a bundle with its index and root keys.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// No scheme of the bundle uses this server.
    #[error("no scheme of this bundle uses server {index}; valid indices: 1 to {servers}")]
    Index {
        /// The configured index.
        index: u8,
        /// The largest number of servers of any scheme.
        servers: usize,
    },
    /// No root key is configured; pads need one.
    #[error("no root key; set keys to a file that `ifonly keygen` created, equal at all servers")]
    NoKey,
    /// Two root keys have the same epoch.
    #[error("two root keys have the key epoch {0}; configure one key per epoch")]
    Epoch(u32),
    /// The current key epoch has no root key.
    #[error("the current key epoch of the manifest is {0}, but no root key in keys has this epoch")]
    NoCurrentKey(u32),
    /// A bundle with the same manifest but other data or another root key is being served. Messages
    /// name only the manifest, so the server could not distinguish the two.
    #[error(
        "a bundle with the same manifest but other data or another root key for epoch {0} is being served; build the \
         bundle with a new data version, give the new root key a new epoch, or restart the server"
    )]
    Indistinct(u32),
}

/// A bundle that is ready to answer.
#[derive(Debug)]
pub struct LoadedBundle {
    index: u8,
    manifest: Bytes,
    digest: [u8; 32],
    /// The fingerprints of the keys as they are in their files.
    fingerprints: Vec<KeyFingerprint>,
    /// A hash of each bound key, to compare two bundles with the same manifest.
    checks: Vec<(u32, String)>,
    most_records: u64,
    longest_message: usize,
    record_length: usize,
    protocol: ServerProtocol,
    database: Database,
    pub(crate) circuits: CircuitCache,
}

impl LoadedBundle {
    /// Loads a bundle for server `index`. The result shares the rows of the bundle. It encodes
    /// every record with the all-or-nothing transform under every key, which takes time for large
    /// databases; the plain records are not needed afterwards.
    pub fn new(bundle: &Bundle, index: u8, keys: Vec<RootKey>) -> Result<LoadedBundle, LoadError> {
        let manifest = bundle.manifest();
        let fingerprints: Vec<KeyFingerprint> = keys.iter().map(RootKey::fingerprint).collect();
        let keys = check_keys(manifest, keys, &bundle.data_digest())?;
        let loaded = |database| LoadedBundle::of(manifest, index, keys.clone(), fingerprints, database);
        let empty = loaded(Database::new(bundle.rows().clone(), vec![]))?;
        let encoded_length = manifest.record_length() + aont::OVERHEAD;
        let encode = |key: &RootKey| {
            let mut bytes = vec![0; encoded_length * manifest.rows()];
            let chunks = bytes.chunks_exact_mut(encoded_length);
            for (row, (record, encoded)) in (0..).zip(bundle.records().zip(chunks)) {
                empty.protocol.encode_record_into(key, row, record, encoded);
            }
            AontRecords { epoch: key.epoch(), records: LocalRecords::new(0, encoded_length, bytes).into() }
        };
        let records = keys.iter().map(encode).collect();
        Ok(LoadedBundle { database: Database::new(bundle.rows().clone(), records), ..empty })
    }

    /// Loads the metadata of a bundle for a frontend of server `index`. `shards` connects to the
    /// shards that hold the rows; its argument is the keys bound to the data.
    pub(crate) fn frontend<E: From<LoadError>>(
        metadata: &BundleMetadata,
        index: u8,
        keys: Vec<RootKey>,
        shards: impl FnOnce(&[RootKey]) -> Result<Arc<ShardSet>, E>,
    ) -> Result<LoadedBundle, E> {
        let fingerprints = keys.iter().map(RootKey::fingerprint).collect();
        let keys = check_keys(metadata.manifest(), keys, &metadata.data_digest())?;
        let database = Database::of_shards(shards(&keys)?);
        Ok(LoadedBundle::of(metadata.manifest(), index, keys, fingerprints, database)?)
    }

    fn of(
        manifest: &Manifest,
        index: u8,
        keys: Vec<RootKey>,
        fingerprints: Vec<KeyFingerprint>,
        database: Database,
    ) -> Result<LoadedBundle, LoadError> {
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
            fingerprints,
            checks,
            most_records: manifest.top_limit() as u64,
            longest_message: protocol.longest_message(),
            record_length,
            protocol,
            database,
            circuits: CircuitCache::default(),
        })
    }

    /// Index of this server, counted from 1.
    pub fn index(&self) -> u8 {
        self.index
    }

    /// The JSON of the manifest, as it is served.
    pub fn manifest(&self) -> Bytes {
        self.manifest.clone()
    }

    /// The digest of the manifest.
    pub(crate) fn digest(&self) -> &[u8; 32] {
        &self.digest
    }

    /// The fingerprints of the root keys, as `ifonly keygen` prints them.
    pub(crate) fn fingerprints(&self) -> &[KeyFingerprint] {
        &self.fingerprints
    }

    /// The largest number of records of one search.
    pub(crate) fn most_records(&self) -> u64 {
        self.most_records
    }

    /// Bytes of every record.
    pub(crate) fn record_length(&self) -> usize {
        self.record_length
    }

    /// The length of the longest message that this bundle accepts.
    pub(crate) fn longest_message(&self) -> usize {
        self.longest_message
    }

    /// The first key epoch for which this bundle and another one with the same manifest have
    /// different data or keys.
    pub(crate) fn differs(&self, other: &LoadedBundle) -> Option<u32> {
        let differ = |(epoch, check): &(u32, String)| {
            other.checks.iter().any(|(same, other)| same == epoch && other != check).then_some(*epoch)
        };
        self.checks.iter().find_map(differ)
    }

    /// The protocol, which checks messages.
    pub fn protocol(&self) -> &ServerProtocol {
        &self.protocol
    }

    /// The database, which computes answers.
    pub fn database(&self) -> &Database {
        &self.database
    }
}

/// Binds the keys to the data. The keys must have different epochs, one of them the current epoch.
pub(crate) fn check_keys(
    manifest: &Manifest,
    keys: Vec<RootKey>,
    data_digest: &[u8; 32],
) -> Result<Vec<RootKey>, LoadError> {
    if keys.is_empty() {
        return Err(LoadError::NoKey);
    }
    let repeated = |(index, key): (usize, &RootKey)| {
        keys[..index].iter().any(|other| other.epoch() == key.epoch()).then_some(key.epoch())
    };
    if let Some(epoch) = keys.iter().enumerate().find_map(repeated) {
        return Err(LoadError::Epoch(epoch));
    }
    let current = manifest.header_context().epoch;
    if keys.iter().all(|key| key.epoch() != current) {
        return Err(LoadError::NoCurrentKey(current));
    }
    Ok(keys.iter().map(|key| bind_to_data(key, data_digest)).collect())
}

/// The root key for this data: the keyed hash of the data digest.
fn bind_to_data(key: &RootKey, data_digest: &[u8; 32]) -> RootKey {
    let mut hasher = blake3::Hasher::new_keyed(key.expose());
    hasher.update(b"ifonly bundle v1").update(data_digest);
    RootKey::new(key.epoch(), *hasher.finalize().as_bytes())
}

/// A hash of a bound key. Frontend and shard exchange it to check that their keys are equal,
/// without revealing the key.
pub(crate) fn shard_check(key: &RootKey) -> String {
    blake3::Hasher::new_keyed(key.expose()).update(b"ifonly shard v1").finalize().to_hex().to_string()
}
