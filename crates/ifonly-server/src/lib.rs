//! One logical server of private counterfactual retrieval: it holds a replica of the database and answers queries over
//! HTTPS, without ever knowing what was asked.
//!
//! A request passes, in this order, through [`tokens`] (who may ask, how often; counted in a [`ledger`]), `admission` (how many at once),
//! [`holding`] (which version of the database) and [`database`] (the scan), and leaves as a stream. Nothing is kept of it
//! but a number in [`metrics`] and a spent budget. Query contents appear in no log, metric or error document.
#![forbid(unsafe_code)]

mod admission;
pub mod config;
mod connection;
mod crowd;
pub mod daemon;
pub mod database;
mod door;
pub mod holding;
pub mod keyfile;
pub mod ledger;
pub mod metrics;
mod passes;
pub mod peers;
pub mod problem;
pub mod routes;
mod sealed;
pub mod serve;
pub mod shards;
mod stream;
pub mod tls;
pub mod tokens;

pub use config::Config;
pub use holding::LoadedBundle;
pub use serve::{ServeError, Server};
