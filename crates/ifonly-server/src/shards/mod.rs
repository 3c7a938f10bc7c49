//! One logical server on many machines: shards hold the rows and the records, fronts talk to
//! people.
//!
//! ```text
//!            ┌── shard [0, a) ──┐
//! people ──▶ front ── shard [a, b) ──┤   mutual TLS, one certificate for all
//!            └── shard [b, M) ──┘
//! ```
//! A shard computes what depends on its rows alone: form values, sums of tables, sums of records
//! (`service.rs`). A front checks messages, asks all shards at once and puts together what they
//! say, with order, pads and packing by the position in the whole (`set.rs`, `remote.rs`). Answers
//! have the same bits for every cut. Neither keeps anything of a query.

mod addresses;
mod client;
mod daemon;
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
