//! The outputs of a tile: packed field elements, or row function values row by row.

use super::{Scratch, TileProgram};
use crate::dot::limbs16::Width;
use crate::packing;
use crate::row_store::BLOCK_ROWS;

impl TileProgram<'_> {
    /// Field elements per row.
    pub(crate) fn outputs(&self) -> usize {
        self.outputs.len()
    }

    /// Words per row of [`TileProgram::write_rows`].
    pub(crate) fn words_per_row(&self) -> usize {
        self.outputs.len() * self.width.planes()
    }

    /// The planes of an output after [`TileProgram::run`] over `rows` rows: the low plane, and the
    /// high plane, which is empty if the field is narrow.
    fn output<'s>(&self, output: usize, rows: usize, words: &'s [u32]) -> (&'s [u32], &'s [u32]) {
        let stride = rows.next_multiple_of(BLOCK_ROWS);
        let planes = self.width.planes();
        let planes_of_output = &words[self.outputs[output] * planes * stride..][..planes * stride];
        let (low, high) = planes_of_output.split_at(stride);
        (&low[..rows], high.get(..rows).unwrap_or(&[]))
    }

    /// Packs the field elements of the tile that was run last to the beginning of `packed`. Bytes
    /// after them may be overwritten.
    pub(crate) fn pack(&self, rows: usize, scratch: &mut Scratch, packed: &mut [u8]) {
        let Scratch { words, elements, long_words, .. } = scratch;
        let (kernels, bits) = (self.kernels, self.field.bits());
        match (self.width, self.outputs()) {
            (Width::Narrow, 1) => packing::pack_words(kernels, bits, self.output(0, rows, words).0, packed),
            (Width::Wide, 1) => {
                let (low, high) = self.output(0, rows, words);
                packing::pack_halves(kernels, bits, low, high, packed);
            }
            (Width::Narrow, outputs) => {
                elements.resize(rows * outputs, 0);
                let plane = |output: usize| self.output(output, rows, words).0;
                if let (2, (pairs, [])) = (outputs, elements.as_chunks_mut::<2>()) {
                    let both = plane(0).iter().zip(plane(1));
                    pairs.iter_mut().zip(both).for_each(|(pair, (&first, &second))| *pair = [first, second]);
                } else {
                    (0..outputs)
                        .for_each(|output| interleave(plane(output).iter().copied(), output, outputs, elements));
                }
                packing::pack_words(kernels, bits, elements, packed);
            }
            (Width::Wide, outputs) => {
                long_words.resize(rows * outputs, 0);
                for output in 0..outputs {
                    let (low, high) = self.output(output, rows, words);
                    let values = low.iter().zip(high).map(|(&low, &high)| u64::from(low) | u64::from(high) << 32);
                    interleave(values, output, outputs, long_words);
                }
                packing::pack_bits(bits, long_words.iter().copied(), packed);
            }
        }
    }

    /// Writes the values of the rows from `start` on to `out`, row by row.
    pub(crate) fn write_rows(&self, start: usize, out: &mut [u32], scratch: &mut Scratch) {
        let (per_row, planes, tile_rows) = (self.words_per_row(), self.width.planes(), self.kernels.tile_rows());
        for (tile, out) in out.chunks_mut(tile_rows * per_row).enumerate() {
            let rows = out.len() / per_row;
            self.run(start + tile * tile_rows, rows, None, scratch);
            for output in 0..self.outputs() {
                let (low, high) = self.output(output, rows, &scratch.words);
                for (plane, words) in [low, high].into_iter().take(planes).enumerate() {
                    if per_row == 1 {
                        out.copy_from_slice(words);
                    } else {
                        interleave(words.iter().copied(), output * planes + plane, per_row, out);
                    }
                }
            }
        }
    }
}

/// Writes one word of each row: word `index` of the `step` words per row.
fn interleave<W>(words: impl Iterator<Item = W>, index: usize, step: usize, rows: &mut [W]) {
    rows.chunks_exact_mut(step).zip(words).for_each(|(row, word)| row[index] = word);
}
