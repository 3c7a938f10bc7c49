//! Packing eight symbols at a time, for 8 to 32 bits.
//!
//! Symbol i of eight starts at bit `i·b`: it is shifted left by `i·b mod 8` inside a 64-bit lane
//! and its bytes are moved to byte `⌊i·b/8⌋`. Symbols 0, 2, 4, 6 do not share a byte when b ≥ 8,
//! nor do 1, 3, 5, 7, so two byte shuffles and an OR place four symbols in 128 bits. The second
//! four start at bit 4b: in the middle of a byte when b is odd, which the first half then hands
//! over. Unpacking goes the same way back.

use super::super::portable;
use std::arch::x86_64::*;

/// The shuffles and shifts of one b.
struct Moves {
    even: [u8; 32],
    odd: [u8; 32],
    even_shift: [u64; 4],
    odd_shift: [u64; 4],
    /// The first byte of the second half.
    middle: usize,
    /// Which byte of the first half the second half shares, as a shuffle.
    shared: [u8; 16],
}

/// A shuffle index that gives zero.
const NONE: u8 = 0x80;
const FEWEST: usize = 8;
const MOST: usize = 32;

/// For packing, by number of bits.
static TO_STREAM: [Moves; MOST - FEWEST + 1] = all(true);
/// For unpacking, by number of bits.
static FROM_STREAM: [Moves; MOST - FEWEST + 1] = all(false);

const fn all(to_stream: bool) -> [Moves; MOST - FEWEST + 1] {
    let mut moves = [const { Moves::empty() }; MOST - FEWEST + 1];
    let mut bits = FEWEST;
    while bits <= MOST {
        moves[bits - FEWEST] = Moves::new(bits, to_stream);
        bits += 1;
    }
    moves
}

impl Moves {
    const fn empty() -> Moves {
        Moves {
            even: [NONE; 32],
            odd: [NONE; 32],
            even_shift: [0; 4],
            odd_shift: [0; 4],
            middle: 0,
            shared: [NONE; 16],
        }
    }

    const fn new(bits: usize, to_stream: bool) -> Moves {
        let mut moves = Moves::empty();
        moves.middle = 4 * bits / 8;
        let mut place = 0;
        while place < 8 {
            // The 128-bit half, the first bit inside it, and the 64-bit lane of the symbol.
            let half = place / 4;
            let start = place * bits - half * moves.middle * 8;
            let lane = place / 2 % 2;
            let mut byte = 0;
            while byte < (start % 8 + bits).div_ceil(8) {
                let (packed, loose) = (start / 8 + byte, 8 * lane + byte);
                let (to, from) = if to_stream { (packed, loose) } else { (loose, packed) };
                if place % 2 == 0 {
                    moves.even[16 * half + to] = from as u8;
                } else {
                    moves.odd[16 * half + to] = from as u8;
                }
                byte += 1;
            }
            if place % 2 == 0 {
                moves.even_shift[2 * half + lane] = (start % 8) as u64;
            } else {
                moves.odd_shift[2 * half + lane] = (start % 8) as u64;
            }
            place += 1;
        }
        if bits % 2 == 1 {
            moves.shared[0] = moves.middle as u8;
        }
        moves
    }

    /// Bytes that the two 16-byte accesses of a step may touch from its start.
    fn reach(&self) -> usize {
        self.middle + 16
    }
}

#[target_feature(enable = "avx2,fma")]
pub(super) fn pack_words(bits: u32, elements: &[u32], out: &mut [u8]) {
    let step = bits as usize;
    let moves = &TO_STREAM[step - FEWEST];
    let steps = elements.len() / 8;
    assert!(out.len() >= steps * step);
    // The last steps would write beyond the end, so they go another way.
    let safe_steps = (out.len() + step).saturating_sub(moves.reach()).div_euclid(step).min(steps);
    // SAFETY: the arrays have the size of the vectors; step i reads symbols 8i..8i+8 and writes
    // `reach` bytes from i·step, which ends at or before `out.len()` for i < safe_steps.
    unsafe {
        let even_shuffle = _mm256_loadu_si256(moves.even.as_ptr().cast());
        let odd_shuffle = _mm256_loadu_si256(moves.odd.as_ptr().cast());
        let even_shift = _mm256_loadu_si256(moves.even_shift.as_ptr().cast());
        let odd_shift = _mm256_loadu_si256(moves.odd_shift.as_ptr().cast());
        let shared = _mm_loadu_si128(moves.shared.as_ptr().cast());
        for i in 0..safe_steps {
            let eight = _mm256_loadu_si256(elements.as_ptr().add(8 * i).cast());
            let even = _mm256_sllv_epi64(_mm256_and_si256(eight, _mm256_set1_epi64x(0xFFFF_FFFF)), even_shift);
            let odd = _mm256_sllv_epi64(_mm256_srli_epi64::<32>(eight), odd_shift);
            let halves =
                _mm256_or_si256(_mm256_shuffle_epi8(even, even_shuffle), _mm256_shuffle_epi8(odd, odd_shuffle));
            let first = _mm256_castsi256_si128(halves);
            let handed_over = _mm_shuffle_epi8(first, shared);
            let second = _mm_or_si128(_mm256_extracti128_si256::<1>(halves), handed_over);
            let to = out.as_mut_ptr().add(i * step);
            _mm_storeu_si128(to.cast(), first);
            _mm_storeu_si128(to.add(moves.middle).cast(), second);
        }
    }
    portable::pack_words(bits, &elements[8 * safe_steps..], &mut out[safe_steps * step..]);
}

#[target_feature(enable = "avx2,fma")]
pub(super) fn unpack_words(bits: u32, packed: &[u8], elements: &mut [u32]) -> u32 {
    let step = bits as usize;
    let moves = &FROM_STREAM[step - FEWEST];
    let steps = elements.len() / 8;
    assert!(packed.len() >= steps * step);
    let safe_steps = (packed.len() + step).saturating_sub(moves.reach()).div_euclid(step).min(steps);
    let mask = _mm256_set1_epi64x((u64::MAX >> (64 - bits)) as i64);
    let mut largest = _mm256_setzero_si256();
    // SAFETY: as in `pack_words`, with reading and writing exchanged.
    unsafe {
        let even_shuffle = _mm256_loadu_si256(moves.even.as_ptr().cast());
        let odd_shuffle = _mm256_loadu_si256(moves.odd.as_ptr().cast());
        let even_shift = _mm256_loadu_si256(moves.even_shift.as_ptr().cast());
        let odd_shift = _mm256_loadu_si256(moves.odd_shift.as_ptr().cast());
        for i in 0..safe_steps {
            let from = packed.as_ptr().add(i * step);
            let first = _mm_loadu_si128(from.cast());
            let second = _mm_loadu_si128(from.add(moves.middle).cast());
            let halves = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(first), second);
            let even = _mm256_srlv_epi64(_mm256_shuffle_epi8(halves, even_shuffle), even_shift);
            let odd = _mm256_srlv_epi64(_mm256_shuffle_epi8(halves, odd_shuffle), odd_shift);
            let even = _mm256_and_si256(even, mask);
            let odd = _mm256_and_si256(odd, mask);
            let eight = _mm256_or_si256(even, _mm256_slli_epi64::<32>(odd));
            largest = _mm256_max_epu32(largest, eight);
            _mm256_storeu_si256(elements.as_mut_ptr().add(8 * i).cast(), eight);
        }
    }
    let mut words = [0; 8];
    // SAFETY: eight words are 32 bytes.
    unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), largest) };
    let rest = portable::unpack_words(bits, &packed[safe_steps * step..], &mut elements[8 * safe_steps..]);
    words.into_iter().fold(rest, u32::max)
}
