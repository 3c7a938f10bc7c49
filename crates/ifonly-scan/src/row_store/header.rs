//! The header of serialised rows, and the arithmetic of their layout.
//!
//! ```text
//! offset  bytes  field
//!      0      8  "IFONLYRW"
//!      8      4  format version, 1
//!     12      4  bytes per level, 1 or 2
//!     16      8  rows
//!     24      4  features
//!     28      4  rows per block, 64
//!     32    4·d  the max level of each feature
//!      …         zeros up to a multiple of 64, then the blocks
//! ```
//!
//! All numbers are little-endian. The content is used only after the file length has been checked
//! against the header.

use crate::row_store::StoreError;

/// Rows per block.
pub const BLOCK_ROWS: usize = 64;
/// Bytes of one row in one feature group: four levels of one byte or two levels of two bytes.
pub(crate) const GROUP_BYTES: usize = 4;
/// Largest number of features. It keeps all sizes far from overflow.
pub(crate) const MAX_FEATURES: usize = 1 << 16;
const MAGIC: &[u8; 8] = b"IFONLYRW";
const VERSION: u32 = 1;
const FIXED_BYTES: usize = 32;

/// Number of bytes per level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LevelBytes {
    /// Every max level is at most 255.
    One,
    /// Some max level is above 255.
    Two,
}

impl LevelBytes {
    /// The smallest width for these max levels.
    pub fn for_max_levels(max_levels: &[u32]) -> LevelBytes {
        if max_levels.iter().all(|&max_level| max_level <= 255) { LevelBytes::One } else { LevelBytes::Two }
    }

    /// The number: 1 or 2.
    pub fn count(self) -> usize {
        match self {
            LevelBytes::One => 1,
            LevelBytes::Two => 2,
        }
    }

    pub(crate) fn features_per_group(self) -> usize {
        GROUP_BYTES / self.count()
    }
}

/// The fields of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RowStoreHeader {
    pub(super) rows: usize,
    pub(super) level_bytes: LevelBytes,
    pub(super) max_levels: Vec<u32>,
}

impl RowStoreHeader {
    /// The header of `rows` rows with these max levels.
    pub(super) fn of(max_levels: &[u32], rows: usize) -> Result<RowStoreHeader, StoreError> {
        RowStoreHeader::check_max_levels(max_levels)?;
        RowStoreHeader::check_rows(rows as u64)?;
        Ok(RowStoreHeader {
            rows,
            level_bytes: LevelBytes::for_max_levels(max_levels),
            max_levels: max_levels.to_vec(),
        })
    }

    pub(super) fn groups(&self) -> usize {
        self.max_levels.len().div_ceil(self.level_bytes.features_per_group())
    }

    pub(super) fn block_bytes(&self) -> usize {
        self.groups() * GROUP_BYTES * BLOCK_ROWS
    }

    /// Bytes of all blocks; `None` if they exceed the address space.
    pub(super) fn data_bytes(&self) -> Option<usize> {
        self.rows.div_ceil(BLOCK_ROWS).checked_mul(self.block_bytes())
    }

    /// Length of the header: the offset of the first block.
    pub(super) fn length(&self) -> usize {
        (FIXED_BYTES + 4 * self.max_levels.len()).next_multiple_of(64)
    }

    pub(super) fn check_max_levels(max_levels: &[u32]) -> Result<(), StoreError> {
        if max_levels.is_empty() || max_levels.len() > MAX_FEATURES {
            return Err(StoreError::Features(max_levels.len()));
        }
        match max_levels.iter().position(|&max_level| max_level > u32::from(u16::MAX)) {
            Some(feature) => Err(StoreError::MaxLevel { feature, max_level: max_levels[feature] }),
            None => Ok(()),
        }
    }

    /// Positions and the entries of a row order are 32-bit numbers.
    fn check_rows(rows: u64) -> Result<usize, StoreError> {
        match usize::try_from(rows) {
            Ok(fits) if rows <= u64::from(u32::MAX) => Ok(fits),
            _ => Err(StoreError::Rows(rows)),
        }
    }

    /// Writes a checked row to its slot in its block.
    pub(super) fn place_row(&self, row: usize, levels: &[u16], block: &mut [u8]) {
        let start = row % BLOCK_ROWS * GROUP_BYTES;
        let slots =
            block.chunks_exact_mut(BLOCK_ROWS * GROUP_BYTES).map(|group| &mut group[start..start + GROUP_BYTES]);
        match self.level_bytes {
            LevelBytes::One => {
                for (slot, levels) in slots.zip(levels.chunks(4)) {
                    for (byte, &level) in slot.iter_mut().zip(levels) {
                        *byte = level as u8;
                    }
                }
            }
            LevelBytes::Two => {
                for (slot, levels) in slots.zip(levels.chunks(2)) {
                    for (bytes, &level) in slot.chunks_exact_mut(2).zip(levels) {
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
        bytes.extend((self.max_levels.len() as u32).to_le_bytes());
        bytes.extend((BLOCK_ROWS as u32).to_le_bytes());
        bytes.extend(self.max_levels.iter().flat_map(|max_level| max_level.to_le_bytes()));
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
        let max_levels: Vec<u32> = (0..features).map_while(|k| number(FIXED_BYTES + 4 * k)).collect();
        if max_levels.len() < features {
            return Err(StoreError::Truncated);
        }
        RowStoreHeader::check_max_levels(&max_levels)?;
        let level_bytes = LevelBytes::for_max_levels(&max_levels);
        if fixed(12)? as usize != level_bytes.count() {
            return Err(StoreError::LevelBytes { have: fixed(12)?, need: level_bytes.count() });
        }
        let header = RowStoreHeader { rows, level_bytes, max_levels };
        let total = header.data_bytes().and_then(|data| data.checked_add(header.length()));
        match total {
            Some(total) if total == bytes.len() => {}
            _ => return Err(StoreError::Length { have: bytes.len(), need: total }),
        }
        if bytes[FIXED_BYTES + 4 * features..header.length()].iter().any(|&byte| byte != 0) {
            return Err(StoreError::Padding);
        }
        Ok(header)
    }
}
