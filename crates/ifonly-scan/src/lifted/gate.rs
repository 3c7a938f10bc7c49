//! From the sum of a row's entries to its answer word, in 32-bit arithmetic that compilers
//! vectorise.
//!
//! Let S be the sum, b the bits of q, and `2^b = q + c` with a small c.
//!
//! ```text
//! e = S mod p                     from the bytes of S and the powers of 256 modulo p
//! x = (S mod 2^b) + c·⌊S/2^b⌋     ≡ S mod q, then one conditional subtraction
//! x + z' + σ·e  <  q·(p + 1)  <  2^32, folded once more in the same way
//! ```
//!
//! A draw that must be repeated is rare. Its row is computed by the definition,
//! [`ifonly_algebra::lifted::answer_word`]. So are all rows if q does not have this form. It has in
//! deployments, unless costs are limited to a few hundred.

use crate::row_store::BLOCK_ROWS;
use ifonly_algebra::lifted::{BLOCK_BYTES, LiftedDraws, LiftedFormat, answer_word};

/// Words of the key stream for one block of rows.
pub(crate) const DRAW_WORDS: usize = BLOCK_BYTES / 4;

/// The numbers that the words of all rows share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GateConstants {
    q: u32,
    /// 2^b − q.
    c: u32,
    /// b.
    bits: u32,
    /// The lowest bit of the gate in a word.
    gate_shift: u32,
    p: u32,
    /// ⌊2^16/p⌋.
    p_reciprocal: u32,
    /// 256^i mod p, for i from 0 to 4.
    powers: [u32; 5],
    /// `2^16 mod (p−1)` and `2^16 mod p`: products with a lower half below this are drawn again.
    least_rho: u32,
    least_pad: u32,
}

impl GateConstants {
    /// The constants for sums of `features` entries; `None` if the 32-bit arithmetic does not
    /// apply.
    pub(crate) fn new(format: &LiftedFormat, features: usize) -> Option<GateConstants> {
        let (q, p, bits) = (format.cost_field().q(), format.gate_field().q(), format.cost_field().bits());
        let c = (1u64 << bits) - q;
        let most_multiples = (features as u64 * (p * q - 1)) >> bits;
        let small = c * (most_multiples + 1) < q && (p + 1) * q < 1 << 32 && p <= LiftedFormat::MAX_P;
        let mut powers = [1; 5];
        for i in 1..5 {
            powers[i] = powers[i - 1] * 256 % p as u32;
        }
        small.then_some(GateConstants {
            q: q as u32,
            c: c as u32,
            bits,
            gate_shift: format.gate_shift(),
            p: p as u32,
            p_reciprocal: (1 << 16) / p as u32,
            powers,
            least_rho: (1 << 16) % (p as u32 - 1),
            least_pad: (1 << 16) % p as u32,
        })
    }

    /// `x mod p` for x below 2^16: the estimated quotient is at most 1 too small.
    #[inline(always)]
    fn mod_p(&self, x: u32) -> u32 {
        let rest = x - ((x * self.p_reciprocal) >> 16) * self.p;
        rest.min(rest.wrapping_sub(self.p))
    }

    /// Computes the words of one block. The sum of row i is `low[i] + 2^32·high[i]`. Returns
    /// whether a draw must be repeated; the words of such rows are not valid. Words of the key
    /// stream and of the answer are little-endian.
    #[inline(always)]
    pub(crate) fn words_of_block(
        &self,
        low: &[u32; BLOCK_ROWS],
        high: &[u32; BLOCK_ROWS],
        draws: &[u32; DRAW_WORDS],
        out: &mut [u32; BLOCK_ROWS],
    ) -> bool {
        let GateConstants { q, c, bits, gate_shift, p, powers, .. } = *self;
        let (mask, split) = ((1 << bits) - 1, u32::BITS - bits);
        let [_, power_1, power_2, power_3, power_4] = powers;
        let (sigmas, rest) = draws.split_at(BLOCK_ROWS);
        let (cost_pads, halves) = rest.split_at(BLOCK_ROWS);
        let mut refused = 0u32;
        for i in 0..BLOCK_ROWS {
            let (low, high) = (low[i], high[i]);
            let (sigma, cost_pad, halves) =
                (u32::from_le(sigmas[i]) & mask, u32::from_le(cost_pads[i]) & mask, u32::from_le(halves[i]));

            // Below 5·2^16, then below 2^16 by folding the upper bytes once more.
            let e = (low & 255) + (low >> 8 & 255) * power_1 + (low >> 16 & 255) * power_2 + (low >> 24) * power_3;
            let e = e + high * power_4;
            let e = (e & 255) + (e >> 8 & 255) * power_1 + (e >> 16) * power_2;
            let e = self.mod_p(e);

            let x = (low & mask) + c * ((low >> bits) + (high << split));
            let x = x.min(x.wrapping_sub(q));
            let x = x.wrapping_add(cost_pad).wrapping_add(sigma.wrapping_mul(e));
            let x = (x & mask) + c * (x >> bits);
            let cost = x.min(x.wrapping_sub(q));

            let (rho, gate_pad) = ((halves & 0xffff) * (p - 1), (halves >> 16) * p);
            let gate = self.mod_p((1 + (rho >> 16)) * e + (gate_pad >> 16));
            out[i] = (cost | gate << gate_shift).to_le();
            // The sign bits of differences below 2^31: no comparison, so that the loop stays in
            // one vector width.
            refused |= (q - 1).wrapping_sub(sigma) | (q - 1).wrapping_sub(cost_pad);
            refused |= (rho & 0xffff).wrapping_sub(self.least_rho) | (gate_pad & 0xffff).wrapping_sub(self.least_pad);
        }
        refused >> 31 == 1
    }

    /// Whether a draw of a row must be repeated, given the row's three words of the stream.
    fn refuses(&self, [sigma, cost_pad, halves]: [u32; 3]) -> bool {
        let mask = (1 << self.bits) - 1;
        sigma & mask >= self.q
            || cost_pad & mask >= self.q
            || ((halves & 0xffff) * (self.p - 1)) & 0xffff < self.least_rho
            || ((halves >> 16) * self.p) & 0xffff < self.least_pad
    }
}

/// A block of rows whose words are computed: its global number and the words of the key stream.
pub(crate) struct DrawnBlock<'a> {
    pub(crate) first_row: u64,
    pub(crate) words: &'a [u32; DRAW_WORDS],
}

impl DrawnBlock<'_> {
    /// Computes the words of the rows whose draws must be repeated, or of all rows if there are no
    /// constants, by the definition.
    pub(crate) fn words_by_definition(
        &self,
        draws: &LiftedDraws,
        constants: Option<&GateConstants>,
        [low, high]: [&[u32; BLOCK_ROWS]; 2],
        out: &mut [u32; BLOCK_ROWS],
    ) {
        let product = u64::from(draws.format().product());
        for (i, out) in out.iter_mut().enumerate() {
            let words = [0, 1, 2].map(|index| u32::from_le(self.words[index * BLOCK_ROWS + i]));
            if constants.is_none_or(|constants| constants.refuses(words)) {
                let sum = (u64::from(low[i]) | u64::from(high[i]) << 32) % product;
                let draw = draws.draw_from_words(self.first_row + i as u64, words);
                *out = answer_word(draws.format(), sum as u32, &draw).to_le();
            }
        }
    }
}
