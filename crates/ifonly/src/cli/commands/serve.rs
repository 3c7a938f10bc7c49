//! `ifonly serve`: one server, from a configuration file, from flags, or from both.

use crate::cli::exit::{CommandError, CommandOutcome};
use ifonly_server::config::{self, Config, ConfigError, TlsConfig};
use ifonly_server::daemon::{self, DaemonError};
use ifonly_server::peers::{NextServer, PeerLimits, PeersConfig, PreviousServer, RandomnessMode};
use ifonly_server::shards::ShardsConfig;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Serve a bundle as one of the servers.
///
/// Prints the address it bound, then serves until SIGINT or SIGTERM; SIGHUP takes up the
/// configuration, bundle, tokens and certificate again.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Example: ifonly serve loans.bundle --index 1 --key root.key --listen 0.0.0.0:8443 --cert server.pem --cert-key server.key
         ifonly serve --config server.toml
         ifonly serve parts/frontend --index 1 --key root.key --shards 10.0.0.4:7001,10.0.0.5:7001 --shards-cert inside.pem --shards-key inside.key --listen 127.0.0.1:8443")]
pub(crate) struct Args {
    /// The bundle, made by `ifonly build`. A front with shards needs only its manifest and
    /// checksums.
    bundle: Option<PathBuf>,
    /// A configuration file; docs/server.toml shows every key. Flags override it.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Which server this is, counted from 1.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    index: Option<u8>,
    /// Root keys, one per key epoch.
    #[arg(long = "key", value_name = "FILE")]
    keys: Vec<PathBuf>,
    /// Where to listen, HOST:PORT; port 0 takes a free one. 127.0.0.1:0 unless given here or in the
    /// file.
    #[arg(long, value_name = "ADDRESS", value_parser = config::address)]
    listen: Option<SocketAddr>,
    /// Where to listen for operators: health, readiness and metrics.
    #[arg(long, value_name = "ADDRESS", value_parser = config::address)]
    admin: Option<SocketAddr>,
    /// Allow the admin port on another address than loopback, on a network of your own.
    #[arg(long)]
    public_admin: bool,
    /// The certificate chain, PEM.
    #[arg(long, value_name = "FILE", requires = "cert_key")]
    cert: Option<PathBuf>,
    /// The certificate's private key, PEM.
    #[arg(long, value_name = "FILE", requires = "cert")]
    cert_key: Option<PathBuf>,
    /// Where the server before this one connects, for sealed searches.
    #[arg(long, value_name = "ADDRESS", requires_all = ["next", "next_cert", "previous_cert"])]
    peers_listen: Option<SocketAddr>,
    /// The server after this one, for sealed searches: where it listens for peers; all its fronts,
    /// if it has several.
    #[arg(long, value_name = "HOST:PORT,...", value_delimiter = ',', requires = "peers_listen")]
    next: Vec<String>,
    /// The certificate of the server after this one, PEM.
    #[arg(long, value_name = "FILE", requires = "peers_listen")]
    next_cert: Option<PathBuf>,
    /// The certificate of the server before this one, PEM.
    #[arg(long, value_name = "FILE", requires = "peers_listen")]
    previous_cert: Option<PathBuf>,
    /// Be a front: these shards (`ifonly shard`) have the rows, HOST:PORT each, or as they print
    /// it.
    #[arg(long, value_name = "ADDRESS,...", value_delimiter = ',')]
    shards: Vec<String>,
    /// A file with the address of a shard on each line, read again when it changes.
    #[arg(long, value_name = "FILE")]
    shards_file: Option<PathBuf>,
    /// The certificate that fronts and shards of this server show each other, PEM.
    #[arg(long, value_name = "FILE", requires = "shards_key")]
    shards_cert: Option<PathBuf>,
    /// That certificate's private key, PEM.
    #[arg(long, value_name = "FILE", requires = "shards_cert")]
    shards_key: Option<PathBuf>,
    /// Where random bits between the servers of a sealed search come from: `system` (perfect
    /// privacy towards each server, the default) or `keys` (half the traffic between servers,
    /// computational privacy). The same at all three.
    #[arg(long, value_name = "SOURCE")]
    randomness: Option<RandomnessMode>,
    /// Allow plain HTTP beyond loopback, behind a TLS terminator.
    #[arg(long)]
    plain_http: bool,
    /// Requests at work at once.
    #[arg(long, value_name = "N")]
    max_concurrent: Option<usize>,
    /// Requests that may wait.
    #[arg(long, value_name = "N")]
    queue: Option<usize>,
    /// How much to log: error, warn, info or debug. Logs are JSON lines on standard error, without
    /// query contents.
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log: String,
}

impl Args {
    /// The file, with the flags over it.
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
            let missing = ConfigError::Missing { what: "the address for peers", flag: "--peers-listen" };
            config.peers.as_mut().ok_or(missing)?.randomness = randomness;
        }
        config.plain_http |= self.plain_http;
        config.limits.max_concurrent = self.max_concurrent.unwrap_or(config.limits.max_concurrent);
        config.limits.queue = self.queue.unwrap_or(config.limits.queue);
        Ok(config)
    }
}

pub(crate) fn run(args: &Args) -> Result<CommandOutcome, CommandError> {
    log(&args.log)?;
    let runtime = tokio::runtime::Runtime::new().map_err(CommandError::machine)?;
    let secure = args.config().map_err(CommandError::input)?.tls.is_some();
    let again = args.clone();
    let served = runtime.block_on(daemon::run(
        move || again.config(),
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
    // Stopped while it was reading, it does not read on.
    runtime.shutdown_background();
    end(served)
}

/// What became of a process that serves.
pub(crate) fn end(served: Result<(), DaemonError>) -> Result<CommandOutcome, CommandError> {
    match served {
        Ok(()) => Ok(CommandOutcome::Fine),
        Err(error @ (DaemonError::Serve(_) | DaemonError::Signals(_))) => Err(CommandError::machine(error)),
        Err(error) => Err(CommandError::input(error)),
    }
}

/// JSON lines on standard error.
pub(crate) fn log(level: &str) -> Result<(), CommandError> {
    let level: tracing_subscriber::filter::LevelFilter = level
        .parse()
        .map_err(|_| CommandError::Input(format!("--log {level}: it is one of error, warn, info, debug")))?;
    tracing_subscriber::fmt().json().with_max_level(level).with_writer(std::io::stderr).init();
    Ok(())
}
