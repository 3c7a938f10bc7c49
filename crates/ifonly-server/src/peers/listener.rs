//! Mutual TLS between servers. Each server accepts only the certificate that is configured for its
//! peer.
//!
//! The certificates in the configured file are also the trust anchors for this certificate. So the
//! file holds a self-signed certificate alone, or an issued certificate followed by its issuer's.

use crate::limits::log_throttle::LogThrottle;
use crate::peers::stream::{ByteStream, ConnectFuture, Connector};
use crate::peers::{PeerLimits, PeerNetwork, RandomnessMode, serve};
use crate::tls::mtls_acceptor;
use crate::tls::mtls_acceptor::{Certificates, MtlsAcceptor};
use crate::tls::server::{TlsError, pem_chain, pem_key, shows};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;

/// Configuration of the two peers of a sealed search.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeersConfig {
    /// Address on which this server accepts its previous peer; port 0 selects a free port.
    pub listen: SocketAddr,
    /// The next server.
    pub next: NextServer,
    /// The previous server.
    pub previous: PreviousServer,
    /// Source of random bits; must be equal at all three servers.
    #[serde(default, deserialize_with = "randomness_mode")]
    pub randomness: RandomnessMode,
    /// Limits of sessions.
    #[serde(default)]
    pub limits: PeerLimits,
}

fn randomness_mode<'de, D: serde::Deserializer<'de>>(from: D) -> Result<RandomnessMode, D::Error> {
    <String as serde::Deserialize>::deserialize(from)?.parse().map_err(serde::de::Error::custom)
}

/// The server that this server connects to.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NextServer {
    /// Host and port of its `peers.listen`, for every frontend.
    #[serde(rename = "address", deserialize_with = "one_or_more")]
    pub addresses: Vec<String>,
    /// Certificate of the server (PEM file); all its frontends present the same one.
    pub certificate: PathBuf,
}

/// Deserializes a string or a list of strings.
fn one_or_more<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    #[derive(serde::Deserialize)]
    #[serde(untagged, expecting = "HOST:PORT, or a list of HOST:PORT with one entry per frontend")]
    enum Addresses {
        One(String),
        More(Vec<String>),
    }
    match <Addresses as serde::Deserialize>::deserialize(from)? {
        Addresses::One(address) => Ok(vec![address]),
        Addresses::More(addresses) => Ok(addresses),
    }
}

/// The server that connects to this server.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PreviousServer {
    /// Certificate of the server (PEM file).
    pub certificate: PathBuf,
}

/// Time limit for connecting, including the TLS handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Accepts the previous server, and connects to the next server.
pub struct PeerListener {
    pub(crate) peers: PeerNetwork,
    listener: TcpListener,
    pub(super) acceptor: Arc<MtlsAcceptor>,
    address: SocketAddr,
}

impl std::fmt::Debug for PeerListener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PeerListener({}, {:?})", self.address, self.peers)
    }
}

/// Why the connections between servers cannot be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PeerListenerError {
    /// A certificate or key file is invalid.
    #[error("peers: {0}")]
    Tls(#[from] TlsError),
    /// A certificate cannot be a trust anchor.
    #[error("peers: {path}: {error}")]
    Certificate {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: String,
    },
    /// An address is not of the form HOST:PORT.
    #[error("peers.next.address: {0:?} is not a valid address; use HOST:PORT")]
    Address(String),
    /// The list of addresses is empty.
    #[error("peers.next.address is empty; list HOST:PORT of every frontend of the next server")]
    NoAddress,
    /// Binding the port failed.
    #[error("peers: cannot listen on {address}: {error}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Error of the operating system.
        error: std::io::Error,
    },
}

impl PeerListener {
    /// Binds the port. This server presents `certificate` to its peers; `key` is its private key
    /// (PEM files).
    pub async fn bind(
        config: &PeersConfig,
        server: u8,
        certificate: &Path,
        key: &Path,
    ) -> Result<PeerListener, PeerListenerError> {
        let bind = |error| PeerListenerError::Bind { address: config.listen, error };
        let listener = TcpListener::bind(config.listen).await.map_err(bind)?;
        PeerListener::on(listener, config, server, certificate, key)
    }

    /// Uses a port that is already bound.
    pub fn on(
        listener: TcpListener,
        config: &PeersConfig,
        server: u8,
        certificate: &Path,
        key: &Path,
    ) -> Result<PeerListener, PeerListenerError> {
        let tls = PeerTls::load(config, certificate, key)?;
        let next: SharedNextTls = Arc::new(RwLock::new(tls.next));
        let connectors = connectors(&config.next, &next)?;
        let bind = |error| PeerListenerError::Bind { address: config.listen, error };
        let address = listener.local_addr().map_err(bind)?;
        let acceptor = MtlsAcceptor::new(tls.accepting, "peer");
        let mut peers = PeerNetwork::new(server.into(), config.limits, config.randomness, connectors);
        peers.tls = Some((acceptor.clone(), next));
        Ok(PeerListener { peers, listener, acceptor, address })
    }

    /// Address on which this server accepts its previous peer.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts the previous server as long as the process runs. Returns the connections.
    pub fn run(self) -> PeerNetwork {
        let PeerListener { peers, listener, acceptor, .. } = self;
        let (endpoint, limits) = ((peers.rendezvous.clone(), peers.prefetched.clone()), peers.limits);
        tokio::spawn(async move {
            loop {
                let connection = mtls_acceptor::next(&listener).await;
                let (acceptor, endpoint) = (acceptor.clone(), endpoint.clone());
                tokio::spawn(async move {
                    if let Some((stream, withdrawal)) = acceptor.accept(connection).await {
                        // A withdrawn certificate ends running sessions too.
                        tokio::select! {
                            biased;
                            () = withdrawal.withdrawn() => {}
                            () = serve(stream, endpoint, limits) => {}
                        }
                    }
                });
            }
        });
        peers
    }
}

fn invalid_certificate(path: &Path, error: impl ToString) -> PeerListenerError {
    PeerListenerError::Certificate { path: path.into(), error: error.to_string() }
}

/// The certificates of a file as trust anchors, and the first one, which the peer must present.
fn trust_anchors(path: &Path) -> Result<(RootCertStore, CertificateDer<'static>), PeerListenerError> {
    let chain = pem_chain(path)?;
    let mut roots = RootCertStore::empty();
    for certificate in &chain {
        roots.add(certificate.clone()).map_err(|error| invalid_certificate(path, error))?;
    }
    Ok((roots, chain[0].clone()))
}

/// The certificates of this server and of its peers.
pub(crate) struct PeerTls {
    accepting: Certificates,
    next: NextTls,
}

/// TLS of connections to the next server, and the certificate that it must present.
#[derive(Clone)]
pub(crate) struct NextTls {
    connector: TlsConnector,
    expected: CertificateDer<'static>,
}

/// Shared by all connectors, so that a reload replaces it.
type SharedNextTls = Arc<RwLock<NextTls>>;

/// The certificates of a running server, which a reload replaces.
pub(super) type RunningTls = (Arc<MtlsAcceptor>, SharedNextTls);

impl PeerTls {
    /// Loads the certificates of the peers, and the certificate and key of this server.
    pub(crate) fn load(config: &PeersConfig, certificate: &Path, key: &Path) -> Result<PeerTls, PeerListenerError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let own = || -> Result<_, TlsError> { Ok((pem_chain(certificate)?, pem_key(key)?)) };
        let (roots, expected) = trust_anchors(&config.previous.certificate)?;
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone())
            .build()
            .map_err(|error| invalid_certificate(&config.previous.certificate, error))?;
        let (chain, key_of) = own()?;
        let mut accepting = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .and_then(|builder| builder.with_client_cert_verifier(verifier).with_single_cert(chain, key_of))
            .map_err(TlsError::from)?;
        accepting.alpn_protocols = vec![b"h2".to_vec()];
        let accepting = Certificates { accepting: Arc::new(accepting), expected };
        let (roots, expected) = trust_anchors(&config.next.certificate)?;
        let (chain, key_of) = own()?;
        let mut connecting = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .and_then(|builder| builder.with_root_certificates(roots).with_client_auth_cert(chain, key_of))
            .map_err(TlsError::from)?;
        connecting.alpn_protocols = vec![b"h2".to_vec()];
        let next = NextTls { connector: TlsConnector::from(Arc::new(connecting)), expected };
        Ok(PeerTls { accepting, next })
    }
}

impl PeerNetwork {
    /// Replaces the certificates of this server and of its peers. Connections with withdrawn
    /// certificates end.
    pub(crate) async fn replace_certificates(&self, PeerTls { accepting, next }: PeerTls) {
        let Some((acceptor, current)) = &self.tls else { return };
        acceptor.replace(accepting);
        *current.write().unwrap_or_else(PoisonError::into_inner) = next;
        // Random words may wait on a connection with the previous certificates.
        drop(self.prefetched.take());
        for connector in &self.connectors {
            connector.disconnect().await;
        }
    }
}

/// A connector to each frontend of the next server.
fn connectors(next: &NextServer, tls: &SharedNextTls) -> Result<Vec<Connector>, PeerListenerError> {
    if next.addresses.is_empty() {
        return Err(PeerListenerError::NoAddress);
    }
    next.addresses.iter().map(|address| tls_connector(address, tls)).collect()
}

fn tls_connector(address: &str, tls: &SharedNextTls) -> Result<Connector, PeerListenerError> {
    let invalid = || PeerListenerError::Address(address.to_owned());
    let host = address.rsplit_once(':').ok_or_else(invalid)?.0.trim_matches(['[', ']']).to_owned();
    let name = ServerName::try_from(host).map_err(|_| invalid())?;
    let (tls, address) = (tls.clone(), address.to_owned());
    let warnings: Arc<LogThrottle> = Arc::default();
    Ok(Box::new(move || -> ConnectFuture {
        let NextTls { connector, expected } = tls.read().unwrap_or_else(PoisonError::into_inner).clone();
        let (address, name) = (address.clone(), name.clone());
        let warnings = warnings.clone();
        Box::pin(async move {
            let connecting = async {
                let socket = TcpStream::connect(&address).await?;
                socket.set_nodelay(true)?;
                let stream = connector.connect(name, socket).await?;
                if shows(stream.get_ref().1.peer_certificates(), &expected) {
                    Ok(Box::new(stream) as Box<dyn ByteStream>)
                } else {
                    Err(std::io::Error::other("it presents another certificate than peers.next.certificate"))
                }
            };
            let late = |_| std::io::Error::new(std::io::ErrorKind::TimedOut, "connection timed out");
            let connected =
                tokio::time::timeout(CONNECT_TIMEOUT, connecting).await.map_err(late).and_then(|connected| connected);
            // An unreachable frontend fails only the sessions whose message it has, so this is only
            // a warning.
            if let Err(error) = &connected
                && let Some(left_out) = warnings.allow(Instant::now())
            {
                tracing::warn!(address, %error, left_out, "cannot connect to the next server (peers.next.address)");
            }
            connected
        })
    }))
}
