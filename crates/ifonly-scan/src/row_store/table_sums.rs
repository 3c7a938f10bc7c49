//! Sums of table entries for every row, modulo 2^64: the input of a sealed search.

use crate::backend::Kernels;
use crate::lifted::lookups::{Lookups, RowBlocks, TILE_ROWS};
use crate::row_store::{BLOCK_ROWS, RowStore};

impl RowStore {
    /// `Σ_k tables[k][y_ik] mod 2^64` for every row i.
    ///
    /// # Panics Unless there is a table for every feature, with an entry for each of its levels,
    /// and a sum for every row.
    pub(crate) fn table_sums_into(&self, kernels: &dyn Kernels, tables: &[&[u64]], sums: &mut [u64]) {
        assert_eq!(sums.len(), self.rows(), "there must be a sum for every row");
        let lengths = tables.iter().map(|table| table.len() as u64);
        let levels = self.max_levels().iter().map(|&max_level| u64::from(max_level) + 1);
        assert!(lengths.eq(levels), "there must be a table for every feature, with an entry for each level");
        let lookups = Lookups::new(self.level_bytes(), tables.iter().copied());
        let block_bytes = self.block_bytes();
        let tiles = self.data().chunks(TILE_ROWS / BLOCK_ROWS * block_bytes);
        for (sums, bytes) in sums.chunks_mut(TILE_ROWS).zip(tiles) {
            // Whole blocks: the last tile may end inside a block.
            let mut padded = [0; TILE_ROWS];
            kernels.long_sums(&lookups, RowBlocks { bytes, block_bytes }, &mut padded);
            sums.copy_from_slice(&padded[..sums.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Backend;

    #[test]
    fn sums_equal_those_of_single_rows_and_wrap() {
        for max_levels in [vec![3, 255, 0, 9, 20], vec![300, 2, 5]] {
            for count in [1, 63, 64, 65, 1024, 1100] {
                let level = |row: usize, max_level: u32| ((row * 7919 + 13) % (max_level as usize + 1)) as u16;
                let rows: Vec<Vec<u16>> =
                    (0..count).map(|row| max_levels.iter().map(|&max_level| level(row, max_level)).collect()).collect();
                let entry = |k: u64, v: u64| (k + 1).wrapping_mul(v + 3).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let tables: Vec<Vec<u64>> = (0..)
                    .zip(&max_levels)
                    .map(|(k, &max_level)| (0..=u64::from(max_level)).map(|v| entry(k, v)).collect())
                    .collect();
                let tables: Vec<&[u64]> = tables.iter().map(Vec::as_slice).collect();
                let plain = |row: &Vec<u16>| {
                    row.iter()
                        .zip(&tables)
                        .fold(0u64, |sum, (&level, table)| sum.wrapping_add(table[usize::from(level)]))
                };
                let expected: Vec<u64> = rows.iter().map(plain).collect();
                let store = RowStore::build(&max_levels, &rows).unwrap();
                for backend in Backend::available() {
                    let mut sums = vec![7; count];
                    store.table_sums_into(backend.kernels(), &tables, &mut sums);
                    assert_eq!(sums, expected, "{backend}");
                }
            }
        }
    }
}
