//! Mutual TLS on the ports for peers and shards: the client must complete the handshake in time and
//! show one expected certificate.
//!
//! Any machine that reaches the port can cause failures at will, so log lines about failures are
//! [throttled](crate::limits::log_throttle), and the number of handshakes is limited: a new one
//! displaces the oldest of the address with the most.

use crate::limits::eviction::{EvictingPool, rate_limit_key};
use crate::limits::log_throttle::LogThrottle;
use crate::tls::server::shows;
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// How long a handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of concurrent handshakes.
const HANDSHAKES: u64 = 64;

/// Accepts connections whose client shows the expected certificate.
pub(crate) struct MtlsAcceptor {
    certificates: RwLock<Certificates>,
    /// How often the expected certificate has been replaced.
    replaced: watch::Sender<u64>,
    handshakes: Arc<EvictingPool>,
    /// The name of the port in log lines.
    port: &'static str,
    throttle: LogThrottle,
}

/// The certificate of this server, in a TLS configuration, and that of its clients.
#[derive(Clone)]
pub(crate) struct Certificates {
    pub(crate) accepting: Arc<ServerConfig>,
    pub(crate) expected: CertificateDer<'static>,
}

/// Resolves when the certificate that the client of a connection has shown is no longer expected.
pub(crate) struct Withdrawal(watch::Receiver<u64>);

impl Withdrawal {
    pub(crate) async fn withdrawn(mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending().await
        }
    }
}

impl MtlsAcceptor {
    /// An acceptor with these certificates. Log lines call the port `port`.
    pub(crate) fn new(certificates: Certificates, port: &'static str) -> Arc<MtlsAcceptor> {
        Arc::new(MtlsAcceptor {
            certificates: RwLock::new(certificates),
            replaced: watch::Sender::new(0),
            handshakes: EvictingPool::new(HANDSHAKES),
            port,
            throttle: LogThrottle::default(),
        })
    }

    /// Replaces the certificates. If another client certificate is expected now, connections with
    /// the previous one end.
    pub(crate) fn replace(&self, certificates: Certificates) {
        let mut current = self.certificates.write().unwrap_or_else(PoisonError::into_inner);
        let is_withdrawn = current.expected != certificates.expected;
        *current = certificates;
        if is_withdrawn {
            self.replaced.send_modify(|times| *times += 1);
        }
    }

    /// Number of running handshakes, for tests.
    #[cfg(test)]
    pub(crate) fn handshakes(&self) -> u64 {
        self.handshakes.used()
    }

    /// Performs the handshake. Returns `None` if it fails or the client shows another certificate.
    pub(crate) async fn accept(
        &self,
        (socket, from): (TcpStream, SocketAddr),
    ) -> Option<(TlsStream<TcpStream>, Withdrawal)> {
        let (certificates, withdrawal) = {
            let certificates = self.certificates.read().unwrap_or_else(PoisonError::into_inner);
            (certificates.clone(), Withdrawal(self.replaced.subscribe()))
        };
        // Every entry of this pool waits for its client, so there is always one to displace.
        let place = self.handshakes.enter(rate_limit_key(from.ip()), 1)?;
        let handshake = TlsAcceptor::from(certificates.accepting).accept(socket);
        let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake);
        let reason = tokio::select! {
            done = handshake => match done {
                Ok(Ok(stream)) if shows(stream.get_ref().1.peer_certificates(), &certificates.expected) => {
                    return Some((stream, withdrawal));
                }
                Ok(Ok(_)) => "the client showed another certificate".into(),
                Ok(Err(error)) => error.to_string(),
                Err(_) => "the handshake took too long".into(),
            },
            () = place.evicted() => "there are too many handshakes".into(),
        };
        if let Some(left_out) = self.throttle.allow(Instant::now()) {
            tracing::warn!(%from, reason, left_out, "rejected a connection on the {} port", self.port);
        }
        None
    }
}

/// The next connection of a listener.
pub(crate) async fn next(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        if let Ok((socket, from)) = listener.accept().await {
            let _ = socket.set_nodelay(true);
            return (socket, from);
        }
        // The usual reason is that the process is out of file descriptors: wait until other
        // connections close.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
