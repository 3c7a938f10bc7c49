//! Converts keystream words of one to four bytes to masked 32-bit numbers: one byte permutation for
//! sixteen words.

use super::super::{DrawSpec, portable};
use super::limbs::load;
use std::arch::x86_64::*;

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]
pub(super) fn mask_words(draws: DrawSpec, bytes: &[u8], out: &mut [u32]) -> bool {
    let DrawSpec { width, mask, limit, shift } = draws;
    assert!((1..=4).contains(&width) && bytes.len() >= width * out.len());
    // The mask clears the bytes that do not belong to a word.
    let spread: [u8; 64] = std::array::from_fn(|to| (to / 4 * width + to % 4) as u8);
    let mask = mask as u32 & u32::MAX >> (32 - 8 * width);
    let step = 16 * width;
    // A step loads 64 bytes. The loads of the last steps would end beyond the input.
    let safe_steps = ((bytes.len() + step).saturating_sub(64) / step).min(out.len() / 16);
    let spread = load(&spread);
    let mut largest = _mm512_setzero_si512();
    for i in 0..safe_steps {
        // SAFETY: step i loads up to byte i·step + 64, which is at most `bytes.len()` for i <
        // safe_steps.
        let loaded = unsafe { _mm512_loadu_si512(bytes.as_ptr().add(i * step).cast()) };
        let words = _mm512_and_si512(_mm512_permutexvar_epi8(spread, loaded), _mm512_set1_epi32(mask as i32));
        largest = _mm512_max_epu32(largest, words);
        let shifted = _mm512_add_epi32(words, _mm512_set1_epi32(shift as i32));
        // SAFETY: sixteen words from 16·i on lie in `out`.
        unsafe { _mm512_storeu_si512(out.as_mut_ptr().add(16 * i).cast(), shifted) };
    }
    let rest = &mut out[16 * safe_steps..];
    let rest_below = portable::mask_words(draws, &bytes[safe_steps * step..], rest);
    rest_below && u64::from(_mm512_reduce_max_epu32(largest)) < limit
}
