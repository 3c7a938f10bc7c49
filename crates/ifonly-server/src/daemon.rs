//! The server process: load the configuration and the files it names, serve, reload on SIGHUP, stop
//! on SIGTERM or SIGINT.

use crate::auth::Authorisation;
use crate::auth::account_tokens::{AccountTokens, TokensError};
use crate::auth::ledger;
use crate::auth::ledger::LedgerError;
use crate::bundle::loaded::{LoadError, LoadedBundle};
use crate::config::{Config, ConfigError};
use crate::http::listener::{ServeError, Server, ServerHandle};
use crate::http::routes::AppState;
use crate::key_file;
use crate::key_file::KeyFileError;
use crate::limits::descriptors;
use crate::peers::{PeerListener, PeerListenerError, PeerNetwork, PeerTls};
use crate::shards::{ShardSet, ShardTlsError, ShardsError};
use crate::tls::server;
use crate::tls::server::TlsError;
use ifonly_bundle::{Bundle, BundleMetadata, OpenError, summarise};
use ifonly_values::manifest::Manifest;
use rustls::ServerConfig;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;

/// Why a server cannot start or reload.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DaemonError {
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The bundle cannot be opened.
    #[error(transparent)]
    Bundle(Box<OpenError>),
    /// The bundle does not match the root keys, the server index or the bundle that is served.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A root key.
    #[error(transparent)]
    Key(#[from] KeyFileError),
    /// The tokens.
    #[error(transparent)]
    Tokens(#[from] TokensError),
    /// The ledger that counts searches.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The certificate.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The listener for the other servers.
    #[error(transparent)]
    Peers(#[from] PeerListenerError),
    /// The certificate that frontends and shards share.
    #[error(transparent)]
    ShardTls(#[from] ShardTlsError),
    /// The shards.
    #[error(transparent)]
    Shards(#[from] ShardsError),
    /// The ports.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The signals.
    #[error("cannot wait for signals: {0}")]
    Signals(std::io::Error),
    /// The thread that loads the bundle panicked.
    #[error("internal error while loading: {0}; please report it")]
    Panic(String),
}

impl DaemonError {
    /// The configuration keys that the error is about, so that a command-line program can name the
    /// flags that set them.
    pub fn config_keys(&self) -> &[&'static str] {
        match self {
            DaemonError::Config(error) => error.keys(),
            DaemonError::Load(LoadError::Index { .. }) => &["index"],
            DaemonError::Load(LoadError::NoKey | LoadError::NoCurrentKey(_)) => &["keys"],
            _ => &[],
        }
    }
}

/// Everything that a reload replaces.
struct Loaded {
    loaded: LoadedBundle,
    authorisation: Arc<dyn Authorisation>,
    tls: Option<Arc<ServerConfig>>,
}

/// Serves until a signal stops the process. `read_config` returns the configuration, at the start
/// and at every SIGHUP. `ready` is called before the server accepts the first connection.
///
/// The signal handlers are installed first, because loading takes time: the first process of a
/// container has no default signal handlers, so without these it could only be killed. After a stop
/// a thread may still be loading; the caller's runtime should not wait for that thread.
pub async fn run(
    read_config: impl Fn() -> Result<Config, ConfigError> + Send + Sync + 'static,
    ready: impl FnOnce(&Server, Option<SocketAddr>),
) -> Result<(), DaemonError> {
    let (stop, hangups) = (stop_signal().map_err(DaemonError::Signals)?, hangups().map_err(DaemonError::Signals)?);
    let mut stop = std::pin::pin!(stop);
    let mut config = read_config()?;
    config.limits.connections = descriptors::fitting_connections(config.limits.connections);
    let loading = (config.clone(), Handle::current());
    let loading = unless_stopped(stop.as_mut(), move || load(&loading.0, &loading.1, Duration::ZERO));
    let Some(loaded) = loading.await? else { return Ok(()) };
    let listen = config.listen.ok_or(ConfigError::Missing("listen"))?;
    let (peers, peers_address) = peers(&config, &loaded.loaded).await?.unzip();
    let app = AppState::new(loaded.loaded, loaded.authorisation, config.limits, config.origins()?).with_peers(peers);
    let server = Server::bind(app, listen, config.admin, loaded.tls).await?;
    reload_on_hangup(hangups, server.handle(), read_config);
    ready(&server, peers_address);
    tracing::info!(address = %server.address(), "serving");
    server.run(stop).await;
    tracing::info!("stopped");
    Ok(())
}

/// The connections to the two peers, if the configuration has peers.
async fn peers(config: &Config, loaded: &LoadedBundle) -> Result<Option<(Arc<PeerNetwork>, SocketAddr)>, DaemonError> {
    let sealed = loaded.protocol().sealed().is_some();
    let (Some(peers), Some(tls)) = (&config.peers, &config.tls) else {
        if sealed {
            tracing::warn!(
                "the bundle offers sealed searches, but no peers are configured; the server will refuse them"
            );
        }
        return Ok(None);
    };
    let peer_listener = PeerListener::bind(peers, loaded.index(), &tls.certificate, &tls.key).await?;
    let address = peer_listener.address();
    tracing::info!(%address, next = peers.next.addresses.join(","), "listening for the previous server");
    Ok(Some((Arc::new(peer_listener.run()), address)))
}

/// How long a reload waits until shards hold all rows of the new bundle.
const SHARDS_TIMEOUT: Duration = Duration::from_secs(60);

/// Loads everything that the configuration names. A frontend waits up to `shards_timeout` until
/// its shards hold all rows. If the timeout is zero, shards may be missing, but a shard that
/// contradicts the bundle is an error.
fn load(config: &Config, runtime: &Handle, shards_timeout: Duration) -> Result<Loaded, DaemonError> {
    config.check()?;
    let bundle = config.bundle.as_ref().ok_or(ConfigError::Missing("bundle"))?;
    let index = config.index.ok_or(ConfigError::Missing("index"))?;
    let keys = config.keys.iter().map(|path| key_file::load(path)).collect::<Result<Vec<_>, _>>()?;
    for key in &keys {
        tracing::info!(epoch = key.epoch(), fingerprint = %key.fingerprint(), "root key");
    }
    let tls = config.tls.as_ref().map(|tls| server::server(&tls.certificate, &tls.key)).transpose()?;
    let unreadable = |error| DaemonError::Bundle(Box::new(error));
    let (dataset, weakest, loaded) = match &config.shards {
        None => {
            let bundle = Bundle::open(bundle).map_err(unreadable)?;
            let manifest = bundle.manifest();
            (manifest.fields().dataset.name.clone(), weakest(manifest), LoadedBundle::new(&bundle, index, keys)?)
        }
        Some(shards) => {
            let metadata = BundleMetadata::open(bundle).map_err(unreadable)?;
            let loaded = LoadedBundle::frontend(&metadata, index, keys, |keys| {
                let shards = Arc::new(ShardSet::new(shards.clone(), metadata.manifest(), keys, runtime.clone())?);
                match runtime.block_on(shards.complete(shards_timeout)) {
                    Err(error) if shards_timeout.is_zero() && error.is_temporary() => {
                        tracing::warn!(%error, "shards are missing; the server answers when they are reachable");
                    }
                    result => result?,
                }
                shards.watch();
                Ok::<_, DaemonError>(shards)
            });
            let manifest = metadata.manifest();
            (manifest.fields().dataset.name.clone(), weakest(manifest), loaded?)
        }
    };
    if config.tokens.is_empty() {
        tracing::warn!(per_search = weakest, "no tokens: anyone may search, and a client may break the protocol");
    }
    let ledger =
        config.ledger.as_ref().map(|ledger| ledger::open(ledger, &format!("{dataset}/{index}"))).transpose()?;
    let authorisation = AccountTokens::counted_in(config.tokens.clone(), ledger)?.into();
    Ok(Loaded { loaded, authorisation, tls })
}

/// What the weakest offered scheme gives a client that breaks the protocol, per search.
fn weakest(manifest: &Manifest) -> String {
    let summary = summarise(manifest);
    summary.weakest().map(|scheme| format!("{}: {}", scheme.name, scheme.cheat())).unwrap_or_default()
}

/// Loads what the configuration names now and serves it. If anything fails, nothing changes.
fn reload(handle: &ServerHandle, read_config: &dyn Fn() -> Result<Config, ConfigError>, runtime: &Handle) {
    let reloaded = read_config().map_err(DaemonError::from).and_then(|config| {
        let Loaded { loaded, authorisation, tls } = load(&config, runtime, SHARDS_TIMEOUT)?;
        let peers = match (&config.peers, &config.tls, handle.peers()) {
            (Some(peers), Some(tls), Some(network)) => {
                Some((network, PeerTls::load(peers, &tls.certificate, &tls.key)?))
            }
            _ => None,
        };
        handle.reload(loaded, authorisation, tls)?;
        if let Some((network, tls)) = peers {
            runtime.block_on(network.replace_certificates(tls));
        }
        Ok(())
    });
    match reloaded {
        Ok(()) => tracing::info!("reloaded configuration and bundle"),
        Err(error) => {
            handle.reload_failed();
            tracing::error!(%error, "reload failed; still serving the previous bundle");
        }
    }
}

/// Runs `load` on a blocking thread. Returns `None` if `stop` resolves first.
pub(crate) async fn unless_stopped<T: Send + 'static>(
    stop: impl Future<Output = ()>,
    load: impl FnOnce() -> Result<T, DaemonError> + Send + 'static,
) -> Result<Option<T>, DaemonError> {
    tokio::select! {
        loaded = tokio::task::spawn_blocking(load) => {
            loaded.map_err(|error| DaemonError::Panic(panic_text(error)))?.map(Some)
        }
        () = stop => {
            tracing::info!("stopped before loading was complete");
            Ok(None)
        }
    }
}

/// The message of a panic.
fn panic_text(error: tokio::task::JoinError) -> String {
    let Ok(payload) = error.try_into_panic() else { return "the thread was cancelled".into() };
    let text = payload.downcast_ref::<String>().map(String::as_str).or(payload.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without a message").into()
}

/// A stream of SIGHUPs. Signals that arrive before the first `recv` are not lost.
#[cfg(unix)]
pub(crate) type Hangups = tokio::signal::unix::Signal;

/// Where there are no signals, none arrives.
#[cfg(not(unix))]
pub(crate) struct Hangups;

#[cfg(not(unix))]
impl Hangups {
    pub(crate) async fn recv(&mut self) -> Option<()> {
        std::future::pending().await
    }
}

#[cfg(unix)]
pub(crate) fn hangups() -> std::io::Result<Hangups> {
    tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup())
}

#[cfg(not(unix))]
pub(crate) fn hangups() -> std::io::Result<Hangups> {
    Ok(Hangups)
}

fn reload_on_hangup(
    mut hangups: Hangups,
    handle: ServerHandle,
    read_config: impl Fn() -> Result<Config, ConfigError> + Send + Sync + 'static,
) {
    let read_config = Arc::new(read_config);
    tokio::spawn(async move {
        while hangups.recv().await.is_some() {
            let (handle, read_config) = (handle.clone(), read_config.clone());
            let runtime = Handle::current();
            let failed = handle.clone();
            let reloading = tokio::task::spawn_blocking(move || reload(&handle, &*read_config, &runtime)).await;
            if let Err(error) = reloading.map_err(|error| DaemonError::Panic(panic_text(error))) {
                failed.reload_failed();
                tracing::error!(%error, "reload failed; still serving the previous bundle");
            }
        }
    });
}

/// Resolves at the first SIGINT or SIGTERM. The handlers are installed when this function returns.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_while_loading_is_reported_as_such() {
        let loading = unless_stopped(std::future::pending(), || -> Result<(), _> { panic!("row {} is odd", 7) });
        let error = loading.await.unwrap_err();
        assert_eq!(error.to_string(), "internal error while loading: row 7 is odd; please report it");
    }
}
