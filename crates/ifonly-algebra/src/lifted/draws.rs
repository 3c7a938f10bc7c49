//! The numbers ρ, z, σ and z' of a lifted gate, for any row by itself.
//!
//! They depend on the stored row, not on its position in the answer, so a server can compute words
//! in stored order and shuffle finished words. They come from one key stream. The 64 rows of block
//! b own its bytes `768·b .. 768·(b+1)`: 64 words for σ, then 64 words for z', then 64 words for
//! (ρ, z). Words have 32 bits and are little-endian.
//!
//! - σ and z' are their word modulo 2^(bits of q). A word that is not below q is drawn again.
//! - The low half h of the third word gives `ρ = 1 + ⌊h·(p−1)/2^16⌋`, the high half h'
//!   gives `z = ⌊h'·p/2^16⌋`. The word is drawn again if `h·(p−1) mod 2^16` is below
//!   `2^16 mod (p−1)`, or `h'·p mod 2^16` below `2^16 mod p` (Lemire 2019).
//!
//! The words of a redraw are the first three words of block `2^127 + row·2^32 + attempt`: the first
//! for σ, the second for z', the third for (ρ, z). No stored row reaches these blocks. So all
//! numbers are exactly uniform. Redraws are rare for the moduli of deployments.

use crate::field::FieldElement;
use crate::keys::KeyStream;
use crate::lifted::LiftedFormat;
use crate::random::mask_for;
use crate::row_function::RowRandomness;
use zeroize::Zeroizing;

/// Rows that share a block of the stream.
pub const BLOCK_ROWS: usize = 64;
/// Bytes of the stream for one block of rows.
pub const BLOCK_BYTES: usize = 12 * BLOCK_ROWS;

/// The servers' numbers for one row.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct LiftedDraw {
    /// ρ, uniform and non-zero in F_p.
    pub rho: FieldElement,
    /// z, uniform in F_p.
    pub gate_pad: FieldElement,
    /// σ, uniform in F_q.
    pub sigma: FieldElement,
    /// z', uniform in F_q.
    pub cost_pad: FieldElement,
}

// Their knowledge opens rows, so they are not printed.
impl std::fmt::Debug for LiftedDraw {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LiftedDraw(..)")
    }
}

impl LiftedDraw {
    /// The numbers of a stored row from any randomness: z and z' are the pads of the outputs gate
    /// and cost.
    pub fn of(randomness: &impl RowRandomness, row: usize) -> LiftedDraw {
        LiftedDraw {
            rho: randomness.rho(row),
            gate_pad: randomness.pad(0, 1, row),
            sigma: randomness.sigma(row),
            cost_pad: randomness.pad(1, 1, row),
        }
    }
}

/// The keyed numbers of all rows of one answer.
#[derive(Clone)]
pub struct LiftedDraws {
    format: LiftedFormat,
    key: Zeroizing<[u8; 16]>,
    stream: KeyStream,
}

impl std::fmt::Debug for LiftedDraws {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LiftedDraws(..)")
    }
}

impl LiftedDraws {
    /// The numbers of this [key](LiftedDraws::key), whose purpose must be
    /// [`Purpose::Lifted`](crate::keys::Purpose::Lifted).
    pub fn from_key(format: LiftedFormat, key: [u8; 16]) -> LiftedDraws {
        let key = Zeroizing::new(key);
        LiftedDraws { format, stream: KeyStream::new(&key), key }
    }

    /// The key that determines all numbers. It is secret.
    pub fn key(&self) -> &[u8; 16] {
        &self.key
    }

    /// The key stream.
    pub fn stream(&self) -> &KeyStream {
        &self.stream
    }

    /// The format.
    pub fn format(&self) -> &LiftedFormat {
        &self.format
    }

    /// The numbers of a stored row whose three words, already read from the stream, are `words`.
    pub fn draw_from_words(&self, row: u64, words: [u32; 3]) -> LiftedDraw {
        let (q, p) = (self.format.cost_field(), self.format.gate_field());
        let mask = mask_for(q.q()) as u32;
        let element = |index: usize| {
            let mut word = words[index];
            for attempt in 0.. {
                if let Some(element) = q.element((word & mask).into()) {
                    return element;
                }
                word = self.redraw(row, attempt)[index];
            }
            FieldElement::ZERO
        };
        let mut halves = words[2];
        let mut attempt = 0;
        let (rho, gate_pad) = loop {
            if let (Some(rho), Some(z)) = (scaled(halves & 0xffff, p.q() - 1), scaled(halves >> 16, p.q())) {
                break (p.reduce(1 + rho), p.reduce(z));
            }
            halves = self.redraw(row, attempt)[2];
            attempt += 1;
        };
        LiftedDraw { rho, gate_pad, sigma: element(0), cost_pad: element(1) }
    }

    fn redraw(&self, row: u64, attempt: u32) -> [u32; 3] {
        let mut block = [[0; 16]];
        self.stream.blocks((1 << 127) + (u128::from(row) << 32) + u128::from(attempt), &mut block);
        let (words, _) = block[0].as_chunks();
        std::array::from_fn(|index| u32::from_le_bytes(words[index]))
    }
}

impl LiftedDraws {
    /// The numbers of a stored row.
    pub fn draw(&self, row: u64) -> LiftedDraw {
        let (block, inside) = (row / BLOCK_ROWS as u64, row % BLOCK_ROWS as u64);
        let words = std::array::from_fn(|index| {
            let mut word = [0; 4];
            let offset = block * BLOCK_BYTES as u64 + 4 * (index * BLOCK_ROWS) as u64 + 4 * inside;
            self.stream.fill(offset, &mut word);
            u32::from_le_bytes(word)
        });
        self.draw_from_words(row, words)
    }
}

/// By stored row instead of by position.
impl RowRandomness for LiftedDraws {
    fn pad(&self, output: usize, _: usize, row: usize) -> FieldElement {
        let draw = self.draw(row as u64);
        if output == 0 { draw.gate_pad } else { draw.cost_pad }
    }
    fn rho(&self, row: usize) -> FieldElement {
        self.draw(row as u64).rho
    }
    fn sigma(&self, row: usize) -> FieldElement {
        self.draw(row as u64).sigma
    }
    fn mu(&self, _: usize) -> FieldElement {
        FieldElement::ZERO
    }
}

/// `⌊half·n/2^16⌋` for a half below 2^16, or `None` if the half must be drawn again so that the
/// result is uniform on `0..n`.
fn scaled(half: u32, n: u64) -> Option<u64> {
    let product = u64::from(half) * n;
    (product & 0xffff >= (1 << 16) % n).then_some(product >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::RootKey;

    fn draws(q: u64, p: u64) -> LiftedDraws {
        RootKey::new(0, [7; 32]).transcript(&[9; 32]).lifted(&LiftedFormat::new(q, p).unwrap())
    }

    #[test]
    fn halves_give_every_number_equally_often() {
        for n in [2, 3, 4, 12, 13, 250, 251] {
            let mut counts = vec![0; n as usize];
            (0..1 << 16).filter_map(|half| scaled(half, n)).for_each(|number| counts[number as usize] += 1);
            assert!(counts.iter().all(|&count| count == (1 << 16) / n), "{n}");
        }
    }

    #[test]
    fn blocks_of_64_rows_have_the_described_layout() {
        let draws = draws(268_435_399, 13);
        let mut bytes = vec![0; 3 * BLOCK_BYTES];
        draws.stream().fill(0, &mut bytes);
        let word = |index: usize| u32::from_le_bytes(bytes[4 * index..4 * index + 4].try_into().unwrap());
        for row in [0, 1, 63, 64, 100, 191] {
            let start = row / 64 * 192 + row % 64;
            let words = [word(start), word(start + 64), word(start + 128)];
            let draw = draws.draw(row as u64);
            assert!(draw == draws.draw_from_words(row as u64, words), "{row}");
            let mask = (1 << 28) - 1;
            assert_eq!(draw.sigma.value(), u64::from(words[0] & mask));
            assert_eq!(draw.cost_pad.value(), u64::from(words[1] & mask));
            assert_eq!(draw.rho.value(), u64::from(1 + (((words[2] & 0xffff) * 12) >> 16)));
            assert_eq!(draw.gate_pad.value(), u64::from(((words[2] >> 16) * 13) >> 16));
        }
    }

    #[test]
    fn refused_words_are_drawn_again_from_blocks_of_the_row() {
        let draws = draws(268_435_399, 13);
        // Rows whose first redraw is accepted in all three words.
        let row = 5;
        let again = draws.redraw(row, 0);
        let expected = draws.draw_from_words(row, again);
        assert!(again[0] & 0xfff_ffff < 268_435_399 && again[1] & 0xfff_ffff < 268_435_399);
        // u32::MAX is above q after masking; 0 in both halves is below 2^16 mod 12 and mod 13.
        assert!(draws.draw_from_words(row, [u32::MAX, u32::MAX, 0]) == expected);
        assert!(draws.draw_from_words(row + 1, [u32::MAX, u32::MAX, 0]) != expected);
    }

    #[test]
    fn small_fields_are_drawn_uniformly() {
        let draws = draws(5, 3);
        let mut counts = std::collections::BTreeMap::new();
        for row in 0..15_000 {
            let draw = draws.draw(row);
            *counts.entry((draw.rho, draw.gate_pad, draw.sigma, draw.cost_pad)).or_insert(0u32) += 1;
        }
        // 150 outcomes, 100 expected of each; the bounds are five deviations away.
        assert_eq!(counts.len(), 2 * 3 * 5 * 5);
        assert!(counts.values().all(|&count| (50..=150).contains(&count)), "{:?}", counts.values().max());
    }
}
