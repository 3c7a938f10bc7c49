//! The TLS configuration for connections to a store: TLS 1.3 only. The certificate of the store
//! must be issued by the configured authority, or by default by an authority of the operating
//! system.

use crate::auth::ledger::LedgerError;
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};
use std::path::Path;
use std::sync::Arc;

pub(crate) fn client(authority: Option<&Path>) -> Result<Arc<ClientConfig>, LedgerError> {
    let mut roots = RootCertStore::empty();
    match authority {
        Some(path) => {
            for certificate in
                crate::tls::server::pem_chain(path).map_err(|error| LedgerError::Config(error.to_string()))?
            {
                roots.add(certificate).map_err(|error| LedgerError::Config(format!("{}: {error}", path.display())))?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| LedgerError::Config(error.to_string()))?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}
