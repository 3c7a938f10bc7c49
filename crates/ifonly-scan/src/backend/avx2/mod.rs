//! The kernels with 256-bit vectors: the dot products, the packing and the record sums by hand, the rest from the portable
//! backend, compiled for AVX2.

mod bits;
mod dot;
mod dot_pair;
mod records;

pub(crate) use bits::{pack_words, unpack_words};
pub(crate) use dot::dot;
pub(crate) use dot_pair::dot_pair;
pub(crate) use records::{gf256_sum, read, xor_selected};

use super::{modular, portable};
use std::arch::x86_64::__m256i;

#[target_feature(enable = "avx2,fma")]
pub(crate) fn mask_words(bytes: &[u8], mask: u32, limit: u32, shift: u32, out: &mut [u32]) -> bool {
    portable::mask_words(bytes, mask, limit, shift, out)
}

#[target_feature(enable = "avx2,fma")]
pub(crate) fn mask_long_words(
    bytes: &[u8],
    mask: u64,
    limit: u64,
    shift: u64,
    low: &mut [u32],
    high: &mut [u32],
) -> bool {
    portable::mask_long_words(bytes, mask, limit, shift, low, high)
}

#[target_feature(enable = "avx2,fma")]
pub(crate) fn montgomery_products(q: u32, a: &[u32], b: &[u32], out: &mut [u32]) {
    // SAFETY: this function enables the instructions of the vector.
    unsafe { modular::montgomery_products::<__m256i>(q, a, b, out) }
}

#[target_feature(enable = "avx2,fma")]
pub(crate) fn interpolate(q: u32, weights: &[u32], parts: &[&[u32]], constant: u32, out: &mut [u32]) {
    // SAFETY: this function enables the instructions of the vector.
    unsafe { modular::interpolate::<__m256i>(q, weights, parts, constant, out) }
}

#[target_feature(enable = "avx2,fma")]
pub(crate) fn halve_sums(q: u32, a: &[u32], b: &[u32], constant: u32, out: &mut [u32]) {
    // SAFETY: this function enables the instructions of the vector.
    unsafe { modular::halve_sums::<__m256i>(q, a, b, constant, out) }
}

#[target_feature(enable = "avx2,fma")]
pub(crate) fn minimum(values: &[u32]) -> u32 {
    portable::minimum(values)
}

#[target_feature(enable = "avx2,fma")]
pub(crate) fn pack_halves(bits: u32, low: &[u32], high: &[u32], out: &mut [u8]) {
    portable::pack_halves(bits, low, high, out);
}
