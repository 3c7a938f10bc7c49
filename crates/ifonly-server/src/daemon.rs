//! A server as a process: load what the configuration names, serve, reload on SIGHUP, finish on SIGTERM or SIGINT.

use crate::config::{Config, ConfigError};
use crate::holding::{Holding, HoldingError};
use crate::keyfile::{self, KeyFileError};
use crate::ledger::{self, LedgerError};
use crate::peers::{Peers, Station, StationError};
use crate::routes::App;
use crate::serve::{Control, ServeError, Server};
use crate::tls::{self, TlsError};
use crate::tokens::{Tokens, TokensError};
use ifonly_bundle::{Bundle, OpenError};
use rustls::ServerConfig;
use std::net::SocketAddr;
use std::sync::Arc;

/// Why a server cannot start or take up a change.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DaemonError {
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The bundle.
    #[error(transparent)]
    Bundle(Box<OpenError>),
    /// What does not fit together.
    #[error(transparent)]
    Holding(#[from] HoldingError),
    /// A root key.
    #[error(transparent)]
    Key(#[from] KeyFileError),
    /// The tokens.
    #[error(transparent)]
    Tokens(#[from] TokensError),
    /// Where spent sessions are counted.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The certificate.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The lines to the other servers.
    #[error(transparent)]
    Peers(#[from] StationError),
    /// The ports.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The signals.
    #[error("cannot wait for signals: {0}")]
    Signals(std::io::Error),
}

/// Everything that a reload exchanges.
struct Loaded {
    holding: Holding,
    tokens: Tokens,
    tls: Option<Arc<ServerConfig>>,
}

/// Serves until a signal ends it. `reread` gives the configuration, at the start and at every SIGHUP; `ready` hears of the
/// server before it takes the first connection.
pub async fn run(
    reread: impl Fn() -> Result<Config, ConfigError> + Send + Sync + 'static,
    ready: impl FnOnce(&Server, Option<SocketAddr>),
) -> Result<(), DaemonError> {
    let config = reread()?;
    let loaded = load(&config)?;
    let listen = config.listen.ok_or(ConfigError::Missing { what: "the address to listen on", flag: "--listen" })?;
    let (peers, peers_address) = peers(&config, &loaded.holding).await?.unzip();
    let app = App::new(loaded.holding, loaded.tokens, config.limits, config.origins()?).with_peers(peers);
    let server = Server::bind(app, listen, config.admin, loaded.tls).await?;
    let stop = stop_signal().map_err(DaemonError::Signals)?;
    reload_on_hangup(server.control(), reread).map_err(DaemonError::Signals)?;
    ready(&server, peers_address);
    tracing::info!(address = %server.address(), "serving");
    server.run(stop).await;
    tracing::info!("stopped");
    Ok(())
}

/// The lines to the two other servers, where the configuration names them.
async fn peers(config: &Config, holding: &Holding) -> Result<Option<(Arc<Peers>, SocketAddr)>, DaemonError> {
    let sealed = holding.replica().sealed().is_some();
    let (Some(peers), Some(tls)) = (&config.peers, &config.tls) else {
        if sealed {
            tracing::warn!("the bundle offers sealed searches, but no peers are configured: they will be refused");
        }
        return Ok(None);
    };
    let station = Station::bind(peers, holding.index(), &tls.certificate, &tls.key).await?;
    let address = station.address();
    tracing::info!(%address, next = peers.next.address, "listening for the server before this one");
    Ok(Some((Arc::new(station.run()), address)))
}

fn load(config: &Config) -> Result<Loaded, DaemonError> {
    config.check()?;
    let bundle = config.bundle.as_ref().ok_or(ConfigError::Missing { what: "the bundle", flag: "BUNDLE" })?;
    let index = config.index.ok_or(ConfigError::Missing { what: "the server's number", flag: "--index" })?;
    let keys = config.keys.iter().map(|path| keyfile::load(path)).collect::<Result<Vec<_>, _>>()?;
    let tls = config.tls.as_ref().map(|tls| tls::server(&tls.certificate, &tls.key)).transpose()?;
    let bundle = Bundle::open(bundle).map_err(|error| DaemonError::Bundle(Box::new(error)))?;
    let server = format!("{}/{index}", bundle.manifest().contents().dataset.name);
    let ledger = config.ledger.as_ref().map(|ledger| ledger::open(ledger, &server)).transpose()?;
    let tokens = Tokens::counted_in(config.tokens.clone(), ledger)?;
    let holding = Holding::new(&bundle, index, keys)?;
    Ok(Loaded { holding, tokens, tls })
}

/// Takes up what the configuration names now; what cannot be taken up changes nothing.
fn reload(control: &Control, reread: &dyn Fn() -> Result<Config, ConfigError>) {
    match reread().map_err(DaemonError::from).and_then(|config| load(&config)) {
        Ok(Loaded { holding, tokens, tls }) => {
            control.reload(holding, tokens, tls);
            tracing::info!("took up the configuration and its bundle again");
        }
        Err(error) => {
            control.reload_failed();
            tracing::error!(%error, "reload failed; the server goes on as before");
        }
    }
}

#[cfg(unix)]
fn reload_on_hangup(
    control: Control,
    reread: impl Fn() -> Result<Config, ConfigError> + Send + Sync + 'static,
) -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut hangups = signal(SignalKind::hangup())?;
    let reread = Arc::new(reread);
    tokio::spawn(async move {
        while hangups.recv().await.is_some() {
            let (control, reread) = (control.clone(), reread.clone());
            let _ = tokio::task::spawn_blocking(move || reload(&control, &*reread)).await;
        }
    });
    Ok(())
}

#[cfg(not(unix))]
fn reload_on_hangup(
    _: Control,
    _: impl Fn() -> Result<Config, ConfigError> + Send + Sync + 'static,
) -> std::io::Result<()> {
    Ok(())
}

/// Resolves at the first SIGINT or SIGTERM; it listens from now on.
#[cfg(unix)]
fn stop_signal() -> std::io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut interrupts, mut terminations) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    Ok(async move {
        tokio::select! {
            _ = interrupts.recv() => {}
            _ = terminations.recv() => {}
        }
    })
}

#[cfg(not(unix))]
fn stop_signal() -> std::io::Result<impl Future<Output = ()>> {
    Ok(async {
        let _ = tokio::signal::ctrl_c().await;
    })
}
