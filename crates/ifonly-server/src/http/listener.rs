//! The listener: accepts connections, serves them, and handles reload and shutdown.
//!
//! A connection gets an entry in a pool and a TLS handshake. It is then served over HTTP/1.1 or
//! HTTP/2 until a limit of `connection` ends it. On shutdown the listener closes first, running
//! requests get `shutdown_seconds` to finish, and the server drops the rest.

use crate::auth::Authorisation;
use crate::bundle::loaded::{LoadError, LoadedBundle};
use crate::config::Limits;
use crate::http::connection::{ClientConnection, TrackedBody};
use crate::http::routes;
use crate::http::routes::AppState;
use crate::limits::eviction::{EvictingPool, rate_limit_key};
use crate::peers::PeerNetwork;
use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use rustls::ServerConfig;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, RwLock};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address cannot be bound.
    #[error("cannot listen on {address}: {error}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The error of the operating system.
        error: std::io::Error,
    },
}

/// A server whose ports are bound and that does not serve yet.
#[derive(Debug)]
pub struct Server {
    app: Arc<AppState>,
    tls: Option<Arc<RwLock<Arc<ServerConfig>>>>,
    public: (TcpListener, SocketAddr),
    admin: Option<(TcpListener, SocketAddr)>,
}

/// A handle that reloads a running server.
#[derive(Clone, Debug)]
pub struct ServerHandle {
    app: Arc<AppState>,
    tls: Option<Arc<RwLock<Arc<ServerConfig>>>>,
}

impl Server {
    /// Binds the ports. Without `tls` the server uses plain HTTP;
    /// [`Config::check`](crate::Config::check) decides where that is allowed.
    pub async fn bind(
        app: AppState,
        listen: SocketAddr,
        admin: Option<SocketAddr>,
        tls: Option<Arc<ServerConfig>>,
    ) -> Result<Server, ServeError> {
        let public = bind(listen).await?;
        let admin = match admin {
            Some(address) => Some(bind(address).await?),
            None => None,
        };
        Ok(Server { app: Arc::new(app), tls: tls.map(|tls| Arc::new(RwLock::new(tls))), public, admin })
    }

    /// The address for clients.
    pub fn address(&self) -> SocketAddr {
        self.public.1
    }

    /// The address of the admin port.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin.as_ref().map(|(_, address)| *address)
    }

    /// The state that all requests share.
    pub fn app(&self) -> Arc<AppState> {
        self.app.clone()
    }

    /// A handle to reload the server while it runs.
    pub fn handle(&self) -> ServerHandle {
        ServerHandle { app: self.app.clone(), tls: self.tls.clone() }
    }

    /// Serves until `stop` resolves, then lets running requests finish.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let Server { app, tls, public, admin } = self;
        let limits = app.limits;
        let admin = admin.map(|(listener, _)| {
            let router = routes::admin(app.clone());
            // The admin port reports that the server drains, so it stays open until the end.
            tokio::spawn(accept(listener, router, None, app.clone(), std::future::pending()))
        });
        let router = routes::public(app.clone());
        let drain = async {
            stop.await;
            app.draining.store(true, Ordering::Relaxed);
        };
        let graceful = accept(public.0, router, tls, app.clone(), drain).await;
        let finished = tokio::time::timeout(Duration::from_secs(limits.shutdown_seconds), graceful.shutdown()).await;
        if finished.is_err() {
            tracing::warn!("dropped requests that did not finish within shutdown_seconds");
        }
        if let Some(admin) = admin {
            admin.abort();
        }
    }
}

impl ServerHandle {
    /// Replaces the bundle, the authorisation and the certificate. Searches with the previous
    /// bundle can finish within the grace period. If the bundle is refused, nothing changes.
    pub fn reload(
        &self,
        loaded: LoadedBundle,
        authorisation: impl Into<Arc<dyn Authorisation>>,
        tls: Option<Arc<ServerConfig>>,
    ) -> Result<(), LoadError> {
        self.app.versions.replace(loaded, Duration::from_secs(self.app.limits.grace_seconds))?;
        let authorisation = authorisation.into();
        let mut current = self.app.authorisation.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        authorisation.inherit(&**current);
        *current = authorisation;
        drop(current);
        if let (Some(current), Some(tls)) = (&self.tls, tls) {
            *current.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = tls;
        }
        self.app.metrics.reloads.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// The connections to the peers of sealed searches.
    pub(crate) fn peers(&self) -> Option<Arc<PeerNetwork>> {
        self.app.peers.clone()
    }

    /// Counts a failed reload.
    pub fn reload_failed(&self) {
        self.app.metrics.reloads_failed.fetch_add(1, Ordering::Relaxed);
    }
}

async fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr), ServeError> {
    let failed = |error| ServeError::Bind { address, error };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}

/// Accepts connections until `stop` resolves; returns those that are still open.
async fn accept(
    listener: TcpListener,
    router: Router,
    tls: Option<Arc<RwLock<Arc<ServerConfig>>>>,
    app: Arc<AppState>,
    stop: impl Future<Output = ()>,
) -> GracefulShutdown {
    let graceful = GracefulShutdown::new();
    let pool = EvictingPool::new(app.limits.connections as u64);
    tokio::pin!(stop);
    loop {
        let accepted = tokio::select! {
            () = &mut stop => return graceful,
            accepted = listener.accept() => accepted,
        };
        let (socket, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // The usual reason is that the process is out of file descriptors: close an idle
                // connection, and wait until it is closed.
                tracing::warn!(%error, "cannot accept a connection");
                pool.evict_one();
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let address = rate_limit_key(address.ip());
        // A full pool evicts an idle connection. If all connections are busy, the new one is
        // closed.
        let Some(entry) = pool.enter(address, 1) else { continue };
        let (watcher, connection) = (graceful.watcher(), ClientConnection::new(address, entry));
        let tls = tls.as_ref().map(|tls| tls.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone());
        let (router, app) = (router.clone(), app.clone());
        tokio::spawn(async move {
            app.metrics.connections.fetch_add(1, Ordering::Relaxed);
            tokio::select! {
                () = connection.ended(&app.limits) => {}
                () = serve(socket, router, tls, &app, &connection, watcher) => {}
            }
            app.metrics.connections.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

async fn serve(
    socket: TcpStream,
    router: Router,
    tls: Option<Arc<ServerConfig>>,
    app: &AppState,
    connection: &Arc<ClientConnection>,
    watcher: hyper_util::server::graceful::Watcher,
) {
    let _ = socket.set_nodelay(true);
    let Some(tls) = tls else { return http(socket, router, app.limits, connection.clone(), watcher).await };
    match TlsAcceptor::from(tls).accept(socket).await {
        Ok(stream) => http(stream, router, app.limits, connection.clone(), watcher).await,
        Err(_) => {
            app.metrics.handshakes_failed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Maximum concurrent requests of one HTTP/2 connection: a share of all requests.
fn max_streams(limits: &Limits) -> u32 {
    (limits.max_concurrent.saturating_add(limits.queue) / 8).clamp(4, 32) as u32
}

async fn http(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: Router,
    limits: Limits,
    connection: Arc<ClientConnection>,
    watcher: hyper_util::server::graceful::Watcher,
) {
    let timeout = Duration::from_secs(limits.request_seconds);
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(timeout).max_buf_size(64 << 10);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(timeout)
        .max_concurrent_streams(max_streams(&limits))
        .max_header_list_size(16 << 10);
    let service = hyper::service::service_fn(move |request: hyper::Request<Incoming>| {
        let mut request = request.map(Body::new);
        let guard = connection.request();
        request.extensions_mut().insert(connection.clone());
        let answering = router.clone().oneshot(request);
        async move { Ok::<_, Infallible>(answering.await?.map(|body| TrackedBody::new(body, guard))) }
    });
    // An error here means that the client closed the connection, which is normal.
    let _ = watcher.watch(builder.serve_connection(TokioIo::new(stream), service).into_owned()).await;
}
