//! Answers: jobs over a row store, as a packed stream, on one or several threads, for one or
//! several jobs at a time.
//!
//! The positions of an answer are cut into spans of whole blocks. A span is computed and packed on
//! its own, by any thread; 64 rows of any symbols end at a byte boundary, so spans simply follow
//! each other in the stream. The sink gets them in order, and a stored-order answer holds only as
//! many spans as threads work on.
//!
//! A shuffled answer first keeps the form values of all rows (4 bytes each, and for q ≥ 2^31 as
//! many as q has). With the keys of the order ([`Query::order_keys`]) it sends them through the
//! buckets of [`ifonly_algebra::shuffle::Shuffle`], which moves memory in order; with a finished
//! order ([`Job::order`]) it picks them one by one, which is slower but takes any order.

use crate::backend::{Backend, Kernels};
use crate::memory::BufferPool;
use crate::packing::packed_length;
use crate::parts::{PartError, PartValues};
use crate::row_store::{BLOCK_ROWS, RowStore};
use crate::scan::plan::{Placement, ScanPlan};
use crate::scan::shuffled::RowFunctionValues;
pub(crate) use crate::scan::shuffled::Scattered;
use crate::tile::{Norms, Scratch, run_pair, used_forms};
use ifonly_algebra::keys::{KeyedRowRandomness, TranscriptKeys};
use ifonly_algebra::row_function::{OutputExpr, RowFunction, RowFunctionKind, ScanJob};
use rayon::prelude::*;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Rows per span: whole tiles of every backend.
const SPAN_ROWS: usize = 15_360;
/// Spans handed out per thread between two visits to the sink: enough that threads rarely wait for
/// the slowest.
const SPANS_PER_THREAD: usize = 4;

/// Why a job cannot be run. A server checks queries before; these are faults of the caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScanError {
    /// A form is for rows of another width.
    #[error("form {function} is for {have} features; the rows have {need}")]
    Features {
        /// Which form.
        function: usize,
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
    /// A part of the database does not give what it holds.
    #[error(transparent)]
    Part(#[from] PartError),
    /// The sink asked to stop.
    #[error("the answer was no longer wanted")]
    Stopped,
}

/// Runs jobs.
#[derive(Clone, Debug)]
pub struct Scanner {
    pub(super) kernels: &'static dyn Kernels,
    pub(super) threads: usize,
    pub(super) pool: Option<Arc<rayon::ThreadPool>>,
    pub(super) span_rows: usize,
    pub(super) spare: Arc<BufferPool>,
}

/// One query of a batch.
#[derive(Clone, Copy, Debug)]
pub struct ScanQuery<'a> {
    /// What to compute.
    pub job: &'a ScanJob<'a>,
    /// The servers' common randomness for it.
    pub keys: &'a KeyedRowRandomness,
    /// The keys of the order of the rows, for a shuffled answer; the job itself then names no
    /// order.
    pub order_keys: Option<&'a TranscriptKeys>,
}

impl<'a> ScanQuery<'a> {
    /// A query in the order that its job says.
    pub fn new(job: &'a ScanJob<'a>, keys: &'a KeyedRowRandomness) -> ScanQuery<'a> {
        ScanQuery { job, keys, order_keys: None }
    }

    /// How many rows have their answer in so many bytes: whole spans, so whole blocks, or all there
    /// is.
    fn rows_in(&self, bytes: usize) -> usize {
        let bits_per_row = self.job.field.bits() as usize * self.job.program.outputs.len();
        (8 * bytes).checked_div(bits_per_row).unwrap_or(0)
    }

    /// The same query in the order of [`ifonly_algebra::shuffle::permutation`] under these keys.
    pub fn shuffled_by(self, order_keys: Option<&'a TranscriptKeys>) -> ScanQuery<'a> {
        ScanQuery { order_keys, ..self }
    }
}

/// The queries of a pass as they are run.
struct Batch<'a> {
    plans: Vec<ScanPlan<'a>>,
    /// Where two queries or more can use them.
    norms: Option<Norms<'a>>,
}

impl Scanner {
    /// The fastest backend on the caller's own thread.
    pub fn new() -> Scanner {
        let kernels = Backend::best().kernels();
        Scanner { kernels, threads: 1, pool: None, span_rows: SPAN_ROWS, spare: Arc::default() }
    }

    /// As many threads for an answer: the caller's, and those of a pool that all answers share. One
    /// thread or less means the caller's alone.
    pub fn with_threads(self, threads: usize) -> Result<Scanner, rayon::ThreadPoolBuildError> {
        if threads <= 1 {
            return Ok(Scanner { threads: 1, pool: None, ..self });
        }
        let named = |thread| format!("scan-{thread}");
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).thread_name(named).build()?;
        Ok(Scanner { threads, pool: Some(Arc::new(pool)), ..self })
    }

    /// Another backend.
    pub fn with_backend(self, backend: Backend) -> Scanner {
        Scanner { kernels: backend.kernels(), ..self }
    }

    /// Another number of rows per span, rounded up to whole blocks. The answer does not depend on
    /// it.
    pub fn with_span_rows(self, rows: usize) -> Scanner {
        Scanner { span_rows: rows.max(1).next_multiple_of(BLOCK_ROWS), ..self }
    }

    pub(crate) fn kernels(&self) -> &'static dyn Kernels {
        self.kernels
    }

    /// Other work on the threads of the answers, such as
    /// [`RecordScanner`](crate::records::RecordScanner)'s.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        match &self.pool {
            Some(pool) => pool.install(work),
            None => work(),
        }
    }

    /// The packed answer of one job, span by span. The sink may stop it.
    pub fn answer(
        &self,
        store: &RowStore,
        job: &ScanJob<'_>,
        keys: &KeyedRowRandomness,
        sink: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), ScanError> {
        self.answer_query(store, &ScanQuery::new(job, keys), sink)
    }

    /// The packed answer of one query, span by span.
    pub fn answer_query(
        &self,
        store: &RowStore,
        query: &ScanQuery<'_>,
        sink: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), ScanError> {
        self.answer_rest(store, query, 0, sink)
    }

    /// The packed answer of one query without the bytes that a batch already gave it.
    pub fn answer_rest(
        &self,
        store: &RowStore,
        query: &ScanQuery<'_>,
        bytes_done: usize,
        sink: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), ScanError> {
        self.pass(store, &[*query], query.rows_in(bytes_done), &mut |_, bytes| sink(bytes))
    }

    /// The same where form values come from parts of a database of `rows` rows; `layout` has its
    /// ranges.
    pub(crate) fn answer_values<'a>(
        &self,
        layout: &'a RowStore,
        rows: usize,
        values: (PartValues<'a>, Placement<'a>),
        query: &ScanQuery<'a>,
        bytes_done: usize,
        sink: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), ScanError> {
        let plan = ScanPlan::of_parts(self.kernels, layout, rows, query, values);
        let batch = Batch { plans: vec![plan], norms: None };
        self.run_batch(&batch, rows, query.rows_in(bytes_done), &mut |_, bytes| sink(bytes))
    }

    /// Whether queries like this one are faster in a batch: where memory is the limit, and not for
    /// tables, which would push each other out of the cache.
    pub fn shares_well(&self, store: &RowStore, job: &ScanJob<'_>) -> bool {
        let linear = |function: usize| {
            matches!(job.program.functions.get(function).map(|f| &f.shape), Some(RowFunctionKind::Linear { .. }))
        };
        store.rows() > 0 && used_forms(job).into_iter().all(linear)
    }

    /// The packed answer of one job as a whole.
    pub fn answer_to_vec(
        &self,
        store: &RowStore,
        job: &ScanJob<'_>,
        keys: &KeyedRowRandomness,
    ) -> Result<Vec<u8>, ScanError> {
        let elements = job.program.answered_rows(store.rows()) * job.program.outputs.len();
        let mut answer = Vec::with_capacity(packed_length(job.field, elements));
        self.answer(store, job, keys, &mut |bytes| {
            answer.extend_from_slice(bytes);
            ControlFlow::Continue(())
        })?;
        Ok(answer)
    }

    /// Several jobs in one pass over the rows. The sink gets the number of the query with each
    /// span; a query whose sink stops ends the batch only when all have stopped. Each shuffled
    /// query keeps its form values until the end.
    pub fn answer_batch(
        &self,
        store: &RowStore,
        queries: &[ScanQuery<'_>],
        sink: &mut dyn FnMut(usize, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), ScanError> {
        self.pass(store, queries, 0, sink)
    }

    fn pass(
        &self,
        store: &RowStore,
        queries: &[ScanQuery<'_>],
        first_row: usize,
        sink: &mut dyn FnMut(usize, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), ScanError> {
        for query in queries {
            check(store.features(), store.rows(), query)?;
        }
        let plans: Vec<ScanPlan<'_>> = queries.iter().map(|query| ScanPlan::new(self.kernels, store, query)).collect();
        let several = plans.iter().filter(|plan| plan.pairs().is_some()).count() > 1;
        let norms = if several { Norms::new(self.kernels, store) } else { None };
        self.run_batch(&Batch { plans, norms }, store.rows(), first_row, sink)
    }

    /// The answers over a database of `stored_rows` rows, from `first_row` on.
    fn run_batch(
        &self,
        batch: &Batch<'_>,
        stored_rows: usize,
        first_row: usize,
        sink: &mut dyn FnMut(usize, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), ScanError> {
        let plans = &batch.plans;
        let values = plans.iter().map(|plan| self.values(stored_rows, plan));
        let mut values: Vec<RowFunctionValues> = values.collect::<Result<_, _>>()?;
        let rows = plans.iter().map(|plan| plan.rows).max().unwrap_or(0);
        let span_rows = self.span_rows_of(plans.len());
        let start_of = |span: usize| first_row + span * span_rows;
        let spans = rows.saturating_sub(first_row).div_ceil(span_rows);

        let wanted: Vec<AtomicBool> = plans.iter().map(|_| AtomicBool::new(true)).collect();
        let still = || -> Vec<bool> { wanted.iter().map(|wanted| wanted.load(Ordering::Relaxed)).collect() };
        // What was delivered is filled again: fresh memory would have to be cleared first.
        let delivered: Mutex<Vec<Vec<Vec<u8>>>> = Mutex::default();
        let delivered = || delivered.lock().unwrap_or_else(PoisonError::into_inner);
        let work = |values: &[RowFunctionValues], span: usize, scratch: &mut Scratch| {
            let mut packed = delivered().pop().unwrap_or_default();
            let span = start_of(span)..start_of(span + 1);
            self.answer_span(batch, values, &still(), span, scratch, &mut packed);
            packed
        };
        let mut deliver = |packed: Vec<Vec<u8>>| {
            for (query, bytes) in packed.iter().enumerate() {
                if wanted[query].load(Ordering::Relaxed) && !bytes.is_empty() {
                    wanted[query].store(sink(query, bytes).is_continue(), Ordering::Relaxed);
                }
            }
            delivered().push(packed);
            if still().contains(&true) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        if let Some(pool) = self.pool.as_ref().filter(|_| plans.iter().all(|plan| plan.values.is_none())) {
            let work = |span: usize, scratch: &mut Scratch| work(&values, span, scratch);
            crate::scan::ordered_spans::deliver_in_order(
                pool,
                self.threads - 1,
                spans,
                self.threads * SPANS_PER_THREAD,
                work,
                deliver,
            );
        } else {
            let mut scratch = Scratch::default();
            for wave in self.waves(spans) {
                for (query, values) in values.iter_mut().enumerate().filter(|(query, _)| still()[*query]) {
                    // A difference looks at the position behind the last one.
                    let positions = start_of(wave.start)..start_of(wave.end) + 1;
                    self.advance(&plans[query], stored_rows, values, positions)?;
                }
                let results = self.map_spans(wave, &mut scratch, |span, scratch| work(&values, span, scratch));
                if results.into_iter().map(&mut deliver).any(|after| after.is_break()) {
                    break;
                }
            }
        }
        self.spare.give_back(values.into_iter().filter_map(RowFunctionValues::into_memory).collect());
        if still().contains(&false) { Err(ScanError::Stopped) } else { Ok(()) }
    }

    /// Shorter spans for several queries: what is packed for all of them should still be in the
    /// cache when the sinks get it, and not make the allocator go back to the system.
    fn span_rows_of(&self, queries: usize) -> usize {
        (self.span_rows / queries.max(1)).next_multiple_of(self.kernels.tile_rows()).min(self.span_rows)
    }

    /// Runs of spans between two visits to the caller's thread.
    fn waves(&self, spans: usize) -> impl Iterator<Item = Range<usize>> + use<> {
        let per_wave = if self.pool.is_some() { self.threads * SPANS_PER_THREAD } else { 1 };
        (0..spans).step_by(per_wave).map(move |first| first..(first + per_wave).min(spans))
    }

    /// The packed symbols of one span for every query. Tiles are the outer loop, so that all
    /// queries read a tile while it is in the cache.
    fn answer_span(
        &self,
        Batch { plans, norms }: &Batch<'_>,
        values: &[RowFunctionValues],
        wanted: &[bool],
        span: Range<usize>,
        scratch: &mut Scratch,
        packed: &mut Vec<Vec<u8>>,
    ) {
        let length = |plan: &ScanPlan<'_>, rows: usize| packed_length(plan.field, rows * plan.program.outputs());
        packed.resize_with(plans.len(), Vec::new);
        for (packed, plan) in packed.iter_mut().zip(plans) {
            packed.resize(length(plan, plan.rows.min(span.end).saturating_sub(span.start)), 0);
        }
        let live: Vec<usize> = (0..plans.len()).filter(|&query| wanted[query]).collect();
        let (paired, alone): (Vec<usize>, Vec<usize>) =
            live.into_iter().partition(|&query| norms.is_some() && plans[query].pairs().is_some());
        let (pairs, rest) = paired.as_chunks::<2>();
        let (mut second, mut norm_words) = (Scratch::default(), vec![]);
        for first in span.clone().step_by(self.kernels.tile_rows()) {
            let rows_of =
                |plan: &ScanPlan<'_>| plan.rows.min(span.end).saturating_sub(first).min(self.kernels.tile_rows());
            let mut pack = |query: usize, rows: usize, scratch: &mut Scratch| {
                let plan = &plans[query];
                let from = length(plan, first - span.start);
                plan.program.pack(rows, scratch, &mut packed[query][from..]);
            };
            for &query in alone.iter().chain(rest) {
                let rows = rows_of(&plans[query]);
                if rows > 0 {
                    plans[query].program.run(first, rows, values[query].gathered(&plans[query]), scratch);
                    pack(query, rows, scratch);
                }
            }
            for (number, &[one, other]) in pairs.iter().enumerate() {
                let rows = rows_of(&plans[one]);
                let (Some(a), Some(b), Some(norms)) = (plans[one].pairs(), plans[other].pairs(), norms) else { break };
                if rows == 0 {
                    break;
                }
                if number == 0 {
                    norms.fill(first, rows, &mut norm_words);
                }
                run_pair([a, b], &norm_words, first, rows, [&mut *scratch, &mut second]);
                pack(one, rows, scratch);
                pack(other, rows, &mut second);
            }
        }
    }

    /// On the threads of the pool, or else here with `scratch`.
    fn map_spans<T: Send>(
        &self,
        spans: Range<usize>,
        scratch: &mut Scratch,
        work: impl Fn(usize, &mut Scratch) -> T + Sync,
    ) -> Vec<T> {
        match &self.pool {
            Some(pool) => pool.install(|| {
                spans.into_par_iter().map_init(Scratch::default, |scratch, span| work(span, scratch)).collect()
            }),
            None => spans.map(|span| work(span, scratch)).collect(),
        }
    }

    /// Row by row into `out`, where each has so many items, whole spans at a time on the threads of
    /// the pool; `work` gets the first row of each.
    pub(crate) fn in_spans<I: Send>(
        &self,
        out: &mut [I],
        items: usize,
        work: impl Fn(usize, &mut [I], &mut Scratch) + Sync,
    ) {
        let size = (self.span_rows * items).max(1);
        self.map_chunks(out, size, |span, out, scratch| work(span * self.span_rows, out, scratch));
    }

    pub(super) fn map_chunks<I: Send, T: Send>(
        &self,
        all: &mut [I],
        size: usize,
        work: impl Fn(usize, &mut [I], &mut Scratch) -> T + Sync,
    ) -> Vec<T> {
        match &self.pool {
            Some(pool) => pool.install(|| {
                all.par_chunks_mut(size)
                    .enumerate()
                    .map_init(Scratch::default, |scratch, (number, chunk)| work(number, chunk, scratch))
                    .collect()
            }),
            None => {
                let mut scratch = Scratch::default();
                let chunks = all.chunks_mut(size).enumerate();
                chunks.map(|(number, chunk)| work(number, chunk, &mut scratch)).collect()
            }
        }
    }
}

impl Default for Scanner {
    fn default() -> Self {
        Scanner::new()
    }
}

/// Whether forms are for rows of `need` features.
pub(crate) fn check_forms(need: usize, functions: &[RowFunction]) -> Result<(), ScanError> {
    for (function, shape) in functions.iter().map(|function| &function.shape).enumerate() {
        let widths: Vec<usize> = match shape {
            RowFunctionKind::Linear { slope, .. } => vec![slope.len()],
            RowFunctionKind::Polynomial(coefficients) => coefficients.iter().map(Vec::len).collect(),
            RowFunctionKind::Table(tables) => vec![tables.len()],
        };
        if let Some(&have) = widths.iter().find(|&&have| have != need) {
            return Err(ScanError::Features { function, have, need });
        }
    }
    Ok(())
}

/// Whether a query fits a database of `rows` rows.
pub(crate) fn check(features: usize, rows: usize, query: &ScanQuery<'_>) -> Result<(), ScanError> {
    let ScanQuery { job, keys, order_keys } = query;
    let program = job.program;
    check_forms(features, &program.functions)?;
    if used_forms(job).last().is_some_and(|&function| function >= program.functions.len()) {
        return Err(ScanError::NoForm(program.outputs.len()));
    }
    if let Some(order) = job.order {
        // One pass without branches; a repeated row is wrong but harmless, a row beyond the end is
        // not.
        let largest = order.iter().copied().fold(0, u32::max);
        if order_keys.is_some() || order.len() != rows || (rows > 0 && largest as usize >= rows) {
            return Err(ScanError::Order(rows));
        }
    }
    let selects = program.outputs.iter().any(|output| matches!(output, OutputExpr::Selected { .. }));
    if selects && program.row_shares.len() != rows {
        return Err(ScanError::RowShares { have: program.row_shares.len(), need: rows });
    }
    let outputs_agree = keys.outputs().is_none_or(|outputs| outputs == program.outputs.len());
    if keys.kappa != job.kappa || !outputs_agree || keys.rho.field != *job.field {
        return Err(ScanError::Keys);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scanner_has_the_backend_the_threads_and_the_spans_that_it_was_given() {
        let threads = |scanner: &Scanner| (scanner.threads, scanner.run(rayon::current_thread_index).is_some());
        for backend in Backend::available() {
            let scanner = Scanner::new().with_span_rows(100).with_backend(backend).with_threads(3).unwrap();
            assert_eq!(scanner.kernels().name(), backend.to_string());
            assert_eq!((scanner.span_rows, threads(&scanner)), (128, (3, true)));
            assert_eq!(scanner.run(rayon::current_num_threads), 3);
            let alone = scanner.with_threads(1).unwrap();
            assert_eq!((alone.kernels().name(), alone.span_rows), (backend.kernels().name(), 128));
            assert_eq!(threads(&alone), (1, false));
        }
        assert_eq!(Scanner::new().with_threads(0).unwrap().threads, 1);
    }
}
