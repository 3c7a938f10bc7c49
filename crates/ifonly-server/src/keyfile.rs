//! Root keys on disk: a small TOML file that only its owner may read.

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

/// Writes a fresh key for `epoch`. An existing file is never overwritten: a lost root key cannot be replaced quietly.
pub fn create(path: &Path, epoch: u32) -> Result<(), KeyFileError> {
    let io = |error| KeyFileError::Io { path: path.into(), error };
    let key = RootKey::generate(epoch, &mut OsRandom::default());
    let hex = Zeroizing::new(hex::encode(key.expose()));
    let text = Zeroizing::new(format!(
        "# The root key of a set of servers. All of them need it; nobody else may have it.\nepoch = {epoch}\nroot_key = \"{}\"\n",
        hex.as_str()
    ));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    let mut file = options.open(path).map_err(io)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(io)
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
