//! The bundle versions that a server serves: the current one, and previous ones in their grace
//! period.
//!
//! A message names the manifest that its client has read. After a reload, the server still answers
//! searches that started with the previous manifest, until the grace period ends.

use crate::bundle::loaded::{LoadError, LoadedBundle};
use ifonly_core::server_protocol::Refusal;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// The current bundle and previous bundles in their grace period.
#[derive(Debug)]
pub struct BundleVersions {
    /// The newest first. Each previous bundle has the end of its grace period.
    bundles: RwLock<Vec<(Arc<LoadedBundle>, Option<Instant>)>>,
}

impl BundleVersions {
    /// Starts with one bundle.
    pub(crate) fn new(loaded: LoadedBundle) -> BundleVersions {
        BundleVersions { bundles: RwLock::new(vec![(Arc::new(loaded), None)]) }
    }

    /// Makes `loaded` the current bundle. The server answers for the previous bundle for `grace`
    /// longer.
    ///
    /// A bundle with the same manifest replaces the earlier one at once, if data and keys are
    /// equal. If they differ, the bundle is refused: messages name only the manifest, so searches
    /// in progress would fail, and servers that reload one after another would give contradictory
    /// answers.
    pub fn replace(&self, loaded: LoadedBundle, grace: Duration) -> Result<(), LoadError> {
        let now = Instant::now();
        let mut bundles = self.bundles.write().unwrap_or_else(PoisonError::into_inner);
        let is_served = |until: &Option<Instant>| until.is_none_or(|until| until > now);
        let same_manifest =
            bundles.iter().filter(|(earlier, until)| is_served(until) && earlier.digest() == loaded.digest());
        if let Some(epoch) = same_manifest.into_iter().find_map(|(earlier, _)| loaded.differs(earlier)) {
            return Err(LoadError::Indistinct(epoch));
        }
        bundles.retain(|(earlier, until)| earlier.digest() != loaded.digest() && is_served(until));
        bundles.iter_mut().for_each(|(_, until)| {
            until.get_or_insert(now + grace);
        });
        bundles.insert(0, (Arc::new(loaded), None));
        Ok(())
    }

    /// The current bundle.
    pub fn current(&self) -> Option<Arc<LoadedBundle>> {
        self.all().into_iter().next()
    }

    /// All bundles that are served, the current one first. Drops bundles whose grace period is
    /// over.
    pub(crate) fn all(&self) -> Vec<Arc<LoadedBundle>> {
        let now = Instant::now();
        let is_over = |until: &Option<Instant>| until.is_some_and(|until| until <= now);
        let served: Vec<Arc<LoadedBundle>> = {
            let bundles = self.bundles.read().unwrap_or_else(PoisonError::into_inner);
            if !bundles.iter().any(|(_, until)| is_over(until)) {
                return bundles.iter().map(|(loaded, _)| loaded.clone()).collect();
            }
            bundles.iter().filter(|(_, until)| !is_over(until)).map(|(loaded, _)| loaded.clone()).collect()
        };
        let mut bundles = self.bundles.write().unwrap_or_else(PoisonError::into_inner);
        bundles.retain(|(_, until)| !is_over(until));
        served
    }

    /// The length of the longest message that any served bundle accepts.
    pub(crate) fn longest_message(&self) -> usize {
        self.all().iter().map(|loaded| loaded.longest_message()).max().unwrap_or(0)
    }

    /// The served bundle with this manifest digest.
    pub(crate) fn find(&self, digest: &[u8; 32]) -> Result<Arc<LoadedBundle>, Refusal> {
        self.all().into_iter().find(|loaded| loaded.digest() == digest).ok_or(Refusal::Manifest)
    }
}
