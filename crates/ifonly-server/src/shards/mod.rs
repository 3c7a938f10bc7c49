//! One logical server on many machines: shards hold rows and records, frontends serve clients.
//!
//! ```text
//!                      ┌── shard [0, a)
//! clients ──▶ frontend ┼── shard [a, b)     mutual TLS, one certificate for all
//!                      └── shard [b, M)
//! ```
//! A shard computes what depends on its rows only: values of row functions, sums of tables, sums of
//! records (`service.rs`). A frontend checks messages, queries all shards at once and combines
//! their responses (`set.rs`, `remote_parts.rs`). It applies row order, pads and packing by the
//! position in the whole table, so answers have the same bytes for every partition of the rows.
//! Neither keeps anything of a query.

mod addresses;
mod client;
mod daemon;
#[cfg(fuzzing)]
pub mod fuzzing;
mod remote_parts;
pub(crate) mod service;
pub(crate) mod set;
mod tls;
mod wire;

pub(crate) use addresses::address;
pub use daemon::{ShardConfig, run};
pub use service::{LoadedShard, ShardServer};
pub use set::{ShardSet, ShardsConfig, ShardsError};
pub use tls::{SHARD_NAME, ShardTls, ShardTlsError};
