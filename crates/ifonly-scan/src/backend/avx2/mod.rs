//! The kernels with 256-bit vectors: the dot products, the packing and the record sums by hand, the rest from the portable
//! backend, compiled for AVX2.

mod bits;
mod dot;
mod dot_pair;
mod mask;
mod records;

pub(crate) use bits::{pack_words, unpack_words};
pub(crate) use dot::dot;
pub(crate) use dot_pair::dot_pair;
pub(crate) use mask::mask_words;
pub(crate) use records::{gf256_sum, read, xor_selected};

use super::{modular, portable};
use std::arch::x86_64::__m256i;

vector_kernels!("avx2,fma", __m256i);

#[target_feature(enable = "avx2,fma")]
pub(crate) fn pack_halves(bits: u32, low: &[u32], high: &[u32], out: &mut [u8]) {
    portable::pack_halves(bits, low, high, out);
}
