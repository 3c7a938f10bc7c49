//! Private counterfactual retrieval: the protocol without I/O.
#![forbid(unsafe_code)]

pub mod field;
pub mod form;
pub mod keys;
pub mod order;
pub mod prime;
pub mod random;
