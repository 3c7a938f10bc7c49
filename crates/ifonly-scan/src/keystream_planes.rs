//! Keystream planes: the keyed random field elements of a tile, one plane (or two) beside its rows.
//!
//! The element of position i is the masked keystream word at i. A word that is not below the limit
//! is rare; [`FieldElementStream::element_from_word`], which is also the definition, draws it
//! again. For wide fields (q ≥ 2^31) the low and high halves are separate planes.

use crate::backend::{DrawSpec, Kernels};
use crate::dot::limbs16::Width;
use crate::row_store::BLOCK_ROWS;
use ifonly_algebra::keys::{FieldElementStream, KeyStream};

/// Unused blocks after the keystream, so that kernels may load whole vectors there.
const TRAILING_BLOCKS: usize = 4;

/// Fills `out` (one plane if narrow, else a low and a high plane) with the elements of the
/// positions from `first` on. `first` must be a multiple of 64.
pub(crate) fn fill(
    kernels: &dyn Kernels,
    width: Width,
    stream: &FieldElementStream,
    first: usize,
    key: &mut KeyBytes,
    out: &mut [u32],
) {
    let rows = out.len() / width.planes();
    let bytes_each = stream.width;
    debug_assert!(first.is_multiple_of(64) && rows.is_multiple_of(64), "a tile must consist of whole blocks");
    let blocks = (rows * bytes_each / 16).next_multiple_of(kernels.cipher_blocks());
    let bytes = key.read(stream, (first * bytes_each / 16) as u128, blocks);
    match width {
        Width::Narrow => fill_narrow(kernels, stream, first, bytes, out),
        Width::Wide => fill_wide(kernels, stream, first, bytes, out),
    }
}

/// Keystream bytes; the memory is reused for the next tile.
#[derive(Debug, Default)]
pub(crate) struct KeyBytes {
    /// The cipher counters of the last read. All streams of a tile use the same counters.
    counters: Vec<[u8; 16]>,
    first: u128,
    blocks: Vec<[u8; 16]>,
}

impl KeyBytes {
    /// Reads `count` blocks of a stream. [`TRAILING_BLOCKS`] blocks of undefined content follow
    /// them.
    fn read(&mut self, stream: &FieldElementStream, first: u128, count: usize) -> &[u8] {
        if (self.first, self.counters.len()) != (first, count) {
            self.counters.resize(count, [0; 16]);
            KeyStream::count(first, &mut self.counters);
            self.first = first;
        }
        self.blocks.resize(count + TRAILING_BLOCKS, [0; 16]);
        stream.stream.blocks_of(&self.counters, &mut self.blocks[..count]);
        self.blocks.as_flattened()
    }
}

/// How elements are drawn from a stream. `None` if elements could reach q (d_min above q); they are
/// then drawn one by one.
fn draws_of(stream: &FieldElementStream) -> Option<DrawSpec> {
    let (width, mask, limit, shift) = (stream.width, stream.mask(), stream.limit, stream.shift);
    (limit.saturating_add(shift) <= stream.field.q()).then_some(DrawSpec { width, mask, limit, shift })
}

/// The little-endian word of at most eight bytes.
fn word_of(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
}

fn fill_narrow(kernels: &dyn Kernels, stream: &FieldElementStream, first: usize, bytes: &[u8], out: &mut [u32]) {
    let draws = draws_of(stream);
    if draws.is_some_and(|draws| kernels.mask_words(draws, bytes, out)) {
        return;
    }
    // The result of the kernel is correct except where a word was not below the limit. Few blocks
    // have such a word.
    let bound = draws.map_or(0, |draws| (draws.limit + draws.shift) as u32);
    let is_rejected = |element: u32| element >= bound;
    for (block, elements) in out.chunks_mut(BLOCK_ROWS).enumerate() {
        if !elements.iter().fold(false, |any, &element| any | is_rejected(element)) {
            continue;
        }
        let words = bytes.chunks_exact(stream.width).skip(block * BLOCK_ROWS);
        for (index, (element, bytes)) in
            elements.iter_mut().zip(words).enumerate().filter(|(_, (n, _))| is_rejected(**n))
        {
            let position = (first + block * BLOCK_ROWS + index) as u64;
            *element = stream.element_from_word(position, word_of(bytes)).value() as u32;
        }
    }
}

fn fill_wide(kernels: &dyn Kernels, stream: &FieldElementStream, first: usize, bytes: &[u8], out: &mut [u32]) {
    let rows = out.len() / 2;
    let (low, high) = out.split_at_mut(rows);
    let draws = draws_of(stream);
    if draws.is_some_and(|draws| draws.width == 8 && kernels.mask_long_words(draws, bytes, low, high)) {
        return;
    }
    for (row, bytes) in bytes.chunks_exact(stream.width).take(rows).enumerate() {
        let word = word_of(bytes);
        let element = match draws {
            Some(DrawSpec { mask, limit, shift, .. }) if word & mask < limit => (word & mask) + shift,
            _ => stream.element_from_word((first + row) as u64, word).value(),
        };
        low[row] = element as u32;
        high[row] = (element >> 32) as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Backend;

    /// A block of words below the limit, except for `word` at index `index`.
    fn key_bytes(width: usize, index: usize, word: u64) -> Vec<u8> {
        let words = (0..BLOCK_ROWS).map(|row| if row == index { word } else { row as u64 });
        words.flat_map(|word| word.to_le_bytes().into_iter().take(width)).chain([0; 16 * TRAILING_BLOCKS]).collect()
    }

    #[test]
    fn kernels_draw_masked_words_and_report_a_word_that_is_not_below_the_limit() {
        for backend in Backend::available() {
            for width in [1, 2, 3, 4, 8] {
                let mask = (1 << (8 * width - 1)) - 1;
                // The mask clears the highest bit.
                let draws = DrawSpec { width, mask, limit: mask - 1, shift: 5 };
                for index in [0, 1, 17, 62, 63] {
                    for (word, below) in [(mask - 2, true), (mask - 1, false), (mask, false), (mask + 1, true)] {
                        let bytes = key_bytes(width, index, word);
                        let (mut low, mut high) = ([7; BLOCK_ROWS], [0; BLOCK_ROWS]);
                        let all_below = match width {
                            8 => backend.kernels().mask_long_words(draws, &bytes, &mut low, &mut high),
                            _ => backend.kernels().mask_words(draws, &bytes, &mut low),
                        };
                        assert_eq!(all_below, below, "{backend}, {width} bytes, {word:x} at {index}");
                        for row in 0..BLOCK_ROWS {
                            let word = if row == index { word & mask } else { row as u64 };
                            let element = u64::from(low[row]) | u64::from(high[row]) << 32;
                            // A word that is not below the limit is drawn again, so its value does
                            // not matter.
                            assert!(
                                element == word + 5 || !below && row == index,
                                "{backend}, {width} bytes, row {row}"
                            );
                        }
                    }
                }
            }
        }
    }
}
