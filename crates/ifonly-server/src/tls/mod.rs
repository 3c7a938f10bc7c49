//! TLS: the certificate of the server, and mutual TLS on the ports for peers and shards.

pub(crate) mod mtls_acceptor;
pub mod server;
