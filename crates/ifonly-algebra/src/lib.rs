//! The algebra below the protocol: fields, secret sharing, row functions, and the randomness that
//! the servers share.
//!
//! The client [shares](share) its secret at N points of a [`field`]. Each server evaluates a
//! [row program](row_function::RowProgram) on every row, adds pads from [keyed streams](keys), and
//! answers in a [row order](shuffle) that only the servers know. The client [decodes](decode) the
//! values.
//!
//! Scan kernels need all of this crate. Schemes, messages and searches are in `ifonly-core`, which
//! the kernels do not need.
//!
//! ```
//! use ifonly_algebra::decode::select_consistent;
//! use ifonly_algebra::field::Field;
//! use ifonly_algebra::random::OsRandom;
//! use ifonly_algebra::share::{EvaluationPoints, share};
//! # let mut random = OsRandom::default();
//! let field = Field::new(101).unwrap();
//! let points = EvaluationPoints::usual(&field, 3).unwrap();
//! // With T = 1, each share is uniform by itself, and any two of the three determine the secret.
//! let shares = share(&field, points.as_slice(), 1, &[field.reduce(42)], &mut random);
//! let answers: Vec<_> = shares.into_iter().map(Some).collect();
//! let decoded =
//!     select_consistent(&field, points.as_slice(), 1, 0, &answers, &mut random).unwrap();
//! assert_eq!(decoded.coefficient(&field, 0), [field.reduce(42)]);
//! ```
#![forbid(unsafe_code)]

pub mod decode;
pub mod field;
pub mod fingerprint;
pub mod gf256;
pub mod interpolate;
pub mod keys;
pub mod lifted;
mod prime;
pub mod random;
pub mod row_function;
pub mod share;
pub mod shuffle;
pub mod wipe;
pub mod wire;
