//! What happens to a tile of rows: a short straight-line program over numbers that stand beside the
//! rows.
//!
//! Every output of [`ifonly_algebra::row_function`] is `constant + Σ factor·number`, where the
//! numbers are form values, keyed streams, row shares and products of two numbers. So a tile first
//! fills the streams, then evaluates the forms, then multiplies, and ends with one [`Dot`] per
//! output; a form that only one output uses is part of that last dot product, and its pads ride
//! along as further feature groups. For a shuffled answer the form values come from a buffer,
//! picked in the order's positions, and the rest is the same program.

mod compile;
mod output;
mod pair;

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
pub(crate) use pair::{Norms, run_pair};
use std::ops::Range;

/// Form values of all rows, or of the positions that a tile needs: `planes` words per used form,
/// all forms of a row together.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Gathered<'a> {
    /// In stored order, and where each position finds its row.
    Picked { values: &'a [u32], order: &'a [u32] },
    /// In the order of positions, from one of them on.
    Moved { values: &'a [u32], first: usize },
}

impl Gathered<'_> {
    /// Behind the last position that can be read, of those that come `step` words each.
    fn end(self, step: usize) -> usize {
        match self {
            Gathered::Picked { order, .. } => order.len(),
            Gathered::Moved { values, first } => first + values.len() / step,
        }
    }

    /// Word `place` of the `step` words of each wanted position.
    fn read(self, wanted: Range<usize>, place: usize, step: usize, out: &mut [u32]) {
        match self {
            Gathered::Picked { values, order } => {
                for (out, &row) in out.iter_mut().zip(&order[wanted]) {
                    *out = values[row as usize * step + place];
                }
            }
            Gathered::Moved { values, first } => {
                let values = &values[(wanted.start - first) * step..(wanted.end - first) * step];
                if step == 1 {
                    out[..values.len()].copy_from_slice(values);
                } else {
                    out.iter_mut().zip(values.chunks_exact(step)).for_each(|(out, row)| *out = row[place]);
                }
            }
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
    /// Each makes one number.
    steps: Vec<Step<'a>>,
    /// Which numbers are the outputs.
    outputs: Vec<usize>,
}

#[derive(Debug)]
enum Step<'a> {
    Stream(&'a FieldElementStream),
    RowShares(&'a [FieldElement]),
    Dot(AnyDot),
    /// The same where bytes are multiplied with bytes.
    ByteDot(ByteDot),
    /// Also the values of a second form, if the tables are of two.
    Tables(LookupTables),
    /// The second form of the tables in the step before.
    SecondOfTables,
    /// For databases smaller than the tables would be.
    Directly(&'a RowFunction),
    /// The form at the following row.
    Next {
        function: &'a RowFunction,
        this: usize,
    },
    Gather {
        slot: usize,
        slots: usize,
        shift: usize,
    },
    /// `a·b`, over 2^32 if narrow.
    Product {
        a: usize,
        b: usize,
    },
}

/// Words of a tile, kept from tile to tile.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    words: Vec<u32>,
    key: KeyBytes,
    levels: Vec<u16>,
    /// Sums of table entries, then symbols of two words.
    long_words: Vec<u64>,
    /// Symbols of several outputs, row by row.
    elements: Vec<u32>,
}

/// The forms that the outputs use, each once.
pub(crate) fn used_forms(job: &ScanJob<'_>) -> Vec<usize> {
    let mut used: Vec<usize> = job.program.outputs.iter().flat_map(forms_of).collect();
    used.sort_unstable();
    used.dedup();
    used
}

fn forms_of(output: &OutputExpr) -> Vec<usize> {
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
    /// The values of all used forms as outputs, without any randomness: the first pass of a
    /// shuffled answer.
    pub(crate) fn values(kernels: &'static dyn Kernels, store: &'a RowStore, job: &ScanJob<'a>) -> Self {
        let mut compiler = Compiler::new(kernels, store, job, false);
        let outputs = used_forms(job).into_iter().map(|function| compiler.function(function)).collect();
        compiler.finish(outputs)
    }

    /// The answer in stored order, or from [`Gathered`] values.
    pub(crate) fn answer(
        kernels: &'static dyn Kernels,
        store: &'a RowStore,
        job: &ScanJob<'a>,
        keys: &'a KeyedRowRandomness,
        gathers: bool,
    ) -> Self {
        let mut compiler = Compiler::new(kernels, store, job, gathers);
        // All streams first: numbers may only depend on earlier ones.
        let outputs = job.program.outputs.iter().enumerate();
        let terms: Vec<_> = outputs.map(|(number, output)| compiler.output(number, output, keys)).collect();
        let outputs = terms.into_iter().map(|parts| compiler.mix(parts)).collect();
        compiler.finish(outputs)
    }

    /// Runs the rows or positions `first..first + rows`; `first` is a multiple of 64.
    pub(crate) fn run(&self, first: usize, rows: usize, gathered: Option<Gathered<'_>>, scratch: &mut Scratch) {
        self.run_steps(&self.steps, first, rows, gathered, scratch);
    }

    /// The first steps only.
    fn run_steps(
        &self,
        steps: &[Step<'a>],
        first: usize,
        rows: usize,
        gathered: Option<Gathered<'_>>,
        scratch: &mut Scratch,
    ) {
        let stride = rows.next_multiple_of(BLOCK_ROWS);
        let planes = self.width.planes();
        let Scratch { words, key, levels, long_words, .. } = scratch;
        let kernels = self.kernels;
        if rows < stride {
            // What an earlier tile left beyond the last row need not be reduced.
            words.clear();
        }
        words.resize(self.steps.len() * planes * stride, 0);
        let blocks = blocks_of(self.store, first, stride);
        for (to, step) in steps.iter().enumerate() {
            let (done, rest) = words.split_at_mut(to * planes * stride);
            let out = &mut rest[..planes * stride];
            let number = |n: usize| &done[n * planes * stride..(n + 1) * planes * stride];
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
                Step::Next { function, this } => {
                    let this = number(*this);
                    for (out, this) in out.chunks_mut(stride).zip(this.chunks(stride)) {
                        out[..rows - 1].copy_from_slice(&this[1..rows]);
                    }
                    if first + rows < self.store.rows() {
                        self.store.read_row(first + rows, levels);
                        put(out, stride, rows - 1, function.evaluate(self.field, levels).value());
                    }
                }
                Step::Gather { slot, slots, shift } => {
                    let Some(gathered) = gathered else { continue };
                    let wanted = first + shift..(first + rows + shift).min(gathered.end(slots * planes));
                    for (plane, out) in out.chunks_mut(stride).enumerate() {
                        gathered.read(wanted.clone(), slot * planes + plane, slots * planes, out);
                    }
                }
                Step::Product { a, b } if self.width == Width::Narrow => {
                    kernels.montgomery_products(self.field.q() as u32, number(*a), number(*b), out);
                }
                Step::Product { a, b } => {
                    let (a, b) = (number(*a), number(*b));
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

    fn get(&self, number: &[u32], stride: usize, row: usize) -> FieldElement {
        let value = u64::from(number[row]) | u64::from(number[stride + row]) << 32;
        self.field.element(value).expect("numbers of a tile are reduced")
    }
}

/// The blocks of `rows` rows from `first` on, both whole blocks.
fn blocks_of(store: &RowStore, first: usize, rows: usize) -> Blocks<'_> {
    let block_bytes = store.block_bytes();
    // Behind the end where values are gathered that come from other stores.
    let data = store.data().get(first / BLOCK_ROWS * block_bytes..).unwrap_or(&[]);
    Blocks { bytes: &data[..data.len().min(rows / BLOCK_ROWS * block_bytes)], block_bytes }
}

fn put(number: &mut [u32], stride: usize, row: usize, value: u64) {
    number[row] = value as u32;
    if let Some(high) = number.get_mut(stride + row) {
        *high = (value >> 32) as u32;
    }
}
