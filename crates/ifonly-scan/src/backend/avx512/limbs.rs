//! Reduces sums per byte limb to field elements, 16 rows at a time.

use super::super::Planes;
use crate::dot::limbs8::MAX_LIMBS;
use std::arch::x86_64::*;

/// Reduces the sums of a tile and stores them, or adds them to the stored values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reducer {
    pub(super) q: u64,
    /// Whether this is the first chunk, so that nothing is stored yet.
    pub(super) first: bool,
}

impl Reducer {
    /// Stores the rows `start..start + 16` in the planes `low` and `high`. For narrow fields `high`
    /// is empty and the limbs above the fourth are zero.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]
    #[inline]
    pub(super) fn store(self, sums: [__m512i; MAX_LIMBS], start: usize, low: &mut [u32], high: &mut [u32]) {
        // Two adjacent byte limbs make one 16-bit limb, which still fits 32 bits.
        let halves: [__m512i; MAX_LIMBS / 2] =
            std::array::from_fn(|limb| _mm512_add_epi32(_mm512_slli_epi32::<8>(sums[2 * limb + 1]), sums[2 * limb]));
        let low: &mut [u32; 16] = (&mut low[start..start + 16]).try_into().expect("sixteen rows");
        if high.is_empty() {
            self.store_narrow(halves[0], halves[1], low);
        } else {
            let high: &mut [u32; 16] = (&mut high[start..start + 16]).try_into().expect("sixteen rows");
            self.store_wide(halves, low, high);
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]
    #[inline]
    fn store_narrow(self, low: __m512i, high: __m512i, out: &mut [u32; 16]) {
        let q = _mm512_set1_epi32(self.q as i32);
        let value = _mm512_fmadd_ps(_mm512_cvtepi32_ps(high), _mm512_set1_ps(65536.0), _mm512_cvtepi32_ps(low));
        let quotient = _mm512_cvtps_epi32(_mm512_mul_ps(value, _mm512_set1_ps(1.0 / self.q as f32)));
        let exact = _mm512_add_epi32(_mm512_slli_epi32::<16>(high), low);
        let rest = _mm512_sub_epi32(exact, _mm512_mullo_epi32(quotient, q));
        // |rest| < 3q/4 and q < 2^31, so a negative rest is a large word. The smaller of the two
        // words is the remainder.
        let mut value = _mm512_min_epu32(rest, _mm512_add_epi32(rest, q));
        // SAFETY: `out` is sixteen words.
        unsafe {
            if !self.first {
                let total = _mm512_add_epi32(value, _mm512_loadu_si512(out.as_ptr().cast()));
                value = _mm512_min_epu32(total, _mm512_sub_epi32(total, q));
            }
            _mm512_storeu_si512(out.as_mut_ptr().cast(), value);
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]
    #[inline]
    fn store_wide(self, halves: [__m512i; MAX_LIMBS / 2], low: &mut [u32; 16], high: &mut [u32; 16]) {
        let q = _mm512_set1_epi64(self.q as i64);
        let (low, high) = (low.as_chunks_mut::<8>().0, high.as_chunks_mut::<8>().0);
        for (side, (low, high)) in low.iter_mut().zip(high).enumerate() {
            let mut value = self.reduce_wide(halves.map(|limb| match side {
                0 => _mm512_castsi512_si256(limb),
                _ => _mm512_extracti64x4_epi64::<1>(limb),
            }));
            // SAFETY: `low` and `high` are eight words each.
            unsafe {
                if !self.first {
                    let earlier_low = _mm512_cvtepu32_epi64(_mm256_loadu_si256(low.as_ptr().cast()));
                    let earlier_high = _mm512_cvtepu32_epi64(_mm256_loadu_si256(high.as_ptr().cast()));
                    let earlier = _mm512_or_si512(earlier_low, _mm512_slli_epi64::<32>(earlier_high));
                    let total = _mm512_add_epi64(value, earlier);
                    value = _mm512_min_epu64(total, _mm512_sub_epi64(total, q));
                }
                _mm256_storeu_si256(low.as_mut_ptr().cast(), _mm512_cvtepi64_epi32(value));
                let upper = _mm512_cvtepi64_epi32(_mm512_srli_epi64::<32>(value));
                _mm256_storeu_si256(high.as_mut_ptr().cast(), upper);
            }
        }
    }

    /// Eight rows: the remainder of `Σ limb_l·2^(16·l)`.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]
    #[inline]
    fn reduce_wide(self, halves: [__m256i; MAX_LIMBS / 2]) -> __m512i {
        let step = _mm512_set1_pd(65536.0);
        let mut value = _mm512_cvtepi32_pd(halves[3]);
        let mut exact = _mm512_cvtepi32_epi64(halves[3]);
        for limb in [2, 1, 0] {
            value = _mm512_fmadd_pd(value, step, _mm512_cvtepi32_pd(halves[limb]));
            exact = _mm512_add_epi64(_mm512_slli_epi64::<16>(exact), _mm512_cvtepi32_epi64(halves[limb]));
        }
        let q = _mm512_set1_epi64(self.q as i64);
        let quotient = _mm512_cvtpd_epi64(_mm512_mul_pd(value, _mm512_set1_pd(1.0 / self.q as f64)));
        let rest = _mm512_sub_epi64(exact, _mm512_mullo_epi64(quotient, q));
        _mm512_min_epu64(rest, _mm512_add_epi64(rest, q))
    }
}

/// Loads 64 bytes of integers.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]
#[inline]
pub(super) fn load<T: Copy, const N: usize>(values: &[T; N]) -> __m512i {
    const { assert!(size_of::<[T; N]>() == 64) };
    // SAFETY: the values are 64 bytes of integers.
    unsafe { _mm512_loadu_si512(values.as_ptr().cast()) }
}

/// Loads sixteen words of a plane.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]
#[inline]
pub(super) fn plane_words(planes: Planes<'_>, plane: usize, start: usize) -> __m512i {
    load(planes.words[plane * planes.stride + start..].first_chunk::<16>().expect("sixteen rows"))
}
