//! Forms by look-up: `Σ_k T_k[y_k]`, for tables and for every other form that the dot kernels do not take.
//!
//! Feature groups are the outer loop and the rows of a tile the inner one, so that the tables of one group stay in the
//! first-level cache while a tile passes. Sums are reduced once per row where the field leaves room for that.

use crate::backend::{Blocks, Kernels};
use crate::store::{BLOCK_ROWS, GROUP_BYTES, LevelBytes, RowStore};
use ifonly_core::field::{Field, Symbol};
use ifonly_core::form::{Form, Shape};

/// The tables of one form.
#[derive(Clone, Debug)]
pub(crate) struct Tables {
    q: u64,
    constant: u64,
    entries: Entries,
}

#[derive(Clone, Debug)]
enum Entries {
    /// One byte per level, and the sum of a row fits 32 bits.
    Bytes32(Vec<[[u32; 256]; 4]>),
    /// One byte per level.
    Bytes64(Vec<[[u64; 256]; 4]>),
    /// Two bytes per level, one table per feature.
    Words(Vec<Vec<u64>>),
    /// One byte per level, where a kernel looks bytes up.
    Planes(PlaneTables),
}

/// The tables of four features, for one byte of their entries.
pub(crate) type FourTables = [[u8; 256]; 4];
/// Rows of more features than this go another way: their sums would not fit.
const MOST_PLANE_FEATURES: usize = 4096;

/// Tables of one-byte levels, each byte of the entries in a table of its own.
#[derive(Clone, Debug)]
pub(crate) struct PlaneTables {
    pub(crate) q: u64,
    pub(crate) constant: u64,
    /// Bytes of an entry.
    pub(crate) planes: usize,
    /// For each group of four features, all planes, the lowest first.
    pub(crate) groups: Vec<FourTables>,
}

impl PlaneTables {
    fn new(field: &Field, constant: Symbol, columns: impl Iterator<Item = Vec<u64>>) -> PlaneTables {
        let planes = (field.bits() as usize).div_ceil(8);
        let mut groups = vec![];
        for (k, column) in columns.enumerate() {
            if k % 4 == 0 {
                groups.resize(groups.len() + planes, [[0; 256]; 4]);
            }
            for (level, value) in column.into_iter().enumerate() {
                for (plane, &byte) in value.to_le_bytes()[..planes].iter().enumerate() {
                    groups[k / 4 * planes + plane][k % 4][level] = byte;
                }
            }
        }
        PlaneTables { q: field.q(), constant: constant.value(), planes, groups }
    }
}

impl Tables {
    /// The tables of `form` for the features of `store`.
    pub(crate) fn new(kernels: Kernels, field: &Field, store: &RowStore, form: &Form) -> Tables {
        let column = |k: usize| -> Vec<u64> {
            (0..=store.ranges()[k]).map(|y| feature_value(field, &form.shape, k, y as u16).value()).collect()
        };
        let columns = (0..store.features()).map(column);
        let sum_fits = |bits: u32| field.q() as u128 * (store.features() as u128 + 1) < 1 << bits;
        let planes = kernels.multiplies_bytes() && store.features() <= MOST_PLANE_FEATURES;
        let entries = match store.level_bytes() {
            LevelBytes::One if planes => Entries::Planes(PlaneTables::new(field, form.constant, columns)),
            LevelBytes::One if sum_fits(32) => Entries::Bytes32(grouped(columns, |value| value as u32)),
            LevelBytes::One => Entries::Bytes64(grouped(columns, |value| value)),
            LevelBytes::Two => Entries::Words(columns.collect()),
        };
        Tables { q: field.q(), constant: form.constant.value(), entries }
    }

    /// The form for the rows `0..low.len()`, the lower and (if `high` is not empty) the upper 32 bits apart.
    pub(crate) fn evaluate(&self, kernels: Kernels, blocks: Blocks<'_>, low: &mut [u32], high: &mut [u32]) {
        let rows = low.len();
        match &self.entries {
            Entries::Bytes32(groups) => {
                low.fill(self.constant as u32);
                high.fill(0);
                for (group, tables) in groups.iter().enumerate() {
                    let start = group * BLOCK_ROWS * GROUP_BYTES;
                    for (block, sums) in blocks.bytes.chunks_exact(blocks.block_bytes).zip(low.chunks_mut(BLOCK_ROWS)) {
                        let levels = block[start..start + BLOCK_ROWS * GROUP_BYTES].as_chunks().0;
                        kernels.add_looked_up(levels, tables, sums);
                    }
                }
                let barrett = self.barrett();
                for sum in low.iter_mut() {
                    *sum = self.reduce(u64::from(*sum), barrett) as u32;
                }
            }
            Entries::Planes(tables) => kernels.look_up(tables, blocks, low, high),
            Entries::Bytes64(groups) => {
                let mut sums = vec![self.constant; rows];
                for (group, tables) in groups.iter().enumerate() {
                    // Reduced sums, so that four terms below 2^62 fit with room for none more.
                    for_rows(blocks, group, &mut sums, |sum, [a, b, c, d]| {
                        let first = self.add(tables[0][a], tables[1][b]);
                        let second = self.add(tables[2][c], tables[3][d]);
                        *sum = self.add(*sum, self.add(first, second));
                    });
                }
                split(&sums, low, high);
            }
            Entries::Words(tables) => {
                let mut sums = vec![self.constant; rows];
                for (group, tables) in tables.chunks(2).enumerate() {
                    for_rows(blocks, group, &mut sums, |sum, [a, b, c, d]| {
                        for (table, level) in tables.iter().zip([a | b << 8, c | d << 8]) {
                            // Levels were checked against their ranges when the rows were loaded.
                            *sum = self.add(*sum, table.get(level).copied().unwrap_or(0));
                        }
                    });
                }
                split(&sums, low, high);
            }
        }
    }

    fn add(&self, a: u64, b: u64) -> u64 {
        let sum = a + b;
        sum.min(sum.wrapping_sub(self.q))
    }

    fn barrett(&self) -> u64 {
        ((1u128 << 64) / u128::from(self.q)) as u64
    }

    /// The quotient by `⌊2^64/q⌋` is right or one too small.
    fn reduce(&self, sum: u64, barrett: u64) -> u64 {
        let quotient = ((u128::from(sum) * u128::from(barrett)) >> 64) as u64;
        let rest = sum - quotient * self.q;
        rest.min(rest.wrapping_sub(self.q))
    }
}

/// `f_k(y)`.
fn feature_value(field: &Field, shape: &Shape, k: usize, y: u16) -> Symbol {
    let level = field.reduce(u64::from(y));
    match shape {
        Shape::Linear { norm, slope } => field.mul(level, field.mul_add(*norm, level, slope[k])),
        Shape::Polynomial(coefficients) => {
            coefficients.iter().rev().fold(Symbol::ZERO, |value, degree| field.mul(field.add(value, degree[k]), level))
        }
        Shape::Table(tables) => tables[k].get(usize::from(y)).copied().unwrap_or_default(),
    }
}

/// Four columns at a time, each padded with zeros to 256 entries.
fn grouped<E: Copy + Default>(columns: impl Iterator<Item = Vec<u64>>, entry: impl Fn(u64) -> E) -> Vec<[[E; 256]; 4]> {
    let mut groups = vec![];
    for (k, column) in columns.enumerate() {
        if k % 4 == 0 {
            groups.push([[E::default(); 256]; 4]);
        }
        for (place, value) in groups[k / 4][k % 4].iter_mut().zip(column) {
            *place = entry(value);
        }
    }
    groups
}

/// Calls `add` with the sum and the four bytes of every row in one group.
fn for_rows<S>(blocks: Blocks<'_>, group: usize, sums: &mut [S], add: impl Fn(&mut S, [usize; 4])) {
    let start = group * BLOCK_ROWS * GROUP_BYTES;
    for (block, sums) in blocks.bytes.chunks_exact(blocks.block_bytes).zip(sums.chunks_mut(BLOCK_ROWS)) {
        let rows = block[start..start + BLOCK_ROWS * GROUP_BYTES].as_chunks::<GROUP_BYTES>().0;
        for (sum, &bytes) in sums.iter_mut().zip(rows) {
            add(sum, bytes.map(usize::from));
        }
    }
}

fn split(sums: &[u64], low: &mut [u32], high: &mut [u32]) {
    for (low, &sum) in low.iter_mut().zip(sums) {
        *low = sum as u32;
    }
    for (high, &sum) in high.iter_mut().zip(sums) {
        *high = (sum >> 32) as u32;
    }
}
