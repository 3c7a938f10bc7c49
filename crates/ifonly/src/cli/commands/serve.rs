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
    #[arg(long, value_name = "ADDRESS", requires_all = ["next", "next_cert", "previous_cert"])]
    peers_listen: Option<SocketAddr>,
    /// Address on which the next server accepts this one (sealed search); if the next server has
    /// several frontends, the addresses of all.
    #[arg(long, value_name = "HOST:PORT,...", value_delimiter = ',', requires = "peers_listen")]
    next: Vec<String>,
    /// Certificate of the next server, PEM (sealed search).
    #[arg(long, value_name = "FILE", requires = "peers_listen")]
    next_cert: Option<PathBuf>,
    /// Certificate of the previous server, PEM (sealed search).
    #[arg(long, value_name = "FILE", requires = "peers_listen")]
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
        if let (Some(listen), Some(next), Some(previous)) =
            (self.peers_listen, self.next_cert.clone(), self.previous_cert.clone())
        {
            config.peers = Some(PeersConfig {
                listen,
                next: NextServer { addresses: self.next.clone(), certificate: next },
                previous: PreviousServer { certificate: previous },
                randomness: RandomnessMode::default(),
                limits: PeerLimits::default(),
            });
        }
        if !self.shards.is_empty() || self.shards_file.is_some() || self.shards_cert.is_some() {
            let shards: &mut ShardsConfig = config.shards.get_or_insert_default();
            if !self.shards.is_empty() || self.shards_file.is_some() {
                (shards.addresses, shards.file) = (self.shards.clone(), self.shards_file.clone());
            }
            if let (Some(certificate), Some(key)) = (self.shards_cert.clone(), self.shards_key.clone()) {
                (shards.certificate, shards.key) = (certificate, key);
            }
        }
        if let Some(randomness) = self.randomness {
            let missing = ConfigError::Missing("peers.listen");
            config.peers.as_mut().ok_or(missing)?.randomness = randomness;
        }
        config.plain_http |= self.plain_http;
        config.limits.max_concurrent = self.max_concurrent.unwrap_or(config.limits.max_concurrent);
        config.limits.queue = self.queue.unwrap_or(config.limits.queue);
        Ok(config)
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
        Err(error @ (DaemonError::Serve(_) | DaemonError::Signals(_))) => Err(CommandError::machine(error)),
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
