//! The scanner: evaluates queries over a row store as packed streams, on one or several threads.
//!
//! The positions of an answer are divided into spans of whole blocks of 64 rows. Any thread can
//! compute and pack a span by itself. 64 field elements of any width end at a byte boundary, so the
//! stream is the concatenation of its spans. The sink receives the spans in order. An answer in
//! stored order holds only the spans that threads are working on.
//!
//! A shuffled answer first stores the row function values of all rows: 4 bytes for each value if q
//! < 2^31, else ⌈b/8⌉ bytes if q has b bits. The bucket shuffle
//! ([`ifonly_algebra::shuffle::Shuffle`]) then moves them into the order of the answer. Its memory
//! access is sequential.

use crate::backend::{Backend, Kernels};
use crate::memory::BufferPool;
use crate::parts::PartError;
use crate::row_store::{BLOCK_ROWS, RowStore};
use crate::scan::plan::{FirstPass, ScanPlan};
use crate::scan::shuffled::RowFunctionValues;
pub(crate) use crate::scan::shuffled::Scattered;
use crate::tile::{Scratch, used_functions};
use ifonly_algebra::keys::{KeyedRowRandomness, TranscriptKeys};
use ifonly_algebra::row_function::{OutputExpr, RowFunction, RowFunctionKind, ScanJob};
use ifonly_algebra::wire::packed_length;
use rayon::prelude::*;
use std::ops::{ControlFlow, Range};
use std::sync::{Arc, Mutex, PoisonError};

/// Rows per span: a multiple of every backend's tile length.
const SPAN_ROWS: usize = 15_360;
/// Spans per thread that are computed before the sink receives them: enough that threads rarely
/// wait for the slowest thread.
const SPANS_PER_THREAD: usize = 4;

/// Why a job cannot be run. Servers check queries first, so most of these are errors of the caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScanError {
    /// A row function has another number of features than the rows.
    #[error("row function {function} has feature count {have}, but the rows have feature count {need}")]
    Features {
        /// Index of the row function.
        function: usize,
        /// Features of the row function.
        have: usize,
        /// Features of the rows.
        need: usize,
    },
    /// A table has another number of entries than its feature has levels.
    #[error("the table of feature {feature} has length {have} instead of {need}")]
    TableLength {
        /// Index of the feature.
        feature: usize,
        /// Entries of the table.
        have: usize,
        /// Levels of the feature.
        need: usize,
    },
    /// An output names a row function that the program does not have.
    #[error("an output names row function {0}, which the program does not have")]
    NoRowFunction(usize),
    /// The bucket shuffle has no code for rows of this many words.
    #[error("rows of {0} words cannot be shuffled")]
    RowWidth(usize),
    /// The number of row shares is not the number of rows.
    #[error("the number of row shares is {have}, but the number of rows is {need}")]
    RowShares {
        /// Shares found.
        have: usize,
        /// Rows.
        need: usize,
    },
    /// The keyed streams belong to another program or field.
    #[error("the keyed streams do not belong to this job")]
    Keys,
    /// A part of the database did not deliver its values.
    #[error(transparent)]
    Part(#[from] PartError),
    /// The sink stopped the scan.
    #[error("the receiver of the answer stopped the scan")]
    Stopped,
}

/// Evaluates queries over row stores.
#[derive(Clone, Debug)]
pub struct Scanner {
    pub(crate) kernels: &'static dyn Kernels,
    pub(crate) threads: usize,
    pub(crate) pool: Option<Arc<rayon::ThreadPool>>,
    pub(super) span_rows: usize,
    pub(crate) buffers: Arc<BufferPool>,
}

/// A query: a job, its randomness, and the order of its answer.
#[derive(Clone, Copy, Debug)]
pub struct ScanQuery<'a> {
    /// What to compute.
    pub job: &'a ScanJob<'a>,
    /// The random streams for the query, common to all servers.
    pub keys: &'a KeyedRowRandomness,
    /// The keys of the row order, for a shuffled answer.
    pub order_keys: Option<&'a TranscriptKeys>,
}

impl<'a> ScanQuery<'a> {
    /// A query in stored order.
    pub fn new(job: &'a ScanJob<'a>, keys: &'a KeyedRowRandomness) -> ScanQuery<'a> {
        ScanQuery { job, keys, order_keys: None }
    }

    /// The same query in the order of [`ifonly_algebra::shuffle::permutation`] under these keys.
    pub fn shuffled_by(self, order_keys: Option<&'a TranscriptKeys>) -> ScanQuery<'a> {
        ScanQuery { order_keys, ..self }
    }
}

impl Scanner {
    /// A scanner with the fastest backend that uses only the calling thread.
    pub fn new() -> Scanner {
        let kernels = Backend::best().kernels();
        Scanner { kernels, threads: 1, pool: None, span_rows: SPAN_ROWS, buffers: Arc::default() }
    }

    /// Uses `threads` threads for each answer: the calling thread and those of a pool that all
    /// answers share. One thread or fewer means the calling thread alone.
    pub fn with_threads(self, threads: usize) -> Result<Scanner, rayon::ThreadPoolBuildError> {
        if threads <= 1 {
            return Ok(Scanner { threads: 1, pool: None, ..self });
        }
        let named = |thread| format!("scan-{thread}");
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).thread_name(named).build()?;
        Ok(Scanner { threads, pool: Some(Arc::new(pool)), ..self })
    }

    /// Uses another backend.
    pub fn with_backend(self, backend: Backend) -> Scanner {
        Scanner { kernels: backend.kernels(), ..self }
    }

    /// Uses another number of rows per span, rounded up to whole blocks. The answer does not depend
    /// on it.
    pub fn with_span_rows(self, rows: usize) -> Scanner {
        Scanner { span_rows: rows.max(1).next_multiple_of(BLOCK_ROWS), ..self }
    }

    pub(crate) fn kernels(&self) -> &'static dyn Kernels {
        self.kernels
    }

    /// Runs other work on the threads of this scanner, for example that of
    /// [`RecordScanner`](crate::records::RecordScanner).
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        match &self.pool {
            Some(pool) => pool.install(work),
            None => work(),
        }
    }

    /// Delivers the packed answer of one job to the sink, span by span. The sink may stop the scan.
    pub fn answer(
        &self,
        store: &RowStore,
        job: &ScanJob<'_>,
        keys: &KeyedRowRandomness,
        sink: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), ScanError> {
        self.answer_query(store, &ScanQuery::new(job, keys), sink)
    }

    /// Delivers the packed answer of one query to the sink, span by span.
    pub fn answer_query(
        &self,
        store: &RowStore,
        query: &ScanQuery<'_>,
        sink: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), ScanError> {
        check(store.features(), store.rows(), query)?;
        self.run_plan(&ScanPlan::new(self.kernels, store, query)?, store.rows(), sink)
    }

    /// Like [`Scanner::answer_query`], for a database of `rows` rows whose parts deliver the
    /// values. `empty` is a store with the same max levels and without rows.
    pub(crate) fn answer_values<'a>(
        &self,
        empty: &'a RowStore,
        rows: usize,
        values: FirstPass<'a>,
        query: &ScanQuery<'a>,
        sink: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), ScanError> {
        self.run_plan(&ScanPlan::of_parts(self.kernels, empty, rows, query, values), rows, sink)
    }

    /// The complete packed answer of one job.
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

    /// Computes the answer over a database of `stored_rows` rows.
    fn run_plan(
        &self,
        plan: &ScanPlan<'_>,
        stored_rows: usize,
        sink: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), ScanError> {
        let mut values = self.values(stored_rows, plan)?;
        let start_of = |span: usize| span * self.span_rows;
        let spans = plan.rows.div_ceil(self.span_rows);

        let mut is_stopped = false;
        // Delivered buffers are reused, because new memory would have to be cleared first.
        let free_buffers: Mutex<Vec<Vec<u8>>> = Mutex::default();
        let free_buffers = || free_buffers.lock().unwrap_or_else(PoisonError::into_inner);
        let work = |values: &RowFunctionValues, span: usize, scratch: &mut Scratch| {
            let mut packed = free_buffers().pop().unwrap_or_default();
            self.answer_span(plan, values, start_of(span)..start_of(span + 1), scratch, &mut packed);
            packed
        };
        let mut deliver = |packed: Vec<u8>| {
            let after = sink(&packed);
            is_stopped = after.is_break();
            free_buffers().push(packed);
            after
        };
        if let Some(pool) = self.pool.as_ref().filter(|_| plan.first_pass.is_none()) {
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
                // A difference output also reads the position after the last one.
                let positions = start_of(wave.start)..start_of(wave.end) + 1;
                self.advance(plan, stored_rows, &mut values, positions)?;
                let results = self.map_spans(wave, &mut scratch, |span, scratch| work(&values, span, scratch));
                if results.into_iter().map(&mut deliver).any(|after| after.is_break()) {
                    break;
                }
            }
        }
        self.buffers.give_back(values.into_memory().into_iter().collect());
        if is_stopped { Err(ScanError::Stopped) } else { Ok(()) }
    }

    /// Groups of spans that are computed before their results are delivered on the calling thread.
    fn waves(&self, spans: usize) -> impl Iterator<Item = Range<usize>> + use<> {
        let per_wave = if self.pool.is_some() { self.threads * SPANS_PER_THREAD } else { 1 };
        (0..spans).step_by(per_wave).map(move |first| first..(first + per_wave).min(spans))
    }

    /// Computes and packs the field elements of one span, tile by tile.
    fn answer_span(
        &self,
        plan: &ScanPlan<'_>,
        values: &RowFunctionValues,
        span: Range<usize>,
        scratch: &mut Scratch,
        packed: &mut Vec<u8>,
    ) {
        let end = plan.rows.min(span.end);
        let length = |rows: usize| packed_length(plan.field, rows * plan.program.outputs());
        packed.resize(length(end - span.start), 0);
        for first in (span.start..end).step_by(self.kernels.tile_rows()) {
            let rows = (end - first).min(self.kernels.tile_rows());
            plan.program.run(first, rows, values.gathered(plan), scratch);
            plan.program.pack(rows, scratch, &mut packed[length(first - span.start)..]);
        }
    }

    /// Runs `work` for all spans on the threads of the pool, or on this thread with `scratch`.
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

    /// Fills `out`, which has `items` items per row, span by span on the threads of the pool.
    /// `work` receives the first row of each span.
    pub(crate) fn fill_spans<I: Send>(
        &self,
        out: &mut [I],
        items: usize,
        work: impl Fn(usize, &mut [I], &mut Scratch) + Sync,
    ) {
        let size = (self.span_rows * items).max(1);
        self.map_chunks(out, size, |span, out, scratch| work(span * self.span_rows, out, scratch));
    }

    pub(crate) fn map_chunks<I: Send, T: Send>(
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

/// Checks that the row functions are for rows of `need` features.
pub(crate) fn check_functions(need: usize, functions: &[RowFunction]) -> Result<(), ScanError> {
    for (function, shape) in functions.iter().map(|function| &function.kind).enumerate() {
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

/// Checks that a query fits a database of `rows` rows.
pub(crate) fn check(features: usize, rows: usize, query: &ScanQuery<'_>) -> Result<(), ScanError> {
    let ScanQuery { job, keys, .. } = query;
    let program = job.program;
    check_functions(features, &program.functions)?;
    if let Some(&function) = used_functions(job).last().filter(|&&function| function >= program.functions.len()) {
        return Err(ScanError::NoRowFunction(function));
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
    fn a_scanner_uses_the_given_backend_threads_and_span_length() {
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
