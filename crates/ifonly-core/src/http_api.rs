//! What a server offers over HTTP, said once for both sides: paths, header names, lengths and
//! problem types.

pub use ifonly_algebra::keys::{CHECK_LENGTH, TICKET_LENGTH};

/// Where the manifest is.
pub const MANIFEST_PATH: &str = "/v1/manifest";
/// The header of the manifest's response that says which server speaks; the manifest is the same at
/// all of them.
pub const SERVER_HEADER: &str = "ifonly-server-index";
/// The header of that response that names the digests of manifests before it, where they are still
/// answered: hexadecimal, the newest first, with commas between.
pub const EARLIER_HEADER: &str = "ifonly-previous-manifests";
/// The media type of messages and responses.
pub const MESSAGE_TYPE: &str = "application/octet-stream";
/// The media type of problem documents (RFC 9457).
pub const PROBLEM_TYPE: &str = "application/problem+json";
/// Bytes of the checksum after every response: the first ones of its BLAKE3 hash.
pub const CHECKSUM_LENGTH: usize = 16;

/// Where a message is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Route {
    /// For a phase's answer.
    Answer,
    /// For a record.
    Record,
}

impl Route {
    /// Its path.
    pub const fn path(self) -> &'static str {
        match self {
            Route::Answer => "/v1/answer",
            Route::Record => "/v1/record",
        }
    }
}

const URN: &str = "urn:ifonly:problem:";

macro_rules! problem_types {
    ($($(#[$doc:meta])* $id:ident = $name:literal,)*) => {
        /// What kind of problem a server's problem document is about.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ProblemType {
            $($(#[$doc])* $id,)*
        }

        impl ProblemType {
            /// All of them.
            pub(crate) const ALL: &[ProblemType] = &[$(ProblemType::$id,)*];

            /// Its name, the last part of the document's `type`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(ProblemType::$id => $name,)*
                }
            }
        }
    };
}

problem_types! {
    /// No token, or one that is not known.
    Unauthorized = "unauthorized",
    /// The token has no sessions left.
    BudgetExhausted = "budget-exhausted",
    /// Spent sessions cannot be recorded at the moment.
    LedgerUnavailable = "ledger-unavailable",
    /// More requests than the server takes at once.
    Overloaded = "overloaded",
    /// The body is longer than any message can be.
    TooLarge = "too-large",
    /// The body did not arrive in time.
    UploadTimeout = "upload-timeout",
    /// The body broke off.
    IncompleteBody = "incomplete-body",
    /// The query was made for another manifest.
    UnknownManifest = "unknown-manifest",
    /// The query was made for a key epoch that is not served.
    UnknownKeyEpoch = "unknown-key-epoch",
    /// The scheme is not offered.
    SchemeNotOffered = "scheme-not-offered",
    /// The message is of a protocol version that the server does not speak.
    UnsupportedVersion = "unsupported-version",
    /// The message goes on with a search that the servers have not begun.
    WrongTicket = "wrong-ticket",
    /// The message is for another server.
    WrongServer = "wrong-server",
    /// The message is none.
    Malformed = "malformed",
    /// A record query at the path of answers, or the other way round.
    WrongPath = "wrong-path",
    /// The servers of a sealed search did not bring it to its end.
    PeerFailure = "peer-failure",
    /// Some of the server's rows are on machines that are not there.
    ShardsUnavailable = "shards-unavailable",
    /// A fault of the server itself.
    Internal = "internal",
    /// No such path.
    NotFound = "not-found",
    /// A path with another method.
    MethodNotAllowed = "method-not-allowed",
}

impl ProblemType {
    /// The document's `type`.
    pub fn urn(self) -> String {
        format!("{URN}{}", self.name())
    }

    /// From the document's `type`.
    pub fn of(urn: &str) -> Option<ProblemType> {
        let name = urn.strip_prefix(URN)?;
        ProblemType::ALL.iter().copied().find(|problem| problem.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problem_types_are_found_by_their_urn() {
        for &problem in ProblemType::ALL {
            assert_eq!(ProblemType::of(&problem.urn()), Some(problem));
            assert_eq!(ProblemType::of(problem.name()), None);
        }
        assert_eq!(ProblemType::of("urn:ifonly:problem:unheard-of"), None);
    }
}
