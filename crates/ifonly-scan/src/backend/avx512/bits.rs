//! Packing eight symbols at a time, for 8 to 62 bits.
//!
//! Symbol i of eight starts at bit `i·b`: it is shifted left by `i·b mod 8` inside its 64-bit lane,
//! and its bytes are moved to byte `⌊i·b/8⌋` on. Symbols 0, 2, 4, 6 share no byte when b ≥ 8, nor
//! do 1, 3, 5, 7, so two moves and an OR pack eight symbols; a symbol of more than 57 bits may lose
//! bits by its shift, which a third move brings. Unpacking needs only one move, because several
//! lanes may read the same byte.

use super::super::portable;
use super::limbs::load;
use std::arch::x86_64::*;

/// The moves and shifts of one b.
struct Moves {
    even: [u8; 64],
    odd: [u8; 64],
    lost: [u8; 64],
    even_mask: u64,
    odd_mask: u64,
    lost_mask: u64,
    shift: [u64; 8],
    /// For unpacking: the eight bytes from `⌊i·b/8⌋` on for each lane.
    from: [u8; 64],
}

const FEWEST: usize = 8;
const MOST: usize = 62;
/// Up to here a symbol keeps all its bits when it is shifted by 7.
const MOST_KEPT: usize = 57;

static MOVES: [Moves; MOST - FEWEST + 1] = {
    let mut moves = [const { Moves::of(FEWEST) }; MOST - FEWEST + 1];
    let mut bits = FEWEST;
    while bits <= MOST {
        moves[bits - FEWEST] = Moves::of(bits);
        bits += 1;
    }
    moves
};

impl Moves {
    const fn of(bits: usize) -> Moves {
        let mut moves = Moves {
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
            moves.shift[lane] = (start % 8) as u64;
            let mut byte = 0;
            while byte < (start % 8 + bits).div_ceil(8) {
                let to = start / 8 + byte;
                if byte == 8 {
                    moves.lost[to] = 8 * lane as u8;
                    moves.lost_mask |= 1 << to;
                } else {
                    let from = (8 * lane + byte) as u8;
                    if lane % 2 == 0 {
                        moves.even[to] = from;
                        moves.even_mask |= 1 << to;
                    } else {
                        moves.odd[to] = from;
                        moves.odd_mask |= 1 << to;
                    }
                    moves.from[8 * lane + byte] = to as u8;
                }
                byte += 1;
            }
            lane += 1;
        }
        moves
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]
pub(super) fn pack_words(bits: u32, elements: &[u32], out: &mut [u8]) {
    let step = bits as usize;
    let moves = &MOVES[step - FEWEST];
    let (even, odd, shift) = (load(&moves.even), load(&moves.odd), load(&moves.shift));
    let eights = elements.as_chunks::<8>().0;
    assert!(out.len() >= eights.len() * step);
    // A step stores 32 bytes, of which the next one overwrites all but its own; the last ones go
    // another way.
    let safe_steps = (out.len() + step).saturating_sub(32).div_euclid(step).min(eights.len());
    for (place, eight) in eights[..safe_steps].iter().enumerate() {
        // SAFETY: eight words are 32 bytes; `place·step + 32 ≤ out.len()` for every safe step.
        unsafe {
            let lanes = _mm512_cvtepu32_epi64(_mm256_loadu_si256(eight.as_ptr().cast()));
            let shifted = _mm512_sllv_epi64(lanes, shift);
            let packed = _mm512_or_si512(
                _mm512_maskz_permutexvar_epi8(moves.even_mask, even, shifted),
                _mm512_maskz_permutexvar_epi8(moves.odd_mask, odd, shifted),
            );
            _mm256_storeu_si256(out.as_mut_ptr().add(place * step).cast(), _mm512_castsi512_si256(packed));
        }
    }
    portable::pack_words(bits, &elements[8 * safe_steps..], &mut out[safe_steps * step..]);
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]
pub(super) fn unpack_words(bits: u32, packed: &[u8], elements: &mut [u32]) -> u32 {
    let step = bits as usize;
    let moves = &MOVES[step - FEWEST];
    let (from, shift) = (load(&moves.from), load(&moves.shift));
    let mask = _mm512_set1_epi64((u64::MAX >> (64 - bits)) as i64);
    let inside = u32::MAX >> (32 - step);
    let mut largest = _mm512_setzero_si512();
    for (eight, bytes) in elements.as_chunks_mut::<8>().0.iter_mut().zip(packed.chunks_exact(step)) {
        // SAFETY: the mask keeps the load inside the `step` bytes of the eight; eight words are 32
        // bytes.
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

/// Packs symbols of 33 to 62 bits that come as their lower and upper words, eight at a time.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]
pub(super) fn pack_halves(bits: u32, low: &[u32], high: &[u32], out: &mut [u8]) {
    let step = bits as usize;
    let moves = &MOVES[step - FEWEST];
    let (even, odd, lost, shift) = (load(&moves.even), load(&moves.odd), load(&moves.lost), load(&moves.shift));
    let back = _mm512_sub_epi64(_mm512_set1_epi64(64), shift);
    let eights = low.as_chunks::<8>().0.iter().zip(high.as_chunks::<8>().0);
    for (place, (low, high)) in eights.enumerate() {
        // SAFETY: eight words are 32 bytes.
        let lanes = unsafe {
            let low = _mm512_cvtepu32_epi64(_mm256_loadu_si256(low.as_ptr().cast()));
            let high = _mm512_cvtepu32_epi64(_mm256_loadu_si256(high.as_ptr().cast()));
            _mm512_or_si512(low, _mm512_slli_epi64::<32>(high))
        };
        let shifted = _mm512_sllv_epi64(lanes, shift);
        let mut packed = _mm512_or_si512(
            _mm512_maskz_permutexvar_epi8(moves.even_mask, even, shifted),
            _mm512_maskz_permutexvar_epi8(moves.odd_mask, odd, shifted),
        );
        if step > MOST_KEPT {
            // A shift by 64 gives zero, which is what a symbol without a shift lost.
            let over = _mm512_srlv_epi64(lanes, back);
            packed = _mm512_or_si512(packed, _mm512_maskz_permutexvar_epi8(moves.lost_mask, lost, over));
        }
        let rest = &mut out[place * step..];
        match rest.first_chunk_mut::<64>() {
            // The next step overwrites what is not its own.
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
