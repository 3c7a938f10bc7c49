//! The kernels with 512-bit vectors and byte products (VNNI, VBMI). Dot products, look-ups and
//! packing use intrinsics. The rest is common code compiled for these instructions, or AVX2 code
//! where memory bandwidth is the limit.

mod bits;
mod dot;
mod limbs;
mod mask;
mod sums;
mod table;

use super::{Blocks, DrawSpec, Kernels, NibbleTables, Planes, avx2, modular, portable};
use crate::dot::limbs8::ByteDot;
use crate::dot::limbs16::AnyDot;
use crate::dot::lookup::PlaneTables;
use crate::lifted::decode::{self, BlockSummary, DecodeConstants};
use crate::lifted::gate::{DRAW_WORDS, GateConstants};
use crate::lifted::lookups::{Lookups, RowBlocks, WordLookups};
use crate::row_store::BLOCK_ROWS;
use std::arch::x86_64::*;

/// 512-bit vectors of x86-64 with products and look-ups of bytes (VNNI and VBMI: Ice Lake, Zen 4
/// and later). A value exists only if the machine supports these instructions and those of AVX2.
#[derive(Debug)]
struct Avx512(());

pub(super) fn find() -> Option<&'static dyn Kernels> {
    let found = avx2::find().is_some()
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512vbmi")
        && is_x86_feature_detected!("avx512vnni");
    found.then_some(&Avx512(()))
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]
fn compiled<T>(work: impl FnOnce() -> T) -> T {
    work()
}

// SAFETY (of every block): `self` exists, so the machine supports the instructions.
#[allow(clippy::undocumented_unsafe_blocks)]
impl Kernels for Avx512 {
    common_kernels!(__m512i);

    fn name(&self) -> &'static str {
        "avx512"
    }
    /// Short tiles: memory bandwidth is the limit, and memory would be idle during long runs of
    /// keystream generation.
    fn tile_rows(&self) -> usize {
        256
    }
    fn cipher_blocks(&self) -> usize {
        64
    }
    fn prefers_bytes(&self) -> bool {
        true
    }
    fn dot(&self, dot: &AnyDot, blocks: Blocks<'_>, planes: Planes<'_>, out: &mut [u32]) {
        unsafe { avx2::dot(dot, blocks, planes, out) }
    }
    fn byte_dot(&self, dot: &ByteDot, blocks: Blocks<'_>, planes: Planes<'_>, out: &mut [u32]) {
        unsafe { dot::byte_dot(dot, blocks, planes, out) }
    }
    fn look_up(&self, tables: &PlaneTables, blocks: Blocks<'_>, low: &mut [u32], high: &mut [u32]) {
        unsafe { table::look_up(tables, blocks, low, high) }
    }
    fn looks_up_bytes(&self) -> bool {
        true
    }
    fn word_sums(&self, lookups: &WordLookups, blocks: RowBlocks<'_>, low: &mut [u32], high: &mut [u32]) {
        unsafe { sums::word_sums(lookups, blocks, low, high) }
    }
    fn mask_words(&self, draws: DrawSpec, bytes: &[u8], out: &mut [u32]) -> bool {
        unsafe { mask::mask_words(draws, bytes, out) }
    }
    fn pack_halves(&self, bits: u32, low: &[u32], high: &[u32], out: &mut [u8]) {
        unsafe { bits::pack_halves(bits, low, high, out) }
    }
    fn pack_words(&self, bits: u32, elements: &[u32], out: &mut [u8]) {
        unsafe { bits::pack_words(bits, elements, out) }
    }
    fn unpack_words(&self, bits: u32, packed: &[u8], elements: &mut [u32]) -> u32 {
        unsafe { bits::unpack_words(bits, packed, elements) }
    }
    fn xor_selected(&self, records: &[u8], length: usize, subset: &[u8], sum: &mut [u8]) {
        unsafe { avx2::xor_selected(records, length, subset, sum) }
    }
    fn gf256_sum(&self, tables: &NibbleTables, records: &[u8], length: usize, coefficients: &[u8], sum: &mut [u8]) {
        unsafe { avx2::gf256_sum(tables, records, length, coefficients, sum) }
    }
    fn read(&self, bytes: &[u8]) -> u64 {
        unsafe { read(bytes) }
    }
}

/// Sums the 64-bit words of whole 512-byte steps in eight CPU registers.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]
fn read(bytes: &[u8]) -> u64 {
    let (steps, rest) = bytes.as_chunks::<512>();
    let mut sums = [_mm512_setzero_si512(); 8];
    for step in steps {
        for (index, sum) in sums.iter_mut().enumerate() {
            // SAFETY: `step` is 512 bytes.
            let words = unsafe { _mm512_loadu_si512(step.as_ptr().add(64 * index).cast()) };
            *sum = _mm512_add_epi64(*sum, words);
        }
    }
    let total = sums.into_iter().fold(_mm512_setzero_si512(), |total, sum| _mm512_add_epi64(total, sum));
    (_mm512_reduce_add_epi64(total) as u64).wrapping_add(portable::read(rest))
}
