//! The TLS configuration of the server: TLS 1.3 only, hybrid post-quantum key exchange
//! (X25519MLKEM768) preferred. An eavesdropper who records the traffic of all servers must not be
//! able to decrypt it later with a quantum computer: that would reveal the queries.

use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why a certificate or its key cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The file cannot be read, or it is not PEM.
    #[error("{path}: {error}")]
    Pem {
        /// Which file.
        path: PathBuf,
        /// The reason.
        error: rustls::pki_types::pem::Error,
    },
    /// The file contains no certificate.
    #[error("{0} contains no certificate")]
    Empty(PathBuf),
    /// Certificate and key do not match, or their kind is not supported.
    #[error("the certificate and its key cannot be used: {0}")]
    Unusable(#[from] rustls::Error),
}

/// The TLS configuration for a certificate chain and its key, both PEM files.
pub fn server(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    Ok(with(pem_chain(certificate)?, pem_key(key)?)?)
}

/// The certificates of a PEM file, at least one.
pub(crate) fn pem_chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let pem = |error| TlsError::Pem { path: path.into(), error };
    let chain = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>).map_err(pem)?;
    if chain.is_empty() { Err(TlsError::Empty(path.into())) } else { Ok(chain) }
}

/// The private key of a PEM file.
pub(crate) fn pem_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| TlsError::Pem { path: path.into(), error })
}

/// Whether the first certificate that the other side showed is `expected`.
pub(crate) fn shows(shown: Option<&[CertificateDer<'_>]>, expected: &CertificateDer<'_>) -> bool {
    shown.and_then(<[_]>::first).is_some_and(|first| first == expected)
}

/// The TLS configuration for a certificate chain and its key in memory.
pub fn with(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<Arc<ServerConfig>, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_post_quantum_key_exchange_is_preferred() {
        let groups = aws_lc_rs::default_provider().kx_groups;
        assert_eq!(groups[0].name(), rustls::NamedGroup::X25519MLKEM768);
    }
}
