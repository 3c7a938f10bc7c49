//! Compares the root keys of the servers by the fingerprints that they publish, before the first
//! message. Servers with different keys cannot answer a search together; without this comparison,
//! the user would learn it only from the answers.

use crate::error::ClientError;
use crate::search::server_assignment::RespondingServer;
use ifonly_algebra::fingerprint::KeyFingerprint;
use ifonly_core::vote::Plurality;

/// The fingerprint of the servers' root key for `epoch`; `None` if they publish none. A minority of
/// at most `tolerated` servers may differ, as in the vote on key-check values.
pub(crate) fn compare<'a>(
    servers: impl Iterator<Item = &'a RespondingServer>,
    epoch: u32,
    tolerated: usize,
) -> Result<Option<KeyFingerprint>, ClientError> {
    let servers: Vec<&RespondingServer> = servers.collect();
    let keys: Vec<Option<KeyFingerprint>> = servers.iter().map(|server| server.fingerprint).collect();
    let Some(vote) = Plurality::of(&keys) else { return Ok(None) };
    if vote.failure(tolerated).is_none() {
        return Ok(keys[vote.first]);
    }
    let published = servers.iter().map(|server| (server.server.name(), server.fingerprint)).collect();
    Err(ClientError::KeysDiffer { epoch, published })
}
