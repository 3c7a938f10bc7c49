//! Table sums: for every row, the sum of one table entry per feature.
//!
//! Entries have 32 bits in a lifted answer and 64 bits in a sealed search. Sums have 64 bits and
//! wrap. There are two kinds of kernels:
//!
//! - **Loads**: one scalar load per feature and row. A table has a power of two of entries, and an
//!   index is masked to its length. So no index is out of bounds, whatever the rows contain.
//! - **Planes** ([`BytePlanes`]): look-ups of single bytes in vector registers, for processors with
//!   VBMI. They are faster for short tables only, so the other columns use loads.

use crate::backend::Kernels;
use crate::row_store::{BLOCK_ROWS, GROUP_BYTES, LevelBytes};
use std::hint::black_box;
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use zeroize::Zeroize;

/// An entry of a table.
pub(crate) trait TableEntry: Copy + Default + Zeroize {
    fn widen(self) -> u64;
}

impl TableEntry for u32 {
    fn widen(self) -> u64 {
        u64::from(self)
    }
}

impl TableEntry for u64 {
    fn widen(self) -> u64 {
        self
    }
}

/// One table per feature, in memory one after the other. Wiped on drop.
pub(crate) struct Lookups<E: TableEntry> {
    entries: Vec<E>,
    columns: Vec<Column>,
    level_bytes: LevelBytes,
}

/// The table of one feature: entries `start..=start + mask`.
#[derive(Clone, Copy)]
struct Column {
    start: usize,
    /// The number of entries, a power of two, minus 1.
    mask: usize,
}

impl<E: TableEntry> Drop for Lookups<E> {
    fn drop(&mut self) {
        self.entries.zeroize();
    }
}

impl<E: TableEntry> Lookups<E> {
    /// Copies tables with one entry per level. There must be one table per feature.
    pub(crate) fn new<'t>(level_bytes: LevelBytes, tables: impl Iterator<Item = &'t [E]> + Clone) -> Lookups<E>
    where
        E: 't,
    {
        // Reserved at once, because growing would leave unwiped copies.
        let length = tables.clone().map(|table| table.len().max(1).next_power_of_two()).sum();
        let mut entries = Vec::with_capacity(length);
        let columns = tables
            .map(|table| {
                let (start, length) = (entries.len(), table.len().max(1).next_power_of_two());
                entries.extend_from_slice(table);
                entries.resize(start + length, E::default());
                Column { start, mask: length - 1 }
            })
            .collect();
        Lookups { entries, columns, level_bytes }
    }

    pub(crate) fn level_bytes(&self) -> LevelBytes {
        self.level_bytes
    }

    pub(crate) fn features(&self) -> usize {
        self.columns.len()
    }

    /// Adds the entries of the features for which `is_wanted` holds to the sums of whole blocks.
    #[inline(always)]
    pub(crate) fn add_to(&self, blocks: RowBlocks<'_>, is_wanted: impl Fn(usize) -> bool, sums: &mut [u64]) {
        let per_group = self.level_bytes.features_per_group();
        for (group, columns) in self.columns.chunks(per_group).enumerate() {
            let wanted: u32 =
                (0..columns.len()).filter(|k| is_wanted(group * per_group + k)).fold(0, |set, k| set | 1 << k);
            match (self.level_bytes, wanted) {
                (LevelBytes::One, 0b1111) => self.add_columns::<4, 8>(blocks, group, 0, sums),
                (LevelBytes::Two, 0b11) => self.add_columns::<2, 16>(blocks, group, 0, sums),
                _ => {
                    for k in (0..columns.len()).filter(|k| wanted >> k & 1 == 1) {
                        match self.level_bytes {
                            LevelBytes::One => self.add_columns::<1, 8>(blocks, group, k, sums),
                            LevelBytes::Two => self.add_columns::<1, 16>(blocks, group, k, sums),
                        }
                    }
                }
            }
        }
    }

    /// Adds `N` neighbouring features of one group, whose levels have `BITS` bits, from feature
    /// `first` of the group on.
    #[inline(always)]
    fn add_columns<const N: usize, const BITS: usize>(
        &self,
        blocks: RowBlocks<'_>,
        group: usize,
        first: usize,
        sums: &mut [u64],
    ) {
        let columns: [Column; N] = std::array::from_fn(|k| self.columns[group * (32 / BITS) + first + k]);
        let tables: [&[E]; N] = std::array::from_fn(|k| &self.entries[columns[k].start..][..columns[k].mask + 1]);
        let masks: [usize; N] = std::array::from_fn(|k| columns[k].mask.min((1 << BITS) - 1));
        let shift = first * BITS;
        for (block, sums) in blocks.bytes.chunks_exact(blocks.block_bytes).zip(sums.chunks_exact_mut(BLOCK_ROWS)) {
            let levels = &block[group * BLOCK_ROWS * GROUP_BYTES..][..BLOCK_ROWS * GROUP_BYTES];
            blocks.prefetch_behind(levels);
            // Two rows per load.
            for (sums, levels) in sums.as_chunks_mut::<2>().0.iter_mut().zip(levels.as_chunks::<8>().0) {
                let levels = u64::from_le_bytes(*levels);
                for (row, sum) in sums.iter_mut().enumerate() {
                    let levels = (levels >> (32 * row)) as usize >> shift;
                    for k in 0..N {
                        // SAFETY: the mask is below the length of the table.
                        let entry = unsafe { tables[k].get_unchecked(levels >> (k * BITS) & masks[k]) };
                        *sum = sum.wrapping_add(entry.widen());
                    }
                }
            }
        }
    }
}

/// Whole blocks of a row store, followed in memory by blocks that may be prefetched.
#[derive(Clone, Copy)]
pub(crate) struct RowBlocks<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) block_bytes: usize,
}

impl RowBlocks<'_> {
    /// Prefetches the same group of the next tile: the hardware does not predict this stride.
    #[inline(always)]
    pub(crate) fn prefetch_behind(&self, group: &[u8]) {
        for line in (0..group.len()).step_by(64) {
            crate::memory::prefetch(group.as_ptr().wrapping_add(self.bytes.len() + line));
        }
    }
}

/// The tables of a lifted answer, prepared for the kernels of this machine.
pub(crate) struct WordLookups {
    pub(crate) loads: Lookups<u32>,
    /// The features that are looked up byte by byte; empty if loads are faster.
    pub(crate) planes: BytePlanes,
}

/// Bytes of an entry.
pub(crate) const PLANES: usize = 4;
/// The longest table for look-ups of bytes.
pub(crate) const PLANE_LEVELS: usize = 1024;
/// The largest number of features for look-ups of bytes. Sums of more bytes could exceed 16 bits.
const MAX_PLANE_FEATURES: usize = 256;

/// Tables of 32-bit entries, one table for each byte of the entries. Wiped on drop.
#[derive(Default)]
pub(crate) struct BytePlanes {
    /// For each feature, the first line of its tables and the lines of each; no lines if the
    /// feature is not looked up byte by byte. A table has a power of two of lines, at least two.
    pub(crate) features: Vec<(usize, usize)>,
    /// 64 entries of a table.
    pub(crate) lines: Vec<[u8; 64]>,
}

impl Drop for BytePlanes {
    fn drop(&mut self) {
        self.lines.as_flattened_mut().zeroize();
    }
}

impl BytePlanes {
    fn new<'t>(tables: impl Iterator<Item = &'t [u32]> + Clone) -> BytePlanes {
        let lines_of = |table: &[u32]| match table.len() {
            length @ ..=PLANE_LEVELS => length.div_ceil(64).next_power_of_two().max(2),
            _ => 0,
        };
        let mut lines = Vec::with_capacity(tables.clone().map(lines_of).sum::<usize>() * PLANES);
        let features = tables
            .map(|table| {
                let (start, count) = (lines.len(), lines_of(table));
                for plane in 0..if count == 0 { 0 } else { PLANES } {
                    let from = lines.len();
                    lines.resize(from + count, [0; 64]);
                    let bytes = lines[from..].as_flattened_mut();
                    bytes.iter_mut().zip(table).for_each(|(byte, entry)| *byte = entry.to_le_bytes()[plane]);
                }
                (start, count)
            })
            .collect();
        BytePlanes { features, lines }
    }

    pub(crate) fn has(&self, feature: usize) -> bool {
        self.features.get(feature).is_some_and(|(_, lines)| *lines > 0)
    }
}

impl WordLookups {
    /// Prepares tables with one entry per level, one table per feature.
    pub(crate) fn new<'t>(
        kernels: &dyn Kernels,
        level_bytes: LevelBytes,
        tables: impl Iterator<Item = &'t [u32]> + Clone,
    ) -> WordLookups {
        let loads = Lookups::new(level_bytes, tables.clone());
        let planes = kernels.looks_up_bytes() && loads.features() <= MAX_PLANE_FEATURES && planes_are_faster(kernels);
        WordLookups { loads, planes: if planes { BytePlanes::new(tables) } else { BytePlanes::default() } }
    }

    /// Adds up the entries of whole blocks of rows, all of them with scalar loads.
    #[inline(always)]
    pub(crate) fn sum_with_loads(&self, blocks: RowBlocks<'_>, low: &mut [u32], high: &mut [u32]) {
        self.add_loads(blocks, |_| true, &mut [0; TILE_ROWS], low, high);
    }

    /// Adds the entries of the wanted features to `sums` and splits the sums.
    #[inline(always)]
    pub(crate) fn add_loads(
        &self,
        blocks: RowBlocks<'_>,
        is_wanted: impl Fn(usize) -> bool,
        sums: &mut [u64; TILE_ROWS],
        low: &mut [u32],
        high: &mut [u32],
    ) {
        let sums = &mut sums[..low.len()];
        self.loads.add_to(blocks, is_wanted, sums);
        for ((sum, low), high) in sums.iter().zip(low).zip(high) {
            (*low, *high) = (*sum as u32, (*sum >> 32) as u32);
        }
    }
}

/// Rows whose sums are computed together: the tables of a few features and the sums of all rows
/// stay in the first cache level.
pub(crate) const TILE_ROWS: usize = 1024;

/// Compares both kinds of kernels once per process: processors differ in their look-ups.
fn planes_are_faster(kernels: &dyn Kernels) -> bool {
    static FASTER: OnceLock<bool> = OnceLock::new();
    *FASTER.get_or_init(|| {
        const FEATURES: usize = 12;
        let table: Vec<u32> = (0..PLANE_LEVELS as u32).map(|level| level.wrapping_mul(0x9e37_79b9)).collect();
        let tables = || std::iter::repeat_n(&table[..], FEATURES);
        let loads = Lookups::new(LevelBytes::Two, tables());
        let with_planes = WordLookups { loads, planes: BytePlanes::new(tables()) };
        let loads = Lookups::new(LevelBytes::Two, tables());
        let with_loads = WordLookups { loads, planes: BytePlanes::default() };
        let levels: Vec<u8> = (0..TILE_ROWS as u32 * FEATURES as u32)
            .flat_map(|index| (index.wrapping_mul(40_503) >> 3 & 1023).to_le_bytes()[..2].to_vec())
            .collect();
        let blocks = RowBlocks { bytes: &levels, block_bytes: BLOCK_ROWS * FEATURES * 2 };
        let (mut low, mut high) = ([0; TILE_ROWS], [0; TILE_ROWS]);
        let mut time = |lookups: &WordLookups| {
            let started = Instant::now();
            for _ in 0..4 {
                kernels.word_sums(lookups, black_box(blocks), &mut low, &mut high);
            }
            started.elapsed()
        };
        let (mut planes, mut loads) = (Duration::MAX, Duration::MAX);
        for _ in 0..8 {
            planes = planes.min(time(&with_planes));
            loads = loads.min(time(&with_loads));
        }
        planes < loads
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Backend;
    use crate::row_store::RowStore;

    #[test]
    fn byte_look_ups_give_the_sums_of_loads() {
        for max_levels in
            [vec![1000, 3, 127, 128, 255, 0, 511, 1023, 1024], vec![255, 1, 127, 128, 0, 9], vec![700; 250]]
        {
            let level = |row: usize, max_level: u32| ((row * 7919 + row / 3) % (max_level as usize + 1)) as u16;
            let rows = (0..TILE_ROWS).map(|row| max_levels.iter().map(|&max_level| level(row, max_level)).collect());
            let store = RowStore::build(&max_levels, rows.collect::<Vec<Vec<u16>>>()).unwrap();
            let entry =
                |k: usize, level: u32| u32::MAX - (level * 1000 + k as u32).wrapping_mul(0x9e37_79b9) % 3_000_000;
            let tables: Vec<Vec<u32>> = (0..)
                .zip(&max_levels)
                .map(|(k, &max_level)| (0..=max_level).map(|level| entry(k, level)).collect())
                .collect();
            let tables = || tables.iter().map(Vec::as_slice);
            for count in [64, 960, TILE_ROWS] {
                let blocks = RowBlocks {
                    bytes: &store.data()[..count / BLOCK_ROWS * store.block_bytes()],
                    block_bytes: store.block_bytes(),
                };
                let mut sums: Vec<[Vec<u32>; 2]> = vec![];
                for backend in Backend::available() {
                    let kernels = backend.kernels();
                    let planes =
                        if kernels.looks_up_bytes() { BytePlanes::new(tables()) } else { BytePlanes::default() };
                    for planes in [planes, BytePlanes::default()] {
                        let lookups = WordLookups { loads: Lookups::new(store.level_bytes(), tables()), planes };
                        let [mut low, mut high] = [vec![7; count], vec![7; count]];
                        kernels.word_sums(&lookups, blocks, &mut low, &mut high);
                        sums.push([low, high]);
                    }
                }
                let largest = u64::from(sums[0][1][0]) << 32 | u64::from(sums[0][0][0]);
                assert!(largest > (max_levels.len() as u64 - 1) << 32);
                assert!(sums.windows(2).all(|pair| pair[0] == pair[1]));
            }
        }
    }
}
