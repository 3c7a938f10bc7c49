//! One server of a deployment: it loads a bundle and answers queries over HTTPS without learning
//! what they ask.
//!
//! A request passes through these modules, in this order:
//!
//! 1. [`crate::http`]: the listener, the connection and the route;
//! 2. [`auth`]: the token, and its budget, which a [ledger](auth::ledger) counts;
//! 3. `limits`: the admission queue, and the eviction of idle connections;
//! 4. [`bundle`]: the version of the bundle that the message names;
//! 5. [`compute`]: the scan, the record sum or the sealed search.
//!
//! The response leaves as a stream. Of a request, the server keeps only counters in [`metrics`] and
//! the spent budget. No log line, metric or problem document contains the contents of a query.
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
