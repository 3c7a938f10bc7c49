//! Symbols as a plain little-endian bit stream: symbol i takes the bits `i·b .. (i+1)·b`, bit j of the stream is bit `j mod 8`
//! of byte `⌊j/8⌋`, and the last byte is filled with zeros. Any client can read it.

use crate::backend::{Backend, Kernels};

/// Bytes of `count` symbols of `bits` bits.
pub fn packed_length(bits: u32, count: usize) -> usize {
    // Whole groups of eight apart, so that nothing overflows before the length itself would.
    count / 8 * bits as usize + (count % 8 * bits as usize).div_ceil(8)
}

/// Packs symbols below `2^bits`, 1 ≤ bits ≤ 62.
pub fn pack(bits: u32, symbols: &[u64]) -> Vec<u8> {
    let mut out = vec![0; packed_length(bits, symbols.len())];
    pack_bits(bits, symbols.iter().copied(), &mut out);
    out
}

/// The symbols of a stream; `None` if it has another length than `count` symbols take, or if its last bits are not zero.
pub fn unpack(bits: u32, packed: &[u8], count: usize) -> Option<Vec<u64>> {
    if packed.len() != packed_length(bits, count) {
        return None;
    }
    let mut symbols = vec![0; count];
    unpack_u64(bits, packed, &mut symbols);
    let used = (count % 8 * bits as usize) % 8;
    let clean = used == 0 || packed.last().is_none_or(|last| last >> used == 0);
    clean.then_some(symbols)
}

/// [`pack`] for words, 1 ≤ bits ≤ 32, appended to `out`.
pub fn pack_words(backend: Backend, bits: u32, symbols: &[u32], out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + packed_length(bits, symbols.len()), 0);
    pack_u32(Kernels::new(backend).unwrap_or(Kernels::best()), bits, symbols, &mut out[start..]);
}

/// [`unpack`] for words, without the checks: `packed` holds at least the bytes that fill `symbols`.
pub fn unpack_words(backend: Backend, bits: u32, packed: &[u8], symbols: &mut [u32]) {
    unpack_u32(Kernels::new(backend).unwrap_or(Kernels::best()), bits, packed, symbols);
}

/// Writes the symbols' bit stream to the beginning of `packed`; what is behind it there may be overwritten too, so that
/// kernels can store whole vectors.
pub(crate) fn pack_u32(kernels: Kernels, bits: u32, symbols: &[u32], packed: &mut [u8]) {
    let (fast, rest) = symbols.split_at(if bits >= 8 { symbols.len() / 8 * 8 } else { 0 });
    if !fast.is_empty() {
        kernels.pack_words(bits, fast, packed);
    }
    let places = packed_length(bits, fast.len())..packed_length(bits, symbols.len());
    pack_bits(bits, rest.iter().map(|&symbol| u64::from(symbol)), &mut packed[places]);
}

/// Symbols of up to 62 bits as their lower and upper words; fills `packed`.
pub(crate) fn pack_halves(kernels: Kernels, bits: u32, low: &[u32], high: &[u32], packed: &mut [u8]) {
    let fast = if bits > 32 { low.len() / 8 * 8 } else { 0 };
    let (head, tail) = packed.split_at_mut(packed_length(bits, fast));
    if fast > 0 {
        kernels.pack_halves(bits, &low[..fast], &high[..fast], head);
    }
    let rest = low[fast..].iter().zip(&high[fast..]);
    pack_bits(bits, rest.map(|(&low, &high)| u64::from(low) | u64::from(high) << 32), tail);
}

/// Returns the largest symbol. `packed` may go on behind the symbols, so that kernels can load whole vectors.
pub(crate) fn unpack_u32(kernels: Kernels, bits: u32, packed: &[u8], symbols: &mut [u32]) -> u32 {
    let fast = if bits >= 8 { symbols.len() / 8 * 8 } else { 0 };
    let (fast, rest) = symbols.split_at_mut(fast);
    let mut largest = if fast.is_empty() { 0 } else { kernels.unpack_words(bits, packed, fast) };
    for (place, symbol) in rest.iter_mut().enumerate() {
        *symbol = bits_at(packed, (fast.len() + place) * bits as usize, bits) as u32;
        largest = largest.max(*symbol);
    }
    largest
}

pub(crate) fn unpack_u64(bits: u32, packed: &[u8], symbols: &mut [u64]) {
    for (place, symbol) in symbols.iter_mut().enumerate() {
        *symbol = bits_at(packed, place * bits as usize, bits);
    }
}

/// Symbols one after another through a 64-bit register; fills `out`.
pub(crate) fn pack_bits(bits: u32, symbols: impl Iterator<Item = u64>, out: &mut [u8]) {
    let (mut held, mut count) = (0u64, 0);
    let (words, rest) = out.as_chunks_mut::<8>();
    let mut words = words.iter_mut();
    for symbol in symbols {
        held |= symbol << count;
        count += bits;
        if count >= 64 {
            if let Some(word) = words.next() {
                *word = held.to_le_bytes();
            }
            count -= 64;
            // The bits that did not fit; all shifted out where the symbol ended with the word.
            held = (symbol >> 1) >> (bits - count - 1);
        }
    }
    // What is left fills a whole word (57 to 63 bits) or the bytes behind the last one.
    match words.next() {
        Some(word) => *word = held.to_le_bytes(),
        None => rest.copy_from_slice(&held.to_le_bytes()[..rest.len()]),
    }
}

/// `bits` bits from bit `start`; at most 62 bits touch nine bytes.
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
    use ifonly_core::random::{Random, SeededRandom};

    /// Bit by bit: the definition.
    fn pack_slowly(bits: u32, symbols: &[u64]) -> Vec<u8> {
        let mut out = vec![0; packed_length(bits, symbols.len())];
        for (i, symbol) in symbols.iter().enumerate() {
            for j in 0..bits as usize {
                let at = i * bits as usize + j;
                out[at / 8] |= ((symbol >> j & 1) as u8) << (at % 8);
            }
        }
        out
    }

    #[test]
    fn every_width_and_length_is_the_bit_stream_and_comes_back() {
        let mut random = SeededRandom::new(5);
        for bits in 1..=62 {
            for count in [0, 1, 2, 7, 8, 9, 15, 16, 17, 63, 64, 65, 100, 513] {
                let symbols: Vec<u64> = (0..count).map(|_| random.below(1 << bits)).collect();
                let packed = pack(bits, &symbols);
                assert_eq!(packed, pack_slowly(bits, &symbols), "{bits} bits, {count} symbols");
                assert_eq!(unpack(bits, &packed, count).unwrap(), symbols);
                for backend in Backend::available() {
                    let low: Vec<u32> = symbols.iter().map(|&symbol| symbol as u32).collect();
                    let high: Vec<u32> = symbols.iter().map(|&symbol| (symbol >> 32) as u32).collect();
                    let mut out = vec![7; packed.len()];
                    pack_halves(Kernels::new(backend).unwrap(), bits, &low, &high, &mut out);
                    assert_eq!(out, packed, "{backend}, {bits} bits, {count} symbols in halves");
                }
                if bits <= 32 {
                    let words: Vec<u32> = symbols.iter().map(|&symbol| symbol as u32).collect();
                    for backend in Backend::available() {
                        let mut out = vec![];
                        pack_words(backend, bits, &words, &mut out);
                        assert_eq!(out, packed, "{backend}, {bits} bits, {count} symbols");
                        let mut back = vec![7; count];
                        unpack_words(backend, bits, &packed, &mut back);
                        assert_eq!(back, words, "{backend}, {bits} bits, {count} symbols");
                    }
                }
            }
        }
    }

    #[test]
    fn wrong_lengths_and_stray_bits_are_refused() {
        let packed = pack(5, &[1, 2, 3]);
        assert_eq!(unpack(5, &packed, 3).unwrap(), [1, 2, 3]);
        assert_eq!(unpack(5, &packed, 4), None);
        assert_eq!(unpack(5, &packed[..1], 3), None);
        assert_eq!(unpack(5, &[packed[0], packed[1] | 0x80], 3), None);
    }
}
