//! Private counterfactual retrieval: the protocol without I/O.
//!
//! A user was rejected and wants to know the nearest accepted case ("if only I had …") without
//! revealing their profile. An institution places its accepted samples on N servers whose
//! operators do not collude.
//!
//! 1. The user's query is secret-shared ([`share`]).
//! 2. Each server evaluates a [row program](row_function::RowProgram) on every row and adds pads
//!    that only the servers know ([`keys`]).
//! 3. The user [decodes](phase) the costs, selects the [nearest row](candidates) and fetches its
//!    record by symmetric PIR ([`spir`]).
//!
//! Any T servers see uniformly random values, for every query and with any computing power. The
//! user learns what the [`scheme`] decodes, and one record.
//!
//! ```
//! use ifonly_algebra::field::ModulusRule;
//! use ifonly_algebra::keys::RootKey;
//! use ifonly_algebra::random::OsRandom;
//! use ifonly_algebra::row_function::Rows;
//! use ifonly_core::memory::MemoryServer;
//! use ifonly_core::params::Params;
//! use ifonly_core::scheme;
//! use ifonly_core::scheme::instance::SchemeInstance;
//! use ifonly_core::search::Search;
//! use ifonly_core::secret_query::SecretQuery;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let mut random = OsRandom::default();
//! // The institution has accepted samples of (income, years employed), a scheme, and a root key
//! // that only its servers know.
//! let rows = Rows::new(&[100, 50], [[80, 20], [45, 8], [90, 2]])?;
//! let params = Params::new(vec![100, 50], rows.iter().len());
//! let gated = scheme::named("gated").unwrap();
//! let instance = SchemeInstance::new(gated, params, ModulusRule::Deployment)?;
//! let root = RootKey::generate(1, &mut random);
//!
//! // Two servers; each holds all rows and answers messages.
//! let servers: Vec<MemoryServer> =
//!     (1..=2).map(|index| MemoryServer::new(index, &instance, &root, &rows)).collect();
//! let mut network = |server: usize, message: &[u8]| servers[server - 1].respond(message).ok();
//!
//! // The user has income 30 and 8 years of employment; the years are immutable.
//! let secret = SecretQuery::new(vec![30, 8]).immutable(vec![false, true]);
//! let search = Search::new(instance, secret, servers[0].header_context())?;
//! let result = search.run(&mut random, &mut network)?;
//!
//! assert_eq!(ifonly_core::memory::levels(&result.found[0].record), [45, 8]);
//! # Ok(())
//! # }
//! ```
//!
//! # From query to result
//!
//! 1. A query is a [`secret_query::SecretQuery`] in levels. `ifonly-values` makes it from wishes.
//! 2. A [`scheme::Scheme`] is plain data: which vectors are shared, what servers compute from their
//!    shares, and how decoded values become costs. Scheme and [`params`] make a
//!    [`scheme::instance::SchemeInstance`], which determines servers, field, sizes and costs.
//!    Threshold, silent and lying servers, verified answers and shuffle are implemented once for
//!    all schemes.
//! 3. [`transcript`] binds the servers' randomness to the whole query by commitments, so that
//!    servers keep no state. [`wire`] packs field elements.
//! 4. [`server_protocol`] checks a message and returns what to scan. [`row_function::answer`] is
//!    the reference scan that faster scans must equal.
//! 5. [`search`] always runs all phases and fetches the record, so that traffic depends on no
//!    secret.
//!
//! Tests in `src/tests/` prove exactness against brute force, and privacy by enumeration of all
//! randomness on tiny fields.
#![forbid(unsafe_code)]

// Modules of this crate refer to these as `crate::field` and so on.
use ifonly_algebra::{decode, field, gf256, interpolate, keys, lifted, random, row_function, share, shuffle, wire};

pub mod aont;
pub mod candidates;
pub mod cost_check;
pub mod d_min;
#[cfg(test)]
mod describe;
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
pub mod vote;
