//! All servers of a bundle on loopback ports of this process: real servers and real HTTP.
//!
//! For notebooks, demonstrations, tests and measurements. A loopback deployment has no privacy: one
//! process holds all servers, so it could combine their shares and read every query.

use ifonly_algebra::keys::RootKey;
use ifonly_algebra::random::OsRandom;
use ifonly_bundle::Bundle;
use ifonly_server::auth::account_tokens::AccountTokens;
use ifonly_server::bundle::loaded::LoadError;
use ifonly_server::config::Limits;
use ifonly_server::http::listener::ServeError;
use ifonly_server::http::routes::AppState;
use ifonly_server::key_file::{self, KeyFileError};
use ifonly_server::peers::{
    NextServer, PeerLimits, PeerListener, PeerListenerError, PeerNetwork, PeersConfig, PreviousServer, RandomnessMode,
};
use ifonly_server::tls::server::{self as server_tls, TlsError};
use ifonly_server::{LoadedBundle, Server};
use ifonly_values::error_category::ErrorCategory;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A free port of this machine.
const FREE_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
/// Servers of a sealed search.
const PEERS: usize = ifonly_core::scheme::sealed::SERVERS;

/// Why the servers could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoopbackError {
    /// The number of servers is 0 or larger than the bundle allows.
    #[error("the bundle is for {most} servers, so between 1 and {most} can run, not {wanted}")]
    Servers {
        /// The requested number.
        wanted: usize,
        /// The largest possible number.
        most: usize,
    },
    /// The bundle and the keys do not match.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A port could not be opened.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The empty token list was refused.
    #[error("{0}")]
    Tokens(String),
    /// The origin of a web page cannot be an HTTP header.
    #[error("{0:?} is not a web origin, such as http://localhost:8000")]
    Origin(String),
    /// A certificate could not be created.
    #[error(transparent)]
    Certificate(#[from] KeyFileError),
    /// A certificate could not be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The servers of sealed searches could not be connected.
    #[error(transparent)]
    Peers(#[from] PeerListenerError),
    /// The system refused a file or a port.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl LoopbackError {
    /// Who can correct the error.
    pub fn category(&self) -> ErrorCategory {
        match self {
            LoopbackError::Servers { .. }
            | LoopbackError::Load(_)
            | LoopbackError::Tokens(_)
            | LoopbackError::Origin(_) => ErrorCategory::Input,
            _ => ErrorCategory::Machine,
        }
    }
}

/// How loopback servers run. By default they speak plain HTTP, and the servers of a sealed search
/// are connected through memory.
#[derive(Debug)]
pub struct LoopbackOptions {
    /// Origins of the web pages that may connect.
    pub origins: Vec<String>,
    /// Limits of every server. All clients share one address, so the default does not limit it.
    pub limits: Limits,
    /// Certificates for HTTPS; `None` is plain HTTP.
    pub tls: Option<LoopbackTls>,
    /// The connections of servers 1 to 3 for sealed searches, for example from
    /// [`LoopbackTls::peers`]; if empty, the servers are connected through memory.
    pub peers: Vec<PeerNetwork>,
}

impl Default for LoopbackOptions {
    fn default() -> LoopbackOptions {
        let limits = Limits { address_percent: 100, ..Limits::default() };
        LoopbackOptions { origins: vec![], limits, tls: None, peers: vec![] }
    }
}

/// Running servers. They stop when this value is dropped.
#[derive(Debug)]
pub struct Loopback {
    urls: Vec<String>,
    loaded: Vec<Arc<LoadedBundle>>,
    stop: watch::Sender<()>,
    tasks: Vec<JoinHandle<()>>,
}

impl Loopback {
    /// Starts servers 1 to `servers` of a bundle, or all of them, on free ports. Without `keys`,
    /// the servers share a new root key. Web pages of `origins` may connect. Needs a Tokio runtime.
    pub async fn start(
        bundle: &Bundle,
        servers: Option<usize>,
        keys: Vec<RootKey>,
        origins: &[&str],
    ) -> Result<Loopback, LoopbackError> {
        let most = bundle.manifest().servers();
        let wanted = servers.unwrap_or(most);
        if wanted == 0 || wanted > most {
            return Err(LoopbackError::Servers { wanted, most });
        }
        let keys = if keys.is_empty() {
            vec![RootKey::generate(bundle.manifest().header_context().epoch, &mut OsRandom::default())]
        } else {
            keys
        };
        let load = |index| LoadedBundle::new(bundle, index, keys.clone());
        let loaded = (1..=wanted as u8).map(load).collect::<Result<_, _>>()?;
        let origins = origins.iter().map(|&origin| origin.to_owned()).collect();
        Loopback::serve(loaded, LoopbackOptions { origins, ..LoopbackOptions::default() }).await
    }

    /// Starts servers for bundles that are already loaded, in the order of their indices. Needs a
    /// Tokio runtime.
    pub async fn serve(loaded: Vec<LoadedBundle>, options: LoopbackOptions) -> Result<Loopback, LoopbackError> {
        let LoopbackOptions { origins, limits, tls, peers } = options;
        let origin = |text: String| text.parse().map_err(|_| LoopbackError::Origin(text));
        let origins: Vec<_> = origins.into_iter().map(origin).collect::<Result<_, _>>()?;
        let peers = if peers.is_empty() { PeerNetwork::in_memory(PeerLimits::default()).into() } else { peers };
        let mut peers = peers.into_iter().map(Arc::new);
        let (stop, stopped) = watch::channel(());
        let mut loopback = Loopback { urls: vec![], loaded: vec![], stop, tasks: vec![] };
        for (server, loaded) in (1..).zip(loaded) {
            let tokens = AccountTokens::new(vec![], None).map_err(|error| LoopbackError::Tokens(error.to_string()))?;
            let app = AppState::new(loaded, tokens, limits, origins.clone()).with_peers(peers.next());
            let certificate = tls.as_ref().map(|tls| server_tls::server(&tls.certificate(server), &tls.key(server)));
            let scheme = if tls.is_some() { "https" } else { "http" };
            let server = Server::bind(app, FREE_PORT, None, certificate.transpose()?).await?;
            loopback.urls.push(format!("{scheme}://{}", server.address()));
            loopback.loaded.extend(server.app().versions().current());
            let mut stopped = stopped.clone();
            loopback.tasks.push(tokio::spawn(server.run(async move {
                // An error means that the `Loopback` was dropped.
                let _ = stopped.changed().await;
            })));
        }
        Ok(loopback)
    }

    /// The addresses of the servers, in the order of their indices.
    pub fn urls(&self) -> &[String] {
        &self.urls
    }

    /// The bundle of each server, to compare answers with those of direct calls.
    pub fn loaded_bundles(&self) -> &[Arc<LoadedBundle>] {
        &self.loaded
    }

    /// Lets running answers finish, then stops the servers.
    pub async fn stop(self) {
        let Loopback { stop, tasks, .. } = self;
        drop(stop);
        for task in tasks {
            // A server that panicked has stopped, too.
            let _ = task.await;
        }
    }
}

/// Self-signed certificates of loopback servers.
#[derive(Clone, Debug)]
pub struct LoopbackTls {
    directory: PathBuf,
    certificates: String,
}

impl LoopbackTls {
    /// Writes a new certificate and its key for each server into an empty directory.
    pub fn create(directory: &Path, servers: usize) -> Result<LoopbackTls, LoopbackError> {
        let mut tls = LoopbackTls { directory: directory.into(), certificates: String::new() };
        for server in 1..=servers {
            key_file::create_certificate(&tls.certificate(server), &tls.key(server), &["127.0.0.1".into()])?;
            tls.certificates += &std::fs::read_to_string(tls.certificate(server))?;
        }
        Ok(tls)
    }

    /// All certificates, PEM: what a client must trust.
    pub fn certificates(&self) -> &str {
        &self.certificates
    }

    fn certificate(&self, server: usize) -> PathBuf {
        self.directory.join(format!("{server}.pem"))
    }

    fn key(&self, server: usize) -> PathBuf {
        self.directory.join(format!("{server}.key"))
    }

    /// Connects servers 1 to 3 for sealed searches over TLS, with the randomness mode of each
    /// server. A server connects to the next one at the address that `route` returns for the
    /// address at which the next server listens: `Ok` for a direct connection, or the address of a
    /// proxy. Needs a Tokio runtime.
    pub async fn peers(
        &self,
        randomness: [RandomnessMode; PEERS],
        route: impl Fn(SocketAddr) -> std::io::Result<SocketAddr>,
    ) -> Result<Vec<PeerNetwork>, LoopbackError> {
        let (mut listeners, mut addresses) = (vec![], vec![]);
        for _ in 0..PEERS {
            let listener = TcpListener::bind(FREE_PORT).await?;
            addresses.push(listener.local_addr()?);
            listeners.push(listener);
        }
        let connect = |((server, listener), randomness): ((usize, TcpListener), RandomnessMode)| {
            let (next, previous) = (server % PEERS + 1, (server + 1) % PEERS + 1);
            let config = PeersConfig {
                listen: FREE_PORT,
                next: NextServer {
                    addresses: vec![route(addresses[next - 1])?.to_string()],
                    certificate: self.certificate(next),
                },
                previous: PreviousServer { certificate: self.certificate(previous) },
                randomness,
                limits: PeerLimits::default(),
            };
            let (certificate, key) = (self.certificate(server), self.key(server));
            Ok(PeerListener::on(listener, &config, server as u8, &certificate, &key)?.run())
        };
        (1..).zip(listeners).zip(randomness).map(connect).collect()
    }
}
