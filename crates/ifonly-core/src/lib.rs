//! Private counterfactual retrieval: the protocol without I/O.
//!
//! Somebody was turned down and wants to know the nearest accepted case, "if only I had …", without
//! showing anyone who they are. An institution keeps its accepted samples on N servers run by
//! parties that do not collude. The user's query is secret-shared ([`share`]); each server
//! evaluates a small [program](row_function::Program) on every row and adds pads that only the
//! servers know ([`keys`]); the user [decodes](round) the costs, takes the [nearest
//! row](candidates), and fetches its record by symmetric PIR ([`spir`]). Any T servers see uniform
//! noise whoever asks, whatever computing power they have; the user learns what the [`scheme`]
//! decodes and one record.
//!
//! ```
//! use ifonly_algebra::field::FieldRule;
//! use ifonly_algebra::row_function::Rows;
//! use ifonly_algebra::keys::RootKey;
//! use ifonly_algebra::random::OsRandom;
//! use ifonly_core::scheme::instance::Deployment;
//! use ifonly_core::memory::MemoryServer;
//! use ifonly_core::params::Params;
//! use ifonly_core::scheme;
//! use ifonly_core::search::Search;
//! use ifonly_core::secret_query::Secret;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let mut random = OsRandom::default();
//! // The institution: accepted samples of (income, years employed), a scheme, and a root key that its servers share.
//! let rows = Rows::new(&[100, 50], [[80, 20], [45, 8], [90, 2]])?;
//! let deployment =
//!     Deployment::new(scheme::named("gated").unwrap(), Params::new(vec![100, 50], rows.iter().len()), FieldRule::Deployment)?;
//! let root = RootKey::generate(1, &mut random);
//!
//! // The servers, two of them: each holds all rows and answers messages.
//! let servers: Vec<MemoryServer> =
//!     (1..=2).map(|index| MemoryServer::new(index, &deployment, &root, &rows)).collect();
//! let mut network = |server: usize, message: &[u8]| servers[server - 1].respond(message).ok();
//!
//! // The person: income 30, 8 years employed, which nobody can change by tomorrow.
//! let secret = Secret::new(vec![30, 8]).immutable(vec![false, true]);
//! let search = Search::new(deployment, secret, servers[0].audience())?;
//! let outcome = search.run(&mut random, &mut network)?;
//!
//! assert_eq!(ifonly_core::memory::levels(&outcome.found[0].record), [45, 8]);
//! # Ok(())
//! # }
//! ```
//!
//! # From secret to answer
//!
//! 1. What somebody wants is a [`secret_query::Secret`] in levels; `ifonly-values` makes it of
//!    wishes in people's words.
//! 2. A [`scheme::Scheme`], plain data, says which vectors are shared, what servers compute from
//!    their shares and how the decoded values are read. With [`params`] it makes a
//!    [`scheme::instance::Deployment`], from which servers, field, sizes and costs follow.
//!    Threshold, silent and lying servers, verified answers and shuffle are the engine's and work
//!    for all.
//! 3. [`transcript`] binds the servers' randomness to the whole query by commitments, so that
//!    servers keep no state; [`wire`] packs it.
//! 4. [`replica`] checks a message and says what to scan; [`row_function::answer`] is the plain
//!    scan that faster ones must equal.
//! 5. [`search`] runs all phases and fetches the record, always, so that traffic depends on nothing
//!    secret.
//!
//! Tests in `src/tests/` prove exactness against brute force and privacy by enumerating all
//! randomness on tiny fields.
#![forbid(unsafe_code)]

// Here under the names that they have there.
use ifonly_algebra::{decode, field, gf256, interpolate, keys, random, row_function, share, shuffle, wire};

pub mod aont;
pub mod candidates;
#[cfg(test)]
mod describe;
#[cfg(test)]
mod dmin;
mod error;
pub mod http_api;
pub mod memory;
mod oblivious_top_k;
pub mod params;
pub mod phase;
mod responses;
pub mod scheme;
pub mod search;
pub mod secret_query;
pub mod server_protocol;
pub mod share_commitment;
pub mod signature;
pub mod spir;
#[cfg(test)]
mod tests;
pub mod transcript;
mod vote;
