//! The row store, the scan kernels and the answer decoder of private counterfactual retrieval.
//!
//! A server holds its rows in a [`RowStore`]. A [`Scanner`] evaluates a row program (see
//! [`ifonly_algebra::row_function`]) on every row and delivers the packed answer span by span. The
//! bytes of the answer are those of [`ifonly_algebra::row_function::answer`]. They do not depend on
//! the backend, the number of threads or the span length. A client decodes the answers of all
//! servers with a [`decode::Decoder`].
//!
//! ```
//! use ifonly_algebra::field::{Field, FieldElement};
//! use ifonly_algebra::row_function::{OutputExpr, RowFunction, RowFunctionKind, RowProgram, ScanJob};
//! use ifonly_algebra::keys::RootKey;
//! use ifonly_scan::{RowStore, Scanner};
//! use std::ops::ControlFlow;
//!
//! // At start: the rows, from memory or with `RowStore::from_bytes` from a mapped file.
//! let store = RowStore::build(&[255, 255], [[3, 4], [200, 10], [7, 7]])?;
//! let scanner = Scanner::new().with_threads(2)?;
//!
//! // For each query: the row program with the client's shares, and the keystreams of the transcript.
//! let field = Field::new(262_139)?;
//! let slope = vec![field.reduce(17), field.reduce(99)];
//! let kind = RowFunctionKind::Linear { norm: FieldElement::ONE, slope };
//! let function = RowFunction { kind, constant: FieldElement::ZERO };
//! let program = RowProgram::new([function], [OutputExpr::Plain(0)]);
//! let keys = RootKey::new(0, [7; 32]).transcript(&[1; 32]).rows(&field, 1, 1, 1);
//! let alpha = FieldElement::ONE;
//! let job = ScanJob { field: &field, alpha, kappa: 1, program: &program };
//!
//! let mut sent = 0;
//! scanner.answer(&store, &job, &keys, &mut |bytes| {
//!     sent += bytes.len(); // A server writes to its connection here, or breaks if it is closed.
//!     ControlFlow::Continue(())
//! })?;
//! assert_eq!(sent, (3 * 18usize).div_ceil(8));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `unsafe` is used only in the vector backends, in prefetches and for aligned or mapped memory.
//! Every block states why it is sound.

mod backend;
mod compact_values;
pub mod decode;
mod dot;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod internals;
mod keystream_planes;
mod lifted;
mod memory;
mod packing;
pub mod parts;
pub mod records;
pub mod row_store;
pub mod scan;
mod tile;

pub use backend::Backend;
pub use lifted::LiftedQuery;
pub use memory::FileBytes;
pub use row_store::{RowStore, RowStoreBuilder, RowWriter, StoreError};
pub use scan::scanner::{ScanError, ScanQuery, Scanner};
