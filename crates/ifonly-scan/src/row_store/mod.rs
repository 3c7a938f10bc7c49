//! The row store: all rows in the order in which a scan reads them.
//!
//! Rows stand in blocks of 64. Inside a block the features stand in groups of four bytes (four
//! levels of one byte, or two of two when some range exceeds 255), and a group holds its four bytes
//! for all 64 rows before the next group begins: byte t of row r in group g of a block is at `256·g
//! + 4·r + t`. So one vector load brings the same features of several rows, and a scan that walks
//! the groups of a block walks the memory in order. Features are padded with zeros to whole groups,
//! rows to whole blocks.
//!
//! There is one layout, in memory and on disk: a file of rows is a header (`header`) and the
//! blocks, and a store uses it where it is mapped.
//!
//! Squared norms are not stored: computing them from the levels is cheaper than reading them from
//! memory.

mod header;
mod table_sums;
mod write;

use crate::memory::AlignedBytes;
pub(crate) use header::GROUP_BYTES;
use header::RowStoreHeader;
pub use header::{BLOCK_ROWS, LevelBytes};
use ifonly_algebra::row_function::{RowsError, check_row};
use std::io;
pub use write::{RowStoreBuilder, RowWriter};

/// Why some bytes or numbers are not a row store. All of them are faults of the input.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The bytes end inside the header.
    #[error("the rows end inside their header")]
    Truncated,
    /// The bytes are something else.
    #[error("these bytes are not rows of ifonly")]
    NotRows,
    /// A later format.
    #[error("rows of format {0} need another release of ifonly; this one reads format 1")]
    Version(u32),
    /// Too many rows.
    #[error("{0} rows are too many; positions are 32-bit numbers")]
    Rows(u64),
    /// No features, or too many.
    #[error("{0} features; a row has 1 to 65536")]
    Features(usize),
    /// Another block size.
    #[error("blocks of {0} rows; this release reads blocks of 64")]
    BlockRows(u32),
    /// A range above 65535.
    #[error("feature {feature} has the range {range}; the largest is 65535")]
    Range {
        /// Counted from 0.
        feature: usize,
        /// What was found.
        range: u32,
    },
    /// The width of the levels does not follow from the ranges.
    #[error("{have} bytes per level; these ranges need {need}")]
    LevelBytes {
        /// What was found.
        have: u32,
        /// What the ranges need.
        need: usize,
    },
    /// Too few or too many bytes.
    #[error("the rows take {have} bytes; their header says {need:?}")]
    Length {
        /// What was found.
        have: usize,
        /// What the header says; `None` when it does not fit the address space.
        need: Option<usize>,
    },
    /// Something stands where only zeros may.
    #[error("the padding of the rows is not zero")]
    Padding,
    /// A row does not fit the ranges.
    #[error(transparent)]
    Row(#[from] RowsError),
    /// Another number of rows than was said when writing began.
    #[error("{have} rows instead of {need}")]
    Count {
        /// Rows that came.
        have: usize,
        /// Rows that were announced.
        need: usize,
    },
    /// The rows could not be written.
    #[error("cannot write the rows: {0}")]
    Io(#[from] io::Error),
}

enum Storage {
    Owned(AlignedBytes),
    Shared(Box<dyn AsRef<[u8]> + Send + Sync>),
}

/// All rows of a database in scan layout.
pub struct RowStore {
    header: RowStoreHeader,
    storage: Storage,
    data_start: usize,
}

impl std::fmt::Debug for RowStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RowStore({} rows of {} features)", self.rows(), self.features())
    }
}

impl RowStore {
    /// A store of `rows`, whose levels are checked against `ranges` (feature k holds
    /// `0..=ranges[k]`).
    pub fn build<R: AsRef<[u16]>>(ranges: &[u32], rows: impl IntoIterator<Item = R>) -> Result<RowStore, StoreError> {
        let rows = rows.into_iter();
        let mut builder = RowStoreBuilder::new(ranges, rows.size_hint().0)?;
        for row in rows {
            builder.push(row.as_ref())?;
        }
        Ok(builder.finish())
    }

    /// The bytes that [`RowStore::write_to`] or a [`RowWriter`] writes for so many rows; `None` if
    /// they cannot be addressed.
    pub fn serialised_length(ranges: &[u32], rows: usize) -> Option<usize> {
        let header = RowStoreHeader::of(ranges, rows).ok()?;
        header.data_bytes()?.checked_add(header.length())
    }

    /// A store over bytes that [`RowStore::write_to`] wrote: a mapped file, or anything else that
    /// holds them. Header, length, levels and padding are checked; the bytes are used where they
    /// are.
    pub fn from_bytes(bytes: impl AsRef<[u8]> + Send + Sync + 'static) -> Result<RowStore, StoreError> {
        let header = RowStoreHeader::from_bytes(bytes.as_ref())?;
        let data_start = header.length();
        let store = RowStore { header, storage: Storage::Shared(Box::new(bytes)), data_start };
        store.check_levels()?;
        Ok(store)
    }

    /// Writes the header and the blocks.
    pub fn write_to(&self, mut to: impl io::Write) -> io::Result<()> {
        to.write_all(&self.header.to_bytes())?;
        to.write_all(self.data())
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.header.rows
    }

    /// The number of features.
    pub fn features(&self) -> usize {
        self.header.ranges.len()
    }

    /// The largest level of each feature.
    pub fn max_levels(&self) -> &[u32] {
        &self.header.ranges
    }

    /// How many bytes a level takes.
    pub fn level_bytes(&self) -> LevelBytes {
        self.header.level_bytes
    }

    /// The bytes of all blocks: what a scan reads.
    pub fn data(&self) -> &[u8] {
        let all = match &self.storage {
            Storage::Owned(bytes) => bytes.as_ref(),
            Storage::Shared(bytes) => (**bytes).as_ref(),
        };
        // Bounded by what the header says: the memory may be longer than the rows.
        let length = self.header.data_bytes().unwrap_or(0);
        &all[self.data_start..self.data_start + length]
    }

    /// Row i, counted from 0, into `levels`.
    pub fn read_row(&self, i: usize, levels: &mut Vec<u16>) {
        let block = &self.data()[i / BLOCK_ROWS * self.block_bytes()..][..self.block_bytes()];
        let per_group = self.level_bytes().features_per_group();
        levels.clear();
        levels.extend((0..self.features()).map(|k| {
            let at = (k / per_group * BLOCK_ROWS + i % BLOCK_ROWS) * GROUP_BYTES;
            match self.level_bytes() {
                LevelBytes::One => u16::from(block[at + k % 4]),
                LevelBytes::Two => u16::from_le_bytes([block[at + k % 2 * 2], block[at + k % 2 * 2 + 1]]),
            }
        }));
    }

    /// Some of the rows, in memory of their own.
    ///
    /// # Panics
    /// If they are not all here.
    pub fn cut(&self, rows: std::ops::Range<usize>) -> RowStore {
        let header = RowStoreHeader { rows: 0, ..self.header.clone() };
        let mut builder = RowStoreBuilder::with_header(header, rows.len());
        let mut levels = vec![];
        for row in rows {
            self.read_row(row, &mut levels);
            builder.place(&levels);
        }
        builder.finish()
    }

    /// All rows in order.
    pub fn levels(&self) -> impl ExactSizeIterator<Item = Vec<u16>> {
        (0..self.rows()).map(|row| {
            let mut levels = vec![];
            self.read_row(row, &mut levels);
            levels
        })
    }

    pub(crate) fn block_bytes(&self) -> usize {
        self.header.block_bytes()
    }

    /// Finds a level above its range or a padding byte that is not zero.
    fn check_levels(&self) -> Result<(), StoreError> {
        // The largest four bytes of each group, and then the row only if something is wrong.
        let limits: Vec<[u16; GROUP_BYTES]> = self.group_limits();
        for (number, block) in self.data().chunks_exact(self.block_bytes()).enumerate() {
            let fits = block.chunks_exact(BLOCK_ROWS * GROUP_BYTES).zip(&limits).all(|(group, limit)| {
                match self.level_bytes() {
                    LevelBytes::One => {
                        let limit = limit.map(|l| l as u8);
                        group.as_chunks::<GROUP_BYTES>().0.iter().fold(true, |fits, row| {
                            fits & (row[0] <= limit[0])
                                & (row[1] <= limit[1])
                                & (row[2] <= limit[2])
                                & (row[3] <= limit[3])
                        })
                    }
                    LevelBytes::Two => group.as_chunks::<GROUP_BYTES>().0.iter().fold(true, |fits, row| {
                        fits & (u16::from_le_bytes([row[0], row[1]]) <= limit[0])
                            & (u16::from_le_bytes([row[2], row[3]]) <= limit[1])
                    }),
                }
            });
            if !fits {
                return Err(self.fault_in_block(number));
            }
        }
        self.check_padding_rows()
    }

    /// The largest level in each place of each group; 0 where a feature is padding.
    fn group_limits(&self) -> Vec<[u16; GROUP_BYTES]> {
        let per_group = self.level_bytes().features_per_group();
        self.max_levels()
            .chunks(per_group)
            .map(|ranges| {
                let mut limits = [0; GROUP_BYTES];
                for (limit, &range) in limits.iter_mut().zip(ranges) {
                    *limit = range as u16;
                }
                limits
            })
            .collect()
    }

    fn fault_in_block(&self, block: usize) -> StoreError {
        let mut levels = vec![];
        for row in block * BLOCK_ROWS..self.rows().min((block + 1) * BLOCK_ROWS) {
            self.read_row(row, &mut levels);
            if let Err(error) = check_row(self.max_levels(), row, &levels) {
                return error.into();
            }
        }
        StoreError::Padding
    }

    fn check_padding_rows(&self) -> Result<(), StoreError> {
        let used = self.rows() % BLOCK_ROWS;
        let Some(last) = self.data().chunks_exact(self.block_bytes()).last().filter(|_| used > 0) else {
            return Ok(());
        };
        let clean = last
            .chunks_exact(BLOCK_ROWS * GROUP_BYTES)
            .all(|group| group[used * GROUP_BYTES..].iter().all(|&byte| byte == 0));
        if clean { Ok(()) } else { Err(StoreError::Padding) }
    }
}
