//! `ifonly serve`: runs one server, configured by a file, by flags, or by both.

use crate::cli::exit::{CommandError, CommandOutcome};
use crate::cli::hints;
use ifonly_server::config::{self, Config, ConfigError, TlsConfig};
use ifonly_server::daemon::{self, DaemonError};
use ifonly_server::peers::{NextServer, PeerLimits, PeersConfig, PreviousServer, RandomnessMode};
use ifonly_server::shards::ShardsConfig;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Serve a bundle as one server of a deployment.
///
/// Prints its address when it is ready. SIGINT and SIGTERM stop the server. SIGHUP reloads
/// configuration, bundle, tokens and certificate.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ifonly serve --config server.toml
  ifonly serve loans.bundle --index 1 --key root.key --listen 0.0.0.0:8443 \\
      --cert server.pem --cert-key server.key --max-concurrent 8
  ifonly serve parts/frontend --index 1 --key root.key --shards 10.0.0.4:7001,10.0.0.5:7001 \\
      --shards-cert inside.pem --shards-key inside.key --listen 127.0.0.1:8443

docs/configuration.md describes all settings, docs/runbook.md the tasks of an operator.")]
pub(crate) struct Args {
    /// Bundle built by `ifonly build`. A frontend with shards needs only the directory frontend/
    /// that `ifonly split` writes.
    bundle: Option<PathBuf>,
    /// Configuration file; docs/server.toml shows every key. Flags override it.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Index of this server, counted from 1. Every operator has a different index.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    index: Option<u8>,
    /// Root key file; repeat the flag for several key epochs.
    #[arg(long = "key", value_name = "FILE")]
    keys: Vec<PathBuf>,
    /// Address for clients, HOST:PORT; port 0 selects a free port. Default 127.0.0.1:0.
    #[arg(long, value_name = "ADDRESS", value_parser = config::address)]
    listen: Option<SocketAddr>,
    /// Address for health, readiness and metrics, HOST:PORT; default: none.
    #[arg(long, value_name = "ADDRESS", value_parser = config::address)]
    admin: Option<SocketAddr>,
    /// Allow an admin address other than loopback, on a private network.
    #[arg(long)]
    public_admin: bool,
    /// Certificate chain, PEM. Without it the server speaks plain HTTP.
    #[arg(long, value_name = "FILE", requires = "cert_key")]
    cert: Option<PathBuf>,
    /// Private key of the certificate, PEM.
    #[arg(long, value_name = "FILE", requires = "cert")]
    cert_key: Option<PathBuf>,
    /// Address on which this server accepts its previous peer (sealed search).
    #[arg(long, value_name = "ADDRESS")]
    peers_listen: Option<SocketAddr>,
    /// Address on which the next server accepts this one (sealed search); if the next server has
    /// several frontends, the addresses of all.
    #[arg(long, value_name = "HOST:PORT,...", value_delimiter = ',')]
    next: Vec<String>,
    /// Certificate of the next server, PEM (sealed search).
    #[arg(long, value_name = "FILE")]
    next_cert: Option<PathBuf>,
    /// Certificate of the previous server, PEM (sealed search).
    #[arg(long, value_name = "FILE")]
    previous_cert: Option<PathBuf>,
    /// Run as a frontend: read rows from these shards, HOST:PORT each, or as `ifonly shard` prints
    /// the address.
    #[arg(long, value_name = "ADDRESS,...", value_delimiter = ',')]
    shards: Vec<String>,
    /// File with one shard address per line; the server reads it again when it changes.
    #[arg(long, value_name = "FILE")]
    shards_file: Option<PathBuf>,
    /// Certificate of the frontends and shards of this server, PEM; created by `ifonly keygen
    /// --shard-certificate`.
    #[arg(long, value_name = "FILE", requires = "shards_key")]
    shards_cert: Option<PathBuf>,
    /// Private key of the shard certificate, PEM.
    #[arg(long, value_name = "FILE", requires = "shards_cert")]
    shards_key: Option<PathBuf>,
    /// Source of random bits between the servers of a sealed search; equal at all three servers.
    /// `system` (default): information-theoretic privacy towards each server. `keys`: half the
    /// traffic between servers, computational privacy.
    #[arg(long, value_name = "SOURCE")]
    randomness: Option<RandomnessMode>,
    /// Allow plain HTTP on other addresses than loopback, behind a TLS terminator.
    #[arg(long)]
    plain_http: bool,
    /// Maximum concurrent requests; default: number of CPU cores.
    #[arg(long, value_name = "N")]
    max_concurrent: Option<usize>,
    /// Maximum queued requests; default 64.
    #[arg(long, value_name = "N")]
    queue: Option<usize>,
    /// Log level: error, warn, info or debug. The log is JSON lines on standard error; it never
    /// contains queries.
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log: String,
}

impl Args {
    /// The configuration file, overridden by the flags.
    fn config(&self) -> Result<Config, ConfigError> {
        let mut config = match &self.config {
            Some(path) => Config::load(path)?,
            None => Config::default(),
        };
        config.bundle = self.bundle.clone().or(config.bundle);
        config.index = self.index.or(config.index);
        if !self.keys.is_empty() {
            config.keys = self.keys.clone();
        }
        config.listen = self.listen.or(config.listen).or(Some(SocketAddr::from(([127, 0, 0, 1], 0))));
        config.admin = self.admin.or(config.admin);
        if let (Some(certificate), Some(key)) = (self.cert.clone(), self.cert_key.clone()) {
            config.tls = Some(TlsConfig { certificate, key });
        }
        config.public_admin |= self.public_admin;
        self.override_peers(&mut config)?;
        if !self.shards.is_empty() || self.shards_file.is_some() || self.shards_cert.is_some() {
            let shards: &mut ShardsConfig = config.shards.get_or_insert_default();
            if !self.shards.is_empty() || self.shards_file.is_some() {
                (shards.addresses, shards.file) = (self.shards.clone(), self.shards_file.clone());
            }
            if let (Some(certificate), Some(key)) = (self.shards_cert.clone(), self.shards_key.clone()) {
                (shards.certificate, shards.key) = (certificate, key);
            }
        }
        config.plain_http |= self.plain_http;
        config.limits.max_concurrent = self.max_concurrent.unwrap_or(config.limits.max_concurrent);
        config.limits.queue = self.queue.unwrap_or(config.limits.queue);
        Ok(config)
    }

    /// Every flag replaces one key of the table `peers`. Without that table, the flags must set all
    /// keys that have no default.
    fn override_peers(&self, config: &mut Config) -> Result<(), ConfigError> {
        let next = (!self.next.is_empty()).then(|| self.next.clone());
        let (next_cert, previous_cert) = (self.next_cert.clone(), self.previous_cert.clone());
        if let Some(peers) = &mut config.peers {
            peers.listen = self.peers_listen.unwrap_or(peers.listen);
            peers.next.addresses = next.unwrap_or_else(|| std::mem::take(&mut peers.next.addresses));
            peers.next.certificate = next_cert.unwrap_or_else(|| std::mem::take(&mut peers.next.certificate));
            peers.previous.certificate =
                previous_cert.unwrap_or_else(|| std::mem::take(&mut peers.previous.certificate));
            peers.randomness = self.randomness.unwrap_or(peers.randomness);
            return Ok(());
        }
        let is_given = self.peers_listen.is_some() || self.randomness.is_some();
        if is_given || next.is_some() || next_cert.is_some() || previous_cert.is_some() {
            let missing = ConfigError::Missing;
            let certificate = next_cert.ok_or(missing("peers.next.certificate"))?;
            config.peers = Some(PeersConfig {
                listen: self.peers_listen.ok_or(missing("peers.listen"))?,
                next: NextServer { addresses: next.ok_or(missing("peers.next.address"))?, certificate },
                previous: PreviousServer { certificate: previous_cert.ok_or(missing("peers.previous.certificate"))? },
                randomness: self.randomness.unwrap_or_default(),
                limits: PeerLimits::default(),
            });
        }
        Ok(())
    }
}

pub(crate) fn run(args: &Args) -> Result<CommandOutcome, CommandError> {
    start_log(&args.log)?;
    let runtime = tokio::runtime::Runtime::new().map_err(CommandError::machine)?;
    let config = args.config().map_err(|error| CommandError::input(hints::for_daemon(&error.into())))?;
    let secure = config.tls.is_some();
    let reload_args = args.clone();
    let result = runtime.block_on(daemon::run(
        move || reload_args.config(),
        |server, peers| {
            println!("listening on {}://{}", if secure { "https" } else { "http" }, server.address());
            if let Some(address) = peers {
                println!("peers on {address}");
            }
            if let Some(address) = server.admin_address() {
                println!("admin on http://{address}");
            }
        },
    ));
    // A signal may have stopped the server while it was loading; the loading thread is abandoned.
    runtime.shutdown_background();
    outcome(result)
}

/// The outcome of a server or shard process.
pub(crate) fn outcome(result: Result<(), DaemonError>) -> Result<CommandOutcome, CommandError> {
    match result {
        Ok(()) => Ok(CommandOutcome::Success),
        Err(error @ (DaemonError::Serve(_) | DaemonError::Signals(_) | DaemonError::Panic(_))) => {
            Err(CommandError::machine(error))
        }
        Err(error) => Err(CommandError::input(hints::for_daemon(&error))),
    }
}

/// Starts the log: JSON lines on standard error.
pub(crate) fn start_log(level: &str) -> Result<(), CommandError> {
    let level: tracing_subscriber::filter::LevelFilter =
        level.parse().map_err(|_| CommandError::Input(format!("--log {level}: use error, warn, info or debug")))?;
    tracing_subscriber::fmt().json().with_max_level(level).with_writer(std::io::stderr).init();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(clap::Parser)]
    struct Flags {
        #[command(flatten)]
        args: Args,
    }

    fn config(flags: &[&str]) -> Result<Config, ConfigError> {
        Flags::parse_from(std::iter::once("serve").chain(flags.iter().copied())).args.config()
    }

    #[test]
    fn flags_for_peers_replace_only_their_own_keys() {
        let folder = std::env::temp_dir().join(format!("ifonly-serve-flags-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("server.toml");
        let text = "[peers]\nlisten = \"127.0.0.1:1\"\nrandomness = \"keys\"\nnext = { address = \"b:2\", certificate = \"b.pem\" }\n\
            previous = { certificate = \"c.pem\" }\nlimits = { sessions = 7 }\n";
        std::fs::write(&path, text).unwrap();
        let path = path.to_str().unwrap();
        let file = config(&["--config", path]).unwrap().peers.unwrap();
        let flags = ["--config", path, "--peers-listen", "127.0.0.1:9", "--next", "d:4", "--next-cert", "d.pem"];
        let peers = config(&flags).unwrap().peers.unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!((peers.randomness, peers.limits.sessions), (RandomnessMode::Keys, 7));
        assert_eq!((peers.limits, &peers.previous), (file.limits, &file.previous));
        assert_eq!((peers.listen.port(), peers.next.addresses), (9, vec!["d:4".to_owned()]));
        assert_eq!(peers.next.certificate, PathBuf::from("d.pem"));
    }

    #[test]
    fn without_a_table_of_peers_the_missing_key_is_named() {
        assert_eq!(config(&[]).unwrap().peers, None);
        let error = |flags: &[&str]| hints::for_daemon(&config(flags).unwrap_err().into());
        assert!(error(&["--next-cert", "d.pem"]).contains("--peers-listen"));
        assert!(error(&["--peers-listen", "127.0.0.1:9"]).contains("--next-cert"));
    }
}
