//! The way into a port that is closed to people: a handshake in time, and one certificate.
//!
//! Whoever reaches the port can fail at it as often as they like. So failures are logged now and
//! then, each line with the number of those that were left out before it.

use crate::tls::server::shows;
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long no other failure is logged after one.
const PAUSE: Duration = Duration::from_secs(10);

/// Who is let in.
pub(crate) struct MtlsAcceptor {
    acceptor: TlsAcceptor,
    expected: CertificateDer<'static>,
    /// Whose certificate that is, for the log.
    whose: &'static str,
    warnings: LogThrottle,
}

impl MtlsAcceptor {
    /// For whoever shows this certificate.
    pub(crate) fn new(
        config: Arc<ServerConfig>,
        expected: CertificateDer<'static>,
        whose: &'static str,
    ) -> Arc<MtlsAcceptor> {
        Arc::new(MtlsAcceptor {
            acceptor: TlsAcceptor::from(config),
            expected,
            whose,
            warnings: LogThrottle::default(),
        })
    }

    /// The connection, if it is that of whom it is for.
    pub(crate) async fn accept(&self, (socket, from): (TcpStream, SocketAddr)) -> Option<TlsStream<TcpStream>> {
        let reason = match tokio::time::timeout(HANDSHAKE, self.acceptor.accept(socket)).await {
            Ok(Ok(stream)) if shows(stream.get_ref().1.peer_certificates(), &self.expected) => return Some(stream),
            Ok(Ok(_)) => "another certificate was shown".into(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the handshake took too long".into(),
        };
        if let Some(left_out) = self.warnings.turn(Instant::now()) {
            tracing::warn!(%from, reason, left_out, "somebody was not let in at the port for {}", self.whose);
        }
        None
    }
}

/// The next connection.
pub(crate) async fn next(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        if let Ok((socket, from)) = listener.accept().await {
            let _ = socket.set_nodelay(true);
            return (socket, from);
        }
        // Out of file descriptors, most likely: give others time to close theirs.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// When something was last said, and how often it was not said since.
#[derive(Default)]
pub(crate) struct LogThrottle(Mutex<(Option<Instant>, u64)>);

impl LogThrottle {
    /// How many were left out before this one, if this one may be said.
    pub(crate) fn turn(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (said, left_out) = &mut *state;
        if said.is_some_and(|said| now.saturating_duration_since(said) < PAUSE) {
            *left_out = left_out.saturating_add(1);
            return None;
        }
        *said = Some(now);
        Some(std::mem::take(left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_said_at_a_time_and_the_others_are_counted() {
        let (sparing, start) = (LogThrottle::default(), Instant::now());
        let at = |milliseconds| sparing.turn(start + Duration::from_millis(milliseconds));
        assert_eq!([0, 0, 9_999].map(at), [Some(0), None, None]);
        // The pause begins anew with every line.
        assert_eq!([10_000, 10_001, 19_999].map(at), [Some(2), None, None]);
        assert_eq!([60_000, 70_000].map(at), [Some(2), Some(0)]);
    }
}
