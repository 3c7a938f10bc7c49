//! Mutual TLS on the ports for peers and shards: the client must complete the handshake in time and
//! show one expected certificate.
//!
//! Any machine that reaches the port can cause failures at will, so log lines about failures are
//! [throttled](crate::limits::log_throttle).

use crate::limits::log_throttle::LogThrottle;
use crate::tls::server::shows;
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// How long a handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Accepts connections whose client shows the expected certificate.
pub(crate) struct MtlsAcceptor {
    acceptor: TlsAcceptor,
    expected: CertificateDer<'static>,
    /// The name of the port in log lines.
    port: &'static str,
    throttle: LogThrottle,
}

impl MtlsAcceptor {
    /// An acceptor for clients that show the certificate `expected`. Log lines call the port
    /// `port`.
    pub(crate) fn new(
        config: Arc<ServerConfig>,
        expected: CertificateDer<'static>,
        port: &'static str,
    ) -> Arc<MtlsAcceptor> {
        Arc::new(MtlsAcceptor { acceptor: TlsAcceptor::from(config), expected, port, throttle: LogThrottle::default() })
    }

    /// Performs the handshake. Returns `None` if it fails or the client shows another certificate.
    pub(crate) async fn accept(&self, (socket, from): (TcpStream, SocketAddr)) -> Option<TlsStream<TcpStream>> {
        let reason = match tokio::time::timeout(HANDSHAKE_TIMEOUT, self.acceptor.accept(socket)).await {
            Ok(Ok(stream)) if shows(stream.get_ref().1.peer_certificates(), &self.expected) => return Some(stream),
            Ok(Ok(_)) => "the client showed another certificate".into(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the handshake took too long".into(),
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
