//! The tile program: a straight-line program that computes the outputs of a job for a tile of rows.
//!
//! A register holds one field element for every row of the tile. It is stored as one plane of
//! 32-bit words if q is narrow (see [`Width`]), else as a plane of low words and a plane of high
//! words. Every step fills one register.
//!
//! Every output of [`ifonly_algebra::row_function`] is `constant + Σ factor·register`. The
//! registers are row function values, keyed random streams, row shares, and products of two
//! registers. A program therefore fills the streams, evaluates the row functions, multiplies, and
//! ends with one [`Dot`](crate::dot::limbs16::Dot) per output. A row function that only one output
//! uses is evaluated inside that final dot product, with the pads as further groups.
//!
//! In a shuffled answer the row function values come from a buffer ([`Gathered`]). The rest of the
//! program is the same.

mod compile;
mod output;

use crate::backend::{Blocks, Kernels, Planes};
use crate::dot::limbs8::ByteDot;
use crate::dot::limbs16::{AnyDot, Width};
use crate::dot::lookup::LookupTables;
use crate::keystream_planes;
use crate::keystream_planes::KeyBytes;
use crate::row_store::{BLOCK_ROWS, RowStore};
use compile::Compiler;
use ifonly_algebra::field::{Field, FieldElement};
use ifonly_algebra::keys::{FieldElementStream, KeyedRowRandomness};
use ifonly_algebra::row_function::{OutputExpr, RowFunction, ScanJob};
use std::ops::Range;

/// Row function values in the order of the answer, from position `first` on. For each position the
/// values of all used row functions are adjacent, [`Width::planes`] words each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gathered<'a> {
    pub(crate) values: &'a [u32],
    pub(crate) first: usize,
}

impl Gathered<'_> {
    /// The end of the readable positions. `step` is the number of words per position.
    fn end(self, step: usize) -> usize {
        self.first + self.values.len() / step
    }

    /// Reads word `word` of the `step` words of each position in `wanted`.
    fn read(self, wanted: Range<usize>, word: usize, step: usize, out: &mut [u32]) {
        let values = &self.values[(wanted.start - self.first) * step..(wanted.end - self.first) * step];
        if step == 1 {
            out[..values.len()].copy_from_slice(values);
        } else {
            out.iter_mut().zip(values.chunks_exact(step)).for_each(|(out, row)| *out = row[word]);
        }
    }
}

/// The program of one job.
#[derive(Debug)]
pub(crate) struct TileProgram<'a> {
    kernels: &'static dyn Kernels,
    width: Width,
    field: &'a Field,
    store: &'a RowStore,
    /// Step i fills register i.
    steps: Vec<Step<'a>>,
    /// The registers of the outputs.
    outputs: Vec<usize>,
}

#[derive(Debug)]
enum Step<'a> {
    Stream(&'a FieldElementStream),
    RowShares(&'a [FieldElement]),
    Dot(AnyDot),
    /// A dot product in byte limbs.
    ByteDot(ByteDot),
    /// If the tables are for two row functions, the step also keeps the values of the second.
    Tables(LookupTables),
    /// The second row function of the tables in the preceding step.
    SecondOfTables,
    /// Direct evaluation, for databases with fewer levels than the tables would have entries.
    Directly(&'a RowFunction),
    /// The row function at the following row.
    Next {
        function: &'a RowFunction,
        current: usize,
    },
    Gather {
        /// Which of the `values` of each position.
        value: usize,
        values: usize,
        shift: usize,
    },
    /// `a·b`, or `a·b/2^32` if narrow (a Montgomery product).
    Product {
        a: usize,
        b: usize,
    },
}

/// Working memory of a tile, reused for the next tile.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    words: Vec<u32>,
    key: KeyBytes,
    levels: Vec<u16>,
    /// Sums of table entries; later, field elements of two words.
    long_words: Vec<u64>,
    /// Field elements of several outputs, row by row.
    elements: Vec<u32>,
}

/// The row functions that the outputs use, each once, in ascending order.
pub(crate) fn used_functions(job: &ScanJob<'_>) -> Vec<usize> {
    let mut used: Vec<usize> = job.program.outputs.iter().flat_map(functions_of).collect();
    used.sort_unstable();
    used.dedup();
    used
}

fn functions_of(output: &OutputExpr) -> Vec<usize> {
    match *output {
        OutputExpr::Plain(function)
        | OutputExpr::Masked { function, .. }
        | OutputExpr::Difference(function)
        | OutputExpr::Blinded(function) => {
            vec![function]
        }
        OutputExpr::Hidden { cost, gate } => vec![cost, gate],
        OutputExpr::Selected { square, linear, .. } => vec![square, linear],
    }
}

impl<'a> TileProgram<'a> {
    /// The program whose outputs are the values of all used row functions, without randomness: the
    /// first pass of a shuffled answer.
    pub(crate) fn values(kernels: &'static dyn Kernels, store: &'a RowStore, job: &ScanJob<'a>) -> Self {
        let mut compiler = Compiler::new(kernels, store, job, false);
        let outputs = used_functions(job).into_iter().map(|function| compiler.function(function)).collect();
        compiler.finish(outputs)
    }

    /// The program of the answer, in stored order or from [`Gathered`] values.
    pub(crate) fn answer(
        kernels: &'static dyn Kernels,
        store: &'a RowStore,
        job: &ScanJob<'a>,
        keys: &'a KeyedRowRandomness,
        is_gathered: bool,
    ) -> Self {
        let mut compiler = Compiler::new(kernels, store, job, is_gathered);
        // All streams come first, because a step may read only earlier registers.
        let outputs = job.program.outputs.iter().enumerate();
        let terms: Vec<_> = outputs.map(|(index, output)| compiler.output(index, output, keys)).collect();
        let outputs = terms.into_iter().map(|terms| compiler.finish_output(terms)).collect();
        compiler.finish(outputs)
    }

    /// Runs the program for the rows or positions `first..first + rows`. `first` must be a multiple
    /// of 64.
    pub(crate) fn run(&self, first: usize, rows: usize, gathered: Option<Gathered<'_>>, scratch: &mut Scratch) {
        let stride = rows.next_multiple_of(BLOCK_ROWS);
        let planes = self.width.planes();
        let Scratch { words, key, levels, long_words, .. } = scratch;
        let kernels = self.kernels;
        if rows < stride {
            // Values of an earlier tile beyond the last row might not be reduced.
            words.clear();
        }
        words.resize(self.steps.len() * planes * stride, 0);
        let blocks = blocks_of(self.store, first, stride);
        for (to, step) in self.steps.iter().enumerate() {
            let (done, rest) = words.split_at_mut(to * planes * stride);
            let out = &mut rest[..planes * stride];
            let register = |n: usize| &done[n * planes * stride..(n + 1) * planes * stride];
            match step {
                Step::Stream(stream) => keystream_planes::fill(kernels, self.width, stream, first, key, out),
                Step::Dot(dot) => kernels.dot(dot, blocks, Planes { words: done, stride }, out),
                Step::ByteDot(dot) => kernels.byte_dot(dot, blocks, Planes { words: done, stride }, out),
                Step::Tables(tables) => {
                    let (low, high) = out.split_at_mut(stride);
                    tables.evaluate(kernels, blocks, low, high, long_words);
                }
                Step::SecondOfTables => {
                    out.iter_mut().zip(&*long_words).for_each(|(out, sums)| *out = (sums >> 32) as u32);
                }
                Step::RowShares(shares) => {
                    for row in 0..rows {
                        put(out, stride, row, shares[first + row].value());
                    }
                }
                Step::Directly(function) => {
                    for row in 0..rows {
                        self.store.read_row(first + row, levels);
                        put(out, stride, row, function.evaluate(self.field, levels).value());
                    }
                }
                Step::Next { function, current } => {
                    let current = register(*current);
                    for (out, current) in out.chunks_mut(stride).zip(current.chunks(stride)) {
                        out[..rows - 1].copy_from_slice(&current[1..rows]);
                    }
                    if first + rows < self.store.rows() {
                        self.store.read_row(first + rows, levels);
                        put(out, stride, rows - 1, function.evaluate(self.field, levels).value());
                    }
                }
                Step::Gather { value, values, shift } => {
                    let Some(gathered) = gathered else { continue };
                    let wanted = first + shift..(first + rows + shift).min(gathered.end(values * planes));
                    for (plane, out) in out.chunks_mut(stride).enumerate() {
                        gathered.read(wanted.clone(), value * planes + plane, values * planes, out);
                    }
                }
                Step::Product { a, b } if self.width == Width::Narrow => {
                    kernels.montgomery_products(self.field.q() as u32, register(*a), register(*b), out);
                }
                Step::Product { a, b } => {
                    let (a, b) = (register(*a), register(*b));
                    for row in 0..rows {
                        put(
                            out,
                            stride,
                            row,
                            self.field.mul(self.get(a, stride, row), self.get(b, stride, row)).value(),
                        );
                    }
                }
            }
        }
    }

    fn get(&self, register: &[u32], stride: usize, row: usize) -> FieldElement {
        let value = u64::from(register[row]) | u64::from(register[stride + row]) << 32;
        self.field.element(value).expect("registers of a tile are reduced")
    }
}

/// The blocks of `rows` rows from row `first` on. Both are multiples of the block length.
fn blocks_of(store: &RowStore, first: usize, rows: usize) -> Blocks<'_> {
    let block_bytes = store.block_bytes();
    // Empty beyond the end of the store, where gathered values come from other stores.
    let data = store.data().get(first / BLOCK_ROWS * block_bytes..).unwrap_or(&[]);
    Blocks { bytes: &data[..data.len().min(rows / BLOCK_ROWS * block_bytes)], block_bytes }
}

fn put(register: &mut [u32], stride: usize, row: usize, value: u64) {
    register[row] = value as u32;
    if let Some(high) = register.get_mut(stride + row) {
        *high = (value >> 32) as u32;
    }
}
