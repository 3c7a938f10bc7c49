//! Sums of records, and the plain read that scans are compared with.

use super::super::{NibbleTables, portable};
use std::arch::x86_64::*;

/// Vectors of a record column that stay in CPU registers.
const COLUMN: usize = 4;
/// Records per pass over a column. Their bytes stay in the cache until the last column.
const TILE: usize = 64;

#[target_feature(enable = "avx2,fma")]
pub(in crate::backend) fn xor_selected(records: &[u8], length: usize, subset: &[u8], sum: &mut [u8]) {
    let vectors = length / 32;
    let tail = vectors * 32;
    let count = records.len().checked_div(length).unwrap_or(0).min(subset.len() * 8);
    assert!(sum.len() >= length);
    for tile in (0..count).step_by(TILE) {
        let in_tile = TILE.min(count - tile);
        let mut bits = [0; 8];
        let bytes = &subset[tile / 8..(tile + in_tile).div_ceil(8)];
        bits[..bytes.len()].copy_from_slice(bytes);
        let chosen = u64::from_le_bytes(bits) & (u64::MAX >> (64 - in_tile));
        let mut vector = 0;
        while vector < vectors {
            let width = COLUMN.min(vectors - vector);
            // SAFETY: all chosen records are below `count`, so inside `records`; the column ends at
            // or before `length`, and `sum` has at least `length` bytes.
            unsafe {
                let from = records.as_ptr().add(tile * length + 32 * vector);
                let to = sum.as_mut_ptr().add(32 * vector);
                match width {
                    1 => xor_column::<1>(from, length, chosen, to),
                    2 => xor_column::<2>(from, length, chosen, to),
                    3 => xor_column::<3>(from, length, chosen, to),
                    _ => xor_column::<4>(from, length, chosen, to),
                }
            }
            vector += width;
        }
        if tail < length {
            let mut rest = chosen;
            while rest != 0 {
                let start = (tile + rest.trailing_zeros() as usize) * length;
                rest &= rest - 1;
                for (sum, &byte) in sum[tail..length].iter_mut().zip(&records[start + tail..start + length]) {
                    *sum ^= byte;
                }
            }
        }
    }
}

/// `to ⊕= Σ chosen columns`.
///
/// # Safety
/// `from + i·length` for every set bit i of `chosen`, and `to`, are valid for 32·W bytes.
#[target_feature(enable = "avx2,fma")]
#[inline]
unsafe fn xor_column<const W: usize>(from: *const u8, length: usize, chosen: u64, to: *mut u8) {
    let mut rest = chosen;
    // SAFETY: guaranteed by the caller; a prefetch accepts any address.
    unsafe {
        let mut sums: [__m256i; W] = std::array::from_fn(|w| _mm256_loadu_si256(to.add(32 * w).cast()));
        // Two independent sums, so that additions overlap.
        let mut others = [_mm256_setzero_si256(); W];
        while rest != 0 {
            let record = from.add(rest.trailing_zeros() as usize * length);
            rest &= rest - 1;
            _mm_prefetch::<_MM_HINT_T0>(record.wrapping_add(TILE * length).cast());
            for (w, sum) in sums.iter_mut().enumerate() {
                *sum = _mm256_xor_si256(*sum, _mm256_loadu_si256(record.add(32 * w).cast()));
            }
            std::mem::swap(&mut sums, &mut others);
        }
        for (w, (sum, other)) in sums.into_iter().zip(others).enumerate() {
            _mm256_storeu_si256(to.add(32 * w).cast(), _mm256_xor_si256(sum, other));
        }
    }
}

#[target_feature(enable = "avx2,fma")]
pub(in crate::backend) fn gf256_sum(
    tables: &NibbleTables,
    records: &[u8],
    length: usize,
    coefficients: &[u8],
    sum: &mut [u8],
) {
    let nibble = _mm256_set1_epi8(15);
    let vectors = length / 32;
    for (tile, coefficients) in records.chunks(TILE * length.max(1)).zip(coefficients.chunks(TILE)) {
        for vector in 0..vectors {
            let slot: &mut [u8; 32] = (&mut sum[32 * vector..32 * vector + 32]).try_into().expect("32 bytes");
            // SAFETY: `slot` is 32 bytes.
            let mut total = unsafe { _mm256_loadu_si256(slot.as_ptr().cast()) };
            for (record, &coefficient) in tile.chunks_exact(length).zip(coefficients) {
                let table = &tables[usize::from(coefficient)];
                let bytes: &[u8; 32] = record[32 * vector..32 * vector + 32].try_into().expect("32 bytes");
                // SAFETY: `table` and `bytes` are 32 bytes each.
                let (low, high, bytes) = unsafe {
                    (
                        _mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().cast())),
                        _mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().add(16).cast())),
                        _mm256_loadu_si256(bytes.as_ptr().cast()),
                    )
                };
                let low = _mm256_shuffle_epi8(low, _mm256_and_si256(bytes, nibble));
                let high = _mm256_shuffle_epi8(high, _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), nibble));
                total = _mm256_xor_si256(total, _mm256_xor_si256(low, high));
            }
            // SAFETY: `slot` is 32 bytes.
            unsafe { _mm256_storeu_si256(slot.as_mut_ptr().cast(), total) };
        }
        for (record, &coefficient) in tile.chunks_exact(length).zip(coefficients) {
            let (low, high) = tables[usize::from(coefficient)].split_at(16);
            for (sum, &byte) in sum[32 * vectors..].iter_mut().zip(&record[32 * vectors..]) {
                *sum ^= low[usize::from(byte & 15)] ^ high[usize::from(byte >> 4)];
            }
        }
    }
}

/// Sums the 64-bit words of whole 256-byte steps in eight CPU registers.
#[target_feature(enable = "avx2,fma")]
pub(in crate::backend) fn read(bytes: &[u8]) -> u64 {
    let (steps, rest) = bytes.as_chunks::<256>();
    let mut sums = [_mm256_setzero_si256(); 8];
    for step in steps {
        for (index, sum) in sums.iter_mut().enumerate() {
            // SAFETY: `step` is 256 bytes.
            let words = unsafe { _mm256_loadu_si256(step.as_ptr().add(32 * index).cast()) };
            *sum = _mm256_add_epi64(*sum, words);
        }
    }
    let mut total = portable::read(rest);
    for sum in sums {
        let mut words = [0u64; 4];
        // SAFETY: `words` is 32 bytes.
        unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), sum) };
        total = words.iter().fold(total, |total, &word| total.wrapping_add(word));
    }
    total
}
