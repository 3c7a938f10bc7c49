//! The kernels with 512-bit vectors and byte products (VNNI, VBMI): dot products, look-ups and packing by hand, the rest
//! from the portable backend, compiled for them, or from AVX2 where memory is the limit anyway.

mod bits;
mod dot;
mod limbs;
mod mask;
mod table;

pub(crate) use super::avx2::{dot, gf256_sum, xor_selected};
pub(crate) use bits::{pack_halves, pack_words, unpack_words};
pub(crate) use dot::byte_dot;
pub(crate) use mask::mask_words;
pub(crate) use table::look_up;

use super::{modular, portable};
use std::arch::x86_64::*;

vector_kernels!("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni", __m512i);

/// Sums the 64-bit words of whole 512-byte steps in eight registers.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]
pub(crate) fn read(bytes: &[u8]) -> u64 {
    let (steps, rest) = bytes.as_chunks::<512>();
    let mut sums = [_mm512_setzero_si512(); 8];
    for step in steps {
        for (place, sum) in sums.iter_mut().enumerate() {
            // SAFETY: `step` is 512 bytes.
            let words = unsafe { _mm512_loadu_si512(step.as_ptr().add(64 * place).cast()) };
            *sum = _mm512_add_epi64(*sum, words);
        }
    }
    let total = sums.into_iter().fold(_mm512_setzero_si512(), |total, sum| _mm512_add_epi64(total, sum));
    (_mm512_reduce_add_epi64(total) as u64).wrapping_add(portable::read(rest))
}
