//! Dot products over short arrays of rows, which the compiler vectorises. Compilers rarely find the
//! product of signed 16-bit pairs by themselves, so it is written as an intrinsic for x86-64, where
//! it is always available.

// Strips are indexed in the arrays of all limbs at once.
#![allow(clippy::needless_range_loop)]

use super::super::{Blocks, Planes, assert_sizes};
use crate::dot::limbs16::{Dot, GroupDigits, GroupEncoding, NARROW, WEIGHTS, groups};
use crate::row_store::{BLOCK_ROWS, GROUP_BYTES};

/// Rows whose halfwords fill one 128-bit vector.
const STRIP: usize = 4;
const STRIPS: usize = BLOCK_ROWS / STRIP;

/// The sums of a block, limb by limb.
type Sums<const L: usize> = [[[i32; STRIP]; STRIPS]; L];
/// The two digit pairs of a limb, each repeated for every row of a strip.
type Pairs = [[i16; 2 * STRIP]; 2];

/// The contribution of a group encoding to the sums.
trait Group {
    /// Adds the contribution of a strip of rows, whose bytes are given as halfwords.
    fn add<const L: usize>(halves: [u16; 2 * STRIP], pairs: &[[Pairs; L]; 3], strip: usize, sums: &mut Sums<L>);
}

impl<const NORM: bool> Group for groups::ByteLevels<NORM> {
    #[inline(always)]
    fn add<const L: usize>(halves: [u16; 2 * STRIP], pairs: &[[Pairs; L]; 3], strip: usize, sums: &mut Sums<L>) {
        let (even, odd) = even_odd(halves);
        add_bytes(even, odd, &pairs[0], strip, NORM, sums);
    }
}

impl Group for groups::Squares {
    #[inline(always)]
    fn add<const L: usize>(halves: [u16; 2 * STRIP], pairs: &[[Pairs; L]; 3], strip: usize, sums: &mut Sums<L>) {
        let (even, odd) = even_odd(halves);
        let square = |y: [i16; 2 * STRIP]| even_odd(y.map(|y| (y as u16).wrapping_mul(y as u16)));
        let (even_low, even_high) = square(even);
        let (odd_low, odd_high) = square(odd);
        add_bytes(even, odd, &pairs[0], strip, false, sums);
        add_bytes(even_low, odd_low, &pairs[1], strip, false, sums);
        add_bytes(even_high, odd_high, &pairs[2], strip, false, sums);
    }
}

impl Group for groups::CentredSquares {
    #[inline(always)]
    fn add<const L: usize>(halves: [u16; 2 * STRIP], pairs: &[[Pairs; L]; 3], strip: usize, sums: &mut Sums<L>) {
        let (even, odd) = even_odd(halves);
        let (even, odd) = (even.map(|y| y - 128), odd.map(|y| y - 128));
        add_bytes(even, odd, &pairs[0], strip, false, sums);
        add_bytes(even.map(|u| u * u), odd.map(|u| u * u), &pairs[1], strip, false, sums);
    }
}

impl<const NORM: bool> Group for groups::WordLevels<NORM> {
    #[inline(always)]
    fn add<const L: usize>(halves: [u16; 2 * STRIP], pairs: &[[Pairs; L]; 3], strip: usize, sums: &mut Sums<L>) {
        let levels = halves.map(|half| half as i16);
        for limb in 0..L {
            add(&mut sums[limb][strip], multiply_pairs(levels, pairs[0][limb][0]));
        }
        if NORM {
            add(&mut sums[0][strip], multiply_pairs(levels, levels));
        }
    }
}

pub(crate) fn dot<const L: usize>(dot: &Dot<L>, blocks: Blocks<'_>, planes: Planes<'_>, out: &mut [u32]) {
    let rows = assert_sizes(dot, blocks, planes, out);
    // Without a high plane the compiler can vectorise the reduction.
    let (low, high) = if L == NARROW { (out, &mut [][..]) } else { out.split_at_mut(rows) };
    let per_group = dot.encoding.per_group();
    for (number, chunk) in dot.chunks.iter().enumerate() {
        for start in (0..rows).step_by(BLOCK_ROWS) {
            let mut sums: Sums<L> = std::array::from_fn(|limb| [[chunk.start[limb]; STRIP]; STRIPS]);
            let digits = chunk.groups.chunks_exact(per_group);
            if dot.encoding != GroupEncoding::Planes {
                let block = &blocks.bytes[start / BLOCK_ROWS * blocks.block_bytes..][..blocks.block_bytes];
                let groups = block.as_chunks::<{ BLOCK_ROWS * GROUP_BYTES }>().0[chunk.first_group..].iter();
                for (group, digits) in groups.zip(digits) {
                    match dot.encoding {
                        GroupEncoding::Planes => {}
                        GroupEncoding::Bytes => add_group::<L, groups::ByteLevels<false>>(group, digits, &mut sums),
                        GroupEncoding::BytesNorm => add_group::<L, groups::ByteLevels<true>>(group, digits, &mut sums),
                        GroupEncoding::BytesSquares => add_group::<L, groups::Squares>(group, digits, &mut sums),
                        GroupEncoding::CentredSquares => {
                            add_group::<L, groups::CentredSquares>(group, digits, &mut sums)
                        }
                        GroupEncoding::Words => add_group::<L, groups::WordLevels<false>>(group, digits, &mut sums),
                        GroupEncoding::WordsNorm => add_group::<L, groups::WordLevels<true>>(group, digits, &mut sums),
                    }
                }
            }
            for (plane, digits) in &chunk.planes {
                let words = &planes.words[plane * planes.stride + start..][..BLOCK_ROWS];
                add_plane(words, digits, &mut sums);
            }
            for &(plane, factor) in &chunk.whole_planes {
                let words = &planes.words[plane * planes.stride + start..][..BLOCK_ROWS];
                for (sums, words) in sums[0].iter_mut().zip(words.as_chunks::<STRIP>().0) {
                    add(sums, words.map(|word| factor.wrapping_mul(word as i32)));
                }
            }
            let low = &mut low[start..start + BLOCK_ROWS];
            let high = high.get_mut(start..start + BLOCK_ROWS).unwrap_or_default();
            if dot.weights[1] == WEIGHTS[1] {
                write_block(&sums, dot.q, WEIGHTS[1], number == 0, low, high);
            } else {
                write_block(&sums, dot.q, dot.weights[1], number == 0, low, high);
            }
        }
    }
}

#[inline(always)]
fn add_group<const L: usize, G: Group>(
    group: &[u8; BLOCK_ROWS * GROUP_BYTES],
    digits: &[GroupDigits<L>],
    sums: &mut Sums<L>,
) {
    let pairs: [[Pairs; L]; 3] =
        std::array::from_fn(|part| digits.get(part).map_or([[[0; 2 * STRIP]; 2]; L], repeated));
    for (strip, bytes) in group.as_chunks::<{ 4 * STRIP }>().0.iter().enumerate() {
        let halves = std::array::from_fn(|i| u16::from_le_bytes([bytes[2 * i], bytes[2 * i + 1]]));
        G::add(halves, &pairs, strip, sums);
    }
}

#[inline(always)]
fn add_plane<const L: usize>(words: &[u32], digits: &GroupDigits<L>, sums: &mut Sums<L>) {
    let pairs = repeated(digits);
    for (strip, words) in words.as_chunks::<STRIP>().0.iter().enumerate() {
        let halves = std::array::from_fn(|i| (words[i / 2] >> (16 * (i % 2))) as u16);
        let (even, odd) = even_odd(halves);
        add_bytes(even, odd, &pairs, strip, false, sums);
    }
}

#[inline(always)]
fn repeated<const L: usize>(digits: &GroupDigits<L>) -> [Pairs; L] {
    digits.map(|limb| std::array::from_fn(|side| std::array::from_fn(|i| limb[2 * side + i % 2])))
}

#[inline(always)]
fn even_odd(halves: [u16; 2 * STRIP]) -> ([i16; 2 * STRIP], [i16; 2 * STRIP]) {
    (halves.map(|half| (half & 0xFF) as i16), halves.map(|half| (half >> 8) as i16))
}

/// Adds even and odd bytes times their digits; with `norm`, `y·(y + digit)` in the lowest limb.
#[inline(always)]
fn add_bytes<const L: usize>(
    even: [i16; 2 * STRIP],
    odd: [i16; 2 * STRIP],
    pairs: &[Pairs; L],
    strip: usize,
    norm: bool,
    sums: &mut Sums<L>,
) {
    for limb in 0..L {
        for (side, y) in [even, odd].into_iter().enumerate() {
            let mut factor = pairs[limb][side];
            if norm && limb == 0 {
                factor = std::array::from_fn(|i| factor[i] + y[i]);
            }
            add(&mut sums[limb][strip], multiply_pairs(y, factor));
        }
    }
}

#[inline(always)]
fn add(sum: &mut [i32; STRIP], more: [i32; STRIP]) {
    for (sum, more) in sum.iter_mut().zip(more) {
        *sum += more;
    }
}

/// `a_0·b_0 + a_1·b_1` for each adjacent pair.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn multiply_pairs(a: [i16; 2 * STRIP], b: [i16; 2 * STRIP]) -> [i32; STRIP] {
    let product = |i: usize| i32::from(a[i]) * i32::from(b[i]);
    std::array::from_fn(|i| product(2 * i) + product(2 * i + 1))
}

/// `a_0·b_0 + a_1·b_1` for each adjacent pair: one instruction that every x86-64 machine has.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn multiply_pairs(a: [i16; 2 * STRIP], b: [i16; 2 * STRIP]) -> [i32; STRIP] {
    use std::arch::x86_64::{__m128i, _mm_madd_epi16};
    use std::mem::transmute;
    // SAFETY: arrays of 128 bits and the vector type have the same size and any bits are valid in
    // both; SSE2 is part of x86-64.
    unsafe { transmute(_mm_madd_epi16(transmute::<[i16; 8], __m128i>(a), transmute::<[i16; 8], __m128i>(b))) }
}

/// Reduces the sums of a block and stores them, or adds them to the stored sums of earlier chunks.
#[inline(always)]
fn write_block<const L: usize>(
    sums: &Sums<L>,
    q: u64,
    second_weight: i64,
    first: bool,
    low: &mut [u32],
    high: &mut [u32],
) {
    for strip in 0..STRIPS {
        let values = reduce::<L>(&std::array::from_fn(|limb| sums[limb][strip]), q, second_weight);
        for (row, value) in (strip * STRIP..).zip(values) {
            let mut value = value;
            if !first {
                let earlier = u64::from(low[row]) | high.get(row).map_or(0, |&high| u64::from(high) << 32);
                value = (value + earlier).min((value + earlier).wrapping_sub(q));
            }
            low[row] = value as u32;
            if let Some(high) = high.get_mut(row) {
                *high = (value >> 32) as u32;
            }
        }
    }
}

/// `Σ_l sum_l·weight_l mod q`, reduced.
#[inline(always)]
fn reduce<const L: usize>(sums: &[[i32; STRIP]; L], q: u64, second_weight: i64) -> [u64; STRIP] {
    if L == NARROW {
        // Adding 1.5·2^23 rounds to an integer, which is then in the low bits.
        const ROUND: f32 = 12_582_912.0;
        let inverse = 1.0 / q as f32;
        std::array::from_fn(|row| {
            let (low, high) = (sums[0][row], sums[1][row]);
            let value = high as f32 * second_weight as f32 + low as f32;
            let quotient = (value * inverse + ROUND).to_bits().wrapping_sub(ROUND.to_bits());
            let exact = (high as u32).wrapping_mul(second_weight as u32).wrapping_add(low as u32);
            let rest = exact.wrapping_sub(quotient.wrapping_mul(q as u32));
            // |rest| < 3q/4 and q < 2^31, so a negative rest is a large word. The smaller of the
            // two words is the remainder.
            u64::from(rest.min(rest.wrapping_add(q as u32)))
        })
    } else {
        const ROUND: f64 = 6_755_399_441_055_744.0; // 1.5·2^52
        let inverse = 1.0 / q as f64;
        std::array::from_fn(|row| {
            let mut value = 0.0;
            let mut exact = 0u64;
            for limb in (0..L).rev() {
                value += f64::from(sums[limb][row]) * WEIGHTS[limb] as f64;
                exact = exact.wrapping_add((i64::from(sums[limb][row])).wrapping_mul(WEIGHTS[limb]) as u64);
            }
            let quotient = (value * inverse + ROUND).to_bits().wrapping_sub(ROUND.to_bits());
            let rest = exact.wrapping_sub(quotient.wrapping_mul(q));
            rest.min(rest.wrapping_add(q))
        })
    }
}
