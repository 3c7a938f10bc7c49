//! Keystream words, and field elements as a bit stream.

use super::super::DrawSpec;

#[inline(always)]
pub(crate) fn mask_words(draws: DrawSpec, bytes: &[u8], out: &mut [u32]) -> bool {
    match draws.width {
        1 => mask_words_of::<1>(draws, bytes, out),
        2 => mask_words_of::<2>(draws, bytes, out),
        3 => mask_words_of::<3>(draws, bytes, out),
        _ => mask_words_of::<4>(draws, bytes, out),
    }
}

#[inline(always)]
fn mask_words_of<const WIDTH: usize>(draws: DrawSpec, bytes: &[u8], out: &mut [u32]) -> bool {
    let (mask, shift) = (draws.mask as u32, draws.shift as u32);
    let mut largest = 0;
    for (out, bytes) in out.iter_mut().zip(bytes.as_chunks::<WIDTH>().0) {
        let mut word = [0; 4];
        word[..WIDTH].copy_from_slice(bytes);
        let word = u32::from_le_bytes(word) & mask;
        largest = largest.max(word);
        *out = word.wrapping_add(shift);
    }
    u64::from(largest) < draws.limit
}

#[inline(always)]
pub(crate) fn mask_long_words(draws: DrawSpec, bytes: &[u8], low: &mut [u32], high: &mut [u32]) -> bool {
    let DrawSpec { mask, limit, shift, .. } = draws;
    // Combines sign bits instead of computing a maximum, which vectors of 64-bit words often lack.
    let mut below = u64::MAX;
    for ((low, high), bytes) in low.iter_mut().zip(high).zip(bytes.as_chunks::<8>().0) {
        let word = u64::from_le_bytes(*bytes) & mask;
        below &= word.wrapping_sub(limit);
        let number = word.wrapping_add(shift);
        *low = number as u32;
        *high = (number >> 32) as u32;
    }
    below >> 63 == 1
}

#[inline(always)]
pub(crate) fn pack_halves(bits: u32, low: &[u32], high: &[u32], out: &mut [u8]) {
    let elements = low.iter().zip(high).map(|(&low, &high)| u64::from(low) | u64::from(high) << 32);
    crate::packing::pack_bits(bits, elements, out);
}

#[inline(always)]
pub(crate) fn pack_words(bits: u32, elements: &[u32], out: &mut [u8]) {
    for (eight, bytes) in elements.chunks_exact(8).zip(out.chunks_exact_mut(bits as usize)) {
        let (mut held, mut count, mut at) = (0u64, 0, 0);
        for &element in eight {
            // At most 31 bits are held before this line, so at most 63 after it.
            held |= u64::from(element) << count;
            count += bits;
            if count >= 32 {
                bytes[at..at + 4].copy_from_slice(&(held as u32).to_le_bytes());
                at += 4;
                held >>= 32;
                count -= 32;
            }
        }
        let rest = (count / 8) as usize;
        bytes[at..at + rest].copy_from_slice(&held.to_le_bytes()[..rest]);
    }
}

#[inline(always)]
pub(crate) fn unpack_words(bits: u32, packed: &[u8], elements: &mut [u32]) -> u32 {
    let mask = u64::MAX >> (64 - bits);
    let mut largest = 0;
    for (eight, bytes) in elements.chunks_exact_mut(8).zip(packed.chunks_exact(bits as usize)) {
        // Whole words for all but the last elements, whose words would end beyond the bytes of the
        // group of eight.
        for (index, element) in eight.iter_mut().enumerate() {
            let bit = index * bits as usize;
            let word = match bytes[bit / 8..].first_chunk::<8>() {
                Some(word) => u64::from_le_bytes(*word),
                None => bytes[bit / 8..].iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)),
            };
            *element = (word >> (bit % 8) & mask) as u32;
            largest = largest.max(*element);
        }
    }
    largest
}
