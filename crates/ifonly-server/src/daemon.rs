//! A server as a process: load what the configuration names, serve, reload on SIGHUP, finish on
//! SIGTERM or SIGINT.

use crate::auth::ledger;
use crate::auth::ledger::LedgerError;
use crate::auth::tokens::{Tokens, TokensError};
use crate::bundle::loaded::{LoadError, LoadedBundle};
use crate::config::{Config, ConfigError};
use crate::http::listener::{ServeError, Server, ServerHandle};
use crate::http::routes::AppState;
use crate::key_file;
use crate::key_file::KeyFileError;
use crate::peers::{PeerListener, PeerListenerError, PeerNetwork};
use crate::shards::{ShardSet, ShardTlsError, ShardsError};
use crate::tls::server;
use crate::tls::server::TlsError;
use ifonly_bundle::{Bundle, BundleMetadata, OpenError};
use rustls::ServerConfig;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;

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
    Load(#[from] LoadError),
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
    Peers(#[from] PeerListenerError),
    /// How front and shards know each other.
    #[error(transparent)]
    Inside(#[from] ShardTlsError),
    /// The shards.
    #[error(transparent)]
    Shards(#[from] ShardsError),
    /// The ports.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The signals.
    #[error("cannot wait for signals: {0}")]
    Signals(std::io::Error),
}

/// Everything that a reload exchanges.
struct Loaded {
    loaded: LoadedBundle,
    tokens: Tokens,
    tls: Option<Arc<ServerConfig>>,
}

/// Serves until a signal ends it. `reread` gives the configuration, at the start and at every
/// SIGHUP; `ready` hears of the server before it takes the first connection.
///
/// Signals count from the beginning, while everything is still being read: the first process of a
/// container has no others' defaults, and one that did not listen could only be killed. A thread
/// may still be reading after a stop, so that the caller's runtime should not wait for it.
pub async fn run(
    reread: impl Fn() -> Result<Config, ConfigError> + Send + Sync + 'static,
    ready: impl FnOnce(&Server, Option<SocketAddr>),
) -> Result<(), DaemonError> {
    let (stop, hangups) = (stop_signal().map_err(DaemonError::Signals)?, hangups().map_err(DaemonError::Signals)?);
    let mut stop = std::pin::pin!(stop);
    let config = reread()?;
    let loading = (config.clone(), Handle::current());
    let loading = unless(stop.as_mut(), move || load(&loading.0, &loading.1, Duration::ZERO));
    let Some(loaded) = loading.await? else { return Ok(()) };
    let listen = config.listen.ok_or(ConfigError::Missing { what: "the address to listen on", flag: "--listen" })?;
    let (peers, peers_address) = peers(&config, &loaded.loaded).await?.unzip();
    let app = AppState::new(loaded.loaded, loaded.tokens, config.limits, config.origins()?).with_peers(peers);
    let server = Server::bind(app, listen, config.admin, loaded.tls).await?;
    reload_on_hangup(hangups, server.control(), reread);
    ready(&server, peers_address);
    tracing::info!(address = %server.address(), "serving");
    server.run(stop).await;
    tracing::info!("stopped");
    Ok(())
}

/// The lines to the two other servers, where the configuration names them.
async fn peers(config: &Config, loaded: &LoadedBundle) -> Result<Option<(Arc<PeerNetwork>, SocketAddr)>, DaemonError> {
    let sealed = loaded.protocol().sealed().is_some();
    let (Some(peers), Some(tls)) = (&config.peers, &config.tls) else {
        if sealed {
            tracing::warn!("the bundle offers sealed searches, but no peers are configured: they will be refused");
        }
        return Ok(None);
    };
    let peer_listener = PeerListener::bind(peers, loaded.index(), &tls.certificate, &tls.key).await?;
    let address = peer_listener.address();
    tracing::info!(%address, next = peers.next.addresses.join(","), "listening for the server before this one");
    Ok(Some((Arc::new(peer_listener.run()), address)))
}

/// How long a reload waits for the shards of the new version.
const COMPLETE: Duration = Duration::from_secs(60);

/// Everything that the configuration names. Shards may still be missing after `patience`, but none
/// may contradict.
fn load(config: &Config, runtime: &Handle, patience: Duration) -> Result<Loaded, DaemonError> {
    config.check()?;
    let bundle = config.bundle.as_ref().ok_or(ConfigError::Missing { what: "the bundle", flag: "BUNDLE" })?;
    let index = config.index.ok_or(ConfigError::Missing { what: "the server's number", flag: "--index" })?;
    let keys = config.keys.iter().map(|path| key_file::load(path)).collect::<Result<Vec<_>, _>>()?;
    let tls = config.tls.as_ref().map(|tls| server::server(&tls.certificate, &tls.key)).transpose()?;
    let unreadable = |error| DaemonError::Bundle(Box::new(error));
    let (dataset, loaded) = match &config.shards {
        None => {
            let bundle = Bundle::open(bundle).map_err(unreadable)?;
            (bundle.manifest().fields().dataset.name.clone(), LoadedBundle::new(&bundle, index, keys)?)
        }
        Some(shards) => {
            let outline = BundleMetadata::open(bundle).map_err(unreadable)?;
            let loaded = LoadedBundle::frontend(&outline, index, keys, |keys| {
                let shards = Arc::new(ShardSet::new(shards.clone(), outline.manifest(), keys, runtime.clone())?);
                match runtime.block_on(shards.complete(patience)) {
                    Err(error) if patience.is_zero() && error.shared_scans() => {
                        tracing::warn!(%error, "shards are missing; answers begin when they are there");
                    }
                    result => result?,
                }
                shards.watch();
                Ok::<_, DaemonError>(shards)
            });
            (outline.manifest().fields().dataset.name.clone(), loaded?)
        }
    };
    let ledger =
        config.ledger.as_ref().map(|ledger| ledger::open(ledger, &format!("{dataset}/{index}"))).transpose()?;
    let tokens = Tokens::counted_in(config.tokens.clone(), ledger)?;
    Ok(Loaded { loaded, tokens, tls })
}

/// Takes up what the configuration names now; what cannot be taken up changes nothing.
fn reload(control: &ServerHandle, reread: &dyn Fn() -> Result<Config, ConfigError>, runtime: &Handle) {
    let loaded = reread().map_err(DaemonError::from).and_then(|config| load(&config, runtime, COMPLETE));
    let taken_up = loaded.and_then(|Loaded { loaded, tokens, tls }| Ok(control.reload(loaded, tokens, tls)?));
    match taken_up {
        Ok(()) => tracing::info!("took up the configuration and its bundle again"),
        Err(error) => {
            control.reload_failed();
            tracing::error!(%error, "reload failed; the server goes on as before");
        }
    }
}

/// What `load` gives, on a thread of its own; nothing if `stop` comes first.
pub(crate) async fn unless<T: Send + 'static>(
    stop: impl Future<Output = ()>,
    load: impl FnOnce() -> Result<T, DaemonError> + Send + 'static,
) -> Result<Option<T>, DaemonError> {
    tokio::select! {
        loaded = tokio::task::spawn_blocking(load) => loaded.map_err(|error| DaemonError::Signals(error.into()))?.map(Some),
        () = stop => {
            tracing::info!("stopped before everything was read");
            Ok(None)
        }
    }
}

/// SIGHUPs, remembered from now on.
#[cfg(unix)]
fn hangups() -> std::io::Result<tokio::signal::unix::Signal> {
    tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup())
}

#[cfg(not(unix))]
fn hangups() -> std::io::Result<()> {
    Ok(())
}

#[cfg(unix)]
fn reload_on_hangup(
    mut hangups: tokio::signal::unix::Signal,
    control: ServerHandle,
    reread: impl Fn() -> Result<Config, ConfigError> + Send + Sync + 'static,
) {
    let reread = Arc::new(reread);
    tokio::spawn(async move {
        while hangups.recv().await.is_some() {
            let (control, reread) = (control.clone(), reread.clone());
            let runtime = Handle::current();
            let _ = tokio::task::spawn_blocking(move || reload(&control, &*reread, &runtime)).await;
        }
    });
}

#[cfg(not(unix))]
fn reload_on_hangup((): (), _: ServerHandle, _: impl Fn() -> Result<Config, ConfigError> + Send + Sync + 'static) {}

/// Resolves at the first SIGINT or SIGTERM; it listens from now on.
#[cfg(unix)]
pub(crate) fn stop_signal() -> std::io::Result<impl Future<Output = ()>> {
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
pub(crate) fn stop_signal() -> std::io::Result<impl Future<Output = ()>> {
    Ok(async {
        let _ = tokio::signal::ctrl_c().await;
    })
}
