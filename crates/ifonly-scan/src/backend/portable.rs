//! The kernels in plain Rust. Loops run over short arrays of rows so that a compiler can vectorise them.
//!
//! Everything here is `inline(always)`: the AVX2 backend takes over what it does not write by hand, compiled for AVX2.

use super::{Blocks, Planes, assert_shapes};
use crate::dot::{Chunk, Dot, GroupDigits, Kind, NARROW, WEIGHTS};
use crate::store::{BLOCK_ROWS, GROUP_BYTES};

/// Rows that a loop carries in registers.
const STRIP: usize = 16;

#[inline(always)]
pub(crate) fn dot<const L: usize>(dot: &Dot<L>, blocks: Blocks<'_>, planes: Planes<'_>, out: &mut [u32]) {
    let rows = assert_shapes(dot, blocks, planes, out);
    let (low, high) = out.split_at_mut(rows);
    for (number, chunk) in dot.chunks.iter().enumerate() {
        for start in (0..rows).step_by(STRIP) {
            let mut sums = [[0i32; STRIP]; L];
            for (sum, &digit) in sums.iter_mut().zip(&chunk.start) {
                *sum = [digit; STRIP];
            }
            add_groups(dot.kind, chunk, blocks, start, &mut sums);
            for (plane, digits) in &chunk.planes {
                let words: &[u32; STRIP] = strip(&planes.words[plane * planes.stride + start..]);
                let bytes = words.map(u32::to_le_bytes);
                add_bytes(&bytes, digits, &mut sums);
            }
            let values = reduce(&sums, dot.q);
            let earlier = |row: usize| match number {
                0 => 0,
                _ if L == NARROW => u64::from(low[start + row]),
                _ => u64::from(low[start + row]) | u64::from(high[start + row]) << 32,
            };
            let totals: [u64; STRIP] = std::array::from_fn(|row| {
                let total = values[row] + earlier(row);
                total.min(total.wrapping_sub(dot.q))
            });
            for row in 0..STRIP {
                low[start + row] = totals[row] as u32;
                if L != NARROW {
                    high[start + row] = (totals[row] >> 32) as u32;
                }
            }
        }
    }
}

#[inline(always)]
fn strip<T>(slice: &[T]) -> &[T; STRIP] {
    slice[..STRIP].try_into().expect("a strip has its length")
}

#[inline(always)]
fn add_groups<const L: usize>(
    kind: Kind,
    chunk: &Chunk<L>,
    blocks: Blocks<'_>,
    start: usize,
    sums: &mut [[i32; STRIP]; L],
) {
    let per_group = if kind == Kind::BytesSquares { 3 } else { 1 };
    for (group, digits) in chunk.groups.chunks_exact(per_group).enumerate() {
        let at = start / BLOCK_ROWS * blocks.block_bytes
            + ((chunk.first_group + group) * BLOCK_ROWS + start % BLOCK_ROWS) * GROUP_BYTES;
        let bytes: &[[u8; 4]; STRIP] = strip(blocks.bytes[at..at + STRIP * GROUP_BYTES].as_chunks().0);
        match kind {
            Kind::Planes => {}
            Kind::Bytes => add_bytes(bytes, &digits[0], sums),
            Kind::BytesNorm => {
                add_bytes(bytes, &digits[0], sums);
                for (sum, y) in sums[0].iter_mut().zip(bytes) {
                    let [a, b, c, d] = y.map(|y| i32::from(y) as i16 as i32);
                    *sum += (a * a + c * c) + (b * b + d * d);
                }
            }
            Kind::BytesSquares => {
                add_bytes(bytes, &digits[0], sums);
                let squares: [[u16; 4]; STRIP] = bytes.map(|y| y.map(|y| u16::from(y) * u16::from(y)));
                add_bytes(&squares.map(|s| s.map(|s| s as u8)), &digits[1], sums);
                add_bytes(&squares.map(|s| s.map(|s| (s >> 8) as u8)), &digits[2], sums);
            }
            Kind::Words | Kind::WordsNorm => {
                for row in 0..STRIP {
                    let [a, b] = words(bytes[row]);
                    for limb in 0..L {
                        let [c, d, ..] = digits[0][limb].map(i32::from);
                        sums[limb][row] += a * c + b * d;
                    }
                    if kind == Kind::WordsNorm {
                        sums[0][row] += a * a + b * b;
                    }
                }
            }
        }
    }
}

/// Two levels of two bytes; below 2^15 in every plan, so they are signed words.
#[inline(always)]
fn words(bytes: [u8; 4]) -> [i32; 2] {
    let [a, b, c, d] = bytes;
    [i32::from(i16::from_le_bytes([a, b])), i32::from(i16::from_le_bytes([c, d]))]
}

#[inline(always)]
fn add_bytes<const L: usize>(bytes: &[[u8; 4]; STRIP], digits: &GroupDigits<L>, sums: &mut [[i32; STRIP]; L]) {
    for limb in 0..L {
        let [c0, c2, c1, c3] = digits[limb].map(i32::from);
        for row in 0..STRIP {
            let [y0, y1, y2, y3] = bytes[row].map(|y| i32::from(i16::from(y)));
            sums[limb][row] += (y0 * c0 + y2 * c2) + (y1 * c1 + y3 * c3);
        }
    }
}

/// `Σ_l sum_l·weight_l mod q`, reduced.
#[inline(always)]
fn reduce<const L: usize>(sums: &[[i32; STRIP]; L], q: u64) -> [u64; STRIP] {
    if L == NARROW {
        // Adding and subtracting 1.5·2^23 rounds to an integer, which then stands in the low bits.
        const ROUND: f32 = 12_582_912.0;
        let inverse = 1.0 / q as f32;
        std::array::from_fn(|row| {
            let (low, high) = (sums[0][row], sums[1][row]);
            let value = high as f32 * WEIGHTS[1] as f32 + low as f32;
            let quotient = (value * inverse + ROUND).to_bits().wrapping_sub(ROUND.to_bits());
            let exact = (high as u32).wrapping_mul(WEIGHTS[1] as u32).wrapping_add(low as u32);
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

/// `x/2^32 mod q` for `x ≤ 2·(q−1)²`, q < 2^31: one conditional subtraction remains.
#[inline(always)]
fn montgomery_reduce(x: u64, q: u32, negative_inverse: u32) -> u32 {
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
pub(crate) fn mask_words(words: &mut [u32], mask: u32, limit: u32, shift: u32) -> bool {
    let mut largest = 0;
    for word in words.iter_mut() {
        *word &= mask;
        largest = largest.max(*word);
    }
    if largest >= limit {
        return false;
    }
    if shift != 0 {
        words.iter_mut().for_each(|word| *word += shift);
    }
    true
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
pub(crate) fn unpack_words(bits: u32, packed: &[u8], symbols: &mut [u32]) {
    let mask = u64::MAX >> (64 - bits);
    for (eight, bytes) in symbols.chunks_exact_mut(8).zip(packed.chunks_exact(bits as usize)) {
        for (place, symbol) in eight.iter_mut().enumerate() {
            let bit = place * bits as usize;
            let mut word = [0; 8];
            let have = bytes.len().min(bit / 8 + 8) - bit / 8;
            word[..have].copy_from_slice(&bytes[bit / 8..bit / 8 + have]);
            *symbol = ((u64::from_le_bytes(word) >> (bit % 8)) & mask) as u32;
        }
    }
}

#[inline(always)]
pub(crate) fn interpolate(q: u32, weights: &[u32], parts: &[&[u32]], constant: u32, out: &mut [u32]) {
    let inverse = negative_inverse(q);
    let add = |a: u32, b: u32| (a + b).min((a + b).wrapping_sub(q));
    out.fill(montgomery_reduce(u64::from(constant), q, inverse));
    for (weights, parts) in weights.chunks(2).zip(parts.chunks(2)) {
        match (weights, parts) {
            (&[w, v], [a, b]) => {
                for ((out, &a), &b) in out.iter_mut().zip(*a).zip(*b) {
                    let sum = u64::from(a) * u64::from(w) + u64::from(b) * u64::from(v);
                    *out = add(*out, montgomery_reduce(sum, q, inverse));
                }
            }
            _ => {
                for (out, &a) in out.iter_mut().zip(parts[0]) {
                    *out = add(*out, montgomery_reduce(u64::from(a) * u64::from(weights[0]), q, inverse));
                }
            }
        }
    }
}

#[inline(always)]
pub(crate) fn first_minimum(values: &[u32]) -> Option<(u32, usize)> {
    let smallest = values.iter().copied().fold(u32::MAX, u32::min);
    let first = values.iter().position(|&value| value == smallest)?;
    Some((smallest, first))
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
