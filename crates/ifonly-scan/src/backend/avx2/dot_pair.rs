//! The dot products of two queries over the same rows. The even and odd bytes of a group are
//! separated once for both queries. `‖y‖²` is the same for every query and is read from a plane
//! instead of being computed again. This takes nine instructions where a single query takes twelve.
//! Two queries of two limbs leave room for 16 rows at a time. The rest (planes and reduction) is
//! done per query, 32 rows at a time.
//!
//! If the second digits are short ([`ShortDigits`]), `vpmaddubsw` multiplies them with the bytes
//! directly, and the products of four groups are summed in 16 bits. This takes fewer than eight
//! instructions, with 32 rows at a time for each limb.

// Vectors are indexed in two arrays at once.
#![allow(clippy::needless_range_loop)]

use super::super::{Blocks, DotPair, Planes, assert_sizes};
use super::dot::{ChunkJob, even_odd, pair};
use crate::dot::limbs16::{Chunk, NARROW, SHORT_GROUPS, ShortDigits};
use crate::row_store::{BLOCK_ROWS, GROUP_BYTES};
use std::arch::x86_64::*;

/// Vectors of eight rows at a time for the sums of the features.
const V: usize = 2;
/// Vectors of eight rows at a time for the rest.
const FINISH: usize = 4;

/// The sums of the two limbs of a query for the rows of a block.
type Sums = [[__m256i; BLOCK_ROWS / 8]; NARROW];

#[target_feature(enable = "avx2,fma")]
pub(super) fn dot_pair(
    two: DotPair<'_>,
    blocks: Blocks<'_>,
    norms: &[u32],
    planes: [Planes<'_>; 2],
    out: [&mut [u32]; 2],
) {
    let rows = norms.len();
    let [first, second] = out;
    for (number, out) in [&*first, &*second].into_iter().enumerate() {
        assert_eq!(assert_sizes(two.dots[number], blocks, planes[number], out), rows);
    }
    let jobs: [ChunkJob<'_, NARROW>; 2] = std::array::from_fn(|number| {
        let dot = two.dots[number];
        ChunkJob::new(dot, 0, &dot.chunks[0], blocks, planes[number])
    });
    let mut sums: [Sums; 2] = [[[_mm256_setzero_si256(); BLOCK_ROWS / 8]; NARROW]; 2];
    let (norms, _) = norms.as_chunks::<BLOCK_ROWS>();
    for (number, norms) in norms.iter().enumerate() {
        let block = &blocks.bytes[number * blocks.block_bytes..][..blocks.block_bytes];
        let chunks = [jobs[0].chunk, jobs[1].chunk];
        match two.dots.map(|dot| &dot.short_digits[..]) {
            // SAFETY: `assert_sizes` checked that all groups are inside every block.
            [[], _] | [_, []] => unsafe { add_by_words(block, norms, chunks, &mut sums) },
            // SAFETY: as above.
            digits => unsafe { add_by_bytes(block, norms, chunks, digits, &mut sums) },
        }
        for ((job, sums), out) in jobs.iter().zip(&sums).zip([&mut *first, &mut *second]) {
            for strip in 0..BLOCK_ROWS / (8 * FINISH) {
                let start = number * BLOCK_ROWS + strip * 8 * FINISH;
                let mut strip_sums = [[_mm256_setzero_si256(); FINISH]; NARROW];
                for (to, from) in strip_sums.iter_mut().zip(sums) {
                    to.copy_from_slice(&from[strip * FINISH..][..FINISH]);
                }
                // SAFETY: `assert_sizes` checked that every plane has `rows` words, and the strip
                // is inside a block of them.
                unsafe { job.add_planes(start, &mut strip_sums) };
                let (slots, _) = out[start..start + 8 * FINISH].as_chunks_mut::<8>();
                for v in 0..FINISH {
                    job.store_narrow(strip_sums[0][v], strip_sums[1][v], &mut slots[v]);
                }
            }
        }
    }
}

/// Adds the constants, norms and feature groups of a block with the second digits as bytes, one
/// limb after the other.
///
/// # Safety The groups of the chunks must be those of the digits, and all of them must be inside
/// the block.
#[target_feature(enable = "avx2,fma")]
#[inline(never)]
unsafe fn add_by_bytes(
    block: &[u8],
    norms: &[u32; BLOCK_ROWS],
    chunks: [&Chunk<NARROW>; 2],
    digits: [&[ShortDigits]; 2],
    block_sums: &mut [Sums; 2],
) {
    // SAFETY: guaranteed by the caller, for the eight rows `8·vector..`.
    let bytes = |group: usize, vector: usize| unsafe {
        _mm256_loadu_si256(block.as_ptr().add(group * BLOCK_ROWS * GROUP_BYTES + 32 * vector).cast())
    };
    for first in (0..BLOCK_ROWS / 8).step_by(FINISH) {
        let mut sums = [[_mm256_setzero_si256(); FINISH]; 2];
        for v in 0..FINISH {
            // SAFETY: eight vectors of eight norms are 64.
            let norm = unsafe { _mm256_loadu_si256(norms.as_ptr().add(8 * (first + v)).cast()) };
            for (sums, chunk) in sums.iter_mut().zip(chunks) {
                sums[v] = _mm256_add_epi32(norm, _mm256_set1_epi32(chunk.start[0]));
            }
        }
        for (group, (one, other)) in digits[0].iter().zip(digits[1]).enumerate() {
            let digits = [one, other].map(|digits| (_mm256_set1_epi32(digits[0]), _mm256_set1_epi32(digits[1])));
            for v in 0..FINISH {
                let (even, odd) = even_odd(bytes(group, first + v));
                for (sums, (c_even, c_odd)) in sums.iter_mut().zip(digits) {
                    let products = _mm256_add_epi32(_mm256_madd_epi16(even, c_even), _mm256_madd_epi16(odd, c_odd));
                    sums[v] = _mm256_add_epi32(sums[v], products);
                }
            }
        }
        for (block_sums, sums) in block_sums.iter_mut().zip(&sums) {
            block_sums[0][first..first + FINISH].copy_from_slice(sums);
        }
    }
    // The queries share nothing here. The sums of one query all stay in CPU registers.
    for ((block_sums, chunk), digits) in block_sums.iter_mut().zip(chunks).zip(digits) {
        for first in (0..BLOCK_ROWS / 8).step_by(FINISH) {
            let mut sums = [_mm256_set1_epi32(chunk.start[1]); FINISH];
            for (run, digits) in digits.chunks(SHORT_GROUPS).enumerate() {
                let mut short = [_mm256_setzero_si256(); FINISH];
                for (group, digits) in digits.iter().enumerate() {
                    for v in 0..FINISH {
                        let y = bytes(run * SHORT_GROUPS + group, first + v);
                        let products = _mm256_maddubs_epi16(y, _mm256_set1_epi32(digits[2]));
                        short[v] = _mm256_add_epi16(short[v], products);
                    }
                }
                for v in 0..FINISH {
                    let wide = _mm256_madd_epi16(short[v], _mm256_set1_epi16(1));
                    sums[v] = _mm256_add_epi32(sums[v], wide);
                }
            }
            block_sums[1][first..first + FINISH].copy_from_slice(&sums);
        }
    }
}

/// Adds the constants, norms and feature groups of a block. A separate function, so that its sums
/// stay in CPU registers.
///
/// # Safety All groups of the chunks must be inside the block.
#[target_feature(enable = "avx2,fma")]
#[inline(never)]
unsafe fn add_by_words(
    block: &[u8],
    norms: &[u32; BLOCK_ROWS],
    chunks: [&Chunk<NARROW>; 2],
    block_sums: &mut [Sums; 2],
) {
    for strip in 0..BLOCK_ROWS / (8 * V) {
        let mut sums = [[[_mm256_setzero_si256(); V]; NARROW]; 2];
        for v in 0..V {
            // SAFETY: 4 strips of 16 norms are 64.
            let norm = unsafe { _mm256_loadu_si256(norms.as_ptr().add(8 * (V * strip + v)).cast()) };
            for (sums, chunk) in sums.iter_mut().zip(chunks) {
                sums[0][v] = _mm256_add_epi32(norm, _mm256_set1_epi32(chunk.start[0]));
                sums[1][v] = _mm256_set1_epi32(chunk.start[1]);
            }
        }
        for (group, (one, other)) in chunks[0].groups.iter().zip(&chunks[1].groups).enumerate() {
            let mut halves = [(_mm256_setzero_si256(), _mm256_setzero_si256()); V];
            for v in 0..V {
                let offset = group * BLOCK_ROWS * GROUP_BYTES + 32 * (V * strip + v);
                // SAFETY: guaranteed by the caller.
                halves[v] = even_odd(unsafe { _mm256_loadu_si256(block.as_ptr().add(offset).cast()) });
            }
            for (number, digits) in [one, other].into_iter().enumerate() {
                for limb in 0..NARROW {
                    let (c_even, c_odd) = (pair(&digits[limb], 0), pair(&digits[limb], 2));
                    for v in 0..V {
                        let (even, odd) = halves[v];
                        let products = _mm256_add_epi32(_mm256_madd_epi16(even, c_even), _mm256_madd_epi16(odd, c_odd));
                        sums[number][limb][v] = _mm256_add_epi32(sums[number][limb][v], products);
                    }
                }
            }
        }
        for (block_sums, sums) in block_sums.iter_mut().zip(&sums) {
            for limb in 0..NARROW {
                block_sums[limb][V * strip..][..V].copy_from_slice(&sums[limb]);
            }
        }
    }
}
