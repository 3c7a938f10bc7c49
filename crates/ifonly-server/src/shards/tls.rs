//! Mutual TLS between the frontends and shards of one server. All of them share one certificate.
//! Each presents it and accepts no other.

use crate::tls::mtls_acceptor::Certificates;
use crate::tls::server::{TlsError, pem_chain, pem_key, shows};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The name in the certificate. It is not the host name of a shard, so that shards can move.
pub const SHARD_NAME: &str = "shard.ifonly.internal";

/// TLS configuration of both sides.
#[derive(Clone)]
pub struct ShardTls {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    certificate: CertificateDer<'static>,
}

impl std::fmt::Debug for ShardTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ShardTls(..)")
    }
}

/// Why TLS between frontends and shards cannot be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShardTlsError {
    /// The certificate or key file is invalid.
    #[error("shards: {0}")]
    Tls(#[from] TlsError),
    /// The certificate cannot be a trust anchor.
    #[error("shards: {path}: {error}; generate a certificate with `ifonly keygen`")]
    Certificate {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: String,
    },
}

impl ShardTls {
    /// Loads certificate and key from PEM files.
    pub fn load(certificate: &Path, key: &Path) -> Result<ShardTls, ShardTlsError> {
        let unusable = |error: String| ShardTlsError::Certificate { path: certificate.into(), error };
        let (chain, key) = (pem_chain(certificate)?, pem_key(key)?);
        let mut roots = RootCertStore::empty();
        for certificate in &chain {
            roots.add(certificate.clone()).map_err(|error| unusable(error.to_string()))?;
        }
        let (roots, first) = (Arc::new(roots), chain[0].clone());
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone())
            .build()
            .map_err(|error| unusable(error.to_string()))?;
        let mut server = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .and_then(|builder| {
                builder.with_client_cert_verifier(verifier).with_single_cert(chain.clone(), key.clone_key())
            })
            .map_err(TlsError::from)?;
        server.alpn_protocols = vec![b"http/1.1".to_vec()];
        let mut client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .and_then(|builder| builder.with_root_certificates(roots).with_client_auth_cert(chain, key))
            .map_err(TlsError::from)?;
        client.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(ShardTls { client: Arc::new(client), server: Arc::new(server), certificate: first })
    }

    pub(crate) fn client(&self) -> Arc<ClientConfig> {
        self.client.clone()
    }

    /// The certificates for a shard, whose frontends must present this certificate.
    pub(crate) fn certificates(&self) -> Certificates {
        Certificates { accepting: self.server.clone(), expected: self.certificate.clone() }
    }

    /// Whether the other side presented this certificate.
    pub(crate) fn is_shown(&self, shown: Option<&[CertificateDer<'_>]>) -> bool {
        shows(shown, &self.certificate)
    }

    /// The server name that a frontend expects.
    pub(crate) fn name() -> ServerName<'static> {
        // Unwrap safety: the constant is a valid DNS name.
        ServerName::try_from(SHARD_NAME).expect("SHARD_NAME is a valid DNS name")
    }
}
