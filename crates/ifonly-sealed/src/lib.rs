//! Sealed search: three servers find the nearest row by multi-party computation.
//!
//! 1. The client splits its table of costs and gates into three additive shares ([`share`]).
//! 2. Server n sums its share over the levels of every row. The result is an additive share of the
//!    row's value `V = C + 2^c·E`, with cost C and E violated gates. The caller does this step.
//! 3. The servers convert these shares to replicated sharings of bits (input sharing), add them and
//!    run a tournament. They end with sharings of the winner's cost and of one bit per row, which
//!    is 1 for the winner only.
//! 4. Each server XORs the records that its component of these bits selects. It masks the sum with
//!    a zero sharing and sends it to the client.
//! 5. The client XORs the three answers ([`combine`]). It learns one record and its cost.
//!
//! A [`Circuit`] holds the gates in circuit rounds. It depends on public parameters only
//! ([`SealedParams`]). A [`Party`] is the state machine of one server in one session. It receives
//! frames, returns frames and does no I/O. `docs/sealed.md` is the specification.
//!
//! ```
//! use ifonly_algebra::random::OsRandom;
//! use ifonly_sealed::{Circuit, Party, PartyRandomness, SealedParams, combine, share, simulate};
//! use std::sync::Arc;
//! # fn main() -> Result<(), ifonly_sealed::SealedError> {
//! # let mut random = OsRandom::default();
//! // Values have 8 bits; the lower 6 bits are the cost. Rows 1 and 3 match.
//! let values = [0b01_000011, 17, 0b10_000000, 9];
//! let records = [*b"ann", *b"bob", *b"cid", *b"dot"];
//! let params = SealedParams::new(values.len(), 8, 6)?.record_bytes(3)?;
//! let circuit = Arc::new(Circuit::new(&params));
//!
//! let shares = share(8, &values, &mut random);
//! let party = |n: usize, random: &mut OsRandom| {
//!     Party::new(&circuit, n, PartyRandomness::Drawn, |row| shares[n - 1][row], random)
//! };
//! let mut parties = [party(1, &mut random)?, party(2, &mut random)?, party(3, &mut random)?];
//! for result in simulate::run(&mut parties, &mut random, |frame| vec![frame]) {
//!     result?;
//! }
//!
//! let answers = parties.map(|party| {
//!     let bits = party.selection(0).unwrap()[0];
//!     let mut sum = [0; 3];
//!     for (row, record) in records.iter().enumerate().filter(|(row, _)| bits >> row & 1 == 1) {
//!         sum.iter_mut().zip(record).for_each(|(sum, byte)| *sum ^= byte);
//!     }
//!     party.answer(&[sum]).unwrap()
//! });
//! let found = combine(&params, [&answers[0], &answers[1], &answers[2]])?;
//! let nearest = found[0].as_ref().unwrap();
//! assert_eq!((nearest.cost, &nearest.record[..]), (9, &b"dot"[..]));
//! # Ok(())
//! # }
//! ```
//!
//! The protocol is private against one semi-honest server: the messages that a server receives are
//! uniformly random, whatever the user's values are. This holds exactly with
//! [`PartyRandomness::Drawn`] and the operating system's generator; `src/privacy_tests.rs` proves
//! it by enumeration. The protocol does not detect a malicious server.
#![forbid(unsafe_code)]

mod circuit;
mod client;
mod error;
mod frame;
mod handshake;
mod params;
mod party;
#[cfg(test)]
mod privacy_tests;
mod search;
pub mod simulate;

pub use circuit::build::{Circuit, CircuitCost};
pub use client::{SealedResult, combine, share};
pub use error::{ExpectedFrame, PeerFault, SealedError};
pub use frame::{FrameOutcome, HEADER_BYTES};
pub use handshake::{HandshakeMismatch, RandomnessMode, SessionContext, SessionRandom, UnknownRandomness};
pub use params::{FRAME_WORDS, SealedParams};
pub use party::randomness::PartyRandomness;
pub use party::session::{Party, Peer};
pub use party::zero_sharing::PrefetchedWords;
pub use search::{SealedSearch, params_for};
