//! What levels mean. The protocol knows numbers from 0 to R_k; this crate knows whose income, date
//! or word they stand for.
//!
//! - [`schema`]: the columns, how their values become levels and which values a level stands for;
//! - [`manifest`]: everything public about a deployment, which servers and clients must agree on;
//! - [`record`]: the original row, as text;
//! - [`wishes`]: what a person wants, in values, and the
//!   [`Secret`](ifonly_core::secret_query::Secret) in levels that it becomes;
//! - [`blame`]: who has to do something about a fault.
//!
//! Like the protocol it does no I/O, reads no clock and compiles for browsers.
#![forbid(unsafe_code)]

pub mod error_category;
pub mod manifest;
pub mod record;
pub mod schema;
pub mod wishes;
