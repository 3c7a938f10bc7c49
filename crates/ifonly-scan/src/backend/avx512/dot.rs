//! Dot products with `vpdpbusd`: four unsigned bytes of a row times four signed digits, summed into
//! 32 bits in one instruction. 64 rows are processed at a time (32 if a field element has eight
//! limbs).

// Vectors are indexed in two arrays at once.
#![allow(clippy::needless_range_loop)]

use super::super::{Blocks, Planes};
use super::limbs::{Reducer, plane_words};
use crate::dot::limbs8::{ByteChunk, ByteDigits, ByteDot, ByteGroupEncoding, MAX_LIMBS};
use crate::dot::limbs16::groups;
use crate::row_store::{BLOCK_ROWS, GROUP_BYTES};
use std::arch::x86_64::*;

/// Distance from a load to its prefetch: more than can be outstanding at once, so that memory stays
/// busy while pads and packing run between two tiles.
const PREFETCH_DISTANCE: usize = 8 << 10;

/// V vectors of sixteen rows for each of B limbs.
type Sums<const B: usize, const V: usize> = [[__m512i; V]; B];

/// The contribution of a group encoding in addition to the products with its first digits.
trait Group {
    /// Entries of [`ByteChunk::groups`] for each group of the rows.
    const PER_GROUP: usize = 1;

    /// Adds the contribution of vector v, whose bytes are y.
    ///
    /// # Safety The machine must support the instructions of this backend.
    #[inline(always)]
    unsafe fn add<const B: usize, const V: usize>(
        _y: __m512i,
        _v: usize,
        _digits: &[ByteDigits],
        _sums: &mut Sums<B, V>,
    ) {
    }
}

impl Group for groups::NoFeatures {
    const PER_GROUP: usize = 0;
}

impl Group for groups::ByteLevels<false> {}

impl Group for groups::ByteLevels<true> {
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]
    #[inline]
    unsafe fn add<const B: usize, const V: usize>(y: __m512i, v: usize, _: &[ByteDigits], sums: &mut Sums<B, V>) {
        let centred = _mm512_xor_si512(y, _mm512_set1_epi8(-128));
        sums[0][v] = _mm512_dpbusd_epi32(sums[0][v], y, centred);
    }
}

impl Group for groups::WordLevels<true> {
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]
    #[inline]
    unsafe fn add<const B: usize, const V: usize>(y: __m512i, v: usize, _: &[ByteDigits], sums: &mut Sums<B, V>) {
        sums[0][v] = _mm512_dpwssd_epi32(sums[0][v], y, y);
    }
}

impl Group for groups::Squares {
    const PER_GROUP: usize = ByteGroupEncoding::Squares.per_group();

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]
    #[inline]
    unsafe fn add<const B: usize, const V: usize>(y: __m512i, v: usize, digits: &[ByteDigits], sums: &mut Sums<B, V>) {
        let low_bytes = _mm512_set1_epi16(0xFF);
        let (even, odd) = (_mm512_and_si512(y, low_bytes), _mm512_srli_epi16::<8>(y));
        let (even, odd) = (_mm512_mullo_epi16(even, even), _mm512_mullo_epi16(odd, odd));
        // Selects the first operand where the mask is one, else the second: the bytes of y² at the
        // positions of the bytes of y.
        const PICK: i32 = 0b1100_1010;
        let low = _mm512_ternarylogic_epi32::<PICK>(low_bytes, even, _mm512_slli_epi16::<8>(odd));
        let high = _mm512_ternarylogic_epi32::<PICK>(low_bytes, _mm512_srli_epi16::<8>(even), odd);
        add_bytes(low, v, &digits[1], sums);
        add_bytes(high, v, &digits[2], sums);
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]
pub(super) fn byte_dot(dot: &ByteDot, blocks: Blocks<'_>, planes: Planes<'_>, out: &mut [u32]) {
    for (number, chunk) in dot.chunks.iter().enumerate() {
        let job = ByteChunkJob { chunk, blocks, planes, reducer: Reducer { q: dot.q, first: number == 0 } };
        match dot.limbs {
            3 => job.by_encoding::<3, 4>(dot.encoding, out),
            4 => job.by_encoding::<4, 4>(dot.encoding, out),
            _ => job.by_encoding::<8, 2>(dot.encoding, out),
        }
    }
}

struct ByteChunkJob<'a> {
    chunk: &'a ByteChunk,
    blocks: Blocks<'a>,
    planes: Planes<'a>,
    reducer: Reducer,
}

impl ByteChunkJob<'_> {
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]
    fn by_encoding<const B: usize, const V: usize>(&self, encoding: ByteGroupEncoding, out: &mut [u32]) {
        match encoding {
            ByteGroupEncoding::Planes => self.run::<B, V, groups::NoFeatures>(out),
            ByteGroupEncoding::Bytes => self.run::<B, V, groups::ByteLevels<false>>(out),
            ByteGroupEncoding::Norm => self.run::<B, V, groups::ByteLevels<true>>(out),
            ByteGroupEncoding::Squares => self.run::<B, V, groups::Squares>(out),
            ByteGroupEncoding::WordNorm => self.run::<B, V, groups::WordLevels<true>>(out),
        }
    }

    /// Processes V vectors of sixteen rows at a time, with B limbs.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]
    fn run<const B: usize, const V: usize, G: Group>(&self, out: &mut [u32]) {
        let rows = if B == MAX_LIMBS { out.len() / 2 } else { out.len() };
        assert!(rows.is_multiple_of(BLOCK_ROWS), "a tile must consist of whole blocks");
        let (low, high) = out.split_at_mut(rows);
        let group_bytes = BLOCK_ROWS * GROUP_BYTES;
        for start in (0..rows).step_by(16 * V) {
            let mut sums = [[_mm512_setzero_si512(); V]; B];
            for limb in 0..B {
                sums[limb] = [_mm512_set1_epi32(self.chunk.start[limb]); V];
            }
            if G::PER_GROUP > 0 {
                let from = start / BLOCK_ROWS * self.blocks.block_bytes + self.chunk.first_group * group_bytes;
                let length = self.chunk.groups.chunks_exact(G::PER_GROUP).len() * group_bytes;
                let groups = self.blocks.bytes[from..from + length].as_chunks::<{ BLOCK_ROWS * GROUP_BYTES }>().0;
                for (group, digits) in groups.iter().zip(self.chunk.groups.chunks_exact(G::PER_GROUP)) {
                    add_group::<B, V, G>(group, start % BLOCK_ROWS / 16, digits, &mut sums);
                }
            }
            for (plane, digits) in &self.chunk.planes {
                for v in 0..V {
                    let words = plane_words(self.planes, *plane, start + 16 * v);
                    add_bytes(words, v, digits, &mut sums);
                }
            }
            for v in 0..V {
                let all: [__m512i; MAX_LIMBS] =
                    std::array::from_fn(|limb| if limb < B { sums[limb][v] } else { _mm512_setzero_si512() });
                self.reducer.store(all, start + 16 * v, low, high);
            }
        }
    }
}

/// Adds V vectors of one group of the rows, starting with vector `first_vector` of the block.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]
#[inline]
fn add_group<const B: usize, const V: usize, G: Group>(
    group: &[u8; BLOCK_ROWS * GROUP_BYTES],
    first_vector: usize,
    digits: &[ByteDigits],
    sums: &mut Sums<B, V>,
) {
    let vectors = &group.as_chunks::<64>().0[first_vector..first_vector + V];
    for v in 0..V {
        let address: *const i8 = vectors[v].as_ptr().cast();
        // A prefetch accepts any address.
        _mm_prefetch::<_MM_HINT_T1>(address.wrapping_add(PREFETCH_DISTANCE));
        // SAFETY: the vector is 64 bytes.
        let y = unsafe { _mm512_loadu_si512(address.cast()) };
        add_bytes(y, v, &digits[0], sums);
        // SAFETY: this function enables the instructions.
        unsafe { G::add(y, v, digits, sums) };
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]
#[inline]
fn add_bytes<const B: usize, const V: usize>(y: __m512i, v: usize, digits: &ByteDigits, sums: &mut Sums<B, V>) {
    for limb in 0..B {
        let four = _mm512_set1_epi32(i32::from_le_bytes(digits[limb].map(|digit| digit as u8)));
        sums[limb][v] = _mm512_dpbusd_epi32(sums[limb][v], y, four);
    }
}
