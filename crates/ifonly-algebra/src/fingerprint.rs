//! Fingerprints of root keys. Operators compare them by phone, and clients compare those that
//! servers publish. A fingerprint reveals nothing about its key.

use std::fmt;

/// Bytes of a fingerprint.
pub const FINGERPRINT_LENGTH: usize = 16;

/// The fingerprint of the root key of one epoch. It is written in groups of four hexadecimal
/// digits: `7c1e-44a9-…`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyFingerprint {
    /// The key epoch.
    pub epoch: u32,
    /// The fingerprint.
    pub bytes: [u8; FINGERPRINT_LENGTH],
}

impl fmt::Display for KeyFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, pair) in self.bytes.chunks(2).enumerate() {
            let separator = if number == 0 { "" } else { "-" };
            write!(f, "{separator}{:02x}{:02x}", pair[0], pair[1])?;
        }
        Ok(())
    }
}
