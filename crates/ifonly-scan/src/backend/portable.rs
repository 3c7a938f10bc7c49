//! The kernels in plain Rust. Loops run over short arrays of rows, which a compiler turns into vectors; the one product that
//! it does not find by itself, of signed 16-bit pairs, is spelled out for x86-64, where it is always there.
//!
//! Everything here is `inline(always)`: the AVX2 backend takes over what it does not write by hand, compiled for AVX2.

use super::{Blocks, Planes, assert_shapes};
use crate::dot::{Dot, GroupDigits, Kind, NARROW, WEIGHTS};
use crate::store::{BLOCK_ROWS, GROUP_BYTES};

/// Rows whose halfwords make one 128-bit vector.
const STRIP: usize = 4;
const STRIPS: usize = BLOCK_ROWS / STRIP;

/// The sums of a block, limb by limb.
type Sums<const L: usize> = [[[i32; STRIP]; STRIPS]; L];
/// The two digit pairs of a limb, each repeated for every row of a strip.
type Pairs = [[i16; 2 * STRIP]; 2];

const BYTES: u8 = 1;
const BYTES_NORM: u8 = 2;
const BYTES_SQUARES: u8 = 3;
const CENTRED_SQUARES: u8 = 4;
const WORDS: u8 = 5;
const WORDS_NORM: u8 = 6;

#[inline(always)]
pub(crate) fn dot<const L: usize>(dot: &Dot<L>, blocks: Blocks<'_>, planes: Planes<'_>, out: &mut [u32]) {
    let rows = assert_shapes(dot, blocks, planes, out);
    let (low, high) = out.split_at_mut(rows);
    let per_group = dot.kind.per_group();
    for (number, chunk) in dot.chunks.iter().enumerate() {
        for start in (0..rows).step_by(BLOCK_ROWS) {
            let mut sums = chunk.start.map(|digit| [[digit; STRIP]; STRIPS]);
            let digits = chunk.groups.chunks_exact(per_group);
            if dot.kind != Kind::Planes {
                let block = &blocks.bytes[start / BLOCK_ROWS * blocks.block_bytes..][..blocks.block_bytes];
                let groups = block.as_chunks::<{ BLOCK_ROWS * GROUP_BYTES }>().0[chunk.first_group..].iter();
                for (group, digits) in groups.zip(digits) {
                    match dot.kind {
                        Kind::Planes => {}
                        Kind::Bytes => add_group::<L, BYTES>(group, digits, &mut sums),
                        Kind::BytesNorm => add_group::<L, BYTES_NORM>(group, digits, &mut sums),
                        Kind::BytesSquares => add_group::<L, BYTES_SQUARES>(group, digits, &mut sums),
                        Kind::CentredSquares => add_group::<L, CENTRED_SQUARES>(group, digits, &mut sums),
                        Kind::Words => add_group::<L, WORDS>(group, digits, &mut sums),
                        Kind::WordsNorm => add_group::<L, WORDS_NORM>(group, digits, &mut sums),
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
fn add_group<const L: usize, const KIND: u8>(
    group: &[u8; BLOCK_ROWS * GROUP_BYTES],
    digits: &[GroupDigits<L>],
    sums: &mut Sums<L>,
) {
    let pairs: [[Pairs; L]; 3] =
        std::array::from_fn(|part| digits.get(part).map_or([[[0; 2 * STRIP]; 2]; L], repeated));
    for (strip, bytes) in group.as_chunks::<{ 4 * STRIP }>().0.iter().enumerate() {
        let halves: [u16; 2 * STRIP] = std::array::from_fn(|i| u16::from_le_bytes([bytes[2 * i], bytes[2 * i + 1]]));
        let (even, odd) = even_odd(halves);
        match KIND {
            BYTES | BYTES_NORM => add_bytes(even, odd, &pairs[0], strip, KIND == BYTES_NORM, sums),
            BYTES_SQUARES => {
                let square = |y: [i16; 2 * STRIP]| even_odd(y.map(|y| (y as u16).wrapping_mul(y as u16)));
                let (even_low, even_high) = square(even);
                let (odd_low, odd_high) = square(odd);
                add_bytes(even, odd, &pairs[0], strip, false, sums);
                add_bytes(even_low, odd_low, &pairs[1], strip, false, sums);
                add_bytes(even_high, odd_high, &pairs[2], strip, false, sums);
            }
            CENTRED_SQUARES => {
                let (even, odd) = (even.map(|y| y - 128), odd.map(|y| y - 128));
                add_bytes(even, odd, &pairs[0], strip, false, sums);
                add_bytes(even.map(|u| u * u), odd.map(|u| u * u), &pairs[1], strip, false, sums);
            }
            _ => {
                let levels = halves.map(|half| half as i16);
                for limb in 0..L {
                    add(&mut sums[limb][strip], multiply_pairs(levels, pairs[0][limb][0]));
                }
                if KIND == WORDS_NORM {
                    add(&mut sums[0][strip], multiply_pairs(levels, levels));
                }
            }
        }
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

/// Even and odd bytes times their digits; with `norm`, `y·(y + digit)` in the lowest limb.
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

/// `a_0·b_0 + a_1·b_1` for each pair of neighbours.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn multiply_pairs(a: [i16; 2 * STRIP], b: [i16; 2 * STRIP]) -> [i32; STRIP] {
    let product = |i: usize| i32::from(a[i]) * i32::from(b[i]);
    std::array::from_fn(|i| product(2 * i) + product(2 * i + 1))
}

/// `a_0·b_0 + a_1·b_1` for each pair of neighbours: one instruction that every x86-64 has and compilers rarely find.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn multiply_pairs(a: [i16; 2 * STRIP], b: [i16; 2 * STRIP]) -> [i32; STRIP] {
    use std::arch::x86_64::{__m128i, _mm_madd_epi16};
    use std::mem::transmute;
    // SAFETY: arrays of 128 bits and the vector type have the same size and any bits are valid in both; SSE2 is part of
    // x86-64.
    unsafe { transmute(_mm_madd_epi16(transmute::<[i16; 8], __m128i>(a), transmute::<[i16; 8], __m128i>(b))) }
}

/// Reduces the sums of a block and stores them, or adds them to what earlier chunks stored.
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
        let values = reduce(&sums.map(|limb| limb[strip]), q, second_weight);
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
        // Adding and subtracting 1.5·2^23 rounds to an integer, which then stands in the low bits.
        const ROUND: f32 = 12_582_912.0;
        let inverse = 1.0 / q as f32;
        std::array::from_fn(|row| {
            let (low, high) = (sums[0][row], sums[1][row]);
            let value = high as f32 * second_weight as f32 + low as f32;
            let quotient = (value * inverse + ROUND).to_bits().wrapping_sub(ROUND.to_bits());
            let exact = (high as u32).wrapping_mul(second_weight as u32).wrapping_add(low as u32);
            let rest = exact.wrapping_sub(quotient.wrapping_mul(q as u32));
            // |rest| < 3q/4 and q < 2^31: a negative rest is a large word, and one of the two is the remainder.
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

/// `x` with `q·x ≡ −1 mod 2^32`.
#[inline(always)]
pub(crate) fn negative_inverse(q: u32) -> u32 {
    debug_assert!(q % 2 == 1, "an even number has no inverse modulo 2^32");
    // Newton: each step doubles the number of right low bits, and q itself has three.
    let mut inverse = q;
    for _ in 0..4 {
        inverse = inverse.wrapping_mul(2u32.wrapping_sub(q.wrapping_mul(inverse)));
    }
    inverse.wrapping_neg()
}

/// `x/2^32 mod q` for a sum x of as many products as [`products_per_reduction`] says: one conditional subtraction remains.
#[inline(always)]
pub(crate) fn montgomery_reduce(x: u64, q: u32, negative_inverse: u32) -> u32 {
    let multiple = (x as u32).wrapping_mul(negative_inverse);
    let rest = ((x + u64::from(multiple) * u64::from(q)) >> 32) as u32;
    rest.min(rest.wrapping_sub(q))
}

#[inline(always)]
pub(crate) fn montgomery_products(q: u32, a: &[u32], b: &[u32], out: &mut [u32]) {
    let inverse = negative_inverse(q);
    for ((out, &a), &b) in out.iter_mut().zip(a).zip(b) {
        *out = montgomery_reduce(u64::from(a) * u64::from(b), q, inverse);
    }
}

#[inline(always)]
pub(crate) fn mask_words(width: usize, bytes: &[u8], mask: u32, limit: u32, shift: u32, out: &mut [u32]) -> bool {
    match width {
        1 => mask_words_of::<1>(bytes, mask, limit, shift, out),
        2 => mask_words_of::<2>(bytes, mask, limit, shift, out),
        3 => mask_words_of::<3>(bytes, mask, limit, shift, out),
        _ => mask_words_of::<4>(bytes, mask, limit, shift, out),
    }
}

#[inline(always)]
fn mask_words_of<const WIDTH: usize>(bytes: &[u8], mask: u32, limit: u32, shift: u32, out: &mut [u32]) -> bool {
    let mut largest = 0;
    for (out, bytes) in out.iter_mut().zip(bytes.as_chunks::<WIDTH>().0) {
        let mut word = [0; 4];
        word[..WIDTH].copy_from_slice(bytes);
        let word = u32::from_le_bytes(word) & mask;
        largest = largest.max(word);
        *out = word.wrapping_add(shift);
    }
    largest < limit
}

#[inline(always)]
pub(crate) fn mask_long_words(
    bytes: &[u8],
    mask: u64,
    limit: u64,
    shift: u64,
    low: &mut [u32],
    high: &mut [u32],
) -> bool {
    // Sums of a sign instead of a maximum: vectors of 64-bit words often lack the latter.
    let mut below = u64::MAX;
    for ((low, high), bytes) in low.iter_mut().zip(high).zip(bytes.as_chunks::<8>().0) {
        let word = u64::from_le_bytes(*bytes) & mask;
        below &= word.wrapping_sub(limit);
        let number = word.wrapping_add(shift);
        *low = number as u32;
        *high = (number >> 32) as u32;
    }
    below >> 63 == 1
}

#[inline(always)]
pub(crate) fn pack_halves(bits: u32, low: &[u32], high: &[u32], out: &mut [u8]) {
    let symbols = low.iter().zip(high).map(|(&low, &high)| u64::from(low) | u64::from(high) << 32);
    crate::pack::pack_bits(bits, symbols, out);
}

#[inline(always)]
pub(crate) fn pack_words(bits: u32, symbols: &[u32], out: &mut [u8]) {
    for (eight, bytes) in symbols.chunks_exact(8).zip(out.chunks_exact_mut(bits as usize)) {
        let (mut held, mut count, mut at) = (0u64, 0, 0);
        for &symbol in eight {
            // At most 31 bits are held before, so 63 after.
            held |= u64::from(symbol) << count;
            count += bits;
            if count >= 32 {
                bytes[at..at + 4].copy_from_slice(&(held as u32).to_le_bytes());
                at += 4;
                held >>= 32;
                count -= 32;
            }
        }
        let rest = (count / 8) as usize;
        bytes[at..at + rest].copy_from_slice(&held.to_le_bytes()[..rest]);
    }
}

#[inline(always)]
pub(crate) fn unpack_words(bits: u32, packed: &[u8], symbols: &mut [u32]) -> u32 {
    let mask = u64::MAX >> (64 - bits);
    let mut largest = 0;
    for (eight, bytes) in symbols.chunks_exact_mut(8).zip(packed.chunks_exact(bits as usize)) {
        // Whole words for all but the last symbols, whose words would end beyond the eight's bytes.
        for (place, symbol) in eight.iter_mut().enumerate() {
            let bit = place * bits as usize;
            let word = match bytes[bit / 8..].first_chunk::<8>() {
                Some(word) => u64::from_le_bytes(*word),
                None => bytes[bit / 8..].iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)),
            };
            *symbol = (word >> (bit % 8) & mask) as u32;
            largest = largest.max(*symbol);
        }
    }
    largest
}

/// How many products of reduced numbers can be summed before a Montgomery reduction: `n·q ≤ 2^32` keeps the rest below 2q.
#[inline(always)]
pub(crate) fn products_per_reduction(q: u32) -> usize {
    if q < 1 << 30 { 4 } else { 2 }
}

#[inline(always)]
pub(crate) fn interpolate(q: u32, weights: &[u32], parts: &[&[u32]], constant: u32, out: &mut [u32]) {
    let inverse = negative_inverse(q);
    let at_once = products_per_reduction(q);
    for (i, out) in out.iter_mut().enumerate() {
        let mut value = constant;
        for (weights, parts) in weights.chunks(at_once).zip(parts.chunks(at_once)) {
            let products = weights.iter().zip(parts).map(|(&weight, part)| u64::from(weight) * u64::from(part[i]));
            value += montgomery_reduce(products.sum(), q, inverse);
            value = value.min(value.wrapping_sub(q));
        }
        *out = value;
    }
}

#[inline(always)]
pub(crate) fn halve_sums(q: u32, a: &[u32], b: &[u32], constant: u32, out: &mut [u32]) {
    for ((out, &a), &b) in out.iter_mut().zip(a).zip(b) {
        let sum = (a + b).min((a + b).wrapping_sub(q));
        // Half of an odd number is half of the even one before it and 1/2 = (q + 1)/2.
        let half = (sum >> 1) + (sum & 1) * q.div_ceil(2);
        *out = (half + constant).min((half + constant).wrapping_sub(q));
    }
}

#[inline(always)]
pub(crate) fn minimum(values: &[u32]) -> u32 {
    values.iter().copied().fold(u32::MAX, u32::min)
}

#[inline(always)]
pub(crate) fn xor_selected(records: &[u8], length: usize, subset: &[u8], sum: &mut [u8]) {
    for (eight, &bits) in records.chunks(8 * length).zip(subset) {
        let mut bits = bits;
        while bits != 0 {
            let place = bits.trailing_zeros() as usize;
            bits &= bits - 1;
            if let Some(record) = eight.get(place * length..(place + 1) * length) {
                for (sum, &byte) in sum.iter_mut().zip(record) {
                    *sum ^= byte;
                }
            }
        }
    }
}

#[inline(always)]
pub(crate) fn gf256_sum(tables: &[[u8; 32]; 256], records: &[u8], length: usize, coefficients: &[u8], sum: &mut [u8]) {
    for (record, &coefficient) in records.chunks_exact(length).zip(coefficients) {
        let (low, high) = tables[usize::from(coefficient)].split_at(16);
        for (sum, &byte) in sum.iter_mut().zip(record) {
            *sum ^= low[usize::from(byte & 15)] ^ high[usize::from(byte >> 4)];
        }
    }
}

#[inline(always)]
pub(crate) fn read(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<64>();
    let mut sums = [0u64; 8];
    for line in words {
        for (sum, word) in sums.iter_mut().zip(line.as_chunks::<8>().0) {
            *sum = sum.wrapping_add(u64::from_le_bytes(*word));
        }
    }
    sums.iter().fold(rest.iter().map(|&byte| u64::from(byte)).sum(), |sum, &part| sum.wrapping_add(part))
}
