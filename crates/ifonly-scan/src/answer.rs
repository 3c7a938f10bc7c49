//! Answers: jobs over a row store, as a packed stream, on one or several threads, for one or several jobs at a time.
//!
//! The positions of an answer are cut into spans of whole blocks. A span is computed and packed on its own, by any thread;
//! 64 rows of any symbols end at a byte boundary, so spans simply follow each other in the stream. The sink gets them in
//! order, and a stored-order answer holds only as many spans as threads work on. A shuffled answer first keeps the form
//! values of all rows (4 bytes each, 8 for q ≥ 2^31), then picks them in order.

use crate::backend::{Backend, Kernels};
use crate::dot::{NARROW, WIDE};
use crate::memory::AlignedBytes;
use crate::pack;
use crate::store::{BLOCK_ROWS, RowStore};
use crate::tile::{Gathered, Scratch, TILE_ROWS, TileProgram, used_forms};
use ifonly_core::form::{Job, Output, Shape};
use ifonly_core::keys::KeyedRows;
use rayon::prelude::*;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Spans handed out per thread between two visits to the sink: enough that threads rarely wait for the slowest.
const SPANS_PER_THREAD: usize = 4;

/// Why a job cannot be run. A server checks queries before; these are faults of the caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScanError {
    /// A form is for rows of another width.
    #[error("form {form} is for {have} features; the rows have {need}")]
    Features {
        /// Which form.
        form: usize,
        /// Features of the form.
        have: usize,
        /// Features of the rows.
        need: usize,
    },
    /// An output names a form that the program does not have.
    #[error("output {0} names a form that is not there")]
    NoForm(usize),
    /// The order does not name rows of this store, one per position.
    #[error("the order is not one of {0} rows")]
    Order(usize),
    /// The shares of the rows are not one per row.
    #[error("{have} row shares for {need} rows")]
    RowShares {
        /// Shares found.
        have: usize,
        /// Rows.
        need: usize,
    },
    /// The keyed streams were made for another program.
    #[error("the keyed streams are not those of this job")]
    Keys,
    /// The sink asked to stop.
    #[error("the answer was no longer wanted")]
    Stopped,
}

/// Runs jobs.
#[derive(Clone, Debug)]
pub struct Scanner {
    kernels: Kernels,
    threads: usize,
    pool: Option<Arc<rayon::ThreadPool>>,
    span_rows: usize,
}

/// One query of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// What to compute.
    pub job: &'a Job<'a>,
    /// The servers' common randomness for it.
    pub keys: &'a KeyedRows,
}

impl Scanner {
    /// The fastest backend on the caller's own thread.
    pub fn new() -> Scanner {
        Scanner { kernels: Kernels::best(), threads: 1, pool: None, span_rows: 16 * TILE_ROWS }
    }

    /// A pool of `threads` threads of its own; answers that run at the same time share them. One thread or less means
    /// the caller's.
    pub fn with_threads(self, threads: usize) -> Result<Scanner, rayon::ThreadPoolBuildError> {
        if threads <= 1 {
            return Ok(Scanner { threads: 1, pool: None, ..self });
        }
        let named = |thread| format!("scan-{thread}");
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).thread_name(named).build()?;
        Ok(Scanner { threads, pool: Some(Arc::new(pool)), ..self })
    }

    /// Another backend, or `None` if this machine cannot run it.
    pub fn with_backend(self, backend: Backend) -> Option<Scanner> {
        Some(Scanner { kernels: Kernels::new(backend)?, ..self })
    }

    /// Another number of rows per span, rounded up to whole blocks. The answer does not depend on it.
    pub fn with_span_rows(self, rows: usize) -> Scanner {
        Scanner { span_rows: rows.max(1).next_multiple_of(BLOCK_ROWS), ..self }
    }

    /// The backend in use.
    pub fn backend(&self) -> Backend {
        self.kernels.backend()
    }

    /// The packed answer of one job, span by span. The sink may stop it.
    pub fn answer(
        &self,
        store: &RowStore,
        job: &Job<'_>,
        keys: &KeyedRows,
        sink: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), ScanError> {
        self.answer_batch(store, &[Query { job, keys }], &mut |_, bytes| sink(bytes))
    }

    /// The packed answer of one job as a whole.
    pub fn answer_to_vec(&self, store: &RowStore, job: &Job<'_>, keys: &KeyedRows) -> Result<Vec<u8>, ScanError> {
        let mut answer = vec![];
        self.answer(store, job, keys, &mut |bytes| {
            answer.extend_from_slice(bytes);
            ControlFlow::Continue(())
        })?;
        Ok(answer)
    }

    /// Several jobs in one pass over the rows. The sink gets the number of the query with each span; a query whose sink
    /// stops ends the batch only when all have stopped.
    pub fn answer_batch(
        &self,
        store: &RowStore,
        queries: &[Query<'_>],
        sink: &mut dyn FnMut(usize, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), ScanError> {
        for query in queries {
            check(store, query)?;
        }
        let plans: Vec<Plan<'_>> = queries.iter().map(|query| Plan::new(store, query)).collect();
        let values = self.gather_values(store, &plans);
        let mut wanted = vec![true; plans.len()];
        let rows = plans.iter().map(|plan| plan.rows).max().unwrap_or(0);
        let spans = rows.div_ceil(self.span_rows);
        let per_wave = if self.pool.is_some() { self.threads * SPANS_PER_THREAD } else { 1 };
        for wave in (0..spans).step_by(per_wave) {
            let in_wave = wave..(wave + per_wave).min(spans);
            let results = self.map_spans(in_wave, |span, scratch| {
                self.answer_span(&plans, &values, &wanted, span * self.span_rows, scratch)
            });
            for packed in results {
                for (query, bytes) in packed.iter().enumerate() {
                    if wanted[query] && !bytes.is_empty() {
                        wanted[query] = sink(query, bytes).is_continue();
                    }
                }
            }
            if !wanted.contains(&true) {
                return Err(ScanError::Stopped);
            }
        }
        if wanted.contains(&false) { Err(ScanError::Stopped) } else { Ok(()) }
    }

    /// Form values of all rows for the shuffled queries; empty for the others.
    fn gather_values(&self, store: &RowStore, plans: &[Plan<'_>]) -> Vec<AlignedBytes> {
        plans
            .iter()
            .map(|plan| {
                let Some((values, _)) = &plan.shuffle else { return AlignedBytes::zeroed(0) };
                let per_row = values.words_per_row();
                // In huge pages: they are picked at random, and every small page would cost a translation.
                let mut all = AlignedBytes::zeroed(store.rows() * per_row * 4);
                let span_words = self.span_rows * per_row;
                let words = &mut all.words_mut()[..store.rows() * per_row];
                self.each_chunk(words, span_words, |span, out, scratch| {
                    values.write_rows(self.kernels, span * self.span_rows, out, scratch);
                });
                all
            })
            .collect()
    }

    /// The packed symbols of one span for every query. Tiles are the outer loop, so that all queries read a tile while
    /// it is in the cache.
    fn answer_span(
        &self,
        plans: &[Plan<'_>],
        values: &[AlignedBytes],
        wanted: &[bool],
        start: usize,
        scratch: &mut Scratch,
    ) -> Vec<Vec<u8>> {
        let mut packed: Vec<Vec<u8>> = plans
            .iter()
            .map(|plan| {
                let rows = plan.rows.saturating_sub(start).min(self.span_rows);
                Vec::with_capacity(pack::packed_length(plan.bits, rows * plan.program.outputs()))
            })
            .collect();
        for first in (start..start + self.span_rows).step_by(TILE_ROWS) {
            for (query, plan) in plans.iter().enumerate() {
                let end = plan.rows.min(start + self.span_rows);
                if wanted[query] && first < end {
                    let rows = TILE_ROWS.min(end - first);
                    let gathered =
                        plan.shuffle.as_ref().map(|(_, order)| Gathered { values: values[query].words(), order });
                    plan.program.pack_tile(self.kernels, plan.bits, first, rows, gathered, scratch, &mut packed[query]);
                }
            }
        }
        packed
    }

    fn map_spans<T: Send>(
        &self,
        spans: std::ops::Range<usize>,
        work: impl Fn(usize, &mut Scratch) -> T + Sync,
    ) -> Vec<T> {
        match &self.pool {
            Some(pool) => pool.install(|| {
                spans.into_par_iter().map_init(Scratch::default, |scratch, span| work(span, scratch)).collect()
            }),
            None => {
                let mut scratch = Scratch::default();
                spans.map(|span| work(span, &mut scratch)).collect()
            }
        }
    }

    fn each_chunk(&self, all: &mut [u32], size: usize, work: impl Fn(usize, &mut [u32], &mut Scratch) + Sync) {
        match &self.pool {
            Some(pool) => pool.install(|| {
                all.par_chunks_mut(size)
                    .enumerate()
                    .for_each_init(Scratch::default, |scratch, (span, chunk)| work(span, chunk, scratch));
            }),
            None => {
                let mut scratch = Scratch::default();
                all.chunks_mut(size).enumerate().for_each(|(span, chunk)| work(span, chunk, &mut scratch));
            }
        }
    }
}

impl Default for Scanner {
    fn default() -> Self {
        Scanner::new()
    }
}

fn check(store: &RowStore, query: &Query<'_>) -> Result<(), ScanError> {
    let Query { job, keys } = query;
    let program = job.program;
    let need = store.features();
    for (form, shape) in program.forms.iter().map(|form| &form.shape).enumerate() {
        let widths: Vec<usize> = match shape {
            Shape::Linear { slope, .. } => vec![slope.len()],
            Shape::Polynomial(coefficients) => coefficients.iter().map(Vec::len).collect(),
            Shape::Table(tables) => vec![tables.len()],
        };
        if let Some(&have) = widths.iter().find(|&&have| have != need) {
            return Err(ScanError::Features { form, have, need });
        }
    }
    if used_forms(job).last().is_some_and(|&form| form >= program.forms.len()) {
        return Err(ScanError::NoForm(program.outputs.len()));
    }
    let rows = store.rows();
    if let Some(order) = job.order {
        // One pass without branches; a repeated row is wrong but harmless, a row beyond the end is not.
        let largest = order.iter().copied().fold(0, u32::max);
        if order.len() != rows || (rows > 0 && largest as usize >= rows) {
            return Err(ScanError::Order(rows));
        }
    }
    let selects = program.outputs.iter().any(|output| matches!(output, Output::Selected { .. }));
    if selects && program.row_shares.len() != rows {
        return Err(ScanError::RowShares { have: program.row_shares.len(), need: rows });
    }
    let outputs_agree = keys.outputs().is_none_or(|outputs| outputs == program.outputs.len());
    if keys.kappa() != job.kappa || !outputs_agree || keys.rho_stream().field() != job.field {
        return Err(ScanError::Keys);
    }
    Ok(())
}

/// A compiled query.
struct Plan<'a> {
    rows: usize,
    bits: u32,
    program: AnyProgram<'a>,
    /// The first pass of a shuffled answer, and its order.
    shuffle: Option<(AnyProgram<'a>, &'a [u32])>,
}

impl<'a> Plan<'a> {
    fn new(store: &'a RowStore, query: &Query<'a>) -> Plan<'a> {
        let Query { job, keys } = *query;
        let q = job.field.q();
        // Montgomery products need an odd q.
        let narrow = q < 1 << 31 && q % 2 == 1;
        let program = if narrow {
            AnyProgram::Narrow(TileProgram::answer(store, job, keys))
        } else {
            AnyProgram::Wide(TileProgram::answer(store, job, keys))
        };
        let shuffle = job.order.map(|order| {
            let values = if narrow {
                AnyProgram::Narrow(TileProgram::values(store, job))
            } else {
                AnyProgram::Wide(TileProgram::values(store, job))
            };
            (values, order)
        });
        Plan { rows: job.program.answered_rows(store.rows()), bits: job.field.bits(), program, shuffle }
    }
}

enum AnyProgram<'a> {
    Narrow(TileProgram<'a, NARROW>),
    Wide(TileProgram<'a, WIDE>),
}

impl AnyProgram<'_> {
    fn outputs(&self) -> usize {
        match self {
            AnyProgram::Narrow(program) => program.outputs(),
            AnyProgram::Wide(program) => program.outputs(),
        }
    }

    fn words_per_row(&self) -> usize {
        match self {
            AnyProgram::Narrow(program) => program.outputs(),
            AnyProgram::Wide(program) => 2 * program.outputs(),
        }
    }

    /// Runs a tile and appends its packed symbols.
    #[allow(clippy::too_many_arguments)]
    fn pack_tile(
        &self,
        kernels: Kernels,
        bits: u32,
        first: usize,
        rows: usize,
        gathered: Option<Gathered<'_>>,
        scratch: &mut Scratch,
        packed: &mut Vec<u8>,
    ) {
        match self {
            AnyProgram::Narrow(program) => {
                program.run(kernels, first, rows, gathered, scratch);
                if program.outputs() == 1 {
                    pack::pack_u32(kernels, bits, program.output(0, rows, scratch).0, packed);
                } else {
                    let mut symbols = vec![0; rows * program.outputs()];
                    for output in 0..program.outputs() {
                        let (words, _) = program.output(output, rows, scratch);
                        for (row, &word) in symbols.chunks_exact_mut(program.outputs()).zip(words) {
                            row[output] = word;
                        }
                    }
                    pack::pack_u32(kernels, bits, &symbols, packed);
                }
            }
            AnyProgram::Wide(program) => {
                program.run(kernels, first, rows, gathered, scratch);
                let mut symbols = vec![0; rows * program.outputs()];
                for output in 0..program.outputs() {
                    let (low, high) = program.output(output, rows, scratch);
                    let words = low.iter().zip(high).map(|(&low, &high)| u64::from(low) | u64::from(high) << 32);
                    for (row, word) in symbols.chunks_exact_mut(program.outputs()).zip(words) {
                        row[output] = word;
                    }
                }
                pack::pack_u64(bits, &symbols, packed);
            }
        }
    }

    /// The values of the rows from `start` on, row by row, into `out`.
    fn write_rows(&self, kernels: Kernels, start: usize, out: &mut [u32], scratch: &mut Scratch) {
        let per_row = self.words_per_row();
        for (tile, out) in out.chunks_mut(TILE_ROWS * per_row).enumerate() {
            let (first, rows) = (start + tile * TILE_ROWS, out.len() / per_row);
            let mut place = |word: usize, words: &[u32]| {
                for (row, &value) in out.chunks_exact_mut(per_row).zip(words) {
                    row[word] = value;
                }
            };
            match self {
                AnyProgram::Narrow(program) => {
                    program.run(kernels, first, rows, None, scratch);
                    (0..per_row).for_each(|output| place(output, program.output(output, rows, scratch).0));
                }
                AnyProgram::Wide(program) => {
                    program.run(kernels, first, rows, None, scratch);
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
