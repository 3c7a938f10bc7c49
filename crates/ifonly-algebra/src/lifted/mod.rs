//! The lifted gate: one 32-bit word per row and server, for N = 2, T = 1, S = B = 0, not verified.
//!
//! Costs C are shared in F_q, violations E in a small prime field F_p with `d < p < q`, at the
//! points α = 1 and −1. Server n has `c = α·(its share of C)` and `e = α·(its share of E)`. With
//! fresh numbers that both servers share and no client knows (ρ uniform non-zero in F_p, z uniform
//! in F_p, σ and z' uniform in F_q), it answers for each row
//!
//! ```text
//! gate = ρ·e + z                 mod p
//! cost = c + σ·lift(e) + z'      mod q      lift: the representative in 0..p
//! word = cost | gate << gate_shift
//! ```
//!
//! Let δ = lift(e_1) − lift(e_2), where e_1 − e_2 = 2E mod p. The difference of the gates is ρ·2E,
//! and the difference of the costs is 2C + σδ. If E = 0, then δ = 0, and the client learns C. If
//! E ≠ 0, then 0 < |δ| < p < q, so δ is invertible in F_q: ρ·2E is uniform on the non-zero
//! elements of F_p and 2C + σδ is uniform on F_q, independent of each other and of the tables. z
//! and z' hide everything but the two differences. So a client learns one of q + 1 outcomes per
//! row, whatever tables it sends.
//!
//! [`LiftedFormat`] has the fields and the word, [`LiftedTables`] the tables of one server,
//! [`LiftedDraws`] the servers' numbers. [`answer`] is the definition that faster scans must equal,
//! and [`LiftedDecoder`] is the interface of decoders.

mod answer;
mod decode;
mod draws;
mod format;

pub use answer::{LiftedSide, LiftedTables, answer, answer_word, evaluate};
pub use decode::{LiftedDecoder, LiftedPlan, LiftedResult, LiftedValue, decode_elements, decode_word};
pub use draws::{BLOCK_BYTES, BLOCK_ROWS, LiftedDraw, LiftedDraws};
pub use format::{LiftedError, LiftedFormat};

#[cfg(test)]
mod tests;
