//! Dot products with `vpmaddwd`. The even and the odd bytes of a group are two vectors of 16-bit
//! pairs. One instruction multiplies each with the digit pair of a limb and sums to 32 bits. 32
//! rows (narrow) or 16 rows (wide) are processed at a time.

// Vectors are indexed in two arrays at once.
#![allow(clippy::needless_range_loop)]

use super::super::{Blocks, Planes, assert_sizes};
use crate::dot::limbs16::{AnyDot, Chunk, Dot, GroupDigits, GroupEncoding, NARROW, WEIGHTS, groups, lane};
use crate::row_store::{BLOCK_ROWS, GROUP_BYTES};
use std::arch::x86_64::*;

/// Distance from a load to its prefetch; the hardware prefetcher stops at every page boundary.
const PREFETCH_DISTANCE: usize = 8 << 10;

/// V vectors of eight rows for each limb.
type Sums<const L: usize, const V: usize> = [[__m256i; V]; L];
/// The digits of one group.
type Digits<const L: usize> = [GroupDigits<L>];

/// The contribution of a group encoding to the sums.
trait Group {
    /// Entries of [`Chunk::groups`] for each group of the rows.
    const PER_GROUP: usize = 1;

    /// Adds the contribution of vector v of a strip, whose bytes are y.
    ///
    /// # Safety The machine must support AVX2 and FMA.
    #[inline(always)]
    unsafe fn add<const L: usize, const V: usize>(_y: __m256i, _v: usize, _digits: &Digits<L>, _sums: &mut Sums<L, V>) {
    }
}

#[target_feature(enable = "avx2,fma")]
pub(in crate::backend) fn dot(dot: &AnyDot, blocks: Blocks<'_>, planes: Planes<'_>, out: &mut [u32]) {
    match dot {
        AnyDot::Narrow(dot) => dot_of(dot, blocks, planes, out),
        AnyDot::Wide(dot) => dot_of(dot, blocks, planes, out),
    }
}

#[target_feature(enable = "avx2,fma")]
fn dot_of<const L: usize>(dot: &Dot<L>, blocks: Blocks<'_>, planes: Planes<'_>, out: &mut [u32]) {
    assert_sizes(dot, blocks, planes, out);
    for (number, chunk) in dot.chunks.iter().enumerate() {
        let job = ChunkJob::new(dot, number, chunk, blocks, planes);
        match dot.encoding {
            GroupEncoding::Planes => job.by_width::<groups::NoFeatures>(out),
            GroupEncoding::Bytes => job.by_width::<groups::ByteLevels<false>>(out),
            GroupEncoding::BytesNorm => job.by_width::<groups::ByteLevels<true>>(out),
            GroupEncoding::BytesSquares => job.by_width::<groups::Squares>(out),
            GroupEncoding::CentredSquares => job.by_width::<groups::CentredSquares>(out),
            GroupEncoding::Words => job.by_width::<groups::WordLevels<false>>(out),
            GroupEncoding::WordsNorm => job.by_width::<groups::WordLevels<true>>(out),
        }
    }
}

/// A chunk of a plan with its input.
pub(super) struct ChunkJob<'a, const L: usize> {
    pub(super) chunk: &'a Chunk<L>,
    blocks: Blocks<'a>,
    planes: Planes<'a>,
    q: u64,
    second_weight: i32,
    /// 1/q and the second weight as floating-point numbers.
    inverse: f32,
    float_weight: f32,
    first: bool,
}

impl<'a, const L: usize> ChunkJob<'a, L> {
    /// Chunk `number` of a plan.
    pub(super) fn new(
        dot: &Dot<L>,
        number: usize,
        chunk: &'a Chunk<L>,
        blocks: Blocks<'a>,
        planes: Planes<'a>,
    ) -> ChunkJob<'a, L> {
        ChunkJob {
            chunk,
            blocks,
            planes,
            q: dot.q,
            second_weight: dot.weights[1] as i32,
            inverse: 1.0 / dot.q as f32,
            float_weight: dot.weights[1] as f32,
            first: number == 0,
        }
    }

    #[target_feature(enable = "avx2,fma")]
    fn by_width<G: Group>(&self, out: &mut [u32]) {
        // Eight accumulators leave half of the CPU registers for everything else.
        if L == NARROW { self.run::<G, 4>(out) } else { self.run::<G, 2>(out) }
    }

    /// Processes V vectors of eight rows at a time.
    #[target_feature(enable = "avx2,fma")]
    fn run<G: Group, const V: usize>(&self, out: &mut [u32]) {
        let rows = out.len() / (L / NARROW);
        let (low, high) = out.split_at_mut(rows);
        for start in (0..rows).step_by(8 * V) {
            let mut sums = [[_mm256_setzero_si256(); V]; L];
            for (sum, &digit) in sums.iter_mut().zip(&self.chunk.start) {
                *sum = [_mm256_set1_epi32(digit); V];
            }
            if G::PER_GROUP > 0 {
                // SAFETY: `assert_sizes` checked that all groups of the chunk are inside every
                // block, and that the blocks have all rows. A strip of 8·V ≤ 64 rows starts at a
                // multiple of 8·V and stays inside its block.
                let block = unsafe { self.blocks.bytes.as_ptr().add(start / BLOCK_ROWS * self.blocks.block_bytes) };
                let offset = (self.chunk.first_group * BLOCK_ROWS + start % BLOCK_ROWS) * GROUP_BYTES;
                // A strip reads with a stride, but memory is fastest in sequential order. Each
                // strip therefore prefetches the bytes that follow those that the previous strip
                // prefetched.
                let bytes_per_row = self.chunk.groups.chunks_exact(G::PER_GROUP).len() * GROUP_BYTES;
                let prefetched = self.chunk.first_group * BLOCK_ROWS * GROUP_BYTES + start % BLOCK_ROWS * bytes_per_row;
                let next = block.wrapping_add(PREFETCH_DISTANCE + prefetched);
                // SAFETY: as above.
                unsafe { add_groups::<L, V, G>(block.add(offset), next, &self.chunk.groups, &mut sums) };
            }
            // SAFETY: `assert_sizes` checked that every plane has `rows` words, and `start + 8·V ≤
            // rows`.
            unsafe { self.add_planes(start, &mut sums) };
            if L == NARROW {
                for v in 0..V {
                    let slot: &mut [u32; 8] =
                        (&mut low[start + 8 * v..start + 8 * v + 8]).try_into().expect("eight rows");
                    self.store_narrow(sums[0][v], sums[1][v], slot);
                }
            } else {
                for v in 0..V {
                    let at = start + 8 * v;
                    let low: &mut [u32; 8] = (&mut low[at..at + 8]).try_into().expect("eight rows");
                    let high: &mut [u32; 8] = (&mut high[at..at + 8]).try_into().expect("eight rows");
                    self.store_wide(std::array::from_fn(|limb| sums[limb][v]), low, high);
                }
            }
        }
    }

    /// Adds all planes of a strip.
    ///
    /// # Safety Every plane of the chunk must have `start + 8·V` words.
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    pub(super) unsafe fn add_planes<const V: usize>(&self, start: usize, sums: &mut Sums<L, V>) {
        // SAFETY: guaranteed by the caller.
        let words = |plane: usize, v: usize| unsafe {
            _mm256_loadu_si256(self.planes.words.as_ptr().add(plane * self.planes.stride + start + 8 * v).cast())
        };
        for (plane, digits) in &self.chunk.planes {
            for v in 0..V {
                add_bytes::<L, V, false>(words(*plane, v), v, digits, sums);
            }
        }
        for &(plane, factor) in &self.chunk.whole_planes {
            for v in 0..V {
                sums[0][v] = match factor {
                    1 => _mm256_add_epi32(sums[0][v], words(plane, v)),
                    -1 => _mm256_sub_epi32(sums[0][v], words(plane, v)),
                    _ => {
                        let products = _mm256_mullo_epi32(words(plane, v), _mm256_set1_epi32(factor));
                        _mm256_add_epi32(sums[0][v], products)
                    }
                };
            }
        }
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn store_narrow(&self, low: __m256i, high: __m256i, out: &mut [u32; 8]) {
        let q = _mm256_set1_epi32(self.q as i32);
        let weight = _mm256_set1_ps(self.float_weight);
        let value = _mm256_fmadd_ps(_mm256_cvtepi32_ps(high), weight, _mm256_cvtepi32_ps(low));
        let quotient = _mm256_cvtps_epi32(_mm256_mul_ps(value, _mm256_set1_ps(self.inverse)));
        let exact = _mm256_add_epi32(_mm256_mullo_epi32(high, _mm256_set1_epi32(self.second_weight)), low);
        let rest = _mm256_sub_epi32(exact, _mm256_mullo_epi32(quotient, q));
        // |rest| < 3q/4 and q < 2^31, so a negative rest is a large word. The smaller of the two
        // words is the remainder.
        let mut value = _mm256_min_epu32(rest, _mm256_add_epi32(rest, q));
        // SAFETY: `out` is eight words.
        unsafe {
            if !self.first {
                let total = _mm256_add_epi32(value, _mm256_loadu_si256(out.as_ptr().cast()));
                value = _mm256_min_epu32(total, _mm256_sub_epi32(total, q));
            }
            _mm256_storeu_si256(out.as_mut_ptr().cast(), value);
        }
    }

    #[target_feature(enable = "avx2,fma")]
    fn store_wide(&self, sums: [__m256i; L], low: &mut [u32; 8], high: &mut [u32; 8]) {
        let a = self.reduce_wide(sums.map(|sum| _mm256_castsi256_si128(sum)));
        let b = self.reduce_wide(sums.map(|sum| _mm256_extracti128_si256::<1>(sum)));
        let (mut a, mut b) = (a, b);
        // SAFETY: `low` and `high` are eight words each.
        unsafe {
            if !self.first {
                let l = _mm256_loadu_si256(low.as_ptr().cast());
                let h = _mm256_loadu_si256(high.as_ptr().cast());
                let earlier = |half: i32| {
                    let pick = |x| {
                        let part = if half == 0 { _mm256_castsi256_si128(x) } else { _mm256_extracti128_si256::<1>(x) };
                        _mm256_cvtepu32_epi64(part)
                    };
                    _mm256_or_si256(pick(l), _mm256_slli_epi64::<32>(pick(h)))
                };
                a = self.add_wide(a, earlier(0));
                b = self.add_wide(b, earlier(1));
            }
            let (a, b) = (_mm256_castsi256_ps(a), _mm256_castsi256_ps(b));
            let lows = _mm256_castps_si256(_mm256_shuffle_ps::<0x88>(a, b));
            let highs = _mm256_castps_si256(_mm256_shuffle_ps::<0xDD>(a, b));
            _mm256_storeu_si256(low.as_mut_ptr().cast(), _mm256_permute4x64_epi64::<0xD8>(lows));
            _mm256_storeu_si256(high.as_mut_ptr().cast(), _mm256_permute4x64_epi64::<0xD8>(highs));
        }
    }

    /// Four rows: the remainder of `Σ sum_l·weight_l`.
    #[target_feature(enable = "avx2,fma")]
    fn reduce_wide(&self, sums: [__m128i; L]) -> __m256i {
        let mut value = _mm256_cvtepi32_pd(sums[0]);
        for limb in 1..L {
            let weight = _mm256_set1_pd(WEIGHTS[limb] as f64);
            value = _mm256_fmadd_pd(_mm256_cvtepi32_pd(sums[limb]), weight, value);
        }
        let quotient = _mm256_cvtpd_epi32(_mm256_mul_pd(value, _mm256_set1_pd(1.0 / self.q as f64)));
        let quotient = _mm256_cvtepi32_epi64(quotient);
        // The weights above the lowest are 65280·2^(16·l), and 65280 = 2^16 − 2^8.
        let mut upper = _mm256_cvtepi32_epi64(sums[1]);
        upper = _mm256_add_epi64(upper, _mm256_slli_epi64::<16>(_mm256_cvtepi32_epi64(sums[2])));
        upper = _mm256_add_epi64(upper, _mm256_slli_epi64::<32>(_mm256_cvtepi32_epi64(sums[3])));
        let scaled = _mm256_sub_epi64(_mm256_slli_epi64::<16>(upper), _mm256_slli_epi64::<8>(upper));
        let exact = _mm256_add_epi64(scaled, _mm256_cvtepi32_epi64(sums[0]));
        // Two signed 31-bit halves of q, because the quotient is signed.
        let q_low = _mm256_set1_epi64x((self.q & 0x7FFF_FFFF) as i64);
        let q_high = _mm256_set1_epi64x((self.q >> 31) as i64);
        let product = _mm256_add_epi64(
            _mm256_mul_epi32(quotient, q_low),
            _mm256_slli_epi64::<31>(_mm256_mul_epi32(quotient, q_high)),
        );
        let rest = _mm256_sub_epi64(exact, product);
        let negative = _mm256_cmpgt_epi64(_mm256_setzero_si256(), rest);
        _mm256_add_epi64(rest, _mm256_and_si256(negative, _mm256_set1_epi64x(self.q as i64)))
    }

    #[target_feature(enable = "avx2,fma")]
    fn add_wide(&self, a: __m256i, b: __m256i) -> __m256i {
        let q = _mm256_set1_epi64x(self.q as i64);
        let rest = _mm256_sub_epi64(_mm256_add_epi64(a, b), q);
        let negative = _mm256_cmpgt_epi64(_mm256_setzero_si256(), rest);
        _mm256_add_epi64(rest, _mm256_and_si256(negative, q))
    }
}

/// Adds all feature groups of a strip.
///
/// # Safety `first` must point to the bytes of the strip in the first group, and the further groups
/// must follow at a distance of 256 bytes each. `next` is only prefetched.
#[target_feature(enable = "avx2,fma")]
#[inline]
unsafe fn add_groups<const L: usize, const V: usize, G: Group>(
    first: *const u8,
    next: *const u8,
    groups: &[GroupDigits<L>],
    sums: &mut Sums<L, V>,
) {
    for (group, digits) in groups.chunks_exact(G::PER_GROUP).enumerate() {
        // SAFETY: guaranteed by the caller. A prefetch accepts any address.
        let at = unsafe { first.add(group * BLOCK_ROWS * GROUP_BYTES) };
        for line in 0..(V * 32).div_ceil(64) {
            _mm_prefetch::<_MM_HINT_T0>(next.wrapping_add(32 * V * group + 64 * line).cast());
        }
        for v in 0..V {
            // SAFETY: guaranteed by the caller; this function enables the instructions.
            unsafe { G::add(_mm256_loadu_si256(at.add(32 * v).cast()), v, digits, sums) };
        }
    }
}

/// Two adjacent digits as one 32-bit lane, in all lanes.
#[target_feature(enable = "avx2,fma")]
#[inline]
pub(super) fn pair(digits: &[i16; 4], first: usize) -> __m256i {
    _mm256_set1_epi32(lane([digits[first], digits[first + 1]]))
}

#[target_feature(enable = "avx2,fma")]
#[inline]
pub(super) fn even_odd(y: __m256i) -> (__m256i, __m256i) {
    (_mm256_and_si256(y, _mm256_set1_epi16(0xFF)), _mm256_srli_epi16::<8>(y))
}

#[target_feature(enable = "avx2,fma")]
#[inline]
fn add_bytes<const L: usize, const V: usize, const NORM: bool>(
    y: __m256i,
    v: usize,
    digits: &GroupDigits<L>,
    sums: &mut Sums<L, V>,
) {
    let (even, odd) = even_odd(y);
    for limb in 0..L {
        let (mut c_even, mut c_odd) = (pair(&digits[limb], 0), pair(&digits[limb], 2));
        if NORM && limb == 0 {
            // y·(y + digit): the lowest digit leaves room for 255.
            c_even = _mm256_add_epi16(c_even, even);
            c_odd = _mm256_add_epi16(c_odd, odd);
        }
        let products = _mm256_add_epi32(_mm256_madd_epi16(even, c_even), _mm256_madd_epi16(odd, c_odd));
        sums[limb][v] = _mm256_add_epi32(sums[limb][v], products);
    }
}

impl Group for groups::NoFeatures {
    const PER_GROUP: usize = 0;
}

impl<const NORM: bool> Group for groups::ByteLevels<NORM> {
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    unsafe fn add<const L: usize, const V: usize>(y: __m256i, v: usize, digits: &Digits<L>, sums: &mut Sums<L, V>) {
        add_bytes::<L, V, NORM>(y, v, &digits[0], sums);
    }
}

impl Group for groups::Squares {
    const PER_GROUP: usize = GroupEncoding::BytesSquares.per_group();

    #[target_feature(enable = "avx2,fma")]
    #[inline]
    unsafe fn add<const L: usize, const V: usize>(y: __m256i, v: usize, digits: &Digits<L>, sums: &mut Sums<L, V>) {
        let (even, odd) = even_odd(y);
        let (even_low, even_high) = even_odd(_mm256_mullo_epi16(even, even));
        let (odd_low, odd_high) = even_odd(_mm256_mullo_epi16(odd, odd));
        for limb in 0..L {
            let mut sum = sums[limb][v];
            for (digits, even, odd) in
                [(&digits[0], even, odd), (&digits[1], even_low, odd_low), (&digits[2], even_high, odd_high)]
            {
                sum = _mm256_add_epi32(sum, _mm256_madd_epi16(even, pair(&digits[limb], 0)));
                sum = _mm256_add_epi32(sum, _mm256_madd_epi16(odd, pair(&digits[limb], 2)));
            }
            sums[limb][v] = sum;
        }
    }
}

impl Group for groups::CentredSquares {
    const PER_GROUP: usize = GroupEncoding::CentredSquares.per_group();

    #[target_feature(enable = "avx2,fma")]
    #[inline]
    unsafe fn add<const L: usize, const V: usize>(y: __m256i, v: usize, digits: &Digits<L>, sums: &mut Sums<L, V>) {
        let u = _mm256_xor_si256(y, _mm256_set1_epi8(-128));
        let even = _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(u));
        let odd = _mm256_srai_epi16::<8>(u);
        let (even_square, odd_square) = (_mm256_mullo_epi16(even, even), _mm256_mullo_epi16(odd, odd));
        for limb in 0..L {
            let [linear, square] = [&digits[0][limb], &digits[1][limb]];
            let first =
                _mm256_add_epi32(_mm256_madd_epi16(even, pair(linear, 0)), _mm256_madd_epi16(odd, pair(linear, 2)));
            let second = _mm256_add_epi32(
                _mm256_madd_epi16(even_square, pair(square, 0)),
                _mm256_madd_epi16(odd_square, pair(square, 2)),
            );
            sums[limb][v] = _mm256_add_epi32(sums[limb][v], _mm256_add_epi32(first, second));
        }
    }
}

impl<const NORM: bool> Group for groups::WordLevels<NORM> {
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    unsafe fn add<const L: usize, const V: usize>(y: __m256i, v: usize, digits: &Digits<L>, sums: &mut Sums<L, V>) {
        for limb in 0..L {
            sums[limb][v] = _mm256_add_epi32(sums[limb][v], _mm256_madd_epi16(y, pair(&digits[0][limb], 0)));
        }
        if NORM {
            sums[0][v] = _mm256_add_epi32(sums[0][v], _mm256_madd_epi16(y, y));
        }
    }
}
