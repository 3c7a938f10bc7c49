//! The answer words of consecutive stored rows.

use crate::backend::Kernels;
use crate::lifted::gate::{DRAW_WORDS, DrawnBlock, GateConstants};
use crate::lifted::lookups::{RowBlocks, TILE_ROWS, WordLookups};
use crate::memory::AlignedBytes;
use crate::row_store::{BLOCK_ROWS, RowStore};
use ifonly_algebra::lifted::{BLOCK_BYTES, LiftedDraws, LiftedTables};

/// A lifted query, prepared for the rows of one store.
pub(crate) struct LiftedProgram<'a> {
    kernels: &'static dyn Kernels,
    store: &'a RowStore,
    /// The number in the whole database of the first row of the store.
    first_row: u64,
    lookups: WordLookups,
    constants: Option<GateConstants>,
    draws: &'a LiftedDraws,
}

const TILE_BLOCKS: usize = TILE_ROWS / BLOCK_ROWS;

/// Memory for one tile.
pub(crate) struct LiftedScratch {
    low: [u32; TILE_ROWS],
    high: [u32; TILE_ROWS],
    words: [u32; TILE_ROWS],
    /// The key stream of a tile, and of one more block if the store does not start with a block of
    /// the stream.
    stream: AlignedBytes,
}

impl LiftedScratch {
    pub(crate) fn new() -> LiftedScratch {
        let stream = AlignedBytes::zeroed((TILE_BLOCKS + 1) * BLOCK_BYTES);
        LiftedScratch { low: [0; TILE_ROWS], high: [0; TILE_ROWS], words: [0; TILE_ROWS], stream }
    }
}

impl<'a> LiftedProgram<'a> {
    /// Prepares a query whose tables match the store.
    pub(crate) fn new(
        kernels: &'static dyn Kernels,
        store: &'a RowStore,
        first_row: usize,
        tables: &LiftedTables,
        draws: &'a LiftedDraws,
    ) -> LiftedProgram<'a> {
        let slices = tables_of(tables);
        let constants = GateConstants::new(tables.format(), slices.len());
        let lookups = WordLookups::new(kernels, store.level_bytes(), slices.into_iter());
        LiftedProgram { kernels, store, first_row: first_row as u64, lookups, constants, draws }
    }

    pub(crate) fn rows(&self) -> usize {
        self.store.rows()
    }

    /// Computes the words of the rows of one tile, from row `first` of the store on, which begins a
    /// block. The words are little-endian.
    pub(crate) fn tile<'s>(&self, first: usize, rows: usize, scratch: &'s mut LiftedScratch) -> &'s [u32] {
        let blocks = rows.div_ceil(BLOCK_ROWS);
        let LiftedScratch { low, high, words, stream } = scratch;
        let block_bytes = self.store.block_bytes();
        let bytes = &self.store.data()[first / BLOCK_ROWS * block_bytes..][..blocks * block_bytes];
        let (low, high) = (&mut low[..blocks * BLOCK_ROWS], &mut high[..blocks * BLOCK_ROWS]);
        self.kernels.word_sums(&self.lookups, RowBlocks { bytes, block_bytes }, low, high);

        let global = self.first_row + first as u64;
        let (stream_block, inside) = (global / BLOCK_ROWS as u64, (global % BLOCK_ROWS as u64) as usize);
        let needed = blocks + usize::from(inside > 0);
        let key_blocks = stream.as_mut()[..needed * BLOCK_BYTES].as_chunks_mut().0;
        self.draws.stream().blocks(u128::from(stream_block) * (BLOCK_BYTES as u128 / 16), key_blocks);
        let drawn = stream.words().as_chunks::<DRAW_WORDS>().0;
        let sums = low.as_chunks::<BLOCK_ROWS>().0.iter().zip(high.as_chunks::<BLOCK_ROWS>().0);
        let out = words.as_chunks_mut::<BLOCK_ROWS>().0;
        for (block, ((low, high), out)) in sums.zip(out).enumerate() {
            let spliced;
            let words = match inside {
                0 => &drawn[block],
                _ => {
                    spliced = splice(&drawn[block], &drawn[block + 1], inside);
                    &spliced
                }
            };
            let refused =
                self.constants.is_none_or(|constants| self.kernels.lifted_words(&constants, [low, high], words, out));
            if refused {
                let block = DrawnBlock { first_row: global + (block * BLOCK_ROWS) as u64, words };
                block.words_by_definition(self.draws, self.constants.as_ref(), [low, high], out);
            }
        }
        &words[..rows]
    }
}

/// The table of each feature. The number of entries is the sum of the lengths.
pub(crate) fn tables_of(tables: &LiftedTables) -> Vec<&[u32]> {
    let mut start = 0;
    let table = |&length: &usize| {
        start += length;
        &tables.entries()[start - length..start]
    };
    tables.lengths().iter().map(table).collect()
}

/// The draws of 64 rows of which the first has index `inside` in its block of the stream.
fn splice(block: &[u32; DRAW_WORDS], next: &[u32; DRAW_WORDS], inside: usize) -> [u32; DRAW_WORDS] {
    let mut words = [0; DRAW_WORDS];
    let kinds = block.chunks_exact(BLOCK_ROWS).zip(next.chunks_exact(BLOCK_ROWS));
    for (words, (block, next)) in words.chunks_exact_mut(BLOCK_ROWS).zip(kinds) {
        let (head, tail) = words.split_at_mut(BLOCK_ROWS - inside);
        head.copy_from_slice(&block[inside..]);
        tail.copy_from_slice(&next[..inside]);
    }
    words
}
