//! TLS 1.3 only, hybrid post-quantum key exchange (X25519MLKEM768) preferred: a recorded session
//! that a later machine could open would undo the promise to the person who asked.

use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What is wrong with certificate or key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// Not PEM, or not there.
    #[error("{path}: {error}")]
    Pem {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        error: rustls::pki_types::pem::Error,
    },
    /// No certificate in the file.
    #[error("{0} has no certificate in it")]
    Empty(PathBuf),
    /// They do not belong together, or cannot be used.
    #[error("certificate and key cannot be used: {0}")]
    Unusable(#[from] rustls::Error),
}

/// The server's side for a certificate chain and its key, both PEM files.
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

/// Whether the other end has shown this very certificate.
pub(crate) fn shows(shown: Option<&[CertificateDer<'_>]>, expected: &CertificateDer<'_>) -> bool {
    shown.and_then(<[_]>::first).is_some_and(|first| first == expected)
}

/// The server's side for a certificate chain and its key, for whoever has them in memory.
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
    fn the_post_quantum_exchange_comes_first() {
        let groups = aws_lc_rs::default_provider().kx_groups;
        assert_eq!(groups[0].name(), rustls::NamedGroup::X25519MLKEM768);
    }
}
