//! Vectors of 32-bit words, so that modular arithmetic is written once for 256 and 512 bits.
//!
//! All methods are `inline(always)` into functions that enable the instructions. Calling them
//! anywhere else is not sound.

use std::arch::x86_64::*;

/// A vector of 32-bit words. Products are products of the even words, 64 bits each.
///
/// # Safety For every function, the machine must support the instructions of the vector type.
pub(super) trait WordVector: Copy {
    /// Words per vector.
    const LANES: usize;

    /// `from` is valid for `LANES` words.
    unsafe fn load(from: *const u32) -> Self;
    /// `to` is valid for `LANES` words.
    unsafe fn store(self, to: *mut u32);
    unsafe fn splat(word: u32) -> Self;
    unsafe fn add(self, other: Self) -> Self;
    unsafe fn sub(self, other: Self) -> Self;
    /// The smaller of unsigned words.
    unsafe fn min(self, other: Self) -> Self;
    unsafe fn and(self, other: Self) -> Self;
    /// Half of every word.
    unsafe fn halved(self) -> Self;
    /// All ones where a word is odd.
    unsafe fn odd_mask(self) -> Self;
    /// 64-bit products of the even words.
    unsafe fn mul_even(self, other: Self) -> Self;
    /// Sums of 64-bit lanes.
    unsafe fn add_long(self, other: Self) -> Self;
    /// The odd words, moved to the even positions.
    unsafe fn odd_to_even(self) -> Self;
    /// The even words of `self` and the odd words of `other`.
    unsafe fn with_odd(self, other: Self) -> Self;
}

/// Implements the operations with the intrinsics of one vector width.
macro_rules! words {
    ($vector:ty, $lanes:literal, |$a:ident, $b:ident| {
        load: $load:ident, store: $store:ident, splat: $splat:ident, add: $add:ident, sub: $sub:ident, min: $min:ident,
        and: $and:ident, shift_right: $shift_right:ident, shift_left: $shift_left:ident, spread_sign: $spread_sign:ident,
        mul: $mul:ident, add_long: $add_long:ident, shift_long: $shift_long:ident, with_odd: $with_odd:expr,
    }) => {
        // SAFETY (of every block): guaranteed by the caller.
        #[allow(clippy::undocumented_unsafe_blocks)]
        impl WordVector for $vector {
            const LANES: usize = $lanes;
            #[inline(always)]
            unsafe fn load(from: *const u32) -> Self {
                unsafe { $load(from.cast()) }
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut u32) {
                unsafe { $store(to.cast(), self) }
            }
            #[inline(always)]
            unsafe fn splat(word: u32) -> Self {
                unsafe { $splat(word as i32) }
            }
            #[inline(always)]
            unsafe fn add(self, other: Self) -> Self {
                unsafe { $add(self, other) }
            }
            #[inline(always)]
            unsafe fn sub(self, other: Self) -> Self {
                unsafe { $sub(self, other) }
            }
            #[inline(always)]
            unsafe fn min(self, other: Self) -> Self {
                unsafe { $min(self, other) }
            }
            #[inline(always)]
            unsafe fn and(self, other: Self) -> Self {
                unsafe { $and(self, other) }
            }
            #[inline(always)]
            unsafe fn halved(self) -> Self {
                unsafe { $shift_right::<1>(self) }
            }
            #[inline(always)]
            unsafe fn odd_mask(self) -> Self {
                unsafe { $spread_sign::<31>($shift_left::<31>(self)) }
            }
            #[inline(always)]
            unsafe fn mul_even(self, other: Self) -> Self {
                unsafe { $mul(self, other) }
            }
            #[inline(always)]
            unsafe fn add_long(self, other: Self) -> Self {
                unsafe { $add_long(self, other) }
            }
            #[inline(always)]
            unsafe fn odd_to_even(self) -> Self {
                unsafe { $shift_long::<32>(self) }
            }
            #[inline(always)]
            unsafe fn with_odd(self, other: Self) -> Self {
                let ($a, $b) = (self, other);
                unsafe { $with_odd }
            }
        }
    };
}

words!(__m256i, 8, |a, b| {
    load: _mm256_loadu_si256, store: _mm256_storeu_si256, splat: _mm256_set1_epi32, add: _mm256_add_epi32,
    sub: _mm256_sub_epi32, min: _mm256_min_epu32, and: _mm256_and_si256, shift_right: _mm256_srli_epi32,
    shift_left: _mm256_slli_epi32, spread_sign: _mm256_srai_epi32, mul: _mm256_mul_epu32, add_long: _mm256_add_epi64,
    shift_long: _mm256_srli_epi64, with_odd: _mm256_blend_epi32::<0b1010_1010>(a, b),
});
words!(__m512i, 16, |a, b| {
    load: _mm512_loadu_si512, store: _mm512_storeu_si512, splat: _mm512_set1_epi32, add: _mm512_add_epi32,
    sub: _mm512_sub_epi32, min: _mm512_min_epu32, and: _mm512_and_si512, shift_right: _mm512_srli_epi32,
    shift_left: _mm512_slli_epi32, spread_sign: _mm512_srai_epi32, mul: _mm512_mul_epu32, add_long: _mm512_add_epi64,
    shift_long: _mm512_srli_epi64, with_odd: _mm512_mask_blend_epi32(0b1010_1010_1010_1010, a, b),
});
