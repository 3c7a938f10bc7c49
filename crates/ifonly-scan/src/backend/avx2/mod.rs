//! The kernels with 256-bit vectors. Dot products, packing and record sums use intrinsics; the rest
//! is common code compiled for AVX2.

mod bits;
mod dot;
mod mask;
mod records;

pub(super) use dot::dot;
pub(super) use records::{gf256_sum, xor_selected};

use super::{Blocks, DrawSpec, Kernels, NibbleTables, Planes, modular, portable};
use crate::dot::limbs16::AnyDot;
use crate::lifted::decode::{self, BlockSummary, DecodeConstants};
use crate::lifted::gate::{DRAW_WORDS, GateConstants};
use crate::lifted::lookups::{Lookups, RowBlocks, WordLookups};
use crate::row_store::BLOCK_ROWS;
use std::arch::x86_64::__m256i;

/// 256-bit vectors of x86-64, with FMA, which practically all machines with AVX2 have. A value
/// exists only if the machine supports both.
#[derive(Debug)]
struct Avx2(());

pub(super) fn find() -> Option<&'static dyn Kernels> {
    (is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")).then_some(&Avx2(()))
}

#[target_feature(enable = "avx2,fma")]
fn compiled<T>(work: impl FnOnce() -> T) -> T {
    work()
}

// SAFETY (of every block): `self` exists, so the machine supports the instructions.
#[allow(clippy::undocumented_unsafe_blocks)]
impl Kernels for Avx2 {
    common_kernels!(__m256i);

    fn name(&self) -> &'static str {
        "avx2"
    }
    fn dot(&self, dot: &AnyDot, blocks: Blocks<'_>, planes: Planes<'_>, out: &mut [u32]) {
        unsafe { dot::dot(dot, blocks, planes, out) }
    }
    fn word_sums(&self, lookups: &WordLookups, blocks: RowBlocks<'_>, low: &mut [u32], high: &mut [u32]) {
        compiled!(lookups.sum_with_loads(blocks, low, high));
    }
    fn mask_words(&self, draws: DrawSpec, bytes: &[u8], out: &mut [u32]) -> bool {
        unsafe { mask::mask_words(draws, bytes, out) }
    }
    fn pack_halves(&self, bits: u32, low: &[u32], high: &[u32], out: &mut [u8]) {
        compiled!(portable::pack_halves(bits, low, high, out))
    }
    fn pack_words(&self, bits: u32, elements: &[u32], out: &mut [u8]) {
        unsafe { bits::pack_words(bits, elements, out) }
    }
    fn unpack_words(&self, bits: u32, packed: &[u8], elements: &mut [u32]) -> u32 {
        unsafe { bits::unpack_words(bits, packed, elements) }
    }
    fn xor_selected(&self, records: &[u8], length: usize, subset: &[u8], sum: &mut [u8]) {
        unsafe { xor_selected(records, length, subset, sum) }
    }
    fn gf256_sum(&self, tables: &NibbleTables, records: &[u8], length: usize, coefficients: &[u8], sum: &mut [u8]) {
        unsafe { gf256_sum(tables, records, length, coefficients, sum) }
    }
    fn read(&self, bytes: &[u8]) -> u64 {
        unsafe { records::read(bytes) }
    }
}
