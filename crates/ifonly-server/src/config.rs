//! The configuration file of a server, in TOML. Unknown keys are errors, and every limit has a
//! default. `docs/server.toml` shows every key, and a test compares it with this module.
//!
//! [`Config::load`] reads the file; [`Config::check`] checks values that depend on each other.
//! Neither opens the files that the configuration names.

use crate::auth::account_tokens::TokenEntry;
use crate::auth::ledger;
use crate::auth::ledger::LedgerConfig;
use crate::peers::{PeerLimits, PeersConfig};
use crate::shards::{self, ShardsConfig};
use http::HeaderValue;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

/// The configuration of a server. Relative paths are relative to the directory of the file.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The bundle to serve.
    pub bundle: Option<PathBuf>,
    /// Index of this server, counted from 1.
    pub index: Option<u8>,
    /// Root key files, one per key epoch.
    pub keys: Vec<PathBuf>,
    /// Address for clients; port 0 selects a free port.
    #[serde(deserialize_with = "deserialize_address")]
    pub listen: Option<SocketAddr>,
    /// Address of the admin port; without it, there is no admin port.
    #[serde(deserialize_with = "deserialize_address")]
    pub admin: Option<SocketAddr>,
    /// Whether the admin port may be on another address than loopback.
    pub public_admin: bool,
    /// Whether plain HTTP is allowed on other addresses than loopback, behind a TLS terminator.
    pub plain_http: bool,
    /// Certificate and private key for clients and peers.
    pub tls: Option<TlsConfig>,
    /// The two other servers of sealed searches.
    pub peers: Option<PeersConfig>,
    /// The shards that hold the rows, if this server process is a frontend.
    pub shards: Option<ShardsConfig>,
    /// Limits on load.
    pub limits: Limits,
    /// Origins of web pages that may search; the default allows none.
    pub cors: Cors,
    /// The ledger that counts the searches of tokens.
    #[serde(deserialize_with = "ledger::deserialize_some")]
    pub ledger: Option<LedgerConfig>,
    /// Tokens that may search; without tokens, every client may.
    pub tokens: Vec<TokenEntry>,
}

/// Why a text is not an address to listen on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// The text is not of the form host:port.
    #[error("use host:port, such as localhost:8443 or 0.0.0.0:8443")]
    Form,
    /// The name of the host cannot be resolved.
    #[error("{host:?} cannot be looked up: {reason}")]
    Lookup {
        /// The host.
        host: String,
        /// The error of the resolver.
        reason: String,
    },
    /// The host has no address.
    #[error("{0:?} has no address")]
    NoAddress(String),
}

/// Parses an address to listen on, `host:port`. A host name is resolved immediately; if it has both
/// IPv4 and IPv6 addresses, the result is an IPv4 address.
pub fn address(text: &str) -> Result<SocketAddr, AddressError> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let host = text.rsplit_once(':').filter(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    let Some((host, _)) = host else {
        return Err(AddressError::Form);
    };
    let unknown = |error: std::io::Error| AddressError::Lookup { host: host.into(), reason: error.to_string() };
    let found = text.to_socket_addrs().map_err(unknown)?;
    let found: Vec<SocketAddr> = found.collect();
    let first = found.iter().find(|address| address.is_ipv4()).or(found.first());
    first.copied().ok_or_else(|| AddressError::NoAddress(host.into()))
}

/// Removes the quoted line from an error if the line contains a URL, because the URL may contain a
/// password. The error then has only the line number.
fn without_secrets(error: toml::de::Error, text: &str) -> toml::de::Error {
    if !error.to_string().contains("://") {
        return error;
    }
    let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let reason = if error.message().contains("://") { "invalid value" } else { error.message() };
    serde::de::Error::custom(format!("line {line} (not shown, it may contain a password): {reason}"))
}

fn deserialize_address<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<SocketAddr>, D::Error> {
    let text = <String as serde::Deserialize>::deserialize(from)?;
    address(&text).map(Some).map_err(serde::de::Error::custom)
}

/// Certificate chain and private key, both PEM files.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsConfig {
    /// The certificate chain; the certificate of the server is first.
    pub certificate: PathBuf,
    /// The private key of that certificate.
    pub key: PathBuf,
}

/// Limits on load. `docs/server.toml` explains each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Maximum concurrent requests.
    pub max_concurrent: usize,
    /// Maximum queued requests; further requests get 503 with Retry-After.
    pub queue: usize,
    /// Maximum open connections. At the limit, the server closes the oldest idle connection of the
    /// address with the most connections.
    pub connections: usize,
    /// Maximum share of `max_concurrent` and `queue` for one client address, in percent.
    pub address_percent: usize,
    /// Memory for messages and responses in transfer. At the limit, the server evicts the oldest
    /// transfer of the address with the most bytes.
    pub buffer_megabytes: u64,
    /// How long a new connection may take until its first request, TLS handshake included.
    pub request_seconds: u64,
    /// How long a connection may be idle between requests.
    pub idle_seconds: u64,
    /// How long an upload or a response may make no progress.
    pub stall_seconds: u64,
    /// How long a request may queue.
    pub queue_seconds: u64,
    /// How long the upload of a message may take.
    pub upload_seconds: u64,
    /// How long a response may take, computing and sending.
    pub answer_seconds: u64,
    /// Value of the header Retry-After.
    pub retry_after_seconds: u64,
    /// How long running requests may take to finish after a stop signal.
    pub shutdown_seconds: u64,
    /// How long the server still answers for the previous bundle after a reload.
    pub grace_seconds: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Limits {
            max_concurrent: cores,
            queue: 64,
            connections: 1024,
            address_percent: 50,
            buffer_megabytes: 1024,
            request_seconds: 10,
            idle_seconds: 60,
            stall_seconds: 10,
            queue_seconds: 30,
            upload_seconds: 30,
            answer_seconds: 120,
            retry_after_seconds: 2,
            shutdown_seconds: 30,
            grace_seconds: 600,
        }
    }
}

/// Cross-origin access for web pages.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cors {
    /// Origins such as `https://example.org`, or `*` for all.
    pub origins: Vec<String>,
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("configuration {path}: {error}")]
    Io {
        /// Which file.
        path: PathBuf,
        /// The error of the operating system.
        error: std::io::Error,
    },
    /// Not TOML, an unknown key, or a value of the wrong kind.
    #[error("configuration {path}: {error}")]
    Toml {
        /// Which file.
        path: PathBuf,
        /// The line and the reason.
        error: Box<toml::de::Error>,
    },
    /// A required key is missing.
    #[error("the configuration key {0} is missing")]
    Missing(&'static str),
    /// Peers authenticate each other with certificates.
    #[error("peers need a certificate; set tls.certificate and tls.key")]
    PeersWithoutTls,
    /// The shards have no addresses, or the shard certificate is missing.
    #[error(
        "shards need addresses and a certificate; set shards.addresses or shards.file, and shards.certificate and \
         shards.key"
    )]
    Shards,
    /// The address of a shard is invalid.
    #[error("shards.addresses: not a valid shard address: {0:?}; use host:port, such as 10.0.0.4:7001")]
    ShardAddress(String),
    /// A limit is zero or too large.
    #[error("{0} must be at least 1, and a number of seconds at most 31536000 (one year)")]
    Limit(&'static str),
    /// An entry of the origins is not an origin.
    #[error("cors.origins: not a valid origin: {0:?}; use scheme://host, such as https://example.org, or *")]
    Origin(String),
    /// Plain HTTP would expose queries to the network.
    #[error(
        "without a certificate, {0} would serve plain HTTP to other machines; set tls.certificate and tls.key, listen \
         on 127.0.0.1, or set plain_http (behind a TLS terminator)"
    )]
    PlainHttp(SocketAddr),
    /// The admin port has no encryption and no authentication.
    #[error(
        "the admin port on {0} would show metrics to other machines, unencrypted and without a token; use 127.0.0.1, \
         or set public_admin on a private network"
    )]
    PublicAdmin(SocketAddr),
}

impl ConfigError {
    /// The configuration keys that the error is about, so that a command-line program can name the
    /// flags that set them.
    pub fn keys(&self) -> &[&'static str] {
        match self {
            ConfigError::Missing(key) | ConfigError::Limit(key) => std::slice::from_ref(key),
            ConfigError::PeersWithoutTls => &["tls.certificate", "tls.key"],
            ConfigError::Shards => &["shards.addresses", "shards.file", "shards.certificate", "shards.key"],
            ConfigError::ShardAddress(_) => &["shards.addresses"],
            ConfigError::PlainHttp(_) => &["tls.certificate", "tls.key", "listen", "plain_http"],
            ConfigError::PublicAdmin(_) => &["admin", "public_admin"],
            _ => &[],
        }
    }
}

impl Config {
    /// Reads a configuration file.
    pub fn load(path: &Path) -> Result<Config, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|error| ConfigError::Io { path: path.into(), error })?;
        let mut config = Config::parse(&text)
            .map_err(|error| ConfigError::Toml { path: path.into(), error: Box::new(without_secrets(error, &text)) })?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let tls = config.tls.iter_mut().flat_map(|tls| [&mut tls.certificate, &mut tls.key]);
        let peers =
            config.peers.iter_mut().flat_map(|peers| [&mut peers.next.certificate, &mut peers.previous.certificate]);
        let shards = config
            .shards
            .iter_mut()
            .flat_map(|shards| [&mut shards.certificate, &mut shards.key].into_iter().chain(&mut shards.file))
            // An empty path means that the key is missing; `check` reports it.
            .filter(|path| !path.as_os_str().is_empty());
        let ledger = config.ledger.iter_mut().flat_map(LedgerConfig::paths);
        let paths = config.bundle.iter_mut().chain(&mut config.keys).chain(ledger).chain(tls).chain(peers);
        for path in paths.chain(shards) {
            *path = folder.join(&path);
        }
        Ok(config)
    }

    /// Parses TOML. Relative paths stay as they are.
    pub fn parse(text: &str) -> Result<Config, toml::de::Error> {
        toml::from_str(text)
    }

    /// Checks limits, origins, addresses and the keys that depend on each other.
    pub fn check(&self) -> Result<(), ConfigError> {
        let limits = &self.limits;
        let at_least_one = [
            ("limits.max_concurrent", limits.max_concurrent as u64),
            ("limits.connections", limits.connections as u64),
            ("limits.address_percent", limits.address_percent as u64),
            ("limits.buffer_megabytes", limits.buffer_megabytes),
            ("limits.request_seconds", limits.request_seconds),
            ("limits.idle_seconds", limits.idle_seconds),
            ("limits.stall_seconds", limits.stall_seconds),
            ("limits.queue_seconds", limits.queue_seconds),
            ("limits.upload_seconds", limits.upload_seconds),
            ("limits.answer_seconds", limits.answer_seconds),
            ("shards.stall_seconds", self.shards.as_ref().map_or(1, |shards| shards.stall_seconds)),
        ];
        let PeerLimits { sessions, waiting, join_seconds, queue_seconds, session_seconds } =
            self.peers.as_ref().map_or_else(PeerLimits::default, |peers| peers.limits);
        let peers = [
            ("peers.limits.sessions", sessions as u64),
            ("peers.limits.waiting", waiting as u64),
            ("peers.limits.join_seconds", join_seconds),
            ("peers.limits.queue_seconds", queue_seconds),
            ("peers.limits.session_seconds", session_seconds),
        ];
        // These may be 0: no grace period after a reload, and no wait at a stop.
        let may_be_zero = [
            ("limits.grace_seconds", limits.grace_seconds.max(1)),
            ("limits.shutdown_seconds", limits.shutdown_seconds.max(1)),
        ];
        let maximum = |key: &str| match key {
            key if key.ends_with("seconds") => 31_536_000,
            key if key.starts_with("peers") => u32::MAX.into(),
            _ => u64::MAX,
        };
        let mut all = at_least_one.into_iter().chain(peers).chain(may_be_zero);
        if let Some((key, _)) = all.find(|(key, value)| *value == 0 || *value > maximum(key)) {
            return Err(ConfigError::Limit(key));
        }
        self.origins()?;
        if let Some(admin) = self.admin.filter(|admin| !admin.ip().is_loopback() && !self.public_admin) {
            return Err(ConfigError::PublicAdmin(admin));
        }
        if self.peers.is_some() && self.tls.is_none() {
            return Err(ConfigError::PeersWithoutTls);
        }
        let incomplete = |shards: &ShardsConfig| {
            let no_certificate = [&shards.certificate, &shards.key].iter().any(|path| path.as_os_str().is_empty());
            no_certificate || (shards.addresses.is_empty() && shards.file.is_none())
        };
        if self.shards.as_ref().is_some_and(incomplete) {
            return Err(ConfigError::Shards);
        }
        let mut addresses = self.shards.iter().flat_map(|shards| &shards.addresses);
        if let Some(wrong) = addresses.find(|address| shards::address(address).is_none()) {
            return Err(ConfigError::ShardAddress(wrong.clone()));
        }
        match self.listen {
            Some(listen) if self.tls.is_none() && !self.plain_http && !listen.ip().is_loopback() => {
                Err(ConfigError::PlainHttp(listen))
            }
            _ => Ok(()),
        }
    }

    /// The allowed origins as header values.
    pub fn origins(&self) -> Result<Vec<HeaderValue>, ConfigError> {
        let parse = |origin: &String| {
            HeaderValue::from_str(origin)
                .ok()
                .filter(|_| origin == "*" || origin.contains("://"))
                .ok_or_else(|| ConfigError::Origin(origin.clone()))
        };
        self.cors.origins.iter().map(parse).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_in_the_documentation_is_valid_and_has_every_key() {
        let sample = include_str!("../../../docs/server.toml");
        let config = Config::parse(sample).unwrap();
        config.check().unwrap();
        // The sample has every key; keys without a default are commented out.
        let keys = "bundle index keys listen admin public_admin plain_http certificate key max_concurrent queue \
                    connections address_percent buffer_megabytes request_seconds idle_seconds stall_seconds \
                    queue_seconds upload_seconds answer_seconds retry_after_seconds shutdown_seconds grace_seconds \
                    origins ledger name hash searches addresses file sessions waiting join_seconds session_seconds";
        for key in keys.split_whitespace() {
            let shown = sample.lines().any(|line| line.trim_start_matches(['#', ' ']).starts_with(&format!("{key} =")));
            assert!(shown, "{key} is not in docs/server.toml");
        }
        // The limits in the sample are the defaults, except for the number of processors.
        assert_eq!(Limits { max_concurrent: 0, ..config.limits }, Limits { max_concurrent: 0, ..Limits::default() });
    }

    #[test]
    fn the_peers_in_the_sample_are_valid_and_their_limits_are_the_defaults() {
        // The peers in the sample are commented out.
        let sample = include_str!("../../../docs/server.toml");
        let shown = sample.lines().skip_while(|line| *line != "# [peers]").take_while(|line| line.starts_with('#'));
        let is_setting = |line: &&str| line.starts_with('[') || line.contains(" = ");
        let shown: Vec<&str> = shown.filter_map(|line| line.strip_prefix("# ")).filter(is_setting).collect();
        let peers = Config::parse(&shown.join("\n")).unwrap().peers.unwrap();
        assert_eq!((peers.randomness, peers.limits), Default::default());
        assert_eq!(peers.next.addresses, ["b.example.org:8444"]);
        let frontends = shown.join("\n").replace("\"b.example.org:8444\"", "[\"b1:8444\", \"b2:8444\"]");
        assert_eq!(Config::parse(&frontends).unwrap().peers.unwrap().next.addresses, ["b1:8444", "b2:8444"]);
        let wrong = Config::parse(&frontends.replace("\"b1:8444\"", "8444")).unwrap_err().to_string();
        assert!(wrong.contains("HOST:PORT, or a list of HOST:PORT"), "{wrong}");
        // The error names the key of a limit that is zero or too large.
        for (limit, wrong) in
            [("sessions = 4", "sessions = 0"), ("join_seconds = 5", "join_seconds = 9223372036854775807")]
        {
            let config = Config::parse(&shown.join("\n").replace(limit, wrong)).unwrap();
            let error = config.check().unwrap_err().to_string();
            assert!(error.starts_with("peers.limits."), "{error}");
        }
        let keyed = shown.join("\n").replace("\"system\"", "\"keys\"");
        assert_eq!(Config::parse(&keyed).unwrap().peers.unwrap().randomness, crate::peers::RandomnessMode::Keys);
        let wrong = Config::parse(&keyed.replace("\"keys\"", "\"dice\"")).unwrap_err();
        assert!(wrong.to_string().contains("\"system\" or \"keys\""), "{wrong}");
    }

    #[test]
    fn addresses_may_have_host_names() {
        let name = address("localhost:7001").unwrap();
        assert!(name.ip().is_loopback() && name.port() == 7001, "{name}");
        assert_eq!(address("[::1]:80"), Ok("[::1]:80".parse().unwrap()));
        assert_eq!(Config::parse("listen = \"localhost:0\"").unwrap().listen.map(|address| address.port()), Some(0));
        for text in ["7001", ":7001", "localhost", "localhost:x", "localhost:70000", ""] {
            assert!(address(text).is_err_and(|error| error == AddressError::Form), "{text}");
        }
        // A label of more than 63 letters is invalid, so the resolver sends no query.
        assert!(
            address(&format!("{}.example:1", "x".repeat(64)))
                .is_err_and(|error| error.to_string().contains("looked up"))
        );
        assert!(Config::parse("admin = \"localhost\"").unwrap_err().to_string().contains("host:port"));
    }

    #[test]
    fn incomplete_shards_are_refused_and_paths_are_relative_to_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("server.toml");
        let load = |text: &str| {
            std::fs::write(&path, text).unwrap();
            Config::load(&path).unwrap()
        };
        for given in ["", "certificate = \"inside.pem\"", "key = \"inside.key\""] {
            let config = load(&format!("[shards]\naddresses = [\"a.example:1\"]\n{given}"));
            assert!(matches!(config.check(), Err(ConfigError::Shards)), "{given}");
        }
        let config = load("[shards]\nfile = \"shards\"\ncertificate = \"inside.pem\"\nkey = \"inside.key\"");
        config.check().unwrap();
        let shards = config.shards.unwrap();
        assert_eq!(shards.file, Some(folder.path().join("shards")));
        assert_eq!([shards.certificate, shards.key], ["inside.pem", "inside.key"].map(|name| folder.path().join(name)));
    }

    #[test]
    fn an_invalid_shard_address_is_refused_and_named() {
        let check = |address: &str| {
            let certificate_and_key = "certificate = \"inside.pem\"\nkey = \"inside.key\"";
            Config::parse(&format!("[shards]\naddresses = [\"a.example:1\", {address:?}]\n{certificate_and_key}"))
                .unwrap()
                .check()
        };
        check("https://b.example:7001").unwrap();
        for wrong in ["b.example", "http://b.example:7001", ""] {
            let error = check(wrong).unwrap_err();
            assert_eq!(error.keys(), ["shards.addresses"]);
            let text = error.to_string();
            assert!(text.contains("shards.addresses") && text.contains(&format!("{wrong:?}")), "{text}");
        }
    }

    #[test]
    fn unknown_keys_plain_http_public_admin_ports_and_zero_limits_are_refused() {
        assert!(Config::parse("bundel = \"x\"").is_err());
        assert!(Config::parse("[limits]\nmax_concurent = 3").is_err());
        let open = Config::parse("listen = \"0.0.0.0:80\"").unwrap();
        assert!(matches!(open.check(), Err(ConfigError::PlainHttp(_))));
        Config::parse("listen = \"0.0.0.0:80\"\nplain_http = true").unwrap().check().unwrap();
        Config::parse("listen = \"[::1]:0\"").unwrap().check().unwrap();
        let admin = Config::parse("admin = \"0.0.0.0:9100\"").unwrap();
        assert!(matches!(admin.check(), Err(ConfigError::PublicAdmin(_))));
        Config::parse("admin = \"0.0.0.0:9100\"\npublic_admin = true").unwrap().check().unwrap();
        Config::parse("admin = \"127.0.0.1:9100\"").unwrap().check().unwrap();
        let none = Config::parse("[limits]\nmax_concurrent = 0").unwrap();
        assert!(matches!(none.check(), Err(ConfigError::Limit("limits.max_concurrent"))));
        let never = Config::parse("[limits]\nidle_seconds = 9000000000000000000").unwrap();
        assert!(matches!(never.check(), Err(ConfigError::Limit("limits.idle_seconds"))));
        assert!(Config::parse("[cors]\norigins = [\"example.org\"]").unwrap().check().is_err());
    }
}
