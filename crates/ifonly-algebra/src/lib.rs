//! What lies under the protocol: numbers, sharing, row functions, and the randomness that servers
//! have in common.
//!
//! A question is [shared](share) at N points of a [`field`]; a server evaluates a small
//! [program](row_function::Program) on every row and adds pads from [keyed streams](keys), in an
//! [order] that only the servers know; whoever asked [decodes](decode) the values. Kernels need all
//! of this and nothing of schemes, messages or searches, which are `ifonly-core`'s: that is the
//! line between the two crates.
//!
//! ```
//! use ifonly_algebra::{decode::agree, field::Field, random::OsRandom, share::{Points, share}};
//! # let mut random = OsRandom::default();
//! let field = Field::new(101).unwrap();
//! let points = Points::usual(&field, 3).unwrap();
//! // One server alone sees a uniform number; any two of the three know the secret.
//! let shares = share(&field, points.as_slice(), 1, &[field.reduce(42)], &mut random);
//! let answers: Vec<_> = shares.into_iter().map(Some).collect();
//! let agreed = agree(&field, points.as_slice(), 1, 0, &answers, &mut random).unwrap();
//! assert_eq!(agreed.coefficient(&field, 0), [field.reduce(42)]);
//! ```
#![forbid(unsafe_code)]

pub mod decode;
pub mod field;
pub mod gf256;
pub mod interpolate;
pub mod keys;
mod prime;
pub mod random;
pub mod row_function;
pub mod share;
pub mod shuffle;
pub mod wire;
