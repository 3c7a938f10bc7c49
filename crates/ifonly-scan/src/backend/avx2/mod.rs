//! The kernels with 256-bit vectors: the dot products, the packing and the record sums by hand, the rest from the portable
//! backend, compiled for AVX2.

mod bits;
mod dot;
mod records;

pub(crate) use bits::{pack_words, unpack_words};
pub(crate) use dot::dot;
pub(crate) use records::{gf256_sum, read, xor_selected};

use super::portable;

#[target_feature(enable = "avx2,fma")]
pub(crate) fn montgomery_products(q: u32, a: &[u32], b: &[u32], out: &mut [u32]) {
    portable::montgomery_products(q, a, b, out);
}

#[target_feature(enable = "avx2,fma")]
pub(crate) fn mask_words(words: &mut [u32], mask: u32, limit: u32, shift: u32) -> bool {
    portable::mask_words(words, mask, limit, shift)
}

#[target_feature(enable = "avx2,fma")]
pub(crate) fn interpolate(q: u32, weights: &[u32], parts: &[&[u32]], constant: u32, out: &mut [u32]) {
    portable::interpolate(q, weights, parts, constant, out);
}

#[target_feature(enable = "avx2,fma")]
pub(crate) fn first_minimum(values: &[u32]) -> Option<(u32, usize)> {
    portable::first_minimum(values)
}
