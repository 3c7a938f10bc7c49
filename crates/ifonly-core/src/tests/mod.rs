//! Tests of the whole protocol: exactness against brute force, privacy by enumeration of all
//! randomness on tiny fields, and test vectors.
//!
//! They are inside the crate because they inspect shares, answers and decoded values, which are not
//! public.

mod cheating;
mod common;
mod costs;
mod database_privacy;
mod docs;
mod errata;
mod exactness;
mod keys;
mod limits;
mod machine;
mod order;
mod refusals;
mod search;
mod sizes;
mod tickets;
mod user_privacy;
mod vectors;
mod work;
