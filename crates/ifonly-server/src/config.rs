//! The configuration file: TOML, every key known, every limit with a default. `docs/server.toml`
//! shows them all.

use crate::auth::ledger;
use crate::auth::ledger::LedgerConfig;
use crate::auth::tokens::TokenEntry;
use crate::peers::{PeerLimits, PeersConfig};
use crate::shards::{self, ShardsConfig};
use http::HeaderValue;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

/// A server's configuration. Relative paths are relative to the file they stand in.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The bundle to serve.
    pub bundle: Option<PathBuf>,
    /// Which server this is, counted from 1.
    pub index: Option<u8>,
    /// Root keys, one per epoch.
    pub keys: Vec<PathBuf>,
    /// Where clients connect; port 0 takes a free one.
    #[serde(deserialize_with = "some_address")]
    pub listen: Option<SocketAddr>,
    /// Where operators connect; none without.
    #[serde(deserialize_with = "some_address")]
    pub admin: Option<SocketAddr>,
    /// Whether the admin port may be on another address than loopback.
    pub public_admin: bool,
    /// Whether plain HTTP is allowed beyond loopback, behind somebody else's TLS.
    pub plain_http: bool,
    /// The certificate.
    pub tls: Option<TlsConfig>,
    /// The two other servers of sealed searches.
    pub peers: Option<PeersConfig>,
    /// Who has the rows, if this is a front.
    pub shards: Option<ShardsConfig>,
    /// How much is too much.
    pub limits: Limits,
    /// Which pages may ask from a browser; none without.
    pub cors: Cors,
    /// Where spent sessions are counted.
    #[serde(deserialize_with = "ledger::some")]
    pub ledger: Option<LedgerConfig>,
    /// Who may ask; everybody without.
    pub tokens: Vec<TokenEntry>,
}

/// An address to listen on, `host:port`. A name is looked up now; where it has addresses of both
/// kinds, the IPv4 one is taken.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let host = text.rsplit_once(':').filter(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    let Some((host, _)) = host else {
        return Err("write it as host:port, such as localhost:8443 or 0.0.0.0:8443".into());
    };
    let found = text.to_socket_addrs().map_err(|error| format!("{host:?} cannot be looked up: {error}"))?;
    let found: Vec<SocketAddr> = found.collect();
    let first = found.iter().find(|address| address.is_ipv4()).or(found.first());
    first.copied().ok_or_else(|| format!("{host:?} has no address"))
}

/// An error usually shows the line that is wrong. A URL there may have a password in it, so such a
/// line is only counted.
fn without_secrets(error: toml::de::Error, text: &str) -> toml::de::Error {
    if !error.to_string().contains("://") {
        return error;
    }
    let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let reason = if error.message().contains("://") { "it cannot be read" } else { error.message() };
    serde::de::Error::custom(format!("line {line}, which may hold a password and is not shown: {reason}"))
}

fn some_address<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<SocketAddr>, D::Error> {
    let text = <String as serde::Deserialize>::deserialize(from)?;
    address(&text).map(Some).map_err(serde::de::Error::custom)
}

/// Certificate and key, both PEM.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsConfig {
    /// The chain, the server's own certificate first.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// How much is too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Requests at work at once.
    pub max_concurrent: usize,
    /// Requests that wait for their turn; more are told to come again.
    pub queue: usize,
    /// Open connections; beyond that, one that waits for its client gives way.
    pub connections: usize,
    /// How much of `running` and `queue` one address may have, in percent.
    pub address_percent: usize,
    /// Memory for messages and answers on their way; beyond that, the one that has waited longest
    /// gives way.
    pub buffer_megabytes: u64,
    /// How long a new connection may take to its first request, handshake included.
    pub request_seconds: u64,
    /// How long a connection may be open between requests.
    pub idle_seconds: u64,
    /// How long a message or an answer may stand still on its way.
    pub stall_seconds: u64,
    /// How long a request waits for its turn.
    pub queue_seconds: u64,
    /// How long a message may take to arrive.
    pub upload_seconds: u64,
    /// How long an answer may take, computing and sending.
    pub answer_seconds: u64,
    /// What an overloaded server tells clients to wait.
    pub retry_after_seconds: u64,
    /// How long running answers have after a signal to stop.
    pub shutdown_seconds: u64,
    /// How long the bundle before a reload is answered.
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

/// Which pages may ask from a browser.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cors {
    /// Origins such as `https://example.org`, or `*`.
    pub origins: Vec<String>,
}

/// What is wrong with a configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("configuration {path}: {error}")]
    Io {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// Not TOML, an unknown key, or a value of the wrong kind.
    #[error("configuration {path}: {error}")]
    Toml {
        /// Which file.
        path: PathBuf,
        /// Where and what.
        error: Box<toml::de::Error>,
    },
    /// Something that must be given is missing.
    #[error("{what} is missing; give it in the configuration or as {flag}")]
    Missing {
        /// What.
        what: &'static str,
        /// On the command line.
        flag: &'static str,
    },
    /// Servers know each other by their certificates.
    #[error("peers need a certificate: give tls.certificate and tls.key (--cert, --cert-key)")]
    PeersWithoutTls,
    /// Where the shards are, is not said.
    #[error(
        "shards need addresses or a file of addresses, and a certificate with its key: give shards.addresses or shards.file (--shards, --shards-file), shards.certificate and shards.key (--shards-cert, --shards-key)"
    )]
    Shards,
    /// Something in the place of a shard's address.
    #[error(
        "shards.addresses (--shards): {0:?} is no address of a shard; write it as host:port, such as 10.0.0.4:7001"
    )]
    ShardAddress(String),
    /// A limit that lets nothing through, or a time that no clock reaches.
    #[error("{place}{0} must be at least 1, and seconds at most a year (31536000)", place = if .0.contains('.') { "" } else { "limits." })]
    Limit(&'static str),
    /// An origin that no browser sends.
    #[error("cors.origins: {0:?} is not an origin")]
    Origin(String),
    /// Queries in the clear are encrypted by nobody.
    #[error(
        "without a certificate, {0} would serve plain HTTP to other machines; give tls.certificate and tls.key, listen on 127.0.0.1, or allow it with plain_http (behind a TLS terminator)"
    )]
    PlainHttp(SocketAddr),
    /// What operators see is not for everybody.
    #[error(
        "the admin port on {0} would show metrics to other machines, unencrypted and without a token; put it on 127.0.0.1, or allow it with public_admin (--public-admin) on a network of your own"
    )]
    PublicAdmin(SocketAddr),
}

impl Config {
    /// Reads a file.
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
            // What is not given stays empty, and is asked for by name.
            .filter(|path| !path.as_os_str().is_empty());
        let ledger = config.ledger.iter_mut().flat_map(LedgerConfig::paths);
        let paths = config.bundle.iter_mut().chain(&mut config.keys).chain(ledger).chain(tls).chain(peers);
        for path in paths.chain(shards) {
            *path = folder.join(&path);
        }
        Ok(config)
    }

    /// Reads TOML.
    pub fn parse(text: &str) -> Result<Config, toml::de::Error> {
        toml::from_str(text)
    }

    /// Whether the limits, origins and addresses make sense together.
    pub fn check(&self) -> Result<(), ConfigError> {
        let limits = &self.limits;
        let counted = [
            ("running", limits.max_concurrent as u64),
            ("connections", limits.connections as u64),
            ("address_share", limits.address_percent as u64),
            ("transit_megabytes", limits.buffer_megabytes),
            ("request_seconds", limits.request_seconds),
            ("idle_seconds", limits.idle_seconds),
            ("stall_seconds", limits.stall_seconds),
            ("queue_seconds", limits.queue_seconds),
            ("upload_seconds", limits.upload_seconds),
            ("answer_seconds", limits.answer_seconds),
            ("silent_seconds", self.shards.as_ref().map_or(1, |shards| shards.stall_seconds)),
        ];
        let PeerLimits { sessions, waiting, join_seconds, session_seconds } =
            self.peers.as_ref().map_or_else(PeerLimits::default, |peers| peers.limits);
        let peers = [
            ("peers.limits.sessions", sessions as u64),
            ("peers.limits.waiting", (waiting as u64).max(1)),
            ("peers.limits.open_seconds", join_seconds),
            ("peers.limits.session_seconds", session_seconds),
        ];
        // These may be 0: then a reload or a stop waits for nobody.
        let grace =
            [("grace_seconds", limits.grace_seconds.max(1)), ("shutdown_seconds", limits.shutdown_seconds.max(1))];
        let most = |name: &str| match name {
            name if name.ends_with("seconds") => 31_536_000,
            name if name.starts_with("peers") => u32::MAX.into(),
            _ => u64::MAX,
        };
        let mut all = counted.into_iter().chain(peers).chain(grace);
        if let Some((name, _)) = all.find(|(name, value)| *value == 0 || *value > most(name)) {
            return Err(ConfigError::Limit(name));
        }
        self.origins()?;
        if let Some(admin) = self.admin.filter(|admin| !admin.ip().is_loopback() && !self.public_admin) {
            return Err(ConfigError::PublicAdmin(admin));
        }
        if self.peers.is_some() && self.tls.is_none() {
            return Err(ConfigError::PeersWithoutTls);
        }
        let nowhere = |shards: &ShardsConfig| {
            let unnamed = [&shards.certificate, &shards.key].iter().any(|path| path.as_os_str().is_empty());
            unnamed || (shards.addresses.is_empty() && shards.file.is_none())
        };
        if self.shards.as_ref().is_some_and(nowhere) {
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

    /// The origins as header values.
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
    fn the_sample_in_the_documentation_is_a_configuration_with_every_key() {
        let sample = include_str!("../../../docs/server.toml");
        let config = Config::parse(sample).unwrap();
        config.check().unwrap();
        // Every key is shown, commented out where it has no default.
        let keys = "bundle index keys listen admin public_admin plain_http certificate key running queue connections address_share transit_megabytes request_seconds \
             idle_seconds stall_seconds queue_seconds upload_seconds answer_seconds retry_after_seconds shutdown_seconds grace_seconds origins ledger name hash sessions addresses file silent_seconds";
        for key in keys.split_whitespace() {
            let shown = sample.lines().any(|line| line.trim_start_matches(['#', ' ']).starts_with(&format!("{key} =")));
            assert!(shown, "{key} is not in docs/server.toml");
        }
        // What the sample gives as limits is what holds without it, except for what depends on the
        // machine.
        assert_eq!(Limits { max_concurrent: 0, ..config.limits }, Limits { max_concurrent: 0, ..Limits::default() });
    }

    #[test]
    fn peers_are_as_the_sample_shows_them() {
        // The sample has them commented out, since few servers have peers.
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
        assert!(wrong.contains("HOST:PORT, or a list of them"), "{wrong}");
        // Times that no clock has, and no sessions at all, are refused by name.
        for (limit, wrong) in
            [("sessions = 4", "sessions = 0"), ("open_seconds = 15", "open_seconds = 9223372036854775807")]
        {
            let config = Config::parse(&shown.join("\n").replace(limit, wrong)).unwrap();
            let said = config.check().unwrap_err().to_string();
            assert!(said.starts_with("peers.limits."), "{said}");
        }
        let keyed = shown.join("\n").replace("\"system\"", "\"keys\"");
        assert_eq!(Config::parse(&keyed).unwrap().peers.unwrap().randomness, crate::peers::RandomnessMode::Keys);
        let wrong = Config::parse(&keyed.replace("\"keys\"", "\"dice\"")).unwrap_err();
        assert!(wrong.to_string().contains("\"system\" or \"keys\""), "{wrong}");
    }

    #[test]
    fn addresses_may_have_names() {
        let name = address("localhost:7001").unwrap();
        assert!(name.ip().is_loopback() && name.port() == 7001, "{name}");
        assert_eq!(address("[::1]:80"), Ok("[::1]:80".parse().unwrap()));
        assert_eq!(Config::parse("listen = \"localhost:0\"").unwrap().listen.map(|address| address.port()), Some(0));
        for text in ["7001", ":7001", "localhost", "localhost:x", "localhost:70000", ""] {
            assert!(address(text).is_err_and(|error| error.contains("host:port")), "{text}");
        }
        // A label of more than 63 letters is no name, so nobody is asked for it.
        assert!(address(&format!("{}.example:1", "x".repeat(64))).is_err_and(|error| error.contains("looked up")));
        assert!(Config::parse("admin = \"localhost\"").unwrap_err().to_string().contains("host:port"));
    }

    #[test]
    fn shards_without_a_certificate_are_told_what_is_missing_wherever_the_file_is() {
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
    fn addresses_of_shards_that_are_none_are_refused_by_name() {
        let check = |address: &str| {
            let inside = "certificate = \"inside.pem\"\nkey = \"inside.key\"";
            Config::parse(&format!("[shards]\naddresses = [\"a.example:1\", {address:?}]\n{inside}")).unwrap().check()
        };
        check("https://b.example:7001").unwrap();
        for wrong in ["b.example", "http://b.example:7001", ""] {
            let said = check(wrong).unwrap_err().to_string();
            assert!(said.contains("--shards") && said.contains(&format!("{wrong:?}")), "{said}");
        }
    }

    #[test]
    fn unknown_keys_and_plain_http_to_others_are_refused() {
        assert!(Config::parse("bundel = \"x\"").is_err());
        assert!(Config::parse("[limits]\nrunnning = 3").is_err());
        let open = Config::parse("listen = \"0.0.0.0:80\"").unwrap();
        assert!(matches!(open.check(), Err(ConfigError::PlainHttp(_))));
        Config::parse("listen = \"0.0.0.0:80\"\nplain_http = true").unwrap().check().unwrap();
        Config::parse("listen = \"[::1]:0\"").unwrap().check().unwrap();
        let admin = Config::parse("admin = \"0.0.0.0:9100\"").unwrap();
        assert!(matches!(admin.check(), Err(ConfigError::PublicAdmin(_))));
        Config::parse("admin = \"0.0.0.0:9100\"\npublic_admin = true").unwrap().check().unwrap();
        Config::parse("admin = \"127.0.0.1:9100\"").unwrap().check().unwrap();
        let none = Config::parse("[limits]\nrunning = 0").unwrap();
        assert!(matches!(none.check(), Err(ConfigError::Limit("running"))));
        let never = Config::parse("[limits]\nidle_seconds = 9000000000000000000").unwrap();
        assert!(matches!(never.check(), Err(ConfigError::Limit("idle_seconds"))));
        assert!(Config::parse("[cors]\norigins = [\"example.org\"]").unwrap().check().is_err());
    }
}
