//! The keyed numbers of a tile, as planes beside its rows.
//!
//! A number of position i is the masked word of its stream at i; the rare word that is not below
//! the limit is drawn again by [`SymbolStream::symbol_from_word`], which is also the definition.
//! Wide numbers (q ≥ 2^31) are kept as a plane of low and a plane of high halves.

use crate::backend::{DrawSpec, Kernels};
use crate::dot::limbs16::Width;
use crate::row_store::BLOCK_ROWS;
use ifonly_algebra::keys::{FieldElementStream, KeyStream};

/// Blocks behind the last one, so that kernels may load whole vectors there.
const SPARE_BLOCKS: usize = 4;

/// Fills `out` (one plane if narrow, else a low and a high one) with the numbers of positions
/// `first..`; `first` is a multiple of 64.
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
    debug_assert!(first.is_multiple_of(64) && rows.is_multiple_of(64), "tiles are whole blocks");
    let blocks = (rows * bytes_each / 16).next_multiple_of(kernels.cipher_blocks());
    let bytes = key.read(stream, (first * bytes_each / 16) as u128, blocks);
    match width {
        Width::Narrow => fill_narrow(kernels, stream, first, bytes, out),
        Width::Wide => fill_wide(kernels, stream, first, bytes, out),
    }
}

/// Bytes of key streams, kept from tile to tile.
#[derive(Debug, Default)]
pub(crate) struct KeyBytes {
    /// Those that were counted last: all streams of a tile, and all queries of a batch, need the
    /// same.
    counters: Vec<[u8; 16]>,
    first: u128,
    blocks: Vec<[u8; 16]>,
}

impl KeyBytes {
    /// Blocks of a stream and [`SPARE_BLOCKS`] of anything behind them.
    fn read(&mut self, stream: &FieldElementStream, first: u128, count: usize) -> &[u8] {
        if (self.first, self.counters.len()) != (first, count) {
            self.counters.resize(count, [0; 16]);
            KeyStream::count(first, &mut self.counters);
            self.first = first;
        }
        self.blocks.resize(count + SPARE_BLOCKS, [0; 16]);
        stream.stream.blocks_of(&self.counters, &mut self.blocks[..count]);
        self.blocks.as_flattened()
    }
}

/// How a stream is drawn from; `None` for numbers that could reach q (a d_min above it), which are
/// left to the definition.
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
    // What the kernel left is right except where the word was not below the limit, which is rare:
    // few runs hold one.
    let bound = draws.map_or(0, |draws| (draws.limit + draws.shift) as u32);
    let redo = |number: u32| number >= bound;
    for (run, numbers) in out.chunks_mut(BLOCK_ROWS).enumerate() {
        if !numbers.iter().fold(false, |any, &number| any | redo(number)) {
            continue;
        }
        let words = bytes.chunks_exact(stream.width).skip(run * BLOCK_ROWS);
        for (place, (number, bytes)) in numbers.iter_mut().zip(words).enumerate().filter(|(_, (n, _))| redo(**n)) {
            let position = (first + run * BLOCK_ROWS + place) as u64;
            *number = stream.element_from_word(position, word_of(bytes)).value() as u32;
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
        let number = match draws {
            Some(DrawSpec { mask, limit, shift, .. }) if word & mask < limit => (word & mask) + shift,
            _ => stream.element_from_word((first + row) as u64, word).value(),
        };
        low[row] = number as u32;
        high[row] = (number >> 32) as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Backend;

    /// A block of words that are all right, but for the one at some place.
    fn key_bytes(width: usize, place: usize, word: u64) -> Vec<u8> {
        let words = (0..BLOCK_ROWS).map(|row| if row == place { word } else { row as u64 });
        words.flat_map(|word| word.to_le_bytes().into_iter().take(width)).chain([0; 16 * SPARE_BLOCKS]).collect()
    }

    #[test]
    fn kernels_draw_masked_words_and_tell_of_one_that_is_not_below_the_limit() {
        for backend in Backend::available() {
            for width in [1, 2, 3, 4, 8] {
                let mask = (1 << (8 * width - 1)) - 1;
                // The highest bit is masked away.
                let draws = DrawSpec { width, mask, limit: mask - 1, shift: 5 };
                for place in [0, 1, 17, 62, 63] {
                    for (word, below) in [(mask - 2, true), (mask - 1, false), (mask, false), (mask + 1, true)] {
                        let bytes = key_bytes(width, place, word);
                        let (mut low, mut high) = ([7; BLOCK_ROWS], [0; BLOCK_ROWS]);
                        let all_below = match width {
                            8 => backend.kernels().mask_long_words(draws, &bytes, &mut low, &mut high),
                            _ => backend.kernels().mask_words(draws, &bytes, &mut low),
                        };
                        assert_eq!(all_below, below, "{backend}, {width} bytes, {word:x} at {place}");
                        for row in 0..BLOCK_ROWS {
                            let word = if row == place { word & mask } else { row as u64 };
                            let number = u64::from(low[row]) | u64::from(high[row]) << 32;
                            // What is not below the limit is drawn again, whatever stands there.
                            assert!(
                                number == word + 5 || !below && row == place,
                                "{backend}, {width} bytes, row {row}"
                            );
                        }
                    }
                }
            }
        }
    }
}
