//! Files with secrets: root keys, and the certificate that the frontends and shards of one server
//! share.
//!
//! A root key file is TOML with `epoch` and `root_key`. The server refuses a root key file that
//! users other than its owner can read. No function here overwrites a file.

use crate::shards::SHARD_NAME;
use ifonly_algebra::fingerprint::KeyFingerprint;
use ifonly_algebra::keys::RootKey;
use ifonly_algebra::random::OsRandom;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use zeroize::{Zeroize, Zeroizing};

/// Why a key file or certificate cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// The file cannot be read or written.
    #[error("key file {path}: {error}")]
    Io {
        /// Which file.
        path: PathBuf,
        /// The error of the operating system.
        error: std::io::Error,
    },
    /// Users other than the owner can read the file.
    #[error("key file {path} is readable by users other than its owner; run: chmod 600 {path}")]
    Open {
        /// Which file.
        path: PathBuf,
    },
    /// The certificate cannot be created, usually because of its names.
    #[error("cannot create the certificate: {0}")]
    Certificate(String),
    /// The file is not a root key file.
    #[error("{path} is not a root key file; create one with `ifonly keygen`")]
    Malformed {
        /// Which file.
        path: PathBuf,
    },
}

#[derive(serde::Deserialize, Zeroize)]
#[serde(deny_unknown_fields)]
struct KeyFileFields {
    epoch: u32,
    root_key: String,
}

/// Maximum length of a key file, in bytes.
const MAX_LENGTH: u64 = 4096;

/// Reads a root key file.
pub fn load(path: &Path) -> Result<RootKey, KeyFileError> {
    let io = |error| KeyFileError::Io { path: path.into(), error };
    let file = File::open(path).map_err(io)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        if file.metadata().map_err(io)?.permissions().mode() & 0o077 != 0 {
            return Err(KeyFileError::Open { path: path.into() });
        }
    }
    let mut text = Zeroizing::new(String::new());
    file.take(MAX_LENGTH).read_to_string(&mut text).map_err(io)?;
    let malformed = || KeyFileError::Malformed { path: path.into() };
    let parsed = Zeroizing::new(toml::from_str::<KeyFileFields>(&text).map_err(|_| malformed())?);
    let mut bytes = Zeroizing::new([0; 32]);
    hex::decode_to_slice(&parsed.root_key, bytes.as_mut()).map_err(|_| malformed())?;
    Ok(RootKey::new(parsed.epoch, *bytes))
}

/// Writes a new root key for `epoch`. An existing file is an error: an overwritten root key cannot
/// be restored. Returns its fingerprint.
pub fn create(path: &Path, epoch: u32) -> Result<KeyFingerprint, KeyFileError> {
    let key = RootKey::generate(epoch, &mut OsRandom::default());
    let hex = Zeroizing::new(hex::encode(key.expose()));
    let text = Zeroizing::new(format!(
        "# Root key of a deployment. Every server needs this key; no other machine may have it.\nepoch = {epoch}\nroot_key = \"{}\"\n",
        hex.as_str()
    ));
    write_new(path, text.as_bytes())?;
    Ok(key.fingerprint())
}

/// Creates a file that only its owner may read. The file must not exist.
fn write_new(path: &Path, bytes: &[u8]) -> Result<(), KeyFileError> {
    let io = |error| KeyFileError::Io { path: path.into(), error };
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    let mut file = options.open(path).map_err(io)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(io)
}

/// Writes a new certificate and its private key. The frontends and shards of one server
/// authenticate each other with it ([`ShardTls`](crate::shards::ShardTls)). `names` are further
/// subject names.
pub fn create_certificate(path: &Path, key: &Path, names: &[String]) -> Result<(), KeyFileError> {
    let names: Vec<String> = [SHARD_NAME.to_owned()].into_iter().chain(names.iter().cloned()).collect();
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(names).map_err(|error| KeyFileError::Certificate(error.to_string()))?;
    write_new(key, Zeroizing::new(signing_key.serialize_pem()).as_bytes())?;
    let written = write_new(path, cert.pem().as_bytes());
    if written.is_err() {
        // A private key without its certificate is useless.
        let _ = std::fs::remove_file(key);
    }
    written
}

/// The hash of a token, as the configuration stores it.
pub fn hash_token(token: &str) -> String {
    blake3::hash(token.as_bytes()).to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_round_trip_are_private_and_are_never_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("root.key");
        let fingerprint = create(&path, 7).unwrap();
        let key = load(&path).unwrap();
        assert_eq!((key.epoch(), key.fingerprint()), (7, fingerprint));
        assert_eq!(load(&path).unwrap().expose(), key.expose());
        assert!(matches!(create(&path, 7), Err(KeyFileError::Io { .. })));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
            assert!(matches!(load(&path), Err(KeyFileError::Open { .. })));
        }
    }

    #[test]
    fn certificates_are_never_overwritten_and_work_for_frontends_and_shards() {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = (folder.path().join("inside.pem"), folder.path().join("inside.key"));
        create_certificate(&certificate, &key, &["frontend.example".into()]).unwrap();
        crate::shards::ShardTls::load(&certificate, &key).unwrap();
        assert!(matches!(create_certificate(&certificate, &key, &[]), Err(KeyFileError::Io { .. })));
        // The existing certificate stays, and the new private key is removed again.
        std::fs::remove_file(&key).unwrap();
        assert!(matches!(create_certificate(&certificate, &key, &[]), Err(KeyFileError::Io { .. })));
        assert!(certificate.exists() && !key.exists());
        assert!(crate::shards::ShardTls::load(&certificate, &key).unwrap_err().to_string().contains("inside.key"));
    }

    #[test]
    fn other_files_are_not_accepted_as_keys() {
        let folder = tempfile::tempdir().unwrap();
        for (number, text) in
            ["", "epoch = 1", "epoch = 1\nroot_key = \"00\"", "epoch = -1\nroot_key = \"\"", "\u{0}\u{1}"]
                .iter()
                .enumerate()
        {
            let path = folder.path().join(number.to_string());
            create(&path, 1).unwrap();
            std::fs::write(&path, text).unwrap();
            assert!(matches!(load(&path), Err(KeyFileError::Malformed { .. })), "{text:?}");
        }
    }
}
