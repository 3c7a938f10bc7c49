//! TLS to a store: 1.3 only, its certificate checked against the authority that was named, or those
//! of the system.

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
                crate::tls::server::pem_chain(path).map_err(|error| LedgerError::Place(error.to_string()))?
            {
                roots.add(certificate).map_err(|error| LedgerError::Place(format!("{}: {error}", path.display())))?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| LedgerError::Place(error.to_string()))?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}
