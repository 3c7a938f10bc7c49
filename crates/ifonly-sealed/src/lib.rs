//! Three servers find the nearest row among themselves, on shared bits.
//!
//! The user shares its table of costs and gates three ways ([`share`]); server n sums its share
//! over every row's levels, which gives it an additive share of every row's value `V = C + 2^c·E`.
//! The rest is this crate: the servers turn their shares into replicated bits, add them, run a
//! tournament, and end with components of the winner's cost and of one bit for each row that is set
//! for the winner only. Each XORs the records that its bits name and answers the user with its
//! component, re-shared; the user XORs three answers ([`combine`]) and learns one record and
//! nothing else.
//!
//! A [`Circuit`] is the search as gates in rounds, and depends on public numbers only ([`Shape`]).
//! A [`Party`] is one server's session: it is handed frames and hands out frames, and does no I/O.
//!
//! ```
//! use ifonly_algebra::random::OsRandom;
//! use ifonly_sealed::{Circuit, Party, Randomness, Shape, combine, share, simulate};
//! use std::sync::Arc;
//! # fn main() -> Result<(), ifonly_sealed::Error> {
//! # let mut random = OsRandom::default();
//! // Values of 8 bits, the lower 6 of which are the cost: rows 1 and 3 qualify.
//! let values = [0b01_000011, 17, 0b10_000000, 9];
//! let records = [*b"ann", *b"bob", *b"cid", *b"dot"];
//! let shape = Shape::new(values.len(), 8, 6)?.record_bytes(3)?;
//! let circuit = Arc::new(Circuit::new(&shape));
//!
//! let shares = share(8, &values, &mut random);
//! let party = |n: usize, random: &mut OsRandom| {
//!     Party::new(&circuit, n, Randomness::Drawn, |row| shares[n - 1][row], random)
//! };
//! let mut parties = [party(1, &mut random)?, party(2, &mut random)?, party(3, &mut random)?];
//! for result in simulate::run(&mut parties, &mut random, |letter| vec![letter]) {
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
//! let found = combine(&shape, [&answers[0], &answers[1], &answers[2]])?;
//! let nearest = found[0].as_ref().unwrap();
//! assert_eq!((nearest.cost, &nearest.record[..]), (9, &b"dot"[..]));
//! # Ok(())
//! # }
//! ```
//!
//! The privacy of the person needs one honest-but-curious server at a time: whatever a server
//! receives is uniform, whoever asks. With [`Randomness::Drawn`] and the operating system's
//! generator that is exact; `src/privacy_tests.rs` enumerates it.
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
pub use handshake::{HandshakeMismatch, RandomnessMode, SessionContext, SessionRandom};
pub use params::{FRAME_WORDS, SealedParams};
pub use party::semi_honest::{Party, PartyRandomness, Peer};
pub use party::zero_sharing::PrefetchedWords;
pub use search::{SealedSearch, params_for};
