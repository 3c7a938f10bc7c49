//! Names of the HTTP binding, for clients and servers: paths, header names, lengths and problem
//! types (docs/protocol.md, section 2).

use ifonly_algebra::fingerprint::{FINGERPRINT_LENGTH, KeyFingerprint};
pub use ifonly_algebra::keys::{CHECK_LENGTH, TICKET_LENGTH};

/// Path of the manifest.
pub const MANIFEST_PATH: &str = "/v1/manifest";
/// Response header with the server index. The manifest is the same at all servers, so it does not
/// contain the index.
pub const SERVER_INDEX_HEADER: &str = "ifonly-server-index";
/// Response header with the digests of earlier manifests that the server still answers for:
/// hexadecimal, newest first, separated by commas.
pub const PREVIOUS_MANIFESTS_HEADER: &str = "ifonly-previous-manifests";
/// Response header with the fingerprints of the root keys with which the server answers for this
/// manifest: `EPOCH=FINGERPRINT` with 32 hexadecimal digits, separated by commas.
pub const KEY_FINGERPRINTS_HEADER: &str = "ifonly-key-fingerprints";
/// The media type of messages and responses.
pub const MESSAGE_TYPE: &str = "application/octet-stream";
/// The media type of problem documents (RFC 9457).
pub const PROBLEM_TYPE: &str = "application/problem+json";
/// Length of the checksum after every response: the first bytes of its BLAKE3 hash.
pub const CHECKSUM_LENGTH: usize = 16;

/// The path of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Route {
    /// Messages of a phase.
    Answer,
    /// Record fetches.
    Record,
}

impl Route {
    /// The path.
    pub const fn path(self) -> &'static str {
        match self {
            Route::Answer => "/v1/answer",
            Route::Record => "/v1/record",
        }
    }
}

/// The value of [`KEY_FINGERPRINTS_HEADER`].
pub fn write_fingerprints(fingerprints: &[KeyFingerprint]) -> String {
    let entries = fingerprints.iter().map(|key| format!("{}={:032x}", key.epoch, u128::from_be_bytes(key.bytes)));
    entries.collect::<Vec<_>>().join(",")
}

/// The fingerprint for `epoch` in the value of [`KEY_FINGERPRINTS_HEADER`]; `None` if there is no
/// valid one.
pub fn read_fingerprint(header: &str, epoch: u32) -> Option<KeyFingerprint> {
    header.split(',').find_map(|entry| {
        let (number, digits) = entry.trim().split_once('=')?;
        let is_hex = digits.len() == 2 * FINGERPRINT_LENGTH && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let bytes = u128::from_str_radix(digits, 16).ok().filter(|_| is_hex)?.to_be_bytes();
        (number.parse() == Ok(epoch)).then_some(KeyFingerprint { epoch, bytes })
    })
}

const URN: &str = "urn:ifonly:problem:";

macro_rules! problem_types {
    ($($(#[$doc:meta])* $id:ident = $name:literal,)*) => {
        /// The type of a problem document.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ProblemType {
            $($(#[$doc])* $id,)*
        }

        impl ProblemType {
            /// All problem types.
            pub const ALL: &[ProblemType] = &[$(ProblemType::$id,)*];

            /// The name, which is the last part of `type` in the document.
            pub const fn name(self) -> &'static str {
                match self {
                    $(ProblemType::$id => $name,)*
                }
            }
        }
    };
}

problem_types! {
    /// The token is missing or unknown.
    Unauthorized = "unauthorized",
    /// The token has no searches left.
    BudgetExhausted = "budget-exhausted",
    /// The server cannot record searches at the moment.
    LedgerUnavailable = "ledger-unavailable",
    /// The server has too many requests.
    Overloaded = "overloaded",
    /// The body is longer than any valid message.
    TooLarge = "too-large",
    /// The body did not arrive in time.
    UploadTimeout = "upload-timeout",
    /// The body is incomplete.
    IncompleteBody = "incomplete-body",
    /// The server does not serve this manifest.
    UnknownManifest = "unknown-manifest",
    /// The server does not serve this key epoch.
    UnknownKeyEpoch = "unknown-key-epoch",
    /// The server does not offer this scheme.
    SchemeNotOffered = "scheme-not-offered",
    /// The server does not support this protocol version.
    UnsupportedVersion = "unsupported-version",
    /// The ticket is not valid for the search of the message.
    WrongTicket = "wrong-ticket",
    /// The message is for another server.
    WrongServer = "wrong-server",
    /// The message could not be decoded.
    Malformed = "malformed",
    /// A record fetch at the path of answers, or the reverse.
    WrongPath = "wrong-path",
    /// The servers did not complete a sealed search.
    PeerFailure = "peer-failure",
    /// Some shards of the server are not reachable.
    ShardsUnavailable = "shards-unavailable",
    /// An internal error of the server.
    Internal = "internal",
    /// The path does not exist.
    NotFound = "not-found",
    /// The path does not allow this method.
    MethodNotAllowed = "method-not-allowed",
}

impl ProblemType {
    /// The `type` of the document.
    pub fn urn(self) -> String {
        format!("{URN}{}", self.name())
    }

    /// The problem type with this `type`.
    pub fn of(urn: &str) -> Option<ProblemType> {
        let name = urn.strip_prefix(URN)?;
        ProblemType::ALL.iter().copied().find(|problem| problem.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_are_found_by_their_epoch() {
        let keys = [7, 0].map(|epoch| KeyFingerprint { epoch, bytes: [epoch as u8; FINGERPRINT_LENGTH] });
        let header = write_fingerprints(&keys);
        assert_eq!(header, format!("7={},0={}", "07".repeat(16), "00".repeat(16)));
        assert_eq!(keys[0].to_string(), ["0707"; 8].join("-"));
        for key in keys {
            assert_eq!(read_fingerprint(&header.replace(',', " , "), key.epoch), Some(key));
        }
        assert_eq!(read_fingerprint(&header, 1), None);
        for digits in ["", "00", &"0".repeat(33), &"+".repeat(32), &format!("+{}", "0".repeat(31)), &"é".repeat(16)] {
            assert_eq!(read_fingerprint(&format!("0={digits}"), 0), None, "{digits}");
        }
    }

    #[test]
    fn problem_types_are_found_by_their_urn() {
        for &problem in ProblemType::ALL {
            assert_eq!(ProblemType::of(&problem.urn()), Some(problem));
            assert_eq!(ProblemType::of(problem.name()), None);
        }
        assert_eq!(ProblemType::of("urn:ifonly:problem:unheard-of"), None);
    }
}
