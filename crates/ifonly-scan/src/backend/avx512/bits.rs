//! Packs eight field elements at a time, for 8 to 62 bits.
//!
//! Element i of eight starts at bit `i·b`. It is shifted left by `i·b mod 8` inside its 64-bit
//! lane, and its bytes move to the bytes from `⌊i·b/8⌋` on. The elements 0, 2, 4, 6 share no byte
//! if b ≥ 8, nor do 1, 3, 5, 7, so two byte permutations and an OR pack eight elements. The shift
//! of an element of more than 57 bits may lose bits; a third permutation adds them. Unpacking needs
//! only one permutation, because several lanes may read the same byte.

use super::super::portable;
use super::limbs::load;
use std::arch::x86_64::*;

/// The byte permutations and shifts for one number of bits.
struct Permutations {
    even: [u8; 64],
    odd: [u8; 64],
    lost: [u8; 64],
    even_mask: u64,
    odd_mask: u64,
    lost_mask: u64,
    shift: [u64; 8],
    /// For unpacking: for each lane, the indices of the eight bytes from `⌊i·b/8⌋` on.
    from: [u8; 64],
}

const MIN_BITS: usize = 8;
const MAX_BITS: usize = 62;
/// The largest number of bits that survive a shift by 7.
const MAX_BITS_SHIFTED: usize = 57;

static PERMUTATIONS: [Permutations; MAX_BITS - MIN_BITS + 1] = {
    let mut permutations = [const { Permutations::of(MIN_BITS) }; MAX_BITS - MIN_BITS + 1];
    let mut bits = MIN_BITS;
    while bits <= MAX_BITS {
        permutations[bits - MIN_BITS] = Permutations::of(bits);
        bits += 1;
    }
    permutations
};

impl Permutations {
    const fn of(bits: usize) -> Permutations {
        let mut permutations = Permutations {
            even: [0; 64],
            odd: [0; 64],
            lost: [0; 64],
            even_mask: 0,
            odd_mask: 0,
            lost_mask: 0,
            shift: [0; 8],
            from: [0; 64],
        };
        let mut lane = 0;
        while lane < 8 {
            let start = lane * bits;
            permutations.shift[lane] = (start % 8) as u64;
            let mut byte = 0;
            while byte < (start % 8 + bits).div_ceil(8) {
                let to = start / 8 + byte;
                if byte == 8 {
                    permutations.lost[to] = 8 * lane as u8;
                    permutations.lost_mask |= 1 << to;
                } else {
                    let from = (8 * lane + byte) as u8;
                    if lane % 2 == 0 {
                        permutations.even[to] = from;
                        permutations.even_mask |= 1 << to;
                    } else {
                        permutations.odd[to] = from;
                        permutations.odd_mask |= 1 << to;
                    }
                    permutations.from[8 * lane + byte] = to as u8;
                }
                byte += 1;
            }
            lane += 1;
        }
        permutations
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]
pub(super) fn pack_words(bits: u32, elements: &[u32], out: &mut [u8]) {
    let step = bits as usize;
    let permutations = &PERMUTATIONS[step - MIN_BITS];
    let (even, odd, shift) = (load(&permutations.even), load(&permutations.odd), load(&permutations.shift));
    let eights = elements.as_chunks::<8>().0;
    assert!(out.len() >= eights.len() * step);
    // A step stores 32 bytes. The next step overwrites the surplus. The last steps use the portable
    // code.
    let safe_steps = (out.len() + step).saturating_sub(32).div_euclid(step).min(eights.len());
    for (index, eight) in eights[..safe_steps].iter().enumerate() {
        // SAFETY: eight words are 32 bytes; `index·step + 32 ≤ out.len()` for every safe step.
        unsafe {
            let lanes = _mm512_cvtepu32_epi64(_mm256_loadu_si256(eight.as_ptr().cast()));
            let shifted = _mm512_sllv_epi64(lanes, shift);
            let packed = _mm512_or_si512(
                _mm512_maskz_permutexvar_epi8(permutations.even_mask, even, shifted),
                _mm512_maskz_permutexvar_epi8(permutations.odd_mask, odd, shifted),
            );
            _mm256_storeu_si256(out.as_mut_ptr().add(index * step).cast(), _mm512_castsi512_si256(packed));
        }
    }
    portable::pack_words(bits, &elements[8 * safe_steps..], &mut out[safe_steps * step..]);
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]
pub(super) fn unpack_words(bits: u32, packed: &[u8], elements: &mut [u32]) -> u32 {
    let step = bits as usize;
    let permutations = &PERMUTATIONS[step - MIN_BITS];
    let (from, shift) = (load(&permutations.from), load(&permutations.shift));
    let mask = _mm512_set1_epi64((u64::MAX >> (64 - bits)) as i64);
    let inside = u32::MAX >> (32 - step);
    let mut largest = _mm512_setzero_si512();
    for (eight, bytes) in elements.as_chunks_mut::<8>().0.iter_mut().zip(packed.chunks_exact(step)) {
        // SAFETY: the mask limits the load to the `step` bytes of the eight elements; eight words
        // are 32 bytes.
        unsafe {
            let bytes = _mm512_castsi256_si512(_mm256_maskz_loadu_epi8(inside, bytes.as_ptr().cast()));
            let lanes = _mm512_srlv_epi64(_mm512_permutexvar_epi8(from, bytes), shift);
            let lanes = _mm512_and_si512(lanes, mask);
            largest = _mm512_max_epu64(largest, lanes);
            _mm256_storeu_si256(eight.as_mut_ptr().cast(), _mm512_cvtepi64_epi32(lanes));
        }
    }
    _mm512_reduce_max_epu64(largest) as u32
}

/// Packs field elements of 33 to 62 bits, given as lower and upper words, eight at a time.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]
pub(super) fn pack_halves(bits: u32, low: &[u32], high: &[u32], out: &mut [u8]) {
    let step = bits as usize;
    let permutations = &PERMUTATIONS[step - MIN_BITS];
    let (even, odd, lost, shift) =
        (load(&permutations.even), load(&permutations.odd), load(&permutations.lost), load(&permutations.shift));
    let back = _mm512_sub_epi64(_mm512_set1_epi64(64), shift);
    let eights = low.as_chunks::<8>().0.iter().zip(high.as_chunks::<8>().0);
    for (index, (low, high)) in eights.enumerate() {
        // SAFETY: eight words are 32 bytes.
        let lanes = unsafe {
            let low = _mm512_cvtepu32_epi64(_mm256_loadu_si256(low.as_ptr().cast()));
            let high = _mm512_cvtepu32_epi64(_mm256_loadu_si256(high.as_ptr().cast()));
            _mm512_or_si512(low, _mm512_slli_epi64::<32>(high))
        };
        let shifted = _mm512_sllv_epi64(lanes, shift);
        let mut packed = _mm512_or_si512(
            _mm512_maskz_permutexvar_epi8(permutations.even_mask, even, shifted),
            _mm512_maskz_permutexvar_epi8(permutations.odd_mask, odd, shifted),
        );
        if step > MAX_BITS_SHIFTED {
            // A shift by 64 gives zero, which is correct for an element without a shift.
            let over = _mm512_srlv_epi64(lanes, back);
            packed = _mm512_or_si512(packed, _mm512_maskz_permutexvar_epi8(permutations.lost_mask, lost, over));
        }
        let rest = &mut out[index * step..];
        match rest.first_chunk_mut::<64>() {
            // The next step overwrites the surplus bytes.
            // SAFETY: 64 bytes.
            Some(bytes) => unsafe { _mm512_storeu_si512(bytes.as_mut_ptr().cast(), packed) },
            None => {
                let mut bytes = [0; 64];
                // SAFETY: 64 bytes.
                unsafe { _mm512_storeu_si512(bytes.as_mut_ptr().cast(), packed) };
                rest[..step].copy_from_slice(&bytes[..step]);
            }
        }
    }
}
