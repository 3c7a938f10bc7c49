//! Shared scans: concurrent queries share one pass over the rows.
//!
//! A query that arrives while another one runs waits about as long as reading the rows takes. Then
//! one thread scans the rows once for all queries that have arrived, and sends each query its spans
//! of the answer. No query waits for the network of another one: a query whose client falls behind
//! leaves the shared scan and continues alone from its position. The duration of an answer depends
//! on the number of queries, never on their contents.

use ifonly_algebra::field::{Field, FieldElement};
use ifonly_algebra::keys::KeyedRowRandomness;
use ifonly_algebra::row_function::{RowProgram, ScanJob};
use ifonly_scan::parts::RowParts;
use ifonly_scan::{RowStore, ScanError, ScanQuery, Scanner};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use zeroize::Zeroizing;

/// Maximum queries of one shared scan.
const MAX_QUERIES: usize = 64;
/// Maximum spans that a query may be behind the scan.
const MAX_SPANS_BEHIND: usize = 16;
/// Smaller databases fit into the processor cache, so sharing a scan saves nothing.
const MIN_BYTES: usize = 4 << 20;
/// Memory bandwidth, roughly. A query waits as long as reading the rows takes at this speed.
const BYTES_PER_SECOND: usize = 16 << 30;

/// A scan job with its data, shared by the shared scan and the query.
pub(crate) struct OwnedScanJob {
    pub(crate) field: Field,
    pub(crate) alpha: FieldElement,
    pub(crate) kappa: usize,
    pub(crate) program: Zeroizing<RowProgram>,
    pub(crate) keys: KeyedRowRandomness,
}

impl OwnedScanJob {
    fn job(&self) -> ScanJob<'_> {
        ScanJob { field: &self.field, alpha: self.alpha, kappa: self.kappa, program: &self.program, order: None }
    }
}

/// A query that waits for the next shared scan.
struct WaitingQuery {
    job: Arc<OwnedScanJob>,
    spans: SyncSender<Vec<u8>>,
}

/// The shared scans over the rows of one database.
pub(crate) struct SharedScans {
    scanner: Scanner,
    rows: RowParts,
    /// How long the first waiting query waits for others; zero disables sharing.
    wait_time: Duration,
    /// Queries in progress.
    active: AtomicUsize,
    waiting: Mutex<Vec<WaitingQuery>>,
    /// Queries that a shared scan has answered.
    shared: AtomicU64,
}

impl SharedScans {
    pub(crate) fn new(scanner: Scanner, rows: RowParts) -> SharedScans {
        // Rows in several parts cannot share a scan: a part answers one query at a time.
        let bytes = rows.single_store().map_or(0, |store| store.data().len());
        let seconds = if bytes < MIN_BYTES { 0.0 } else { bytes as f64 / BYTES_PER_SECOND as f64 };
        SharedScans::with_wait_time(scanner, rows, Duration::from_secs_f64(seconds))
    }

    fn with_wait_time(scanner: Scanner, rows: RowParts, wait_time: Duration) -> SharedScans {
        let (active, shared) = (AtomicUsize::new(0), AtomicU64::new(0));
        SharedScans { scanner, rows, wait_time, active, waiting: Mutex::default(), shared }
    }

    /// Writes the packed answer to `sink`, span by span, in a shared scan or alone.
    pub(crate) fn answer(
        &self,
        job: OwnedScanJob,
        sink: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), ScanError> {
        let is_alone = self.active.fetch_add(1, Ordering::Relaxed) == 0;
        let _guard = ActiveGuard(&self.active);
        let job = Arc::new(job);
        let shares_well = || self.rows.single_store().is_some_and(|store| self.scanner.shares_well(store, &job.job()));
        if is_alone || self.wait_time.is_zero() || !shares_well() {
            return self.answer_alone(&job, 0, sink);
        }
        let (is_first, spans) = self.wait(&job);
        if is_first {
            std::thread::sleep(self.wait_time);
            self.start_scans();
        }
        self.follow(&job, spans, sink)
    }

    /// Adds a query to the next shared scan. Returns whether it is the first, and its spans.
    fn wait(&self, job: &Arc<OwnedScanJob>) -> (bool, Receiver<Vec<u8>>) {
        let (spans, received) = sync_channel(MAX_SPANS_BEHIND);
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push(WaitingQuery { job: job.clone(), spans });
        (waiting.len() == 1, received)
    }

    /// Writes the spans of the shared scan to `sink`. The channel ends early if this query fell
    /// behind or no other query arrived; then the query continues alone.
    fn follow(
        &self,
        job: &OwnedScanJob,
        spans: Receiver<Vec<u8>>,
        sink: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), ScanError> {
        let mut done = 0;
        for span in spans {
            if sink(&span).is_break() {
                return Err(ScanError::Stopped);
            }
            done += span.len();
        }
        self.answer_alone(job, done, sink)
    }

    /// Writes the answer from byte `done` on, without sharing.
    fn answer_alone(
        &self,
        job: &OwnedScanJob,
        done: usize,
        sink: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), ScanError> {
        self.scanner.answer_parts(&self.rows, &ScanQuery::new(&job.job(), &job.keys), done, sink)
    }

    /// Starts scans for all waiting queries. A single query gets none: its channel ends, and it
    /// continues alone.
    fn start_scans(&self) {
        let Some(store) = self.rows.single_store() else { return };
        let mut waiting = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        while waiting.len() > 1 {
            let together = waiting.split_off(waiting.len().saturating_sub(MAX_QUERIES));
            self.shared.fetch_add(together.len() as u64, Ordering::Relaxed);
            let (scanner, store) = (self.scanner.clone(), store.clone());
            let thread = std::thread::Builder::new().name("shared scan".to_owned());
            if let Err(error) = thread.spawn(move || scan(&scanner, &store, together)) {
                tracing::warn!(%error, "cannot start a thread for a shared scan; its queries continue alone");
            }
        }
    }
}

/// One scan for all queries. A query that falls behind is dropped from the scan.
fn scan(scanner: &Scanner, store: &RowStore, together: Vec<WaitingQuery>) {
    let (owned, spans): (Vec<Arc<OwnedScanJob>>, Vec<_>) =
        together.into_iter().map(|query| (query.job, query.spans)).unzip();
    let mut spans: Vec<Option<SyncSender<Vec<u8>>>> = spans.into_iter().map(Some).collect();
    let jobs: Vec<ScanJob<'_>> = owned.iter().map(|owned| owned.job()).collect();
    let queries: Vec<ScanQuery<'_>> =
        jobs.iter().zip(&owned).map(|(job, owned)| ScanQuery::new(job, &owned.keys)).collect();
    let result = scanner.answer_batch(store, &queries, &mut |query, bytes| match spans[query]
        .as_ref()
        .map(|spans| spans.try_send(bytes.to_vec()))
    {
        Some(Ok(())) => ControlFlow::Continue(()),
        _ => {
            spans[query] = None;
            ControlFlow::Break(())
        }
    });
    if let Err(error) = result
        && error != ScanError::Stopped
    {
        // The queries continue alone and get the error there.
        tracing::error!(%error, "a shared scan refused a checked query");
    }
}

/// Decrements the number of active queries when it is dropped.
struct ActiveGuard<'a>(&'a AtomicUsize);

impl Drop for ActiveGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ifonly_algebra::keys::RootKey;
    use ifonly_algebra::random::{RandomSource, SeededRandom};
    use ifonly_algebra::row_function::{OutputExpr, RowFunction, RowFunctionKind};

    fn job(number: u8) -> OwnedScanJob {
        let field = Field::new(262_139).unwrap();
        let slope = vec![field.reduce(u64::from(number)), field.reduce(99)];
        let function = RowFunction {
            kind: RowFunctionKind::Linear { norm: FieldElement::ONE, slope },
            constant: FieldElement::ZERO,
        };
        let program = Zeroizing::new(RowProgram::new([function], [OutputExpr::Plain(0)]));
        let keys = RootKey::new(0, [7; 32]).transcript(&[number; 32]).rows(&field, 1, 1, 1);
        OwnedScanJob { field, alpha: FieldElement::ONE, kappa: 1, program, keys }
    }

    fn rows(count: usize) -> Arc<RowStore> {
        let mut random = SeededRandom::new(1);
        let rows = (0..count).map(|_| [random.below(256) as u16, random.below(256) as u16]);
        Arc::new(RowStore::build(&[255, 255], rows.collect::<Vec<_>>()).unwrap())
    }

    #[test]
    fn concurrent_queries_share_a_scan_and_each_gets_its_own_answer() {
        // Many short spans, so that a slow reader falls behind in the middle.
        let (scanner, rows) = (Scanner::new().with_span_rows(64), rows(64 * 50 + 7));
        let shared_scans = SharedScans::new(scanner.clone(), rows.clone().into());
        let jobs: Vec<Arc<OwnedScanJob>> = (0..8).map(|number| Arc::new(job(number))).collect();
        let waiting: Vec<_> = jobs.iter().map(|job| shared_scans.wait(job)).collect();
        assert!(waiting.iter().map(|(is_first, _)| *is_first).eq((0..8).map(|number| number == 0)));
        shared_scans.start_scans();
        assert_eq!(shared_scans.shared.load(Ordering::Relaxed), 8);

        let follow = |number: usize, spans| {
            // Query 3 reads slowly; query 5 stops early.
            let pause = Duration::from_millis(if number == 3 { 5 } else { 0 });
            let stop_after = if number == 5 { 1000 } else { usize::MAX };
            let mut bytes = vec![];
            let result = shared_scans.follow(&jobs[number], spans, &mut |span| {
                bytes.extend_from_slice(span);
                std::thread::sleep(pause);
                if bytes.len() > stop_after { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            let right = scanner.answer_to_vec(&rows, &jobs[number].job(), &jobs[number].keys).unwrap();
            if number == 5 {
                assert_eq!(result, Err(ScanError::Stopped));
                assert!(right.starts_with(&bytes));
            } else {
                assert_eq!(result, Ok(()), "query {number}");
                assert!(bytes == right, "query {number}");
            }
        };
        std::thread::scope(|scope| {
            for (number, (_, spans)) in waiting.into_iter().enumerate() {
                scope.spawn(move || follow(number, spans));
            }
        });
    }

    #[test]
    fn a_query_that_no_other_query_joins_continues_alone() {
        let (scanner, rows) = (Scanner::new(), rows(100));
        let shared_scans = SharedScans::with_wait_time(scanner.clone(), rows.clone().into(), Duration::from_millis(1));
        let answer = |number, during: &dyn Fn()| {
            let mut bytes = vec![];
            let result = shared_scans.answer(job(number), &mut |span| {
                during();
                bytes.extend_from_slice(span);
                ControlFlow::Continue(())
            });
            let right = job(number);
            assert_eq!(result, Ok(()));
            assert!(bytes == scanner.answer_to_vec(&rows, &right.job(), &right.keys).unwrap());
        };
        // The second query arrives while the first one runs.
        answer(1, &|| answer(2, &|| ()));
        assert_eq!(shared_scans.shared.load(Ordering::Relaxed), 0);
        assert_eq!(shared_scans.active.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn queries_over_small_databases_do_not_wait() {
        assert!(SharedScans::new(Scanner::new(), rows(1000).into()).wait_time.is_zero());
        let wait_time = SharedScans::new(Scanner::new(), rows(3_000_000).into()).wait_time;
        assert!(wait_time > Duration::from_micros(500) && wait_time < Duration::from_millis(5));
    }
}
