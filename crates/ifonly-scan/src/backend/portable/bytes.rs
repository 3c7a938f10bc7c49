//! Byte dot products and byte look-ups row by row: the reference for backends that prefer them.

use super::super::{Blocks, Planes};
use crate::dot::limbs8::{ByteChunk, ByteDigits, ByteDot, ByteGroupEncoding};
use crate::dot::lookup::PlaneTables;
use crate::row_store::{BLOCK_ROWS, GROUP_BYTES};

pub(crate) fn byte_dot(dot: &ByteDot, blocks: Blocks<'_>, planes: Planes<'_>, out: &mut [u32]) {
    let (low, high) = out.split_at_mut(out.len() / dot.planes());
    for row in 0..low.len() {
        let sum: i128 = dot.chunks.iter().map(|chunk| chunk_sum(chunk, dot.encoding, blocks, planes, row)).sum();
        store(sum.rem_euclid(dot.q.into()) as u64, row, low, high);
    }
}

fn chunk_sum(
    chunk: &ByteChunk,
    encoding: ByteGroupEncoding,
    blocks: Blocks<'_>,
    planes: Planes<'_>,
    row: usize,
) -> i128 {
    let mut sums = chunk.start.map(i64::from);
    let mut add = |bytes: [u8; 4], digits: &ByteDigits| {
        for (sum, digits) in sums.iter_mut().zip(digits) {
            *sum += bytes.iter().zip(digits).map(|(&byte, &digit)| i64::from(byte) * i64::from(digit)).sum::<i64>();
        }
    };
    let mut norm = 0;
    for (group, digits) in chunk.groups.chunks_exact(encoding.per_group()).enumerate() {
        let bytes = levels(blocks, chunk.first_group + group, row);
        add(bytes, &digits[0]);
        let [a, b, c, d] = bytes;
        match encoding {
            ByteGroupEncoding::Norm => norm += bytes.map(|y| i64::from(y) * (i64::from(y) - 128)).iter().sum::<i64>(),
            ByteGroupEncoding::WordNorm => {
                norm += [[a, b], [c, d]].map(|y| i64::from(u16::from_le_bytes(y)).pow(2)).iter().sum::<i64>();
            }
            ByteGroupEncoding::Squares => {
                let squares = bytes.map(|y| (u16::from(y) * u16::from(y)).to_le_bytes());
                add(squares.map(|[low, _]| low), &digits[1]);
                add(squares.map(|[_, high]| high), &digits[2]);
            }
            ByteGroupEncoding::Planes | ByteGroupEncoding::Bytes => {}
        }
    }
    for (plane, digits) in &chunk.planes {
        add(planes.words[plane * planes.stride + row].to_le_bytes(), digits);
    }
    sums[0] += norm;
    let fit = |two: &[i64]| (two[0] + 256 * two[1]).unsigned_abs() < 1 << 31;
    debug_assert!(sums.chunks_exact(2).all(fit), "two adjacent limbs of a plan fit 32 bits");
    sums.iter().rev().fold(0, |value, &sum| 256 * value + i128::from(sum))
}

pub(crate) fn look_up(tables: &PlaneTables, blocks: Blocks<'_>, low: &mut [u32], high: &mut [u32]) {
    for row in 0..low.len() {
        let mut sum = u128::from(tables.constant);
        for (group, planes) in tables.groups.chunks_exact(tables.planes).enumerate() {
            for (feature, level) in levels(blocks, group, row).into_iter().enumerate() {
                let entry = planes
                    .iter()
                    .rev()
                    .fold(0u64, |entry, four| entry << 8 | u64::from(four[feature][usize::from(level)]));
                sum += u128::from(entry);
            }
        }
        store((sum % u128::from(tables.q)) as u64, row, low, high);
    }
}

/// The four bytes of a row in one group.
fn levels(blocks: Blocks<'_>, group: usize, row: usize) -> [u8; GROUP_BYTES] {
    let at = row / BLOCK_ROWS * blocks.block_bytes + (group * BLOCK_ROWS + row % BLOCK_ROWS) * GROUP_BYTES;
    std::array::from_fn(|byte| blocks.bytes[at + byte])
}

fn store(value: u64, row: usize, low: &mut [u32], high: &mut [u32]) {
    low[row] = value as u32;
    if let Some(high) = high.get_mut(row) {
        *high = (value >> 32) as u32;
    }
}
