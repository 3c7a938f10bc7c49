//! Servers know each other by their certificates: each shows its own and takes the one that the
//! configuration names, no other.
//!
//! The named file is also what that certificate is checked against, so a self-signed certificate
//! stands alone in its file, and one that somebody issued is followed by its issuer's.

use crate::peers::stream::{ByteStream, ConnectFuture, Connector};
use crate::peers::{PeerLimits, PeerNetwork, RandomnessMode, serve};
use crate::tls::mtls_acceptor;
use crate::tls::mtls_acceptor::{LogThrottle, MtlsAcceptor};
use crate::tls::server::{TlsError, pem_chain, pem_key, shows};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;

/// The two other servers of a sealed search, and how they are known.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeersConfig {
    /// Where the server before this one connects; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The server after this one.
    pub next: NextServer,
    /// The server before this one.
    pub previous: PreviousServer,
    /// Where random bits between the servers come from; the same at all three.
    #[serde(default, deserialize_with = "source")]
    pub randomness: RandomnessMode,
    /// How much is too much.
    #[serde(default)]
    pub limits: PeerLimits,
}

fn source<'de, D: serde::Deserializer<'de>>(from: D) -> Result<RandomnessMode, D::Error> {
    <String as serde::Deserialize>::deserialize(from)?.parse().map_err(serde::de::Error::custom)
}

/// The server that this one dials.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NextServer {
    /// Host and port of its `peers.listen`; of every front, where it has several.
    #[serde(rename = "address", deserialize_with = "one_or_more")]
    pub addresses: Vec<String>,
    /// Its certificate, PEM; all its fronts show the same one.
    pub certificate: PathBuf,
}

/// A text, or a list of them.
fn one_or_more<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    #[derive(serde::Deserialize)]
    #[serde(untagged, expecting = "HOST:PORT, or a list of them, one for each front")]
    enum Addresses {
        One(String),
        More(Vec<String>),
    }
    match <Addresses as serde::Deserialize>::deserialize(from)? {
        Addresses::One(address) => Ok(vec![address]),
        Addresses::More(addresses) => Ok(addresses),
    }
}

/// The server that dials this one.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PreviousServer {
    /// Its certificate, PEM.
    pub certificate: PathBuf,
}

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(10);

/// The lines of a server, and its door for the server before it.
pub struct PeerListener {
    pub(crate) peers: PeerNetwork,
    listener: TcpListener,
    acceptor: Arc<MtlsAcceptor>,
    address: SocketAddr,
}

impl std::fmt::Debug for PeerListener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Station({}, {:?})", self.address, self.peers)
    }
}

/// Why a server has no lines.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PeerListenerError {
    /// A certificate or a key.
    #[error("peers: {0}")]
    Tls(#[from] TlsError),
    /// A certificate that cannot be checked against.
    #[error("peers: {path}: {error}")]
    Certificate {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        error: String,
    },
    /// An address without a host or a port.
    #[error("peers.next.address: {0:?} is not HOST:PORT")]
    Address(String),
    /// No address.
    #[error("peers.next.address is empty; it names every front of the next server, HOST:PORT each")]
    NoAddress,
    /// The port cannot be had.
    #[error("peers: cannot listen on {address}: {error}")]
    Bind {
        /// Where.
        address: SocketAddr,
        /// What the system said.
        error: std::io::Error,
    },
}

impl PeerListener {
    /// Takes the port. `certificate` and `key` are what this server shows to the others, PEM files.
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

    /// The same on a port that was taken before.
    pub fn on(
        listener: TcpListener,
        config: &PeersConfig,
        server: u8,
        certificate: &Path,
        key: &Path,
    ) -> Result<PeerListener, PeerListenerError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let own = || -> Result<_, TlsError> { Ok((pem_chain(certificate)?, pem_key(key)?)) };
        let (roots, expected) = named(&config.previous.certificate)?;
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone())
            .build()
            .map_err(|error| refuse(&config.previous.certificate, error))?;
        let (chain, key_of) = own()?;
        let mut accepting = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .and_then(|builder| builder.with_client_cert_verifier(verifier).with_single_cert(chain, key_of))
            .map_err(TlsError::from)?;
        accepting.alpn_protocols = vec![b"h2".to_vec()];
        let dials = dialling(&config.next, own()?, provider)?;
        let bind = |error| PeerListenerError::Bind { address: config.listen, error };
        let address = listener.local_addr().map_err(bind)?;
        let peers = PeerNetwork::new(server.into(), config.limits, config.randomness, dials);
        let acceptor =
            MtlsAcceptor::new(Arc::new(accepting), expected, "the server before this one (peers.previous.certificate)");
        Ok(PeerListener { peers, listener, acceptor, address })
    }

    /// Where the server before this one connects.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers the server before this one, as long as the process lives; gives the lines.
    pub fn run(self) -> PeerNetwork {
        let PeerListener { peers, listener, acceptor, .. } = self;
        let (rooms, limits) = ((peers.rendezvous.clone(), peers.store.clone()), peers.limits);
        tokio::spawn(async move {
            loop {
                let connection = mtls_acceptor::next(&listener).await;
                let (acceptor, rooms) = (acceptor.clone(), rooms.clone());
                tokio::spawn(async move {
                    if let Some(stream) = acceptor.accept(connection).await {
                        serve(stream, rooms, limits).await;
                    }
                });
            }
        });
        peers
    }
}

fn refuse(path: &Path, error: impl ToString) -> PeerListenerError {
    PeerListenerError::Certificate { path: path.into(), error: error.to_string() }
}

/// The certificates of a file as roots, and the first one as the one to expect.
fn named(path: &Path) -> Result<(RootCertStore, CertificateDer<'static>), PeerListenerError> {
    let chain = pem_chain(path)?;
    let mut roots = RootCertStore::empty();
    for certificate in &chain {
        roots.add(certificate.clone()).map_err(|error| refuse(path, error))?;
    }
    Ok((roots, chain[0].clone()))
}

type Own = (Vec<CertificateDer<'static>>, rustls::pki_types::PrivateKeyDer<'static>);

/// A way to each front of the next server.
fn dialling(
    next: &NextServer,
    (chain, key): Own,
    provider: Arc<rustls::crypto::CryptoProvider>,
) -> Result<Vec<Connector>, PeerListenerError> {
    let (roots, expected) = named(&next.certificate)?;
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .and_then(|builder| builder.with_root_certificates(roots).with_client_auth_cert(chain, key))
        .map_err(TlsError::from)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    let connector = TlsConnector::from(Arc::new(config));
    if next.addresses.is_empty() {
        return Err(PeerListenerError::NoAddress);
    }
    next.addresses.iter().map(|address| dial(address, &connector, &expected)).collect()
}

fn dial(
    address: &str,
    connector: &TlsConnector,
    expected: &CertificateDer<'static>,
) -> Result<Connector, PeerListenerError> {
    let wrong = || PeerListenerError::Address(address.to_owned());
    let host = address.rsplit_once(':').ok_or_else(wrong)?.0.trim_matches(['[', ']']).to_owned();
    let name = ServerName::try_from(host).map_err(|_| wrong())?;
    let (connector, expected, address) = (connector.clone(), expected.clone(), address.to_owned());
    let warnings: Arc<LogThrottle> = Arc::default();
    Ok(Box::new(move || -> ConnectFuture {
        let (connector, address, name, expected) = (connector.clone(), address.clone(), name.clone(), expected.clone());
        let warnings = warnings.clone();
        Box::pin(async move {
            let connecting = async {
                let socket = TcpStream::connect(&address).await?;
                socket.set_nodelay(true)?;
                let stream = connector.connect(name, socket).await?;
                match shows(stream.get_ref().1.peer_certificates(), &expected) {
                    true => Ok(Box::new(stream) as Box<dyn ByteStream>),
                    false => Err(std::io::Error::other("it shows another certificate than peers.next.certificate")),
                }
            };
            let late = |_| std::io::Error::new(std::io::ErrorKind::TimedOut, "no connection in time");
            let connected =
                tokio::time::timeout(CONNECT, connecting).await.map_err(late).and_then(|connected| connected);
            // Of several fronts, one that is away fails only the sessions whose message it has.
            if let Err(error) = &connected
                && let Some(left_out) = warnings.turn(Instant::now())
            {
                tracing::warn!(address, %error, left_out, "the next server cannot be reached here (peers.next.address)");
            }
            connected
        })
    }))
}
