//! A query compiled for the rows: its tile program in the width of its field, and how a shuffled answer gets its order.

use crate::answer::Query;
use crate::backend::Kernels;
use crate::dot::{NARROW, WIDE};
use crate::pack;
use crate::store::RowStore;
use crate::tile::{Gathered, Scratch, TileProgram, used_forms};
use ifonly_core::order::{self, Shuffle};
use std::borrow::Cow;

/// A compiled query.
pub(crate) struct Plan<'a> {
    pub(crate) rows: usize,
    pub(crate) bits: u32,
    pub(crate) program: AnyProgram<'a>,
    /// The first pass of a shuffled answer, and its order.
    pub(crate) shuffle: Option<(AnyProgram<'a>, Order<'a>)>,
}

pub(crate) enum Order<'a> {
    /// Values are picked by it.
    Picked(Cow<'a, [u32]>),
    /// Values are brought into it.
    Moved(Box<Shuffle<'a>>),
}

impl<'a> Order<'a> {
    fn of(query: &Query<'a>, rows: usize, words: usize) -> Option<Order<'a>> {
        match (query.job.order, query.order_keys) {
            (Some(order), _) => Some(Order::Picked(Cow::Borrowed(order))),
            (None, Some(keys)) if matches!(words, 1 | 2 | 4) => Some(Order::Moved(Box::new(Shuffle::new(keys, rows)))),
            (None, Some(keys)) => Some(Order::Picked(Cow::Owned(order::permutation(keys, rows)))),
            (None, None) => None,
        }
    }
}

impl<'a> Plan<'a> {
    pub(crate) fn new(kernels: Kernels, store: &'a RowStore, query: &Query<'a>) -> Plan<'a> {
        let Query { job, keys, order_keys } = *query;
        let q = job.field.q();
        // Montgomery products need an odd q.
        let narrow = q < 1 << 31 && q % 2 == 1;
        let gathers = job.order.is_some() || order_keys.is_some();
        let program = if narrow {
            AnyProgram::Narrow(TileProgram::answer(kernels, store, job, keys, gathers))
        } else {
            AnyProgram::Wide(TileProgram::answer(kernels, store, job, keys, gathers))
        };
        let values = || match narrow {
            true => AnyProgram::Narrow(TileProgram::values(kernels, store, job)),
            false => AnyProgram::Wide(TileProgram::values(kernels, store, job)),
        };
        let words = used_forms(job).len() * if narrow { 1 } else { 2 };
        let shuffle = Order::of(query, store.rows(), words).map(|order| (values(), order));
        Plan { rows: job.program.answered_rows(store.rows()), bits: job.field.bits(), program, shuffle }
    }
}

impl<'a> Plan<'a> {
    /// The program, if it can be run together with another such one.
    pub(crate) fn pairs(&self) -> Option<&TileProgram<'a, NARROW>> {
        match &self.program {
            AnyProgram::Narrow(program) if self.shuffle.is_none() && program.pairs() => Some(program),
            _ => None,
        }
    }
}

pub(crate) enum AnyProgram<'a> {
    Narrow(TileProgram<'a, NARROW>),
    Wide(TileProgram<'a, WIDE>),
}

impl AnyProgram<'_> {
    pub(crate) fn outputs(&self) -> usize {
        match self {
            AnyProgram::Narrow(program) => program.outputs(),
            AnyProgram::Wide(program) => program.outputs(),
        }
    }

    pub(crate) fn words_per_row(&self) -> usize {
        match self {
            AnyProgram::Narrow(program) => program.outputs(),
            AnyProgram::Wide(program) => 2 * program.outputs(),
        }
    }

    /// Runs a tile.
    pub(crate) fn run(&self, first: usize, rows: usize, gathered: Option<Gathered<'_>>, scratch: &mut Scratch) {
        match self {
            AnyProgram::Narrow(program) => program.run(first, rows, gathered, scratch),
            AnyProgram::Wide(program) => program.run(first, rows, gathered, scratch),
        }
    }

    /// Packs the symbols of a tile that was run to the beginning of `packed`; what is behind them may be overwritten.
    pub(crate) fn pack(&self, kernels: Kernels, bits: u32, rows: usize, scratch: &Scratch, packed: &mut [u8]) {
        match self {
            AnyProgram::Narrow(program) => {
                if program.outputs() == 1 {
                    pack::pack_u32(kernels, bits, program.output(0, rows, scratch).0, packed);
                } else {
                    let mut symbols = vec![0; rows * program.outputs()];
                    match symbols.as_chunks_mut::<2>() {
                        (pairs, []) if program.outputs() == 2 => {
                            let (first, _) = program.output(0, rows, scratch);
                            let (second, _) = program.output(1, rows, scratch);
                            let words = first.iter().zip(second);
                            pairs.iter_mut().zip(words).for_each(|(pair, (&first, &second))| *pair = [first, second]);
                        }
                        _ => {
                            for output in 0..program.outputs() {
                                let (words, _) = program.output(output, rows, scratch);
                                for (row, &word) in symbols.chunks_exact_mut(program.outputs()).zip(words) {
                                    row[output] = word;
                                }
                            }
                        }
                    }
                    pack::pack_u32(kernels, bits, &symbols, packed);
                }
            }
            AnyProgram::Wide(program) => {
                let packed = &mut packed[..pack::packed_length(bits, rows * program.outputs())];
                if program.outputs() == 1 {
                    let (low, high) = program.output(0, rows, scratch);
                    return pack::pack_halves(kernels, bits, low, high, packed);
                }
                let mut symbols = vec![0; rows * program.outputs()];
                for output in 0..program.outputs() {
                    let (low, high) = program.output(output, rows, scratch);
                    let words = low.iter().zip(high).map(|(&low, &high)| u64::from(low) | u64::from(high) << 32);
                    for (row, word) in symbols.chunks_exact_mut(program.outputs()).zip(words) {
                        row[output] = word;
                    }
                }
                pack::pack_bits(bits, symbols.into_iter(), packed);
            }
        }
    }

    /// The values of the rows from `start` on, row by row, into `out`.
    pub(crate) fn write_rows(&self, kernels: Kernels, start: usize, out: &mut [u32], scratch: &mut Scratch) {
        let per_row = self.words_per_row();
        for (tile, out) in out.chunks_mut(kernels.tile_rows() * per_row).enumerate() {
            let (first, rows) = (start + tile * kernels.tile_rows(), out.len() / per_row);
            let mut place = |word: usize, words: &[u32]| {
                if per_row == 1 {
                    return out.copy_from_slice(words);
                }
                for (row, &value) in out.chunks_exact_mut(per_row).zip(words) {
                    row[word] = value;
                }
            };
            match self {
                AnyProgram::Narrow(program) => {
                    program.run(first, rows, None, scratch);
                    (0..per_row).for_each(|output| place(output, program.output(output, rows, scratch).0));
                }
                AnyProgram::Wide(program) => {
                    program.run(first, rows, None, scratch);
                    for output in 0..program.outputs() {
                        let (low, high) = program.output(output, rows, scratch);
                        place(2 * output, low);
                        place(2 * output + 1, high);
                    }
                }
            }
        }
    }
}
