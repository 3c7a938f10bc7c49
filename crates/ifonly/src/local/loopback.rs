//! All servers of a bundle on loopback ports of this process: real servers and real HTTP, for
//! notebooks, demonstrations and tests.
//!
//! Whoever holds all servers could read the question, so there is nothing private about it.

use ifonly_algebra::keys::RootKey;
use ifonly_algebra::random::OsRandom;
use ifonly_bundle::Bundle;
use ifonly_server::auth::tokens::Tokens;
use ifonly_server::bundle::loaded::LoadError;
use ifonly_server::config::Limits;
use ifonly_server::http::listener::ServeError;
use ifonly_server::http::routes::AppState;
use ifonly_server::peers::{PeerLimits, PeerNetwork};
use ifonly_server::{LoadedBundle, Server};
use ifonly_values::error_category::ErrorCategory;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Why they do not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoopbackError {
    /// More servers than the bundle is for, or none.
    #[error("the bundle is for {most} servers, so between 1 and {most} can run, not {wanted}")]
    Servers {
        /// As wanted.
        wanted: usize,
        /// How many there can be.
        most: usize,
    },
    /// The bundle or the keys do not fit.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// No port.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// Without tokens this cannot be.
    #[error("{0}")]
    Tokens(String),
    /// A page's origin that no browser would send.
    #[error("{0:?} is not an origin of pages, such as http://localhost:8000")]
    Origin(String),
}

impl LoopbackError {
    /// Whose fault it is.
    pub fn category(&self) -> ErrorCategory {
        match self {
            LoopbackError::Serve(_) => ErrorCategory::Machine,
            _ => ErrorCategory::Input,
        }
    }
}

/// Running servers. They stop with it.
#[derive(Debug)]
pub struct Loopback {
    urls: Vec<String>,
    stop: watch::Sender<()>,
    tasks: Vec<JoinHandle<()>>,
}

impl Loopback {
    /// Starts servers 1 to `servers` of a bundle, or all of them, on free ports; under a key that
    /// nobody else has, unless keys are given. Browsers may ask from pages of these origins. Needs
    /// a Tokio runtime.
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
        let keys = match keys.is_empty() {
            true => vec![RootKey::generate(bundle.manifest().header_context().epoch, &mut OsRandom::default())],
            false => keys,
        };
        let origin = |text: &&str| text.parse().map_err(|_| LoopbackError::Origin((*text).into()));
        let origins: Vec<_> = origins.iter().map(origin).collect::<Result<_, _>>()?;
        let (stop, stopped) = watch::channel(());
        let mut peers = PeerNetwork::in_memory(PeerLimits::default()).map(Arc::new).into_iter();
        let mut loopback = Loopback { urls: vec![], stop, tasks: vec![] };
        for index in 1..=wanted as u8 {
            let loaded = LoadedBundle::new(bundle, index, keys.clone())?;
            let tokens = Tokens::new(vec![], None).map_err(|error| LoopbackError::Tokens(error.to_string()))?;
            // Everybody here has one address.
            let limits = Limits { address_percent: 100, ..Limits::default() };
            let app = AppState::new(loaded, tokens, limits, origins.clone()).with_peers(peers.next());
            let server = Server::bind(app, SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), None, None).await?;
            loopback.urls.push(format!("http://{}", server.address()));
            let mut stopped = stopped.clone();
            loopback.tasks.push(tokio::spawn(server.run(async move {
                // An error means that nobody holds the servers any more.
                let _ = stopped.changed().await;
            })));
        }
        Ok(loopback)
    }

    /// Their addresses, in the order of their numbers.
    pub fn urls(&self) -> &[String] {
        &self.urls
    }

    /// Lets running answers finish, then stops.
    pub async fn stop(self) {
        let Loopback { stop, tasks, .. } = self;
        drop(stop);
        for task in tasks {
            // A server that panicked has stopped too.
            let _ = task.await;
        }
    }
}
