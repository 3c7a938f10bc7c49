//! The row store: all rows in the order in which a scan reads them.
//!
//! Rows are stored in blocks of 64. Within a block, the features form groups of four bytes (four
//! levels of one byte, or two levels of two bytes if some max level exceeds 255). A group has its
//! four bytes for all 64 rows before the next group starts: byte t of row r in group g of a block
//! is at `256·g + 4·r + t`. One vector load therefore reads the same features of several rows, and
//! a scan over the groups of a block reads memory sequentially. Features are padded with zeros to
//! whole groups, rows to whole blocks.
//!
//! The layout in memory and on disk is the same. A row file is a header (`header`) followed by the
//! blocks, and a store uses the mapped file in place.
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

/// Why bytes or levels are not a valid row store. All variants except `Io` are errors of the input.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The bytes end inside the header.
    #[error("the row file ends inside its header")]
    Truncated,
    /// The bytes are not a row file.
    #[error("this is not an ifonly row file")]
    NotRows,
    /// The format version is not supported.
    #[error("the row file has format version {0}, but this release reads version 1")]
    Version(u32),
    /// Too many rows.
    #[error("the number of rows, {0}, is too large: row numbers have 32 bits")]
    Rows(u64),
    /// No features, or too many.
    #[error("the number of features is {0}, but must be from 1 to 65536")]
    Features(usize),
    /// Another block size.
    #[error("the row file has block length {0}, but this release reads blocks of 64 rows")]
    BlockRows(u32),
    /// A max level is above 65535.
    #[error("feature {feature} has max level {max_level}, but the largest is 65535")]
    MaxLevel {
        /// Index of the feature.
        feature: usize,
        /// Value found.
        max_level: u32,
    },
    /// The bytes per level do not match the max levels.
    #[error("the header gives {have} as the bytes per level, but these max levels need {need}")]
    LevelBytes {
        /// Value found.
        have: u32,
        /// Value that the max levels need.
        need: usize,
    },
    /// Too few or too many bytes.
    #[error("the row file has length {have}, but its header requires {}", required_length(*.need))]
    Length {
        /// Value found.
        have: usize,
        /// Length according to the header; `None` if it exceeds the address space.
        need: Option<usize>,
    },
    /// A padding byte is not zero.
    #[error("a padding byte of the row file is not zero")]
    Padding,
    /// A row does not match the max levels.
    #[error(transparent)]
    Row(#[from] RowsError),
    /// The number of rows differs from the announced number.
    #[error("the number of rows is {have} instead of {need}")]
    Count {
        /// Rows written.
        have: usize,
        /// Rows announced.
        need: usize,
    },
    /// The rows could not be written.
    #[error("cannot write the rows: {0}")]
    Io(#[from] io::Error),
}

fn required_length(need: Option<usize>) -> String {
    need.map_or_else(|| "more than the address space".into(), |need| format!("{need} bytes"))
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
    /// Builds a store of `rows`. Feature k must have levels in `0..=max_levels[k]`.
    pub fn build<R: AsRef<[u16]>>(
        max_levels: &[u32],
        rows: impl IntoIterator<Item = R>,
    ) -> Result<RowStore, StoreError> {
        let rows = rows.into_iter();
        let mut builder = RowStoreBuilder::new(max_levels, rows.size_hint().0)?;
        for row in rows {
            builder.push(row.as_ref())?;
        }
        Ok(builder.finish())
    }

    /// Length of the file that [`RowStore::write_to`] or a [`RowWriter`] writes for `rows` rows;
    /// `None` if it exceeds the address space.
    pub fn serialised_length(max_levels: &[u32], rows: usize) -> Option<usize> {
        let header = RowStoreHeader::of(max_levels, rows).ok()?;
        header.data_bytes()?.checked_add(header.length())
    }

    /// A store over bytes that [`RowStore::write_to`] wrote, for example a mapped file. Header,
    /// length, levels and padding are checked. The bytes are used in place.
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
        self.header.max_levels.len()
    }

    /// The max level of each feature.
    pub fn max_levels(&self) -> &[u32] {
        &self.header.max_levels
    }

    /// Number of bytes per level.
    pub fn level_bytes(&self) -> LevelBytes {
        self.header.level_bytes
    }

    /// The bytes of all blocks, which a scan reads.
    pub fn data(&self) -> &[u8] {
        let all = match &self.storage {
            Storage::Owned(bytes) => bytes.as_ref(),
            Storage::Shared(bytes) => (**bytes).as_ref(),
        };
        // Bounded by the header: the memory may be longer than the rows.
        let length = self.header.data_bytes().expect("opening the store has checked its header");
        &all[self.data_start..self.data_start + length]
    }

    /// Reads row i (counted from 0) into `levels`.
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

    /// A copy of some of the rows.
    ///
    /// # Panics If the range exceeds the rows of the store.
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

    /// Rejects a level above its max level and a padding byte that is not zero.
    fn check_levels(&self) -> Result<(), StoreError> {
        // Compares whole blocks with the limits of each group. Searches for the row only if a block
        // fails.
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
                return Err(self.error_in_block(number));
            }
        }
        self.check_padding_rows()
    }

    /// The max level of each position in each group; 0 for padding.
    fn group_limits(&self) -> Vec<[u16; GROUP_BYTES]> {
        let per_group = self.level_bytes().features_per_group();
        self.max_levels()
            .chunks(per_group)
            .map(|max_levels| {
                let mut limits = [0; GROUP_BYTES];
                for (limit, &max_level) in limits.iter_mut().zip(max_levels) {
                    *limit = max_level as u16;
                }
                limits
            })
            .collect()
    }

    fn error_in_block(&self, block: usize) -> StoreError {
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
