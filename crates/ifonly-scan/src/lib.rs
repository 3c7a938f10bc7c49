//! Private counterfactual retrieval: the row store, the scan kernels and the decoding.

pub mod answer;
mod backend;
#[cfg(feature = "bench")]
pub mod bench;
pub mod decode;
mod dot;
mod numbers;
pub mod pack;
pub mod records;
pub mod store;
mod table;
mod tile;

pub use answer::{Query, ScanError, Scanner};
pub use backend::Backend;
pub use store::{RowStore, RowStoreBuilder, StoreError};
