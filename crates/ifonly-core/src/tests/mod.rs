//! Tests of the whole: exactness against brute force, privacy by enumerating all randomness on tiny
//! fields, vectors.
//!
//! They are in the crate because they look at shares, answers and decoded values, which are nobody
//! else's.

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
