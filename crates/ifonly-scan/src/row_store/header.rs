//! The header in front of serialised rows, and the arithmetic of their layout.
//!
//! ```text
//! offset  bytes  what
//!      0      8  "IFONLYRW"
//!      8      4  format version, 1
//!     12      4  bytes per level, 1 or 2
//!     16      8  rows
//!     24      4  features
//!     28      4  rows per block, 64
//!     32    4·d  the largest level of each feature
//!      …         zeros up to a multiple of 64, then the blocks
//! ```
//! All numbers are little-endian. Nothing in a file is believed before its length agrees with what
//! its header says.

use crate::row_store::StoreError;

/// Rows in a block.
pub const BLOCK_ROWS: usize = 64;
/// Bytes of one row in one feature group: four levels of one byte or two of two.
pub(crate) const GROUP_BYTES: usize = 4;
/// More features than any table has; keeps sizes far from overflow.
pub(crate) const MAX_FEATURES: usize = 1 << 16;
const MAGIC: &[u8; 8] = b"IFONLYRW";
const VERSION: u32 = 1;
const FIXED: usize = 32;

/// How many bytes a level takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LevelBytes {
    /// Every range is at most 255.
    One,
    /// Some range is above 255.
    Two,
}

impl LevelBytes {
    /// The smallest that holds every range.
    pub fn for_max_levels(ranges: &[u32]) -> LevelBytes {
        if ranges.iter().all(|&range| range <= 255) { LevelBytes::One } else { LevelBytes::Two }
    }

    /// 1 or 2.
    pub fn count(self) -> usize {
        match self {
            LevelBytes::One => 1,
            LevelBytes::Two => 2,
        }
    }

    /// Features that share a group.
    pub(crate) fn features_per_group(self) -> usize {
        GROUP_BYTES / self.count()
    }
}

/// What a header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RowStoreHeader {
    pub(super) rows: usize,
    pub(super) level_bytes: LevelBytes,
    pub(super) ranges: Vec<u32>,
}

impl RowStoreHeader {
    /// Of so many rows with these ranges.
    pub(super) fn of(ranges: &[u32], rows: usize) -> Result<RowStoreHeader, StoreError> {
        RowStoreHeader::check_ranges(ranges)?;
        RowStoreHeader::check_rows(rows as u64)?;
        Ok(RowStoreHeader { rows, level_bytes: LevelBytes::for_max_levels(ranges), ranges: ranges.to_vec() })
    }

    pub(super) fn groups(&self) -> usize {
        self.ranges.len().div_ceil(self.level_bytes.features_per_group())
    }

    pub(super) fn block_bytes(&self) -> usize {
        self.groups() * GROUP_BYTES * BLOCK_ROWS
    }

    /// Bytes of all blocks, if they can be addressed.
    pub(super) fn data_bytes(&self) -> Option<usize> {
        self.rows.div_ceil(BLOCK_ROWS).checked_mul(self.block_bytes())
    }

    /// Where the blocks begin.
    pub(super) fn length(&self) -> usize {
        (FIXED + 4 * self.ranges.len()).next_multiple_of(64)
    }

    pub(super) fn check_ranges(ranges: &[u32]) -> Result<(), StoreError> {
        if ranges.is_empty() || ranges.len() > MAX_FEATURES {
            return Err(StoreError::Features(ranges.len()));
        }
        match ranges.iter().position(|&range| range > u32::from(u16::MAX)) {
            Some(feature) => Err(StoreError::Range { feature, range: ranges[feature] }),
            None => Ok(()),
        }
    }

    /// Positions and the entries of an order are 32-bit numbers.
    fn check_rows(rows: u64) -> Result<usize, StoreError> {
        match usize::try_from(rows) {
            Ok(fits) if rows <= u64::from(u32::MAX) => Ok(fits),
            _ => Err(StoreError::Rows(rows)),
        }
    }

    /// Puts a checked row into its place of its block.
    pub(super) fn place_row(&self, row: usize, levels: &[u16], block: &mut [u8]) {
        let start = row % BLOCK_ROWS * GROUP_BYTES;
        let places =
            block.chunks_exact_mut(BLOCK_ROWS * GROUP_BYTES).map(|group| &mut group[start..start + GROUP_BYTES]);
        match self.level_bytes {
            LevelBytes::One => {
                for (place, levels) in places.zip(levels.chunks(4)) {
                    for (byte, &level) in place.iter_mut().zip(levels) {
                        *byte = level as u8;
                    }
                }
            }
            LevelBytes::Two => {
                for (place, levels) in places.zip(levels.chunks(2)) {
                    for (bytes, &level) in place.chunks_exact_mut(2).zip(levels) {
                        bytes.copy_from_slice(&level.to_le_bytes());
                    }
                }
            }
        }
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.length());
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend((self.level_bytes.count() as u32).to_le_bytes());
        bytes.extend((self.rows as u64).to_le_bytes());
        bytes.extend((self.ranges.len() as u32).to_le_bytes());
        bytes.extend((BLOCK_ROWS as u32).to_le_bytes());
        bytes.extend(self.ranges.iter().flat_map(|range| range.to_le_bytes()));
        bytes.resize(self.length(), 0);
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Result<RowStoreHeader, StoreError> {
        let number = |at: usize| bytes.get(at..at + 4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        let fixed = |at| number(at).ok_or(StoreError::Truncated);
        if bytes.get(..8).ok_or(StoreError::Truncated)? != MAGIC {
            return Err(StoreError::NotRows);
        }
        if fixed(8)? != VERSION {
            return Err(StoreError::Version(fixed(8)?));
        }
        let rows = u64::from(fixed(16)?) | u64::from(fixed(20)?) << 32;
        let rows = RowStoreHeader::check_rows(rows)?;
        let features = fixed(24)? as usize;
        if features == 0 || features > MAX_FEATURES {
            return Err(StoreError::Features(features));
        }
        if fixed(28)? as usize != BLOCK_ROWS {
            return Err(StoreError::BlockRows(fixed(28)?));
        }
        let ranges: Vec<u32> = (0..features).map_while(|k| number(FIXED + 4 * k)).collect();
        if ranges.len() < features {
            return Err(StoreError::Truncated);
        }
        RowStoreHeader::check_ranges(&ranges)?;
        let level_bytes = LevelBytes::for_max_levels(&ranges);
        if fixed(12)? as usize != level_bytes.count() {
            return Err(StoreError::LevelBytes { have: fixed(12)?, need: level_bytes.count() });
        }
        let header = RowStoreHeader { rows, level_bytes, ranges };
        let total = header.data_bytes().and_then(|data| data.checked_add(header.length()));
        match total {
            Some(total) if total == bytes.len() => {}
            _ => return Err(StoreError::Length { have: bytes.len(), need: total }),
        }
        if bytes[FIXED + 4 * features..header.length()].iter().any(|&byte| byte != 0) {
            return Err(StoreError::Padding);
        }
        Ok(header)
    }
}
