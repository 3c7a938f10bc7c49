//! Packing: field elements of a tile as a bit stream. [`ifonly_algebra::wire`] defines the format.

use crate::backend::Kernels;

/// Packs the elements to the beginning of `packed`. Bytes after the bit stream may be overwritten,
/// so that kernels can store whole vectors.
pub(crate) fn pack_words(kernels: &dyn Kernels, bits: u32, elements: &[u32], packed: &mut [u8]) {
    let (fast, rest) = elements.split_at(if bits >= 8 { elements.len() / 8 * 8 } else { 0 });
    if !fast.is_empty() {
        kernels.pack_words(bits, fast, packed);
    }
    let start = bytes_of_eights(bits, fast.len());
    pack_bits(bits, rest.iter().map(|&element| u64::from(element)), &mut packed[start..]);
}

/// Like [`pack_words`], for elements of up to 62 bits, given as lower and upper words.
pub(crate) fn pack_halves(kernels: &dyn Kernels, bits: u32, low: &[u32], high: &[u32], packed: &mut [u8]) {
    let fast = if bits > 32 { low.len() / 8 * 8 } else { 0 };
    let (head, tail) = packed.split_at_mut(bytes_of_eights(bits, fast));
    if fast > 0 {
        kernels.pack_halves(bits, &low[..fast], &high[..fast], head);
    }
    let rest = low[fast..].iter().zip(&high[fast..]);
    pack_bits(bits, rest.map(|(&low, &high)| u64::from(low) | u64::from(high) << 32), tail);
}

/// Unpacks elements and returns the largest. `packed` may have further bytes, so that kernels can
/// load whole vectors.
pub(crate) fn unpack_words(kernels: &dyn Kernels, bits: u32, packed: &[u8], elements: &mut [u32]) -> u32 {
    let fast = if bits >= 8 { elements.len() / 8 * 8 } else { 0 };
    let (fast, rest) = elements.split_at_mut(fast);
    let mut largest = if fast.is_empty() { 0 } else { kernels.unpack_words(bits, packed, fast) };
    for (index, element) in rest.iter_mut().enumerate() {
        *element = bits_at(packed, (fast.len() + index) * bits as usize, bits) as u32;
        largest = largest.max(*element);
    }
    largest
}

pub(crate) fn unpack_long_words(bits: u32, packed: &[u8], elements: &mut [u64]) {
    for (index, element) in elements.iter_mut().enumerate() {
        *element = bits_at(packed, index * bits as usize, bits);
    }
}

/// Packs elements one after another through a 64-bit register, to the beginning of `out`.
#[inline]
pub(crate) fn pack_bits(bits: u32, elements: impl Iterator<Item = u64>, out: &mut [u8]) {
    let (mut held, mut count) = (0u64, 0);
    let words = out.as_chunks_mut::<8>().0;
    let room = words.len();
    let mut words = words.iter_mut();
    for element in elements {
        held |= element << count;
        count += bits;
        if count >= 64 {
            if let Some(word) = words.next() {
                *word = held.to_le_bytes();
            }
            count -= 64;
            // The bits that did not fit; zero if the element ended with the word.
            held = (element >> 1) >> (bits - count - 1);
        }
    }
    let written = 8 * (room - words.len());
    let left = (count as usize).div_ceil(8);
    out[written..written + left].copy_from_slice(&held.to_le_bytes()[..left]);
}

/// Eight elements take `bits` bytes.
fn bytes_of_eights(bits: u32, elements: usize) -> usize {
    elements / 8 * bits as usize
}

/// Reads `bits` bits from bit `start` on; at most 62 bits touch nine bytes.
fn bits_at(bytes: &[u8], start: usize, bits: u32) -> u64 {
    let (from, shift) = (&bytes[start / 8..], start % 8);
    let mask = u64::MAX >> (64 - bits);
    match (from.first_chunk::<8>(), from.get(8)) {
        (Some(word), Some(&next)) => {
            (u64::from_le_bytes(*word) >> shift | (u64::from(next) << 1) << (63 - shift)) & mask
        }
        _ => {
            let mut word = [0; 16];
            word[..from.len().min(9)].copy_from_slice(&from[..from.len().min(9)]);
            (u128::from_le_bytes(word) >> shift) as u64 & mask
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Backend;
    use ifonly_algebra::random::{RandomSource, SeededRandom};

    /// Packs bit by bit: the definition.
    fn pack_slowly(bits: u32, elements: &[u64]) -> Vec<u8> {
        let mut out = vec![0; (elements.len() * bits as usize).div_ceil(8)];
        for (i, element) in elements.iter().enumerate() {
            for j in 0..bits as usize {
                let at = i * bits as usize + j;
                out[at / 8] |= ((element >> j & 1) as u8) << (at % 8);
            }
        }
        out
    }

    #[test]
    fn packing_gives_the_defined_bit_stream_and_unpacking_reverses_it() {
        let mut random = SeededRandom::new(5);
        for bits in 1..=62 {
            for count in [0, 1, 2, 7, 8, 9, 15, 16, 17, 63, 64, 65, 100, 513] {
                let elements: Vec<u64> = (0..count).map(|_| random.below(1 << bits)).collect();
                let low: Vec<u32> = elements.iter().map(|&element| element as u32).collect();
                let high: Vec<u32> = elements.iter().map(|&element| (element >> 32) as u32).collect();
                let packed = pack_slowly(bits, &elements);
                let mut long_words = vec![7; count];
                unpack_long_words(bits, &packed, &mut long_words);
                assert_eq!(long_words, elements, "{bits} bits, {count} elements");
                for backend in Backend::available() {
                    let what = format!("{backend}, {bits} bits, {count} elements");
                    // With and without further bytes, which kernels may overwrite.
                    for room in [0, 1, 100] {
                        let mut out = vec![7; packed.len() + room];
                        pack_halves(backend.kernels(), bits, &low, &high, &mut out);
                        assert_eq!(out[..packed.len()], packed, "{what} in halves");
                        if bits <= 32 {
                            out.fill(7);
                            pack_words(backend.kernels(), bits, &low, &mut out);
                            assert_eq!(out[..packed.len()], packed, "{what}");
                            let mut words = vec![7; count];
                            let largest = unpack_words(backend.kernels(), bits, &out, &mut words);
                            assert_eq!(words, low, "{what}");
                            assert_eq!(largest, low.iter().copied().max().unwrap_or(0), "{what}");
                        }
                    }
                }
            }
        }
    }
}
