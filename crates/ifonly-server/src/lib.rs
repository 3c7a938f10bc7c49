//! One logical server of private counterfactual retrieval: it holds a replica of the database and
//! answers queries over HTTPS, without ever knowing what was asked.
//!
//! A request passes, in this order, through [`tokens`] (who may ask, how often; counted in a
//! [`ledger`]), `admission` (how many at once), [`holding`] (which version of the database) and
//! [`database`] (the scan), and leaves as a stream. Nothing is kept of it but a number in
//! [`metrics`] and a spent budget. Query contents appear in no log, metric or error document.
#![forbid(unsafe_code)]

pub mod auth;
pub mod bundle;
pub mod compute;
pub mod config;
pub mod daemon;
pub mod http;
pub mod key_file;
mod limits;
pub mod metrics;
pub mod peers;
pub mod shards;
pub mod tls;

pub use bundle::loaded::LoadedBundle;
pub use config::Config;
pub use http::listener::{ServeError, Server};
