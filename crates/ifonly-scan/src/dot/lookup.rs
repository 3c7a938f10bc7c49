//! Row functions by look-up tables: `Σ_k T_k[y_k]`, for tables and for every other row function
//! that the dot kernels do not support.
//!
//! Feature groups are the outer loop and the rows of a tile the inner loop, so that the tables of a
//! few groups stay in the first-level cache for a whole tile. Two row functions over the same rows,
//! such as a cost and its gate, are looked up together: an entry holds both values. Sums of 32 bits
//! are not reduced here, because the next step (a dot product or a Montgomery product) accepts any
//! word and reduces.

use crate::backend::{Blocks, Kernels};
use crate::row_store::{BLOCK_ROWS, GROUP_BYTES, LevelBytes, RowStore};
use ifonly_algebra::field::{Field, FieldElement};
use ifonly_algebra::row_function::{RowFunction, RowFunctionKind};

/// The tables of one row function, or of two.
#[derive(Clone, Debug)]
pub(crate) struct LookupTables {
    q: u64,
    entries: Entries,
}

#[derive(Clone, Debug)]
enum Entries {
    /// One byte per level; the sum of a row fits 32 bits.
    One(Lookups<u32>),
    /// The same for two row functions, the second in the upper half of an entry.
    Two(Lookups<u64>),
    /// One byte per level.
    Long(Lookups<u64>),
    /// Two bytes per level, one table per feature.
    Words { start: u64, columns: Vec<Vec<u64>> },
    /// One byte per level, for kernels that look up single bytes.
    Planes(PlaneTables),
}

/// Tables of one-byte levels, one entry per level.
#[derive(Clone, Debug)]
struct Lookups<E> {
    start: E,
    /// Each element has the tables of two feature groups.
    pairs: Vec<[[E; 256]; 2 * GROUP_BYTES]>,
}

/// The tables of four features, for one byte of their entries.
pub(crate) type FourTables = [[u8; 256]; 4];
/// The largest number of features for [`PlaneTables`]. The sums of longer rows would overflow.
const MAX_PLANE_FEATURES: usize = 4096;

/// Tables of one-byte levels with a separate table for each byte of the entries.
#[derive(Clone, Debug)]
pub(crate) struct PlaneTables {
    pub(crate) q: u64,
    pub(crate) constant: u64,
    /// Bytes of an entry.
    pub(crate) planes: usize,
    /// For each group of four features, the tables of all bytes, the lowest first.
    pub(crate) groups: Vec<FourTables>,
}

impl PlaneTables {
    fn new(field: &Field, constant: FieldElement, columns: impl Iterator<Item = Vec<u64>>) -> PlaneTables {
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

impl LookupTables {
    /// The tables of `function` for the features of `store`.
    pub(crate) fn new(kernels: &dyn Kernels, field: &Field, store: &RowStore, function: &RowFunction) -> LookupTables {
        let columns = columns(field, store, function);
        let start = function.constant.value();
        let planes = kernels.prefers_bytes() && store.features() <= MAX_PLANE_FEATURES;
        let entries = match store.level_bytes() {
            LevelBytes::One if planes => Entries::Planes(PlaneTables::new(field, function.constant, columns)),
            LevelBytes::One if sums_fit(field, store) => {
                Entries::One(Lookups::new(start as u32, columns, |value| value as u32))
            }
            LevelBytes::One => Entries::Long(Lookups::new(start, columns, |value| value)),
            LevelBytes::Two => Entries::Words { start, columns: columns.collect() },
        };
        LookupTables { q: field.q(), entries }
    }

    /// The tables of two row functions together, if that is faster than separate tables.
    pub(crate) fn of_two(
        kernels: &dyn Kernels,
        field: &Field,
        store: &RowStore,
        functions: [&RowFunction; 2],
    ) -> Option<LookupTables> {
        if kernels.prefers_bytes() || store.level_bytes() == LevelBytes::Two || !sums_fit(field, store) {
            return None;
        }
        let [first, second] = functions.map(|function| columns(field, store, function));
        let both = |first: u64, second: u64| first | second << 32;
        let columns = first
            .zip(second)
            .map(|(first, second)| first.into_iter().zip(second).map(|(first, second)| both(first, second)).collect());
        let start = both(functions[0].constant.value(), functions[1].constant.value());
        Some(LookupTables { q: field.q(), entries: Entries::Two(Lookups::new(start, columns, |value| value)) })
    }

    /// Evaluates the tables for the rows `0..low.len()`. The lower 32 bits go to `low`, the upper
    /// to `high` unless that is empty. The values are reduced if `high` is not empty. The values of
    /// a second row function stay in the upper halves of `sums`.
    pub(crate) fn evaluate(
        &self,
        kernels: &dyn Kernels,
        blocks: Blocks<'_>,
        low: &mut [u32],
        high: &mut [u32],
        sums: &mut Vec<u64>,
    ) {
        match &self.entries {
            Entries::One(lookups) => {
                lookups.sum_into(blocks, low);
                high.fill(0);
                if !high.is_empty() {
                    low.iter_mut().for_each(|sum| *sum = (u64::from(*sum) % self.q) as u32);
                }
            }
            Entries::Two(lookups) => {
                sums.resize(low.len(), 0);
                lookups.sum_into(blocks, sums);
                split(sums, low, &mut []);
            }
            Entries::Planes(tables) => kernels.look_up(tables, blocks, low, high),
            Entries::Long(lookups) => {
                start_from(lookups.start, low.len(), sums);
                for (pair, tables) in lookups.pairs.iter().enumerate() {
                    for (group, tables) in tables.as_chunks::<GROUP_BYTES>().0.iter().enumerate() {
                        // Every sum is reduced, because four terms below 2^62 would fill 64 bits.
                        for_rows(blocks, 2 * pair + group, sums, |sum, [a, b, c, d]| {
                            let first = self.add(tables[0][a], tables[1][b]);
                            let second = self.add(tables[2][c], tables[3][d]);
                            *sum = self.add(*sum, self.add(first, second));
                        });
                    }
                }
                split(sums, low, high);
            }
            Entries::Words { start, columns } => {
                start_from(*start, low.len(), sums);
                for (group, tables) in columns.chunks(2).enumerate() {
                    for_rows(blocks, group, sums, |sum, [a, b, c, d]| {
                        for (table, level) in tables.iter().zip([a | b << 8, c | d << 8]) {
                            // Levels were checked against their max levels when the rows were
                            // loaded.
                            *sum = self.add(*sum, table.get(level).copied().unwrap_or(0));
                        }
                    });
                }
                split(sums, low, high);
            }
        }
    }

    fn add(&self, a: u64, b: u64) -> u64 {
        let sum = a + b;
        sum.min(sum.wrapping_sub(self.q))
    }
}

/// Whether the sum of a row, including the constant, fits 32 bits.
fn sums_fit(field: &Field, store: &RowStore) -> bool {
    u128::from(field.q()) * (store.features() as u128 + 1) < 1 << 32
}

/// For each feature, the value of the row function at every level.
fn columns(field: &Field, store: &RowStore, function: &RowFunction) -> impl Iterator<Item = Vec<u64>> {
    let levels = |k: usize| 0..=store.max_levels()[k];
    (0..store.features())
        .map(move |k| levels(k).map(|y| feature_value(field, &function.kind, k, y as u16).value()).collect())
}

impl<E: Copy + Default + std::ops::Add<Output = E>> Lookups<E> {
    fn new(start: E, columns: impl Iterator<Item = Vec<u64>>, entry: impl Fn(u64) -> E) -> Lookups<E> {
        let mut pairs = vec![];
        for (k, column) in columns.enumerate() {
            if k % (2 * GROUP_BYTES) == 0 {
                pairs.push([[E::default(); 256]; 2 * GROUP_BYTES]);
            }
            let tables = pairs.last_mut().expect("a table was pushed for the first feature");
            for (slot, value) in tables[k % (2 * GROUP_BYTES)].iter_mut().zip(column) {
                *slot = entry(value);
            }
        }
        Lookups { start, pairs }
    }

    /// Computes the sum of the entries of every row.
    fn sum_into(&self, blocks: Blocks<'_>, sums: &mut [E]) {
        let group_bytes = BLOCK_ROWS * GROUP_BYTES;
        sums.fill(self.start);
        for (pair, tables) in self.pairs.iter().enumerate() {
            let start = 2 * pair * group_bytes;
            for (block, sums) in blocks.bytes.chunks_exact(blocks.block_bytes).zip(sums.chunks_mut(BLOCK_ROWS)) {
                // The same groups of the next tile: the hardware prefetcher does not predict this
                // stride.
                prefetch(block[start..].as_ptr().wrapping_add(blocks.bytes.len()), 2 * group_bytes);
                let first = block[start..start + group_bytes].as_chunks().0;
                // If the last group has no partner, the second half of its tables is zero for every
                // level.
                let second = block.get(start + group_bytes..start + 2 * group_bytes).map_or(first, |b| b.as_chunks().0);
                add_looked_up([first, second], tables, sums);
            }
        }
    }
}

/// Adds the entries of eight levels to the sum of each row.
fn add_looked_up<E: Copy + std::ops::Add<Output = E>>(
    levels: [&[[u8; GROUP_BYTES]]; 2],
    tables: &[[E; 256]; 2 * GROUP_BYTES],
    sums: &mut [E],
) {
    let [first, second] = levels;
    for ((sum, first), second) in sums.iter_mut().zip(first).zip(second) {
        let words = [opaque(u32::from_le_bytes(*first)), opaque(u32::from_le_bytes(*second))];
        for (table, entries) in tables.iter().enumerate() {
            *sum = *sum + entries[usize::from((words[table / 4] >> (8 * (table % 4))) as u8)];
        }
    }
}

/// Prefetches bytes that will be read soon. The address need not be valid.
fn prefetch(from: *const u8, length: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in (0..length).step_by(64) {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: a prefetch accepts any address, and every x86-64 machine supports it.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(from.wrapping_add(line).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (from, length);
}

/// Returns the same word but hides its origin from the compiler. The compiler would otherwise build
/// vectors from single entries, which takes longer than adding the entries.
fn opaque(word: u32) -> u32 {
    #[cfg(target_arch = "x86_64")]
    {
        let mut word = word;
        // SAFETY: the assembly is a comment without instructions.
        unsafe { std::arch::asm!("/* {0:e} */", inout(reg) word, options(pure, nomem, nostack, preserves_flags)) };
        word
    }
    #[cfg(not(target_arch = "x86_64"))]
    std::hint::black_box(word)
}

/// `f_k(y)`.
fn feature_value(field: &Field, shape: &RowFunctionKind, k: usize, y: u16) -> FieldElement {
    let level = field.reduce(u64::from(y));
    match shape {
        RowFunctionKind::Linear { norm, slope } => field.mul(level, field.mul_add(*norm, level, slope[k])),
        RowFunctionKind::Polynomial(coefficients) => coefficients
            .iter()
            .rev()
            .fold(FieldElement::ZERO, |value, degree| field.mul(field.add(value, degree[k]), level)),
        RowFunctionKind::Table(tables) => tables[k].get(usize::from(y)).copied().unwrap_or_default(),
    }
}

/// Calls `add` with the sum and the four bytes of every row in one group.
fn for_rows<S>(blocks: Blocks<'_>, group: usize, sums: &mut [S], add: impl Fn(&mut S, [usize; 4])) {
    let start = group * BLOCK_ROWS * GROUP_BYTES;
    for (block, sums) in blocks.bytes.chunks_exact(blocks.block_bytes).zip(sums.chunks_mut(BLOCK_ROWS)) {
        // The last group may have no partner in its pair.
        let Some(rows) = block.get(start..start + BLOCK_ROWS * GROUP_BYTES) else { return };
        let rows = rows.as_chunks::<GROUP_BYTES>().0;
        for (sum, &bytes) in sums.iter_mut().zip(rows) {
            add(sum, bytes.map(usize::from));
        }
    }
}

fn start_from(start: u64, rows: usize, sums: &mut Vec<u64>) {
    sums.clear();
    sums.resize(rows, start);
}

fn split(sums: &[u64], low: &mut [u32], high: &mut [u32]) {
    for (low, &sum) in low.iter_mut().zip(sums) {
        *low = sum as u32;
    }
    for (high, &sum) in high.iter_mut().zip(sums) {
        *high = (sum >> 32) as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Backend;
    use crate::dot::limbs16::Width;
    use ifonly_algebra::field::ModulusRule;
    use ifonly_algebra::random::{RandomSource, SeededRandom};

    #[test]
    fn byte_look_ups_equal_the_row_function_on_every_backend() {
        let mut random = SeededRandom::new(15);
        for bits in [5, 8, 21, 31, 40, 62] {
            let field = Field::above((1 << (bits - 1)) + 1, ModulusRule::Deployment).unwrap();
            for max_levels in [vec![255; 9], vec![3; 4], vec![255, 0, 7]] {
                let mut row = || max_levels.iter().map(|&level| random.below(u64::from(level) + 1) as u16).collect();
                let rows: Vec<Vec<u16>> = (0..130).map(|_| row()).collect();
                let store = RowStore::build(&max_levels, &rows).unwrap();
                let mut elements = |max_level: &u32| (0..=*max_level).map(|_| field.sample(&mut random)).collect();
                let kind = RowFunctionKind::Table(max_levels.iter().map(&mut elements).collect());
                let function = RowFunction { kind, constant: field.neg(FieldElement::ONE) };
                let tables = PlaneTables::new(&field, function.constant, columns(&field, &store, &function));
                let blocks = Blocks { bytes: store.data(), block_bytes: store.block_bytes() };
                for backend in Backend::available() {
                    let mut words = vec![7; Width::of(&field).planes() * 192];
                    let (low, high) = words.split_at_mut(192);
                    backend.kernels().look_up(&tables, blocks, low, high);
                    for (row, levels) in rows.iter().enumerate() {
                        let value = u64::from(low[row]) | high.get(row).map_or(0, |&high| u64::from(high) << 32);
                        assert_eq!(
                            value,
                            function.evaluate(&field, levels).value(),
                            "{backend}, {bits} bits, row {row}"
                        );
                    }
                }
            }
        }
    }
}
