//! The kernels with 256-bit vectors: the dot products, the packing and the record sums by hand, the rest from the portable
//! backend, compiled for AVX2.

mod bits;
mod dot;
mod modular;
mod records;

pub(crate) use bits::{pack_words, unpack_words};
pub(crate) use dot::dot;
pub(crate) use modular::{halve_sums, interpolate, minimum, montgomery_products};
pub(crate) use records::{gf256_sum, read, xor_selected};

use super::portable;

#[target_feature(enable = "avx2,fma")]
pub(crate) fn mask_words(bytes: &[u8], mask: u32, limit: u32, shift: u32, out: &mut [u32]) -> bool {
    portable::mask_words(bytes, mask, limit, shift, out)
}

#[target_feature(enable = "avx2,fma")]
pub(crate) fn add_looked_up(levels: &[[u8; 4]], tables: &[[u32; 256]; 4], sums: &mut [u32]) {
    // Gathers took a quarter longer than four loads on the machine of docs/performance.md.
    portable::add_looked_up(levels, tables, sums);
}
