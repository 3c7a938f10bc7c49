//! How three servers make sure that they mean the same search, before anything is computed.
//!
//! Each tells both others what it was asked and a number that it drew ([`Subject::greeting`]); all
//! but the sender's number and what it drew must be equal. The session's name follows from the
//! transcript and the three numbers, and each tells it to both others when it is ready. With keys
//! ([`Source::Keys`]), each sends the next server right after that the key that the two share in
//! this session.

use ifonly_algebra::keys::{RootKey, TranscriptKeys};
use ifonly_core::transcript::Tau;

/// The version of what servers say to each other.
const VERSION: u8 = 1;
const MAGIC: &[u8; 6] = b"ifonly";

/// What a server draws for a session: its part of the session's name, or a key.
pub type SessionRandom = [u8; 32];

/// Where the random bits between servers come from; all three must have the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RandomnessMode {
    /// Every bit from the operating system's generator, sent to whom it concerns: privacy towards a
    /// server is perfect.
    #[default]
    System,
    /// From keys that each pair of servers draws for the session: half the traffic, and privacy
    /// towards a server is computational.
    Keys,
}

impl RandomnessMode {
    /// What follows a greeting; nothing in the default.
    fn mark(self) -> &'static [u8] {
        match self {
            RandomnessMode::System => &[],
            RandomnessMode::Keys => &[1],
        }
    }
}

impl std::fmt::Display for RandomnessMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if *self == RandomnessMode::System { "system" } else { "keys" })
    }
}

impl std::str::FromStr for RandomnessMode {
    type Err = String;

    fn from_str(text: &str) -> Result<RandomnessMode, String> {
        let named =
            [RandomnessMode::System, RandomnessMode::Keys].into_iter().find(|source| source.to_string() == text);
        named.ok_or_else(|| format!("randomness between servers is \"system\" or \"keys\", not {text:?}"))
    }
}

/// What a session is about; all of it is public, and the same at all three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionContext {
    /// The manifest's digest.
    pub digest: [u8; 32],
    /// The key epoch.
    pub epoch: u32,
    /// The transcript of the user's messages.
    pub tau: Tau,
    /// How many rows to find, at most 64.
    pub top: u8,
    /// Equal exactly where root key, data and transcript are.
    pub key_check: [u8; 16],
    /// Where random bits come from.
    pub source: RandomnessMode,
}

/// Why a greeting does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeMismatch {
    /// Not a greeting of this version.
    Version,
    /// The peer was asked something else; in what it differs.
    Differs(&'static str),
}

impl SessionContext {
    /// What server `server` (1 to 3) tells both others.
    pub fn greeting(&self, server: usize, nonce: &SessionRandom) -> Vec<u8> {
        let SessionContext { digest, epoch, tau, top, key_check, source } = self;
        let (who, epoch) = ([VERSION, server as u8], epoch.to_le_bytes());
        let parts: [&[u8]; 9] = [MAGIC, &who, digest, &epoch, tau, &[*top], key_check, nonce, source.mark()];
        parts.concat()
    }

    /// The number that server `server` drew, if it was asked the same.
    pub fn read_greeting(&self, server: usize, bytes: &[u8]) -> Result<SessionRandom, HandshakeMismatch> {
        let mut rest = bytes;
        let mut next = |length: usize| {
            let (part, tail) = rest.split_at_checked(length)?;
            rest = tail;
            Some(part)
        };
        let expected: [(&'static str, &[u8]); 8] = [
            ("protocol", MAGIC),
            ("version", &[VERSION]),
            ("number", &[server as u8]),
            ("manifest", &self.digest),
            ("key epoch", &self.epoch.to_le_bytes()),
            ("transcript", &self.tau),
            ("number of rows to find", &[self.top]),
            ("root key or data", &self.key_check),
        ];
        for (place, (what, expected)) in expected.into_iter().enumerate() {
            let part = next(expected.len()).ok_or(HandshakeMismatch::Version)?;
            if part != expected {
                return Err(if place < 2 { HandshakeMismatch::Version } else { HandshakeMismatch::Differs(what) });
            }
        }
        let (nonce, mark) = rest.split_first_chunk().ok_or(HandshakeMismatch::Version)?;
        match [RandomnessMode::System, RandomnessMode::Keys].into_iter().find(|source| source.mark() == mark) {
            Some(source) if source == self.source => Ok(*nonce),
            Some(_) => Err(HandshakeMismatch::Differs("randomness")),
            None => Err(HandshakeMismatch::Version),
        }
    }

    /// The session's name, from what servers 1, 2, 3 drew.
    pub fn session(&self, nonces: &[SessionRandom; 3]) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_derive_key("ifonly session v1");
        hasher.update(&self.tau);
        nonces.iter().for_each(|nonce| {
            hasher.update(nonce);
        });
        *hasher.finalize().as_bytes()
    }

    /// The random bits that two servers share in a session, from the key that one of them drew for
    /// it.
    pub fn pair_keys(&self, key: SessionRandom, session: &[u8; 32]) -> TranscriptKeys {
        RootKey::new(self.epoch, key).transcript(session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(source: RandomnessMode) -> SessionContext {
        SessionContext { digest: [1; 32], epoch: 3, tau: [5; 32], top: 1, key_check: [4; 16], source }
    }

    #[test]
    fn servers_with_and_without_keys_do_not_fit() {
        let [system, keys] = [RandomnessMode::System, RandomnessMode::Keys].map(subject);
        let [said, said_with_keys] = [system, keys].map(|subject| subject.greeting(2, &[9; 32]));
        assert_eq!(keys.read_greeting(2, &said_with_keys), Ok([9; 32]));
        assert_eq!(keys.read_greeting(2, &said), Err(HandshakeMismatch::Differs("randomness")));
        assert_eq!(system.read_greeting(2, &said_with_keys), Err(HandshakeMismatch::Differs("randomness")));
        assert_eq!(["system".parse(), "keys".parse()], [Ok(RandomnessMode::System), Ok(RandomnessMode::Keys)]);
        assert!("key".parse::<RandomnessMode>().is_err_and(|error| error.contains("\"keys\"")));
    }

    #[test]
    fn a_key_serves_one_session() {
        let stream = |key, session| {
            let mut bytes = [0; 16];
            let keys = subject(RandomnessMode::Keys).pair_keys([key; 32], &[session; 32]);
            keys.stream(ifonly_algebra::keys::Purpose::ZeroSharing).fill(0, &mut bytes);
            bytes
        };
        assert_eq!(stream(1, 1), stream(1, 1));
        assert!(stream(1, 1) != stream(1, 2) && stream(1, 1) != stream(2, 1));
    }

    #[test]
    fn greetings_fit_only_where_everything_is_the_same() {
        let subject = subject(RandomnessMode::System);
        let greeting = subject.greeting(2, &[9; 32]);
        assert_eq!(subject.read_greeting(2, &greeting), Ok([9; 32]));
        assert_eq!(subject.read_greeting(3, &greeting), Err(HandshakeMismatch::Differs("number")));
        for place in 0..greeting.len() {
            let mut bent = greeting.clone();
            bent[place] ^= 1;
            let fits = subject.read_greeting(2, &bent).is_ok();
            assert_eq!(fits, place >= greeting.len() - 32, "only what was drawn may be anything: byte {place}");
            assert_eq!(subject.read_greeting(2, &greeting[..place]), Err(HandshakeMismatch::Version));
        }
        assert_eq!(subject.read_greeting(2, &[&greeting[..], &[0]].concat()), Err(HandshakeMismatch::Version));
    }

    #[test]
    fn everybody_contributes_to_the_name() {
        let subject = subject(RandomnessMode::System);
        let name = subject.session(&[[1; 32], [2; 32], [3; 32]]);
        for place in 0..3 {
            let mut nonces = [[1; 32], [2; 32], [3; 32]];
            nonces[place][31] ^= 1;
            assert_ne!(subject.session(&nonces), name);
        }
    }
}
