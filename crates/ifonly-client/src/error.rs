//! What can go wrong between a question and its explanation, and whose fault it is.

use crate::transport::TransportError;
use ifonly_algebra::decode::DecodeError;
use ifonly_core::search::SearchError;
use ifonly_core::secret_query::SecretQueryError;
use ifonly_values::error_category::ErrorCategory;
use ifonly_values::manifest::ManifestError;
use ifonly_values::schema::SchemaError;
use ifonly_values::wishes::WishError;

/// A server that gave nothing, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFailure {
    /// What people call it.
    pub server: String,
    /// What it was.
    pub error: TransportError,
}

impl std::fmt::Display for ServerFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.server, self.error)
    }
}

/// Why there is no explanation.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// An address that is none.
    #[error("{url:?} is not a server's address: {reason}")]
    Url {
        /// As given.
        url: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Certificates that cannot be used.
    #[error("certificates: {0}")]
    Certificates(String),
    /// No server, or none that speaks.
    #[error("no server can be reached: {}", list(.0))]
    NobodyThere(Vec<ServerFailure>),
    /// Two servers with one number would see two shares of one person.
    #[error("{first} and {second} both say that they are server {index}; each operator must have a number of its own")]
    SameIndex {
        /// The number.
        index: u8,
        /// One address.
        first: String,
        /// The other.
        second: String,
    },
    /// A server at another address than the manifest lists for its number.
    #[error(
        "{address} says it is server {index}, but the manifest lists that one at {listed}; ask there, or have the bundle built with its address"
    )]
    OtherAddress {
        /// The number.
        index: u8,
        /// Where it was met.
        address: String,
        /// What the manifest says.
        listed: String,
    },
    /// The servers do not offer the same.
    #[error(
        "the servers offer different manifests, so nothing was asked: {}; their operators must serve the same bundle (if one has just been reloaded, ask again in a moment)",
        said(.0)
    )]
    ManifestsDiffer(
        /// Each server's address and the digest of what it offers.
        Vec<(String, String)>,
    ),
    /// A promise that the manifest does not keep.
    #[error("the servers offer another {what} than was promised: {offered} instead of {promised}; nothing was asked")]
    Pinned {
        /// Which.
        what: &'static str,
        /// What the person pinned.
        promised: String,
        /// What the manifest says.
        offered: String,
    },
    /// The manifest is refused.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// More records than the manifest allows, or none.
    #[error("between 1 and {limit} records can be fetched, not {asked}")]
    Top {
        /// As asked.
        asked: usize,
        /// The manifest's limit.
        limit: usize,
    },
    /// A manifest may claim more rows than this machine should make room for.
    #[error("one search of this database would take {bytes} bytes of traffic; a client takes part up to {limit}")]
    TooLarge {
        /// Up and down, all servers.
        bytes: u128,
        /// The most.
        limit: u128,
    },
    /// Fewer servers than the scheme needs.
    #[error("scheme {scheme} needs servers 1 to {need}; missing: {}{}", numbers(.missing), because(.server_failures))]
    TooFewServers {
        /// The scheme.
        scheme: &'static str,
        /// N.
        need: usize,
        /// Who is missing, counted from 1.
        missing: Vec<usize>,
        /// What happened to those that were named.
        server_failures: Vec<ServerFailure>,
    },
    /// A scheme that the manifest does not offer.
    #[error(transparent)]
    Scheme(ManifestError),
    /// Columns without a value.
    #[error("the profile has no value for {}", .0.join(", "))]
    Missing(Vec<String>),
    /// The wishes cannot be; nothing was sent.
    #[error(transparent)]
    Wish(#[from] WishError),
    /// The profile does not fit the schema.
    #[error(transparent)]
    Profile(#[from] SchemaError),
    /// The scheme cannot carry what the person wants; nothing was sent.
    #[error("{0}")]
    Secret(#[from] SecretQueryError),
    /// The search failed.
    #[error("{fault}{}", because(.server_failures))]
    Search {
        /// What the protocol says.
        fault: SearchError,
        /// What happened on the way.
        server_failures: Vec<ServerFailure>,
    },
}

impl ClientError {
    /// Whose fault it is.
    pub fn category(&self) -> ErrorCategory {
        match self {
            ClientError::Url { .. }
            | ClientError::Certificates(_)
            | ClientError::Top { .. }
            | ClientError::TooLarge { .. }
            | ClientError::Scheme(_)
            | ClientError::Missing(_)
            | ClientError::Wish(_)
            | ClientError::Profile(_)
            | ClientError::Secret(_) => ErrorCategory::Input,
            ClientError::NobodyThere(_)
            | ClientError::TooFewServers { .. }
            | ClientError::Search {
                fault: SearchError::Decode(DecodeError::TooFewAnswers { .. }) | SearchError::Missing { .. },
                ..
            } => ErrorCategory::Servers,
            _ => ErrorCategory::Integrity,
        }
    }

    /// Servers that gave nothing, and why, where that is part of it.
    pub fn failures(&self) -> &[ServerFailure] {
        match self {
            ClientError::NobodyThere(server_failures)
            | ClientError::TooFewServers { server_failures, .. }
            | ClientError::Search { server_failures, .. } => server_failures,
            _ => &[],
        }
    }
}

fn list(server_failures: &[ServerFailure]) -> String {
    server_failures.iter().map(ServerFailure::to_string).collect::<Vec<_>>().join("; ")
}

fn because(server_failures: &[ServerFailure]) -> String {
    if server_failures.is_empty() { String::new() } else { format!(" ({})", list(server_failures)) }
}

fn numbers(servers: &[usize]) -> String {
    servers.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

fn said(manifests: &[(String, String)]) -> String {
    manifests.iter().map(|(server, digest)| format!("{server} offers {digest}")).collect::<Vec<_>>().join(", ")
}
