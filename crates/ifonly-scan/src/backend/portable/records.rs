//! Sums of records, and the plain read that scans are compared with.

use super::super::NibbleTables;

#[inline(always)]
pub(crate) fn xor_selected(records: &[u8], length: usize, subset: &[u8], sum: &mut [u8]) {
    for (eight, &bits) in records.chunks(8 * length).zip(subset) {
        let mut bits = bits;
        while bits != 0 {
            let index = bits.trailing_zeros() as usize;
            bits &= bits - 1;
            if let Some(record) = eight.get(index * length..(index + 1) * length) {
                for (sum, &byte) in sum.iter_mut().zip(record) {
                    *sum ^= byte;
                }
            }
        }
    }
}

#[inline(always)]
pub(crate) fn gf256_sum(tables: &NibbleTables, records: &[u8], length: usize, coefficients: &[u8], sum: &mut [u8]) {
    for (record, &coefficient) in records.chunks_exact(length).zip(coefficients) {
        let (low, high) = tables[usize::from(coefficient)].split_at(16);
        for (sum, &byte) in sum.iter_mut().zip(record) {
            *sum ^= low[usize::from(byte & 15)] ^ high[usize::from(byte >> 4)];
        }
    }
}

#[inline(always)]
pub(crate) fn read(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<64>();
    let mut sums = [0u64; 8];
    for line in words {
        for (sum, word) in sums.iter_mut().zip(line.as_chunks::<8>().0) {
            *sum = sum.wrapping_add(u64::from_le_bytes(*word));
        }
    }
    sums.iter().fold(rest.iter().map(|&byte| u64::from(byte)).sum(), |sum, &part| sum.wrapping_add(part))
}
