//! The meaning of levels. The protocol computes with levels from 0 to R_k; this crate maps values
//! such as incomes, dates and words to levels and back.
//!
//! - [`schema`]: the columns, how values become levels, and which values a level contains;
//! - [`manifest`]: the public description of a deployment, equal at all servers;
//! - [`record`]: an original row as text;
//! - [`wishes`]: the constraints and preferences of a user in values, and how they become a
//!   [`SecretQuery`](ifonly_core::secret_query::SecretQuery) in levels;
//! - [`error_category`]: who can fix an error;
//! - [`message`]: messages as codes with arguments.
//!
//! The crate does no I/O, reads no clock and compiles for browsers.
#![forbid(unsafe_code)]

pub mod error_category;
pub mod manifest;
pub mod message;
pub mod record;
pub mod schema;
pub mod wishes;
