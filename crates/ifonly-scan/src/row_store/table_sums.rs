//! Sums of table entries for every row, modulo 2^64: the input of a sealed search.

use crate::row_store::{BLOCK_ROWS, GROUP_BYTES, LevelBytes, RowStore};

impl RowStore {
    /// `Σ_k tables[k][y_ik] mod 2^64` for every row i.
    ///
    /// # Panics Unless there is a table for every feature, with an entry for each of its levels,
    /// and a sum for every row.
    pub(crate) fn table_sums_into(&self, tables: &[&[u64]], sums: &mut [u64]) {
        assert_eq!(tables.len(), self.features(), "there must be a table for every feature");
        assert_eq!(sums.len(), self.rows(), "there must be a sum for every row");
        let per_group = self.level_bytes().features_per_group();
        sums.fill(0);
        for (sums, block) in sums.chunks_mut(BLOCK_ROWS).zip(self.data().chunks_exact(self.block_bytes())) {
            // A group has a few features of all rows of the block, so its tables stay in the cache.
            for (group, tables) in block.chunks_exact(BLOCK_ROWS * GROUP_BYTES).zip(tables.chunks(per_group)) {
                for (k, table) in tables.iter().enumerate() {
                    for (sum, levels) in sums.iter_mut().zip(group.chunks_exact(GROUP_BYTES)) {
                        let level = match self.level_bytes() {
                            LevelBytes::One => usize::from(levels[k]),
                            LevelBytes::Two => usize::from(u16::from_le_bytes([levels[2 * k], levels[2 * k + 1]])),
                        };
                        *sum = sum.wrapping_add(table[level]);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_equal_those_of_single_rows_and_wrap() {
        for max_levels in [vec![3, 255, 0, 9, 20], vec![300, 2, 5]] {
            for count in [1, 63, 64, 65, 200] {
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
                let mut sums = vec![7; count];
                RowStore::build(&max_levels, &rows).unwrap().table_sums_into(&tables, &mut sums);
                assert_eq!(sums, expected);
            }
        }
    }
}
