//! Errors of the client, their categories, and failures of single servers.

use crate::transport::TransportError;
use crate::transport::credential::NoCredentials;
use ifonly_algebra::decode::DecodeError;
use ifonly_algebra::fingerprint::KeyFingerprint;
use ifonly_core::search::SearchError;
use ifonly_core::secret_query::SecretQueryError;
use ifonly_values::coded;
use ifonly_values::error_category::ErrorCategory;
use ifonly_values::manifest::ManifestError;
use ifonly_values::schema::SchemaError;
use ifonly_values::wishes::WishError;
use serde::ser::SerializeMap;

/// A server that gave no valid response, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFailure {
    /// Name of the server, usually its address.
    pub server: String,
    /// The reason.
    pub error: TransportError,
}

impl serde::Serialize for ServerFailure {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("server", &self.server)?;
        map.serialize_entry("code", self.error.code())?;
        map.serialize_entry("message", &self.error.to_string())?;
        map.end()
    }
}

impl std::fmt::Display for ServerFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.server, self.error)
    }
}

/// Why a connection or a search failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// Not a valid address of a server.
    #[error("{url:?} is not a valid server address: {reason}")]
    Url {
        /// The address as given.
        url: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The certificates of the certificate authorities cannot be used.
    #[error("could not use the CA certificates: {0}")]
    Certificates(String),
    /// No server sent a manifest.
    #[error("could not reach any server: {}", failures_or(.0, "no address was given"))]
    NoServerReachable(Vec<ServerFailure>),
    /// Two servers claim the same index. If both received queries, one operator could get two
    /// shares of one profile.
    #[error(
        "{first} and {second} both claim to be server {index}, but every server needs its own index. No query was sent. Check that the addresses belong to different operators"
    )]
    SameIndex {
        /// The index.
        index: u8,
        /// Name of the first server.
        first: String,
        /// Name of the second server.
        second: String,
    },
    /// Two servers have the same host.
    #[error(
        "{first} and {second} have the same host, {host}: one operator would receive two shares of your query. Nothing was sent. Use servers of different operators; for a trial, set `allow_same_host`"
    )]
    SameHost {
        /// The host.
        host: String,
        /// The address of the first server.
        first: String,
        /// The address of the second server.
        second: String,
    },
    /// Two servers have certificates for the same key.
    #[error(
        "{first} and {second} have the same certificate key: its owner would receive two shares of your query. No query was sent. Use servers of different operators; for a trial, set `allow_same_host`"
    )]
    SameCertificateKey {
        /// Name of the first server.
        first: String,
        /// Name of the second server.
        second: String,
    },
    /// The servers publish fingerprints of different root keys.
    #[error(
        "the servers have different root keys for key epoch {epoch}, so no query was sent: {}. Their operators must compare these fingerprints with that of the right key and replace the wrong one",
        fingerprints(.published)
    )]
    KeysDiffer {
        /// The key epoch.
        epoch: u32,
        /// Each server with its fingerprint.
        published: Vec<(String, Option<KeyFingerprint>)>,
    },
    /// A server has another address than the manifest lists for its index.
    #[error(
        "{address} claims to be server {index}, but the manifest lists the address {listed} for server {index}. No query was sent. Use the listed address, or ask the institution to correct the manifest"
    )]
    OtherAddress {
        /// The index.
        index: u8,
        /// The address of the server.
        address: String,
        /// The address in the manifest.
        listed: String,
    },
    /// There is no manifest that all servers serve.
    #[error(
        "the servers serve different manifests: {}. No query was sent. If a server was just reloaded, retry later; otherwise ask the operators to load the same bundle",
        manifests(.0)
    )]
    ManifestsDiffer(
        /// The name of each server and the digest of its manifest.
        Vec<(String, String)>,
    ),
    /// The manifest does not match a pin.
    #[error(
        "the manifest does not match the pinned {what}: expected {pinned}, got {offered}. No query was sent. Ask the institution which value is right"
    )]
    Pinned {
        /// The pin that does not match.
        what: &'static str,
        /// The value that the user pinned.
        pinned: String,
        /// The value in the manifest.
        offered: String,
    },
    /// The manifest is invalid.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The number of records is 0 or above the limit of the manifest.
    #[error("{requested} records were requested, but between 1 and {limit} records can be fetched in one search")]
    Top {
        /// The requested number.
        requested: usize,
        /// The limit.
        limit: usize,
    },
    /// The number of ways is 0 or above the limit of the client.
    #[error("{requested} ways were requested, but between 1 and {limit} ways can be searched for")]
    Ways {
        /// The requested number.
        requested: usize,
        /// The limit.
        limit: usize,
    },
    /// Several nearest rows and several ways.
    #[error("several nearest rows and several ways were requested; request one of the two")]
    TopAndWays,
    /// A search would exceed the client's limit on traffic. The manifest decides how many rows
    /// there are, so the client protects its own memory.
    #[error(
        "one search of this database would need {bytes} bytes of traffic, but this client's limit is {limit} bytes. Request fewer records, or use another scheme"
    )]
    TooLarge {
        /// Bytes to and from all servers.
        bytes: u128,
        /// The limit.
        limit: u128,
    },
    /// Fewer servers are connected than the scheme needs.
    #[error(
        "not enough servers for scheme {scheme}, which uses servers 1 to {need}: there is no connection to {}{}",
        servers(.missing),
        failures_or_advice(.missing, .server_failures)
    )]
    TooFewServers {
        /// The scheme.
        scheme: &'static str,
        /// The number of servers that the scheme uses.
        need: usize,
        /// Indices of the missing servers, from 1.
        missing: Vec<usize>,
        /// Why servers failed whose addresses were given.
        server_failures: Vec<ServerFailure>,
    },
    /// Manifest and root key of some servers were not compared with those of the others.
    #[error(
        "manifest and root key were not compared: there is no connection to {}{}",
        servers(.missing),
        failures_or_advice(.missing, .server_failures)
    )]
    NotCompared {
        /// Indices of the missing servers, from 1.
        missing: Vec<usize>,
        /// Why servers failed whose addresses were given.
        server_failures: Vec<ServerFailure>,
    },
    /// The manifest does not offer the scheme.
    #[error(transparent)]
    Scheme(ManifestError),
    /// Columns without a value and without a default.
    #[error("the profile has no value for {}", .0.join(", "))]
    Missing(Vec<String>),
    /// A wish is invalid. No query was sent.
    #[error(transparent)]
    Wish(#[from] WishError),
    /// The profile does not fit the schema.
    #[error(transparent)]
    Profile(#[from] SchemaError),
    /// The scheme does not support this query. No query was sent.
    #[error("{0}")]
    Secret(#[from] SecretQueryError),
    /// The client has no credentials for another search. No query was sent.
    #[error("{0}. No query was sent. Ask the institution for more")]
    NoCredentials(#[from] NoCredentials),
    /// The search failed.
    #[error("{error}{}", in_parentheses(.server_failures))]
    Search {
        /// The error of the protocol.
        error: SearchError,
        /// The servers that failed during the search.
        server_failures: Vec<ServerFailure>,
    },
}

coded! { ClientError {
    @wraps ClientError::Wish(error) => error;
    @wraps ClientError::Profile(error) => error;
    @wraps ClientError::Secret(error) => error;
    ClientError::Url { url, .. } => "url" { url },
    ClientError::Certificates(_) => "certificates" {},
    ClientError::NoServerReachable(_) => "no-server-reachable" {},
    ClientError::SameIndex { index, first, second } => "same-index" { index, first, second },
    ClientError::SameHost { host, first, second } => "same-host" { host, first, second },
    ClientError::SameCertificateKey { first, second } => "same-certificate-key" { first, second },
    ClientError::OtherAddress { index, address, listed } => "other-address" { index, address, listed },
    ClientError::ManifestsDiffer(_) => "manifests-differ" {},
    ClientError::KeysDiffer { epoch, .. } => "keys-differ" { epoch = u64::from(*epoch) },
    ClientError::Pinned { what, pinned, offered } => "pinned" { what, pinned, offered },
    ClientError::Manifest(_) => "manifest" {},
    ClientError::Top { requested, limit } => "top" { requested, limit },
    ClientError::Ways { requested, limit } => "ways" { requested, limit },
    ClientError::TopAndWays => "top-and-ways" {},
    ClientError::TooLarge { bytes, limit } =>
        "too-large" { bytes = bytes.to_string(), limit = limit.to_string() },
    ClientError::TooFewServers { scheme, need, missing, .. } => "too-few-servers" { scheme, need, missing },
    ClientError::NotCompared { missing, .. } => "not-compared" { missing },
    ClientError::Scheme(_) => "scheme" {},
    ClientError::Missing(features) => "missing" { features },
    ClientError::NoCredentials(_) => "no-credentials" {},
    ClientError::Search {
        error: SearchError::Decode(DecodeError::TooFewAnswers { .. }) | SearchError::Missing { .. }, ..
    } => "too-few-answers" {},
    ClientError::Search { .. } => "search" {},
} }

impl ClientError {
    /// The category: input, servers or integrity.
    pub fn category(&self) -> ErrorCategory {
        match self {
            ClientError::Url { .. }
            | ClientError::Certificates(_)
            | ClientError::SameHost { .. }
            | ClientError::SameCertificateKey { .. }
            | ClientError::Top { .. }
            | ClientError::Ways { .. }
            | ClientError::TopAndWays
            | ClientError::TooLarge { .. }
            | ClientError::Scheme(_)
            | ClientError::NoCredentials(_)
            | ClientError::Missing(_)
            | ClientError::Wish(_)
            | ClientError::Profile(_)
            | ClientError::Secret(_) => ErrorCategory::Input,
            ClientError::NoServerReachable(_)
            | ClientError::TooFewServers { .. }
            | ClientError::NotCompared { .. }
            | ClientError::Search {
                error: SearchError::Decode(DecodeError::TooFewAnswers { .. }) | SearchError::Missing { .. },
                ..
            } => ErrorCategory::Servers,
            _ => ErrorCategory::Integrity,
        }
    }

    /// The failures of single servers that are part of this error.
    pub fn failures(&self) -> &[ServerFailure] {
        match self {
            ClientError::NoServerReachable(server_failures)
            | ClientError::TooFewServers { server_failures, .. }
            | ClientError::NotCompared { server_failures, .. }
            | ClientError::Search { server_failures, .. } => server_failures,
            _ => &[],
        }
    }
}

fn list(server_failures: &[ServerFailure]) -> String {
    server_failures.iter().map(ServerFailure::to_string).collect::<Vec<_>>().join("; ")
}

fn failures_or(server_failures: &[ServerFailure], otherwise: &str) -> String {
    if server_failures.is_empty() { otherwise.into() } else { list(server_failures) }
}

fn in_parentheses(server_failures: &[ServerFailure]) -> String {
    if server_failures.is_empty() { String::new() } else { format!(" ({})", list(server_failures)) }
}

/// A server that did not fail and is not connected was not given.
fn failures_or_advice(missing: &[usize], server_failures: &[ServerFailure]) -> String {
    match (server_failures, missing) {
        ([], [_]) => ". Add its address".into(),
        ([], _) => ". Add their addresses".into(),
        _ => in_parentheses(server_failures),
    }
}

/// "server 2", "servers 2 and 3", "servers 2, 3 and 4".
fn servers(indices: &[usize]) -> String {
    match indices {
        [] => "any server".into(),
        [one] => format!("server {one}"),
        [first @ .., last] => {
            let first: Vec<String> = first.iter().map(usize::to_string).collect();
            format!("servers {} and {last}", first.join(", "))
        }
    }
}

fn fingerprints(published: &[(String, Option<KeyFingerprint>)]) -> String {
    let each = |(server, fingerprint): &(String, Option<KeyFingerprint>)| match fingerprint {
        Some(fingerprint) => format!("{server} has {fingerprint}"),
        None => format!("{server} publishes none"),
    };
    published.iter().map(each).collect::<Vec<_>>().join(", ")
}

fn manifests(digests: &[(String, String)]) -> String {
    digests.iter().map(|(server, digest)| format!("{server} serves {digest}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_servers_are_named_with_the_reason_or_the_next_step() {
        let error = |missing: &[usize], server_failures| {
            ClientError::TooFewServers { scheme: "gated", need: 3, missing: missing.into(), server_failures }
                .to_string()
        };
        let start = "not enough servers for scheme gated, which uses servers 1 to 3: there is no connection to";
        assert_eq!(error(&[2], vec![]), format!("{start} server 2. Add its address"));
        assert_eq!(error(&[2, 3], vec![]), format!("{start} servers 2 and 3. Add their addresses"));
        let failure = ServerFailure { server: "https://b.example".into(), error: TransportError::ConnectionRefused };
        assert_eq!(
            error(&[2], vec![failure]),
            format!("{start} server 2 (https://b.example cannot be reached: connection refused)")
        );
        assert_eq!(
            ClientError::NoServerReachable(vec![]).to_string(),
            "could not reach any server: no address was given"
        );
    }
}
