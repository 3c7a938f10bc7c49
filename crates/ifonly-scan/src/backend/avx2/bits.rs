//! Packs eight field elements at a time, for 8 to 32 bits.
//!
//! Element i of eight starts at bit `i·b`. It is shifted left by `i·b mod 8` inside a 64-bit lane,
//! and its bytes move to the bytes from `⌊i·b/8⌋` on. The elements 0, 2, 4, 6 share no byte if b ≥
//! 8, nor do 1, 3, 5, 7, so two byte shuffles and an OR place four elements in 128 bits. The second
//! four start at bit 4b, which is in the middle of a byte if b is odd. The first half then passes
//! that byte to the second. Unpacking reverses these steps.

use super::super::portable;
use std::arch::x86_64::*;

/// The byte shuffles and shifts for one number of bits.
struct Shuffles {
    even: [u8; 32],
    odd: [u8; 32],
    even_shift: [u64; 4],
    odd_shift: [u64; 4],
    /// The first byte of the second half.
    middle: usize,
    /// A shuffle that selects the byte of the first half that the second half shares.
    shared: [u8; 16],
}

/// A shuffle index whose result is zero.
const ZERO: u8 = 0x80;
const MIN_BITS: usize = 8;
const MAX_BITS: usize = 32;

/// For packing, by number of bits.
static TO_STREAM: [Shuffles; MAX_BITS - MIN_BITS + 1] = all(true);
/// For unpacking, by number of bits.
static FROM_STREAM: [Shuffles; MAX_BITS - MIN_BITS + 1] = all(false);

const fn all(to_stream: bool) -> [Shuffles; MAX_BITS - MIN_BITS + 1] {
    let mut shuffles = [const { Shuffles::empty() }; MAX_BITS - MIN_BITS + 1];
    let mut bits = MIN_BITS;
    while bits <= MAX_BITS {
        shuffles[bits - MIN_BITS] = Shuffles::new(bits, to_stream);
        bits += 1;
    }
    shuffles
}

impl Shuffles {
    const fn empty() -> Shuffles {
        Shuffles {
            even: [ZERO; 32],
            odd: [ZERO; 32],
            even_shift: [0; 4],
            odd_shift: [0; 4],
            middle: 0,
            shared: [ZERO; 16],
        }
    }

    const fn new(bits: usize, to_stream: bool) -> Shuffles {
        let mut shuffles = Shuffles::empty();
        shuffles.middle = 4 * bits / 8;
        let mut index = 0;
        while index < 8 {
            // The 128-bit half, the first bit inside it, and the 64-bit lane of the element.
            let half = index / 4;
            let start = index * bits - half * shuffles.middle * 8;
            let lane = index / 2 % 2;
            let mut byte = 0;
            while byte < (start % 8 + bits).div_ceil(8) {
                let (packed, unpacked) = (start / 8 + byte, 8 * lane + byte);
                let (to, from) = if to_stream { (packed, unpacked) } else { (unpacked, packed) };
                if index % 2 == 0 {
                    shuffles.even[16 * half + to] = from as u8;
                } else {
                    shuffles.odd[16 * half + to] = from as u8;
                }
                byte += 1;
            }
            if index % 2 == 0 {
                shuffles.even_shift[2 * half + lane] = (start % 8) as u64;
            } else {
                shuffles.odd_shift[2 * half + lane] = (start % 8) as u64;
            }
            index += 1;
        }
        if bits % 2 == 1 {
            shuffles.shared[0] = shuffles.middle as u8;
        }
        shuffles
    }

    /// Bytes from the start of a step that its two 16-byte accesses may touch.
    fn reach(&self) -> usize {
        self.middle + 16
    }
}

#[target_feature(enable = "avx2,fma")]
pub(super) fn pack_words(bits: u32, elements: &[u32], out: &mut [u8]) {
    let step = bits as usize;
    let shuffles = &TO_STREAM[step - MIN_BITS];
    let steps = elements.len() / 8;
    assert!(out.len() >= steps * step);
    // The last steps would write beyond the end, so they use the portable code.
    let safe_steps = (out.len() + step).saturating_sub(shuffles.reach()).div_euclid(step).min(steps);
    // SAFETY: the arrays have the size of the vectors; step i reads elements 8i..8i+8 and writes
    // `reach` bytes from i·step, which end at or before `out.len()` for i < safe_steps.
    unsafe {
        let even_shuffle = _mm256_loadu_si256(shuffles.even.as_ptr().cast());
        let odd_shuffle = _mm256_loadu_si256(shuffles.odd.as_ptr().cast());
        let even_shift = _mm256_loadu_si256(shuffles.even_shift.as_ptr().cast());
        let odd_shift = _mm256_loadu_si256(shuffles.odd_shift.as_ptr().cast());
        let shared = _mm_loadu_si128(shuffles.shared.as_ptr().cast());
        for i in 0..safe_steps {
            let eight = _mm256_loadu_si256(elements.as_ptr().add(8 * i).cast());
            let even = _mm256_sllv_epi64(_mm256_and_si256(eight, _mm256_set1_epi64x(0xFFFF_FFFF)), even_shift);
            let odd = _mm256_sllv_epi64(_mm256_srli_epi64::<32>(eight), odd_shift);
            let halves =
                _mm256_or_si256(_mm256_shuffle_epi8(even, even_shuffle), _mm256_shuffle_epi8(odd, odd_shuffle));
            let first = _mm256_castsi256_si128(halves);
            let shared_byte = _mm_shuffle_epi8(first, shared);
            let second = _mm_or_si128(_mm256_extracti128_si256::<1>(halves), shared_byte);
            let to = out.as_mut_ptr().add(i * step);
            _mm_storeu_si128(to.cast(), first);
            _mm_storeu_si128(to.add(shuffles.middle).cast(), second);
        }
    }
    portable::pack_words(bits, &elements[8 * safe_steps..], &mut out[safe_steps * step..]);
}

#[target_feature(enable = "avx2,fma")]
pub(super) fn unpack_words(bits: u32, packed: &[u8], elements: &mut [u32]) -> u32 {
    let step = bits as usize;
    let shuffles = &FROM_STREAM[step - MIN_BITS];
    let steps = elements.len() / 8;
    assert!(packed.len() >= steps * step);
    let safe_steps = (packed.len() + step).saturating_sub(shuffles.reach()).div_euclid(step).min(steps);
    let mask = _mm256_set1_epi64x((u64::MAX >> (64 - bits)) as i64);
    let mut largest = _mm256_setzero_si256();
    // SAFETY: as in `pack_words`, with reading and writing exchanged.
    unsafe {
        let even_shuffle = _mm256_loadu_si256(shuffles.even.as_ptr().cast());
        let odd_shuffle = _mm256_loadu_si256(shuffles.odd.as_ptr().cast());
        let even_shift = _mm256_loadu_si256(shuffles.even_shift.as_ptr().cast());
        let odd_shift = _mm256_loadu_si256(shuffles.odd_shift.as_ptr().cast());
        for i in 0..safe_steps {
            let from = packed.as_ptr().add(i * step);
            let first = _mm_loadu_si128(from.cast());
            let second = _mm_loadu_si128(from.add(shuffles.middle).cast());
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
