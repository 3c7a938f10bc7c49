//! The row store, the scan and the decoding of private counterfactual retrieval, at the speed of
//! memory.
//!
//! A server keeps its rows in a [`RowStore`] and answers a job (see
//! [`ifonly_algebra::row_function`]) with a [`Scanner`], which gives the packed stream piece by
//! piece. All backends, thread counts and span lengths give the same bytes, those of
//! [`ifonly_algebra::row_function::answer`]. A client decodes the streams of all servers with a
//! [`decode::Decoder`].
//!
//! ```
//! use ifonly_algebra::field::{Field, Symbol};
//! use ifonly_algebra::row_function::{Form, Job, Output, Program, Shape};
//! use ifonly_algebra::keys::RootKey;
//! use ifonly_scan::{RowStore, Scanner};
//! use std::ops::ControlFlow;
//!
//! // At start: the rows, from memory or with `RowStore::from_bytes` from a mapped file.
//! let store = RowStore::build(&[255, 255], [[3, 4], [200, 10], [7, 7]])?;
//! let scanner = Scanner::new().with_threads(2)?;
//!
//! // For each query: the scheme's program with the shares that came, and the transcript's streams.
//! let field = Field::new(262_139)?;
//! let slope = vec![field.reduce(17), field.reduce(99)];
//! let form = Form { shape: Shape::Linear { norm: Symbol::ONE, slope }, constant: Symbol::ZERO };
//! let program = Program::new([form], [Output::Plain(0)]);
//! let keys = RootKey::new(0, [7; 32]).transcript(&[1; 32]).rows(&field, 1, 1, 1);
//! let job = Job { field: &field, alpha: Symbol::ONE, kappa: 1, program: &program, order: None };
//!
//! let mut sent = 0;
//! scanner.answer(&store, &job, &keys, &mut |bytes| {
//!     sent += bytes.len(); // here a server writes to its connection, or breaks when it is gone
//!     ControlFlow::Continue(())
//! })?;
//! assert_eq!(sent, (3 * 18usize).div_ceil(8));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `unsafe` stands only in the vector backends and in aligned or mapped memory, each block with its
//! reason.

mod backend;
#[cfg(feature = "bench")]
pub mod bench;
mod compact_values;
pub mod decode;
mod dot;
mod keystream_planes;
mod memory;
mod packing;
pub mod parts;
pub mod records;
pub mod row_store;
pub mod scan;
mod tile;

pub use backend::Backend;
pub use memory::FileBytes;
pub use row_store::{RowStore, RowStoreBuilder, RowWriter, StoreError};
pub use scan::scanner::{ScanError, ScanQuery, Scanner};
