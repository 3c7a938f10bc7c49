//! From rows to planes and back: the 64×64 bit transpose.

use crate::params::SealedParams;

/// Words that are gathered together, so that each line of a caller's table is fetched once.
const TOGETHER: usize = 8;

/// Writes the planes of `value_of(row)`, one after another, lowest bit first. Places without a row
/// hold `elsewhere`.
pub(crate) fn from_rows(shape: &SealedParams, value_of: impl Fn(usize) -> u64, elsewhere: u64, planes: &mut [u64]) {
    let (words, lanes) = (shape.words(), shape.lanes() as usize);
    let mut tiles = [[0; 64]; TOGETHER];
    for first in (0..words).step_by(TOGETHER) {
        let count = TOGETHER.min(words - first);
        for lane in 0..lanes {
            for (word, tile) in tiles[..count].iter_mut().enumerate() {
                let row = lane * words + first + word;
                tile[lane] = if row < shape.rows { value_of(row) } else { elsewhere };
            }
        }
        for (word, tile) in tiles[..count].iter_mut().enumerate() {
            transpose(tile);
            for (bit, plane) in tile[..shape.bits].iter().enumerate() {
                planes[bit * words + first + word] = *plane;
            }
            tile.fill(0);
        }
    }
}

/// The bits of one plane in the order of the rows, bit `i mod 8` of byte `⌊i/8⌋` for row i.
pub(crate) fn to_row_order(shape: &SealedParams, plane: &[u64]) -> Vec<u8> {
    let words = shape.words();
    let mut packed = vec![0u64; shape.rows.div_ceil(64) + 1];
    for (block, part) in plane.chunks(64).enumerate() {
        let mut tile = [0; 64];
        tile[..part.len()].copy_from_slice(part);
        transpose(&mut tile);
        for (lane, bits) in tile[..shape.lanes() as usize].iter().enumerate() {
            let place = lane * words + 64 * block;
            if place < shape.rows {
                let (word, shift) = (place / 64, place % 64);
                packed[word] |= bits << shift;
                packed[word + 1] |= bits.checked_shr(64 - shift as u32).unwrap_or(0);
            }
        }
    }
    let mut bytes: Vec<u8> = packed.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.truncate(shape.rows.div_ceil(8));
    if !shape.rows.is_multiple_of(8)
        && let Some(last) = bytes.last_mut()
    {
        *last &= (1 << (shape.rows % 8)) - 1;
    }
    bytes
}

/// Bit j of word i becomes bit i of word j: blocks of 32, 16, …, 1 change places across the
/// diagonal.
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
    fn rows_stand_where_the_layout_says_and_come_back_in_order() {
        let mut random = SeededRandom::new(1);
        for rows in [1, 2, 3, 63, 64, 65, 127, 129, 1000, 4095, 4096, 4097, 10_001] {
            let shape = SealedParams::new(rows, 37, 3).unwrap();
            let values: Vec<u64> = (0..rows).map(|_| random.below(1 << 37)).collect();
            let (words, lanes) = (shape.words(), shape.lanes() as usize);
            let mut planes = vec![0; 37 * words];
            from_rows(&shape, |row| values[row], u64::MAX, &mut planes);
            for place in 0..64 * words {
                let (word, lane) = (place % words, place / words);
                let value = (0..37).fold(0, |sum, bit| sum | (planes[bit * words + word] >> lane & 1) << bit);
                let wanted = match values.get(place) {
                    Some(&value) => value,
                    None if lane < lanes => (1 << 37) - 1,
                    None => 0,
                };
                assert_eq!(value, wanted, "{rows} rows, place {place}");
            }
            for bit in [0, 36] {
                let packed = to_row_order(&shape, &planes[bit * words..(bit + 1) * words]);
                let mut wanted = vec![0; rows.div_ceil(8)];
                values.iter().enumerate().for_each(|(i, value)| wanted[i / 8] |= ((value >> bit & 1) as u8) << (i % 8));
                assert_eq!(packed, wanted, "{rows} rows, bit {bit}");
            }
        }
    }
}
