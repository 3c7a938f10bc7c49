//! Sums of 32-bit table entries with `vpermt2b`: one byte of the entries of one feature for 64 rows
//! at a time.
//!
//! One instruction selects from 128 bytes. Longer tables take several and blends, which
//! the upper bits of the levels control. For each byte of the entries, two accumulators of 16-bit
//! lanes add up the results: the lanes as they are (modulo 2^16), and their upper bytes. The sum of
//! the lower bytes follows.

use super::limbs::load;
use crate::lifted::lookups::{BytePlanes, PLANE_LEVELS, PLANES, RowBlocks, TILE_ROWS, WordLookups};
use crate::row_store::{BLOCK_ROWS, GROUP_BYTES, LevelBytes};
use std::arch::x86_64::*;

const BLOCKS: usize = TILE_ROWS / BLOCK_ROWS;

/// One byte per row of a block. Byte `4w + j` belongs to row `16j + w` (see [`transpose`]).
type RowBytes = [u8; BLOCK_ROWS];

/// The levels of one feature in the blocks of a tile.
#[derive(Clone, Copy)]
struct TileLevels {
    /// The lower 7 bits; the upper bit is ignored.
    low: [RowBytes; BLOCKS],
    /// Bits 7, 8 and 9, as masks.
    upper: [[u64; 3]; BLOCKS],
}

/// For each byte of the entries: 16-bit sums of the bytes in pairs, and of the upper bytes alone.
type BlockSums = [[RowBytes; 2]; PLANES];

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]
pub(super) fn word_sums(lookups: &WordLookups, blocks: RowBlocks<'_>, low: &mut [u32], high: &mut [u32]) {
    let WordLookups { loads, planes } = lookups;
    let count = low.len() / BLOCK_ROWS;
    assert!(count <= BLOCKS && low.len() == high.len() && blocks.bytes.len() == count * blocks.block_bytes);
    let is_long = |feature: usize| !planes.has(feature);
    if (0..loads.features()).any(is_long) {
        lookups.add_loads(blocks, is_long, &mut [0; TILE_ROWS], low, high);
    } else {
        low.fill(0);
        high.fill(0);
    }
    if planes.features.is_empty() {
        return;
    }

    let mut sums = [[[[0; BLOCK_ROWS]; 2]; PLANES]; BLOCKS];
    let mut levels = [TileLevels { low: [[0; BLOCK_ROWS]; BLOCKS], upper: [[0; 3]; BLOCKS] }; GROUP_BYTES];
    let per_group = loads.level_bytes().features_per_group();
    for group in 0..loads.features().div_ceil(per_group) {
        for (block, bytes) in blocks.bytes.chunks_exact(blocks.block_bytes).enumerate() {
            let bytes = &bytes[group * BLOCK_ROWS * GROUP_BYTES..][..BLOCK_ROWS * GROUP_BYTES];
            blocks.prefetch_behind(bytes);
            let split = transpose(bytes);
            match loads.level_bytes() {
                LevelBytes::One => {
                    for (levels, low) in levels.iter_mut().zip(split) {
                        levels.set(block, low, _mm512_setzero_si512());
                    }
                }
                LevelBytes::Two => {
                    levels[0].set(block, split[0], split[1]);
                    levels[1].set(block, split[2], split[3]);
                }
            }
        }
        for (levels, feature) in levels[..per_group].iter().zip(group * per_group..) {
            let sums = &mut sums[..count];
            match planes.features.get(feature).map_or(0, |(_, lines)| *lines) {
                0 => {}
                2 => add_feature::<2>(planes, feature, levels, sums),
                4 => add_feature::<4>(planes, feature, levels, sums),
                8 => add_feature::<8>(planes, feature, levels, sums),
                _ => add_feature::<{ PLANE_LEVELS / 64 }>(planes, feature, levels, sums),
            }
        }
    }
    let both = low.as_chunks_mut::<BLOCK_ROWS>().0.iter_mut().zip(high.as_chunks_mut::<BLOCK_ROWS>().0);
    for (sums, (low, high)) in sums.iter().zip(both) {
        join_bytes(sums, low, high);
    }
}

impl TileLevels {
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]
    #[inline]
    fn set(&mut self, block: usize, low: __m512i, high: __m512i) {
        store(&mut self.low[block], low);
        let bit = |bit: i8| _mm512_test_epi8_mask(high, _mm512_set1_epi8(bit));
        self.upper[block] = [_mm512_movepi8_mask(low), bit(1), bit(2)];
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]
#[inline]
fn store(to: &mut RowBytes, vector: __m512i) {
    // SAFETY: the bytes of a block fill a vector.
    unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), vector) };
}

/// The four bytes of every row as four vectors. Byte `4w + j` of a vector belongs to row `16j + w`.
/// Only shifts and blends: shuffles are needed for the look-ups.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]
#[inline]
fn transpose(group: &[u8]) -> [__m512i; GROUP_BYTES] {
    const ODD_BYTES: __mmask64 = 0xAAAA_AAAA_AAAA_AAAA;
    const ODD_WORDS: __mmask32 = 0xAAAA_AAAA;
    let vectors = group.as_chunks::<64>().0;
    let [a, b, c, d] = std::array::from_fn(|j| load(&vectors[j]));
    let pair = |a, b| {
        let even = _mm512_mask_blend_epi8(ODD_BYTES, a, _mm512_slli_epi16::<8>(b));
        let odd = _mm512_mask_blend_epi8(ODD_BYTES, _mm512_srli_epi16::<8>(a), b);
        [even, odd]
    };
    let ([ab_even, ab_odd], [cd_even, cd_odd]) = (pair(a, b), pair(c, d));
    let join = |ab, cd| {
        let lower = _mm512_mask_blend_epi16(ODD_WORDS, ab, _mm512_slli_epi32::<16>(cd));
        let upper = _mm512_mask_blend_epi16(ODD_WORDS, _mm512_srli_epi32::<16>(ab), cd);
        [lower, upper]
    };
    let ([first, third], [second, fourth]) = (join(ab_even, cd_even), join(ab_odd, cd_odd));
    [first, second, third, fourth]
}

/// Adds the entries of one feature, whose tables have `LINES` lines, to the sums of a tile.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]
#[inline]
fn add_feature<const LINES: usize>(planes: &BytePlanes, feature: usize, levels: &TileLevels, sums: &mut [BlockSums]) {
    let start = planes.features[feature].0;
    for plane in 0..PLANES {
        let lines: &[RowBytes; LINES] =
            planes.lines[start + plane * LINES..].first_chunk().expect("every byte has its lines");
        let table: [__m512i; LINES] = std::array::from_fn(|line| load(&lines[line]));
        for (sums, (low, upper)) in sums.iter_mut().zip(levels.low.iter().zip(&levels.upper)) {
            let bytes = look_up(&table, load(low), upper);
            let [pairs, uppers] = &mut sums[plane];
            let (pair_sum, upper_sum) = (load(pairs), load(uppers));
            store(pairs, _mm512_add_epi16(pair_sum, bytes));
            store(uppers, _mm512_add_epi16(upper_sum, _mm512_srli_epi16::<8>(bytes)));
        }
    }
}

/// The bytes of a table at 64 levels.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]
#[inline]
fn look_up<const LINES: usize>(table: &[__m512i; LINES], low: __m512i, upper: &[u64; 3]) -> __m512i {
    let mut found = [_mm512_setzero_si512(); PLANE_LEVELS / 128];
    for (found, lines) in found.iter_mut().zip(table.as_chunks::<2>().0) {
        *found = _mm512_permutex2var_epi8(lines[0], low, lines[1]);
    }
    let [a, b, c, d, e, f, g, h] = found;
    let [bit_7, bit_8, bit_9] = *upper;
    let four = |a, b, c, d| {
        let (lower, higher) = (_mm512_mask_blend_epi8(bit_7, a, b), _mm512_mask_blend_epi8(bit_7, c, d));
        _mm512_mask_blend_epi8(bit_8, lower, higher)
    };
    match LINES {
        2 => a,
        4 => _mm512_mask_blend_epi8(bit_7, a, b),
        8 => four(a, b, c, d),
        _ => _mm512_mask_blend_epi8(bit_9, four(a, b, c, d), four(e, f, g, h)),
    }
}

/// Adds the sums of bytes of one block to the sums of its rows.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]
#[inline]
fn join_bytes(sums: &BlockSums, low: &mut [u32; BLOCK_ROWS], high: &mut [u32; BLOCK_ROWS]) {
    let lower_half = _mm512_set1_epi32(0xffff);
    // For each plane, the sums of the rows 16j + w, for j from 0 to 3.
    let planes: [[__m512i; 4]; PLANES] = std::array::from_fn(|plane| {
        let (pairs, uppers) = (load(&sums[plane][0]), load(&sums[plane][1]));
        let lowers = _mm512_sub_epi16(pairs, _mm512_slli_epi16::<8>(uppers));
        [
            _mm512_and_si512(lowers, lower_half),
            _mm512_and_si512(uppers, lower_half),
            _mm512_srli_epi32::<16>(lowers),
            _mm512_srli_epi32::<16>(uppers),
        ]
    });
    let minus_one = _mm512_set1_epi32(-1);
    let both = low.as_chunks_mut::<16>().0.iter_mut().zip(high.as_chunks_mut::<16>().0);
    for (j, (low, high)) in both.enumerate() {
        let [first, second, third, fourth] = planes.map(|rows| rows[j]);
        let shifted =
            [first, _mm512_slli_epi32::<8>(second), _mm512_slli_epi32::<16>(third), _mm512_slli_epi32::<24>(fourth)];
        let (mut sum, mut over) = (load(low), load(high));
        for part in shifted {
            sum = _mm512_add_epi32(sum, part);
            over = _mm512_mask_sub_epi32(over, _mm512_cmplt_epu32_mask(sum, part), over, minus_one);
        }
        over = _mm512_add_epi32(over, _mm512_add_epi32(_mm512_srli_epi32::<16>(third), _mm512_srli_epi32::<8>(fourth)));
        // SAFETY: sixteen words are 64 bytes.
        unsafe {
            _mm512_storeu_si512(low.as_mut_ptr().cast(), sum);
            _mm512_storeu_si512(high.as_mut_ptr().cast(), over);
        }
    }
}
