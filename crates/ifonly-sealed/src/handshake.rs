//! Session handshake: the three servers check that they run the same search.
//!
//! Each server sends its greeting ([`SessionContext::greeting`]) to both peers. On receipt it
//! checks that every field except sender index and nonce equals its own. The session name is a hash
//! of the transcript digest and the three nonces. Each server sends the name to both peers when it
//! is ready to start. In mode [`RandomnessMode::Keys`] it then sends the next server a key that
//! these two servers share in this session. This module encodes and checks the messages; it does no
//! I/O.

use ifonly_algebra::keys::{RootKey, TranscriptKeys};
use ifonly_core::transcript::Tau;

/// Version of the protocol between servers. Version 2 has client classes (docs/sealed.md,
/// sections 4 and 6).
const VERSION: u8 = 2;
const MAGIC: &[u8; 6] = b"ifonly";

/// Random value that a server draws for one session: a nonce or a pair key.
pub type SessionRandom = [u8; 32];

/// Source of the random bits between servers. All three servers must use the same mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RandomnessMode {
    /// The operating system's generator draws every bit, and servers send the bits to their peers.
    /// Privacy against a server is information-theoretic.
    #[default]
    System,
    /// Each pair of servers expands a key that it shares for the session. This halves the traffic;
    /// privacy against a server is computational.
    Keys,
}

impl RandomnessMode {
    /// Last bytes of a greeting; none in the default mode.
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

/// The text names no randomness mode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid randomness mode {0:?}; use \"system\" or \"keys\"")]
pub struct UnknownRandomness(pub String);

impl std::str::FromStr for RandomnessMode {
    type Err = UnknownRandomness;

    fn from_str(text: &str) -> Result<RandomnessMode, UnknownRandomness> {
        let named = [RandomnessMode::System, RandomnessMode::Keys].into_iter().find(|mode| mode.to_string() == text);
        named.ok_or_else(|| UnknownRandomness(text.into()))
    }
}

/// Public inputs of a session, equal at all three servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionContext {
    /// Digest of the manifest.
    pub digest: [u8; 32],
    /// The key epoch.
    pub epoch: u32,
    /// Transcript digest of the client's messages.
    pub tau: Tau,
    /// Number of rows to find, at most 64.
    pub top: u8,
    /// Key-check value: equal at servers with equal root key, data and transcript.
    pub key_check: [u8; 16],
    /// Source of random bits.
    pub randomness: RandomnessMode,
}

/// Why a greeting was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeMismatch {
    /// The message is not a greeting of this protocol version.
    Version,
    /// The peer has another value for this field.
    Differs(&'static str),
}

impl SessionContext {
    /// The greeting of server `server` (1 to 3) to both peers.
    pub fn greeting(&self, server: usize, nonce: &SessionRandom) -> Vec<u8> {
        let SessionContext { digest, epoch, tau, top, key_check, randomness } = self;
        let (sender, epoch) = ([VERSION, server as u8], epoch.to_le_bytes());
        let parts: [&[u8]; 9] = [MAGIC, &sender, digest, &epoch, tau, &[*top], key_check, nonce, randomness.mark()];
        parts.concat()
    }

    /// The nonce of server `server`, if every other field of its greeting is as expected.
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
            ("index", &[server as u8]),
            ("manifest", &self.digest),
            ("key epoch", &self.epoch.to_le_bytes()),
            ("transcript", &self.tau),
            ("number of rows to find", &[self.top]),
            ("root key or data", &self.key_check),
        ];
        for (position, (what, expected)) in expected.into_iter().enumerate() {
            let part = next(expected.len()).ok_or(HandshakeMismatch::Version)?;
            if part != expected {
                return Err(if position < 2 { HandshakeMismatch::Version } else { HandshakeMismatch::Differs(what) });
            }
        }
        let (nonce, mark) = rest.split_first_chunk().ok_or(HandshakeMismatch::Version)?;
        match [RandomnessMode::System, RandomnessMode::Keys].into_iter().find(|mode| mode.mark() == mark) {
            Some(mode) if mode == self.randomness => Ok(*nonce),
            Some(_) => Err(HandshakeMismatch::Differs("randomness")),
            None => Err(HandshakeMismatch::Version),
        }
    }

    /// The session name, from the nonces of servers 1, 2 and 3.
    pub fn session(&self, nonces: &[SessionRandom; 3]) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_derive_key("ifonly session v1");
        hasher.update(&self.tau);
        nonces.iter().for_each(|nonce| {
            hasher.update(nonce);
        });
        *hasher.finalize().as_bytes()
    }

    /// Keys for the random bits that two servers share in a session, from the pair key that one of
    /// them drew.
    pub fn pair_keys(&self, key: SessionRandom, session: &[u8; 32]) -> TranscriptKeys {
        RootKey::new(self.epoch, key).transcript(session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(randomness: RandomnessMode) -> SessionContext {
        SessionContext { digest: [1; 32], epoch: 3, tau: [5; 32], top: 1, key_check: [4; 16], randomness }
    }

    #[test]
    fn greetings_of_different_randomness_modes_are_rejected() {
        let [system, keys] = [RandomnessMode::System, RandomnessMode::Keys].map(context);
        let [plain, keyed] = [system, keys].map(|context| context.greeting(2, &[9; 32]));
        assert_eq!(keys.read_greeting(2, &keyed), Ok([9; 32]));
        assert_eq!(keys.read_greeting(2, &plain), Err(HandshakeMismatch::Differs("randomness")));
        assert_eq!(system.read_greeting(2, &keyed), Err(HandshakeMismatch::Differs("randomness")));
        assert_eq!(["system".parse(), "keys".parse()], [Ok(RandomnessMode::System), Ok(RandomnessMode::Keys)]);
        assert!("key".parse::<RandomnessMode>().is_err_and(|error| error.to_string().contains("\"keys\"")));
    }

    #[test]
    fn a_pair_key_gives_another_stream_in_every_session() {
        let stream = |key, session| {
            let mut bytes = [0; 16];
            let keys = context(RandomnessMode::Keys).pair_keys([key; 32], &[session; 32]);
            keys.stream(ifonly_algebra::keys::Purpose::ZeroSharing).fill(0, &mut bytes);
            bytes
        };
        assert_eq!(stream(1, 1), stream(1, 1));
        assert!(stream(1, 1) != stream(1, 2) && stream(1, 1) != stream(2, 1));
    }

    #[test]
    fn greetings_are_accepted_only_if_all_fields_but_the_nonce_are_equal() {
        let context = context(RandomnessMode::System);
        let greeting = context.greeting(2, &[9; 32]);
        assert_eq!(context.read_greeting(2, &greeting), Ok([9; 32]));
        assert_eq!(context.read_greeting(3, &greeting), Err(HandshakeMismatch::Differs("index")));
        for position in 0..greeting.len() {
            let mut changed = greeting.clone();
            changed[position] ^= 1;
            let accepted = context.read_greeting(2, &changed).is_ok();
            assert_eq!(accepted, position >= greeting.len() - 32, "only the nonce is arbitrary: byte {position}");
            assert_eq!(context.read_greeting(2, &greeting[..position]), Err(HandshakeMismatch::Version));
        }
        assert_eq!(context.read_greeting(2, &[&greeting[..], &[0]].concat()), Err(HandshakeMismatch::Version));
    }

    #[test]
    fn every_nonce_changes_the_session_name() {
        let context = context(RandomnessMode::System);
        let name = context.session(&[[1; 32], [2; 32], [3; 32]]);
        for server in 0..3 {
            let mut nonces = [[1; 32], [2; 32], [3; 32]];
            nonces[server][31] ^= 1;
            assert_ne!(context.session(&nonces), name);
        }
    }
}
