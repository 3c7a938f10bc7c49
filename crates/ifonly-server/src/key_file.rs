//! Root keys on disk: a small TOML file that only its owner may read; and the certificate of one
//! server's machines.

use crate::shards::SHARD_NAME;
use ifonly_algebra::keys::RootKey;
use ifonly_algebra::random::OsRandom;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use zeroize::{Zeroize, Zeroizing};

/// What is wrong with a key file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// It cannot be read or written.
    #[error("key file {path}: {error}")]
    Io {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// Others can read it.
    #[error("key file {path} can be read by others than its owner; run: chmod 600 {path}")]
    Open {
        /// Which file.
        path: PathBuf,
    },
    /// No certificate can be made for these names.
    #[error("no certificate can be made: {0}")]
    Certificate(String),
    /// It is no key file.
    #[error("{path} is not a key file; `ifonly keygen` makes one")]
    Malformed {
        /// Which file.
        path: PathBuf,
    },
}

#[derive(serde::Deserialize, Zeroize)]
#[serde(deny_unknown_fields)]
struct Text {
    epoch: u32,
    root_key: String,
}

/// Longer files are no key files.
const LONGEST: u64 = 4096;

/// Reads a key file.
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
    file.take(LONGEST).read_to_string(&mut text).map_err(io)?;
    let malformed = || KeyFileError::Malformed { path: path.into() };
    let parsed = Zeroizing::new(toml::from_str::<Text>(&text).map_err(|_| malformed())?);
    let mut bytes = Zeroizing::new([0; 32]);
    hex::decode_to_slice(&parsed.root_key, bytes.as_mut()).map_err(|_| malformed())?;
    Ok(RootKey::new(parsed.epoch, *bytes))
}

/// Writes a fresh key for `epoch`. An existing file is never overwritten: a lost root key cannot be
/// replaced quietly.
pub fn create(path: &Path, epoch: u32) -> Result<(), KeyFileError> {
    let key = RootKey::generate(epoch, &mut OsRandom::default());
    let hex = Zeroizing::new(hex::encode(key.expose()));
    let text = Zeroizing::new(format!(
        "# The root key of a set of servers. All of them need it; nobody else may have it.\nepoch = {epoch}\nroot_key = \"{}\"\n",
        hex.as_str()
    ));
    write_new(path, text.as_bytes())
}

/// A file that was not there, and that only its owner may read.
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

/// Writes a fresh certificate by which the fronts and shards of one server know each other
/// ([`Inside`](crate::shards::Inside)), and its key. It also holds for the names given.
pub fn create_certificate(path: &Path, key: &Path, names: &[String]) -> Result<(), KeyFileError> {
    let names: Vec<String> = [SHARD_NAME.to_owned()].into_iter().chain(names.iter().cloned()).collect();
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(names).map_err(|error| KeyFileError::Certificate(error.to_string()))?;
    write_new(key, Zeroizing::new(signing_key.serialize_pem()).as_bytes())?;
    let written = write_new(path, cert.pem().as_bytes());
    if written.is_err() {
        // A key without its certificate is of no use.
        let _ = std::fs::remove_file(key);
    }
    written
}

/// What a configuration stores of a token.
pub fn hash_token(token: &str) -> String {
    blake3::hash(token.as_bytes()).to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_round_trip_are_private_and_never_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("root.key");
        create(&path, 7).unwrap();
        let key = load(&path).unwrap();
        assert_eq!(key.epoch(), 7);
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
    fn certificates_are_made_once_and_serve_front_and_shards() {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = (folder.path().join("inside.pem"), folder.path().join("inside.key"));
        create_certificate(&certificate, &key, &["front.example".into()]).unwrap();
        crate::shards::ShardTls::load(&certificate, &key).unwrap();
        assert!(matches!(create_certificate(&certificate, &key, &[]), Err(KeyFileError::Io { .. })));
        // What was there stays there, and nothing is left of what was not made.
        std::fs::remove_file(&key).unwrap();
        assert!(matches!(create_certificate(&certificate, &key, &[]), Err(KeyFileError::Io { .. })));
        assert!(certificate.exists() && !key.exists());
        assert!(crate::shards::ShardTls::load(&certificate, &key).unwrap_err().to_string().contains("inside.key"));
    }

    #[test]
    fn other_files_are_no_keys() {
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
