//! Private counterfactual retrieval: the protocol without I/O.
#![forbid(unsafe_code)]

pub mod candidates;
pub mod decode;
pub mod deployment;
pub mod dmin;
pub mod field;
pub mod form;
pub mod gf256;
pub mod keys;
pub mod manifest;
pub mod order;
pub mod package;
pub mod params;
pub mod prime;
pub mod random;
pub mod record;
pub mod replica;
pub mod round;
pub mod schema;
pub mod scheme;
pub mod search;
pub mod secret;
pub mod share;
pub mod spir;
pub mod transcript;
pub mod wire;
