//! Conversion between rows and bit planes, by 64×64 bit transposes. `params.rs` defines the layout.

use crate::params::SealedParams;

/// Words that are gathered together, so that each cache line of the caller's values is read once.
const GATHERED_WORDS: usize = 8;

/// Writes the bit planes of `value_of(row)`, lowest bit first. Positions without a row in the lanes
/// in use hold `padding`.
pub(crate) fn from_rows(params: &SealedParams, value_of: impl Fn(usize) -> u64, padding: u64, planes: &mut [u64]) {
    let (words, lanes) = (params.words(), params.lanes() as usize);
    let mut tiles = [[0; 64]; GATHERED_WORDS];
    for first in (0..words).step_by(GATHERED_WORDS) {
        let count = GATHERED_WORDS.min(words - first);
        for lane in 0..lanes {
            for (word, tile) in tiles[..count].iter_mut().enumerate() {
                let row = lane * words + first + word;
                tile[lane] = if row < params.rows { value_of(row) } else { padding };
            }
        }
        for (word, tile) in tiles[..count].iter_mut().enumerate() {
            transpose(tile);
            for (bit, plane) in tile[..params.bits].iter().enumerate() {
                planes[bit * words + first + word] = *plane;
            }
            tile.fill(0);
        }
    }
}

/// The bits of one plane in row order: row i is bit `i mod 8` of byte `⌊i/8⌋`.
pub(crate) fn to_row_order(params: &SealedParams, plane: &[u64]) -> Vec<u8> {
    let words = params.words();
    let mut packed = vec![0u64; params.rows.div_ceil(64) + 1];
    for (block, part) in plane.chunks(64).enumerate() {
        let mut tile = [0; 64];
        tile[..part.len()].copy_from_slice(part);
        transpose(&mut tile);
        for (lane, bits) in tile[..params.lanes() as usize].iter().enumerate() {
            let row = lane * words + 64 * block;
            if row < params.rows {
                let (word, shift) = (row / 64, row % 64);
                packed[word] |= bits << shift;
                packed[word + 1] |= bits.checked_shr(64 - shift as u32).unwrap_or(0);
            }
        }
    }
    let mut bytes: Vec<u8> = packed.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.truncate(params.rows.div_ceil(8));
    if !params.rows.is_multiple_of(8)
        && let Some(last) = bytes.last_mut()
    {
        *last &= (1 << (params.rows % 8)) - 1;
    }
    bytes
}

/// Transposes a 64×64 bit matrix: bit j of word i becomes bit i of word j. Swaps blocks of 32, 16,
/// …, 1 bits across the diagonal.
fn transpose(tile: &mut [u64; 64]) {
    let mut width = 32;
    let mut mask = u64::MAX >> 32;
    while width > 0 {
        for base in (0..64).step_by(2 * width) {
            for i in base..base + width {
                let swap = (tile[i] >> width ^ tile[i + width]) & mask;
                tile[i] ^= swap << width;
                tile[i + width] ^= swap;
            }
        }
        width /= 2;
        mask ^= mask << width;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ifonly_algebra::random::{RandomSource, SeededRandom};

    #[test]
    fn planes_have_the_specified_layout_and_return_to_row_order() {
        let mut random = SeededRandom::new(1);
        for rows in [1, 2, 3, 63, 64, 65, 127, 129, 1000, 4095, 4096, 4097, 10_001] {
            let params = SealedParams::new(rows, 37, 3).unwrap();
            let values: Vec<u64> = (0..rows).map(|_| random.below(1 << 37)).collect();
            let (words, lanes) = (params.words(), params.lanes() as usize);
            let mut planes = vec![0; 37 * words];
            from_rows(&params, |row| values[row], u64::MAX, &mut planes);
            for row in 0..64 * words {
                let (word, lane) = (row % words, row / words);
                let value = (0..37).fold(0, |sum, bit| sum | (planes[bit * words + word] >> lane & 1) << bit);
                let expected = match values.get(row) {
                    Some(&value) => value,
                    None if lane < lanes => (1 << 37) - 1,
                    None => 0,
                };
                assert_eq!(value, expected, "{rows} rows, row {row}");
            }
            for bit in [0, 36] {
                let packed = to_row_order(&params, &planes[bit * words..(bit + 1) * words]);
                let mut expected = vec![0; rows.div_ceil(8)];
                values
                    .iter()
                    .enumerate()
                    .for_each(|(i, value)| expected[i / 8] |= ((value >> bit & 1) as u8) << (i % 8));
                assert_eq!(packed, expected, "{rows} rows, bit {bit}");
            }
        }
    }
}
