//! The signing key of the institution, and its file.
//!
//! Records are signed last, because a signature covers the schema, and the deviations in the schema
//! depend on all rows. By default the key file is beside the bundle, never inside: the holder of
//! the key can forge records, and the signatures protect against servers that do so.

use crate::error::BuildError;
use crate::options::BuildOptions;
use ifonly_algebra::random::OsRandom;
use ifonly_core::signature::SigningKey;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use zeroize::{Zeroize, Zeroizing};

/// A signing key with the path of its file.
pub(crate) struct SigningKeyFile {
    pub(crate) key: SigningKey,
    pub(crate) path: PathBuf,
    /// Whether the key was just generated and its file does not exist yet.
    pub(crate) is_new: bool,
}

impl SigningKeyFile {
    /// The key that the options name, or else the key beside the bundle, or else a new key.
    pub(crate) fn of(options: &BuildOptions) -> Result<SigningKeyFile, BuildError> {
        if let Some(path) = &options.signing_key {
            return Ok(SigningKeyFile { key: load_key(path)?, path: path.clone(), is_new: false });
        }
        let mut name = options.output.file_name().unwrap_or_default().to_owned();
        name.push(".signing.key");
        let path = options.output.with_file_name(name);
        if path.exists() {
            Ok(SigningKeyFile { key: load_key(&path)?, path, is_new: false })
        } else {
            Ok(SigningKeyFile { key: SigningKey::generate(&mut OsRandom::default()), path, is_new: true })
        }
    }

    /// Writes a copy of the key to a private directory, for worker processes of the same user.
    pub(crate) fn write_copy(&self, directory: &Path) -> Result<PathBuf, BuildError> {
        let path = directory.join("signing.key");
        save_key(&path, &self.key)?;
        Ok(path)
    }

    /// Writes a new key to its file and then runs `then`. Removes the new file if `then` fails.
    pub(crate) fn save_then(&self, then: impl FnOnce() -> Result<(), BuildError>) -> Result<(), BuildError> {
        if self.is_new {
            save_key(&self.path, &self.key)?;
        }
        then().inspect_err(|_| {
            if self.is_new {
                let _ = std::fs::remove_file(&self.path);
            }
        })
    }
}

#[derive(serde::Deserialize, Zeroize)]
#[serde(deny_unknown_fields)]
struct KeyText {
    public_key: String,
    signing_key: String,
}

/// Reads a signing key. Refuses a file that other users than its owner can read.
pub fn load_key(path: &Path) -> Result<SigningKey, BuildError> {
    const MAX_BYTES: u64 = 4096;
    let refuse = |reason: String| BuildError::File { path: path.into(), reason };
    let io = |source: std::io::Error| match source.kind() {
        ErrorKind::NotFound => refuse("no such signing key file; check the path, or create a key first".into()),
        _ => BuildError::Io { action: "read", path: path.into(), source },
    };
    let file = File::open(path).map_err(io)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        if file.metadata().map_err(io)?.permissions().mode() & 0o077 != 0 {
            let path = path.display();
            return Err(refuse(format!("other users can read this signing key; run: chmod 600 {path}")));
        }
    }
    let malformed = || refuse("not a valid signing key file; check the path, or create a key first".into());
    let mut text = Zeroizing::new(String::new());
    file.take(MAX_BYTES).read_to_string(&mut text).map_err(|_| malformed())?;
    let parsed = Zeroizing::new(toml::from_str::<KeyText>(&text).map_err(|_| malformed())?);
    let mut bytes = Zeroizing::new([0; 32]);
    hex::decode_to_slice(&parsed.signing_key, bytes.as_mut()).map_err(|_| malformed())?;
    let key = SigningKey::new(&bytes);
    if key.public().to_string() == parsed.public_key {
        Ok(key)
    } else {
        Err(refuse("the public key in it does not match its signing key: the file was changed or damaged".into()))
    }
}

/// Writes a key to a new file that only its owner can read. Never overwrites an existing file.
pub fn save_key(path: &Path, key: &SigningKey) -> Result<(), BuildError> {
    let hex = Zeroizing::new(hex::encode(key.expose()));
    let text = Zeroizing::new(format!(
        "# Signing key for records. Never copy it to a server: its holder can forge records.\n\
         public_key = \"{}\"\nsigning_key = \"{}\"\n",
        key.public(),
        hex.as_str()
    ));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    let io = |source| BuildError::Io { action: "create", path: path.into(), source };
    let mut file = options.open(path).map_err(io)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(io)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_round_trip_are_private_and_never_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("signing.key");
        let key = SigningKey::new(&[3; 32]);
        assert!(load_key(&path).unwrap_err().to_string().contains("no such signing key file"));
        save_key(&path, &key).unwrap();
        assert_eq!(load_key(&path).unwrap().expose(), key.expose());
        assert!(matches!(save_key(&path, &key), Err(BuildError::Io { .. })));
        let text = std::fs::read_to_string(&path).unwrap();
        for other in [text.replace("signing_key = \"03", "signing_key = \"04"), text.replace('"', ""), String::new()] {
            std::fs::write(&path, other).unwrap();
            assert!(matches!(load_key(&path), Err(BuildError::File { .. })));
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
            assert!(load_key(&path).unwrap_err().to_string().contains("chmod 600"));
        }
    }
}
