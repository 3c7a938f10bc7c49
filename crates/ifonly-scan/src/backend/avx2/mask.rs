//! Converts keystream words of one to four bytes to masked 32-bit numbers: two byte shuffles for
//! eight words.

use super::super::{DrawSpec, portable};
use std::arch::x86_64::*;

/// The source bytes of four words by width, in both halves of a vector.
static SPREAD: [[u8; 32]; 4] = {
    let mut spread = [[0x80; 32]; 4];
    let mut index = 0;
    while index < 4 * 32 {
        let (width, to) = (index / 32 + 1, index % 32);
        if to % 4 < width {
            spread[width - 1][to] = (to / 4 % 4 * width + to % 4) as u8;
        }
        index += 1;
    }
    spread
};

#[target_feature(enable = "avx2,fma")]
pub(super) fn mask_words(draws: DrawSpec, bytes: &[u8], out: &mut [u32]) -> bool {
    let DrawSpec { width, mask, limit, shift } = draws;
    assert!((1..=4).contains(&width) && bytes.len() >= width * out.len());
    let step = 8 * width;
    // A step loads 16 bytes at the start of each of its halves. The loads of the last steps would
    // end beyond the input.
    let safe_steps = ((bytes.len() + step).saturating_sub(step / 2 + 16) / step).min(out.len() / 8);
    let mut largest = _mm256_setzero_si256();
    // SAFETY: step i loads up to byte i·step + step/2 + 16, which is at most `bytes.len()` for i <
    // safe_steps, and stores words 8i..8i+8 of `out`; the array has the size of the vector.
    unsafe {
        let spread = _mm256_loadu_si256(SPREAD[width - 1].as_ptr().cast());
        for i in 0..safe_steps {
            let from = bytes.as_ptr().add(i * step);
            let halves = _mm256_loadu2_m128i(from.add(step / 2).cast(), from.cast());
            let words = _mm256_and_si256(_mm256_shuffle_epi8(halves, spread), _mm256_set1_epi32(mask as i32));
            largest = _mm256_max_epu32(largest, words);
            let shifted = _mm256_add_epi32(words, _mm256_set1_epi32(shift as i32));
            _mm256_storeu_si256(out.as_mut_ptr().add(8 * i).cast(), shifted);
        }
    }
    let mut words = [0u32; 8];
    // SAFETY: eight words are 32 bytes.
    unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), largest) };
    let rest = &mut out[8 * safe_steps..];
    let rest_below = portable::mask_words(draws, &bytes[safe_steps * step..], rest);
    rest_below && words.into_iter().all(|word: u32| u64::from(word) < limit)
}
