//! Writers of rows, one row at a time: into memory, or into a file with one block in memory.

use crate::memory::AlignedBytes;
use crate::row_store::{BLOCK_ROWS, RowStore, RowStoreHeader, Storage, StoreError};
use ifonly_algebra::row_function::check_row;
use std::io;

/// Builds a store in memory from single rows.
pub struct RowStoreBuilder {
    header: RowStoreHeader,
    data: AlignedBytes,
    capacity_rows: usize,
}

impl std::fmt::Debug for RowStoreBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RowStoreBuilder({} rows)", self.header.rows)
    }
}

impl RowStoreBuilder {
    /// An empty store with space for `expected_rows` rows. It grows if necessary.
    pub fn new(max_levels: &[u32], expected_rows: usize) -> Result<RowStoreBuilder, StoreError> {
        Ok(RowStoreBuilder::with_header(RowStoreHeader::of(max_levels, 0)?, expected_rows))
    }

    pub(super) fn with_header(header: RowStoreHeader, expected_rows: usize) -> RowStoreBuilder {
        let capacity_rows = expected_rows.max(1).next_multiple_of(BLOCK_ROWS);
        let bytes = capacity_rows / BLOCK_ROWS * header.block_bytes();
        RowStoreBuilder { header, data: AlignedBytes::zeroed(bytes), capacity_rows }
    }

    /// Appends a row.
    pub fn push(&mut self, levels: &[u16]) -> Result<(), StoreError> {
        let row = self.header.rows;
        check_row(&self.header.max_levels, row, levels)?;
        if row as u64 >= u64::from(u32::MAX) {
            return Err(StoreError::Rows(row as u64 + 1));
        }
        self.place(levels);
        Ok(())
    }

    /// Appends a checked row.
    pub(super) fn place(&mut self, levels: &[u16]) {
        let row = self.header.rows;
        let block_bytes = self.header.block_bytes();
        if row == self.capacity_rows {
            self.capacity_rows *= 2;
            self.data = self.data.grown(self.capacity_rows / BLOCK_ROWS * block_bytes);
        }
        let block = &mut self.data.as_mut()[row / BLOCK_ROWS * block_bytes..][..block_bytes];
        self.header.place_row(row, levels, block);
        self.header.rows += 1;
    }

    /// The store.
    pub fn finish(self) -> RowStore {
        RowStore { header: self.header, storage: Storage::Owned(self.data), data_start: 0 }
    }
}

/// Writes single rows in the format of [`RowStore::write_to`], with one block in memory.
pub struct RowWriter<W> {
    to: W,
    header: RowStoreHeader,
    block: Vec<u8>,
    written: usize,
}

impl<W> std::fmt::Debug for RowWriter<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RowWriter({} of {} rows)", self.written, self.header.rows)
    }
}

impl<W: io::Write> RowWriter<W> {
    /// Writes the header, which announces `rows` rows.
    pub fn new(mut to: W, max_levels: &[u32], rows: usize) -> Result<RowWriter<W>, StoreError> {
        let header = RowStoreHeader::of(max_levels, rows)?;
        to.write_all(&header.to_bytes())?;
        Ok(RowWriter { block: vec![0; header.block_bytes()], to, header, written: 0 })
    }

    /// Writes the next row.
    pub fn push(&mut self, levels: &[u16]) -> Result<(), StoreError> {
        check_row(&self.header.max_levels, self.written, levels)?;
        self.header.place_row(self.written, levels, &mut self.block);
        self.written += 1;
        if self.written.is_multiple_of(BLOCK_ROWS) {
            self.write_block()?;
        }
        Ok(())
    }

    /// Writes the last block. Fails unless all announced rows were written.
    pub fn finish(mut self) -> Result<W, StoreError> {
        if self.written != self.header.rows {
            return Err(StoreError::Count { have: self.written, need: self.header.rows });
        }
        if !self.written.is_multiple_of(BLOCK_ROWS) {
            self.write_block()?;
        }
        Ok(self.to)
    }

    fn write_block(&mut self) -> io::Result<()> {
        self.to.write_all(&self.block)?;
        self.block.fill(0);
        Ok(())
    }
}
