//! Look-ups in tables of 256 bytes with `vpermi2b`: 64 rows of one feature and one byte of the
//! entries at a time.
//!
//! One instruction looks up one table, so the four features of a group are first separated. The
//! results for four features are then interleaved to a group of four bytes per row, and one
//! `vpdpbusd` sums them.

use super::super::Blocks;
use super::limbs::{Reducer, load};
use crate::dot::limbs8::MAX_LIMBS;
use crate::dot::lookup::{FourTables, PlaneTables};
use crate::row_store::{BLOCK_ROWS, GROUP_BYTES};
use std::arch::x86_64::*;

/// Levels of one block and group, feature by feature. The rows are in an order that [`interleave`]
/// undoes.
type SplitLevels = [[u8; BLOCK_ROWS]; GROUP_BYTES];

/// Blocks that are processed together, one tile: their sums and levels stay in the first cache
/// level.
const BLOCKS: usize = 4;

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]
pub(super) fn look_up(tables: &PlaneTables, blocks: Blocks<'_>, low: &mut [u32], high: &mut [u32]) {
    assert!(low.len().is_multiple_of(BLOCK_ROWS) && tables.planes <= MAX_LIMBS, "a tile must consist of whole blocks");
    let parts = blocks.bytes.chunks(BLOCKS * blocks.block_bytes);
    for ((number, low), bytes) in low.chunks_mut(BLOCKS * BLOCK_ROWS).enumerate().zip(parts) {
        let first = number * BLOCKS * BLOCK_ROWS;
        let high = high.get_mut(first..first + low.len()).unwrap_or_default();
        look_up_blocks(tables, Blocks { bytes, ..blocks }, low, high);
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]
fn look_up_blocks(tables: &PlaneTables, blocks: Blocks<'_>, low: &mut [u32], high: &mut [u32]) {
    let count = low.len() / BLOCK_ROWS;
    let mut sums = [[[0; BLOCK_ROWS]; BLOCKS]; MAX_LIMBS];
    for (plane, sums) in sums[..tables.planes].iter_mut().enumerate() {
        *sums = [[(tables.constant >> (8 * plane)) as u32 & 0xFF; BLOCK_ROWS]; BLOCKS];
    }
    let mut levels = [[[0; BLOCK_ROWS]; GROUP_BYTES]; BLOCKS];
    for (group, planes) in tables.groups.chunks_exact(tables.planes).enumerate() {
        let start = group * BLOCK_ROWS * GROUP_BYTES;
        for (levels, block) in levels.iter_mut().zip(blocks.bytes.chunks_exact(blocks.block_bytes)) {
            // Prefetches the same group of the next tile: the hardware prefetcher does not predict
            // this stride. A prefetch accepts any address.
            let next_tile = block[start..].as_ptr().wrapping_add(blocks.bytes.len());
            for line in 0..BLOCK_ROWS * GROUP_BYTES / 64 {
                _mm_prefetch::<_MM_HINT_T1>(next_tile.wrapping_add(64 * line).cast());
            }
            *levels = split_features(block[start..].first_chunk().expect("the group lies inside the block"));
        }
        for (tables, sums) in planes.iter().zip(&mut sums) {
            add_looked_up(tables, &levels[..count], &mut sums[..count]);
        }
    }
    let reducer = Reducer { q: tables.q, first: true };
    for start in (0..low.len()).step_by(16) {
        let all = std::array::from_fn(|limb| {
            load(sums[limb].as_flattened()[start..].first_chunk::<16>().expect("sixteen rows"))
        });
        reducer.store(all, start, low, high);
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]
#[inline]
fn split_features(group: &[u8; BLOCK_ROWS * GROUP_BYTES]) -> SplitLevels {
    // First feature by feature within four rows, then a transposition of words.
    let by_feature = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    let vectors = group.as_chunks::<64>().0;
    let [a, b, c, d] = std::array::from_fn(|i| _mm512_shuffle_epi8(load(&vectors[i]), by_feature));
    let (ab_low, ab_high) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    let (cd_low, cd_high) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
    let features = [
        _mm512_unpacklo_epi64(ab_low, cd_low),
        _mm512_unpackhi_epi64(ab_low, cd_low),
        _mm512_unpacklo_epi64(ab_high, cd_high),
        _mm512_unpackhi_epi64(ab_high, cd_high),
    ];
    let mut split = [[0; BLOCK_ROWS]; GROUP_BYTES];
    for (levels, feature) in split.iter_mut().zip(features) {
        // SAFETY: the levels of a block are 64 bytes.
        unsafe { _mm512_storeu_si512(levels.as_mut_ptr().cast(), feature) };
    }
    split
}

/// Interleaves the entries of four features to groups of four bytes per row, sixteen rows each.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]
#[inline]
fn interleave([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
    let (ab_low, ab_high) = (_mm512_unpacklo_epi8(a, b), _mm512_unpackhi_epi8(a, b));
    let (cd_low, cd_high) = (_mm512_unpacklo_epi8(c, d), _mm512_unpackhi_epi8(c, d));
    [
        _mm512_unpacklo_epi16(ab_low, cd_low),
        _mm512_unpackhi_epi16(ab_low, cd_low),
        _mm512_unpacklo_epi16(ab_high, cd_high),
        _mm512_unpackhi_epi16(ab_high, cd_high),
    ]
}

/// Adds one byte of the entries of four features to the sums of all rows.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]
#[inline]
fn add_looked_up(tables: &FourTables, levels: &[SplitLevels], sums: &mut [[u32; BLOCK_ROWS]]) {
    let tables: [[__m512i; 4]; 4] = std::array::from_fn(|feature| {
        let quarters = tables[feature].as_chunks::<64>().0;
        std::array::from_fn(|quarter| load(&quarters[quarter]))
    });
    let ones = _mm512_set1_epi8(1);
    for (levels, sums) in levels.iter().zip(sums) {
        let looked_up = std::array::from_fn(|feature| {
            let [first, second, third, fourth] = tables[feature];
            let level = load(&levels[feature]);
            let lower = _mm512_permutex2var_epi8(first, level, second);
            let upper = _mm512_permutex2var_epi8(third, level, fourth);
            _mm512_mask_blend_epi8(_mm512_movepi8_mask(level), lower, upper)
        });
        let sums = sums.as_chunks_mut::<16>().0;
        for (sum, bytes) in sums.iter_mut().zip(interleave(looked_up)) {
            let total = _mm512_dpbusd_epi32(load(sum), bytes, ones);
            // SAFETY: sixteen words are 64 bytes.
            unsafe { _mm512_storeu_si512(sum.as_mut_ptr().cast(), total) };
        }
    }
}
