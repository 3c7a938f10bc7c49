//! Queries that come at the same time share a pass over the rows.
//!
//! A query that finds another one at work waits about as long as the rows take to be read; then all
//! that have come by then are answered together, by a thread that hands each its spans. Nobody
//! waits for anybody else's network: a query whose reader falls behind drops out of the pass and
//! goes on alone where it was. How long an answer takes depends on how many ask, never on what.

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

/// Queries of one pass.
const MOST_TOGETHER: usize = 64;
/// Spans that a query may be behind.
const SPANS_BEHIND: usize = 16;
/// Smaller databases stay in the cache, and sharing what costs nothing gains nothing.
const FEWEST_BYTES: usize = 4 << 20;
/// Bytes of rows for each second of waiting: about the speed of memory.
const BYTES_PER_SECOND: usize = 16 << 30;

/// A job with all that it needs, kept by the pass and by the query itself.
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

/// A query that waits for its pass.
struct Waiting {
    job: Arc<OwnedScanJob>,
    spans: SyncSender<Vec<u8>>,
}

/// The passes over the rows of one database.
pub(crate) struct SharedScans {
    scanner: Scanner,
    rows: RowParts,
    gathering: Duration,
    active: AtomicUsize,
    waiting: Mutex<Vec<Waiting>>,
    shared: AtomicU64,
}

impl SharedScans {
    pub(crate) fn new(scanner: Scanner, rows: RowParts) -> SharedScans {
        // Parts give their values one query at a time.
        let bytes = rows.whole().map_or(0, |store| store.data().len());
        let worth = if bytes < FEWEST_BYTES { 0.0 } else { bytes as f64 / BYTES_PER_SECOND as f64 };
        SharedScans::gathering_for(scanner, rows, Duration::from_secs_f64(worth))
    }

    /// Waits so long for others; not at all if that is zero.
    fn gathering_for(scanner: Scanner, rows: RowParts, gathering: Duration) -> SharedScans {
        let (active, shared) = (AtomicUsize::new(0), AtomicU64::new(0));
        SharedScans { scanner, rows, gathering, active, waiting: Mutex::default(), shared }
    }

    /// The packed answer, span by span, alone or together with others.
    pub(crate) fn answer(
        &self,
        job: OwnedScanJob,
        sink: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), ScanError> {
        let alone = self.active.fetch_add(1, Ordering::Relaxed) == 0;
        let _here = Leaving(&self.active);
        let job = Arc::new(job);
        let shares_well = || self.rows.whole().is_some_and(|store| self.scanner.shares_well(store, &job.job()));
        if alone || self.gathering.is_zero() || !shares_well() {
            return self.go_on(&job, 0, sink);
        }
        let (first, spans) = self.wait(&job);
        if first {
            std::thread::sleep(self.gathering);
            self.start_pass();
        }
        self.follow(&job, spans, sink)
    }

    /// Enters a query for the next pass; says too whether it is the first there.
    fn wait(&self, job: &Arc<OwnedScanJob>) -> (bool, Receiver<Vec<u8>>) {
        let (spans, received) = sync_channel(SPANS_BEHIND);
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push(Waiting { job: job.clone(), spans });
        (waiting.len() == 1, received)
    }

    /// Hands on what the pass brings. That ends with the answer, or early: when this query fell
    /// behind, or when nobody else came.
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
        self.go_on(job, done, sink)
    }

    /// The answer from byte `done` on, alone.
    fn go_on(
        &self,
        job: &OwnedScanJob,
        done: usize,
        sink: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), ScanError> {
        self.scanner.answer_parts(&self.rows, &ScanQuery::new(&job.job(), &job.keys), done, sink)
    }

    /// Answers all that wait. Whoever is not answered sees its channel end and goes on alone.
    fn start_pass(&self) {
        let Some(store) = self.rows.whole() else { return };
        let mut waiting = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        while waiting.len() > 1 {
            let together = waiting.split_off(waiting.len().saturating_sub(MOST_TOGETHER));
            self.shared.fetch_add(together.len() as u64, Ordering::Relaxed);
            let (scanner, store) = (self.scanner.clone(), store.clone());
            let named = std::thread::Builder::new().name("pass".to_owned());
            if let Err(error) = named.spawn(move || pass(&scanner, &store, together)) {
                tracing::warn!(%error, "no thread for a shared pass; its queries go on alone");
            }
        }
    }
}

fn pass(scanner: &Scanner, store: &RowStore, together: Vec<Waiting>) {
    let (owned, spans): (Vec<Arc<OwnedScanJob>>, Vec<_>) = together.into_iter().map(|one| (one.job, one.spans)).unzip();
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
        // The queries go on alone and hear of it there.
        tracing::error!(%error, "a shared pass refused a checked query");
    }
}

/// Counts a query out, however it ends.
struct Leaving<'a>(&'a AtomicUsize);

impl Drop for Leaving<'_> {
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
            shape: RowFunctionKind::Linear { norm: FieldElement::ONE, slope },
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
    fn queries_at_the_same_time_share_a_pass_and_each_gets_its_own_answer() {
        // Many short spans, so that slow readers fall behind in the middle.
        let (scanner, rows) = (Scanner::new().with_span_rows(64), rows(64 * 50 + 7));
        let shared_scans = SharedScans::new(scanner.clone(), rows.clone().into());
        let jobs: Vec<Arc<OwnedScanJob>> = (0..8).map(|number| Arc::new(job(number))).collect();
        let waiting: Vec<_> = jobs.iter().map(|job| shared_scans.wait(job)).collect();
        assert!(waiting.iter().map(|(first, _)| *first).eq((0..8).map(|number| number == 0)));
        shared_scans.start_pass();
        assert_eq!(shared_scans.shared.load(Ordering::Relaxed), 8);

        let follow = |number: usize, spans| {
            // Number 3 reads slowly, number 5 goes away.
            let pause = Duration::from_millis(if number == 3 { 5 } else { 0 });
            let most = if number == 5 { 1000 } else { usize::MAX };
            let mut bytes = vec![];
            let result = shared_scans.follow(&jobs[number], spans, &mut |span| {
                bytes.extend_from_slice(span);
                std::thread::sleep(pause);
                if bytes.len() > most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
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
    fn a_query_that_waited_in_vain_goes_alone() {
        let (scanner, rows) = (Scanner::new(), rows(100));
        let shared_scans = SharedScans::gathering_for(scanner.clone(), rows.clone().into(), Duration::from_millis(1));
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
        // The second asks while the first is at work.
        answer(1, &|| answer(2, &|| ()));
        assert_eq!(shared_scans.shared.load(Ordering::Relaxed), 0);
        assert_eq!(shared_scans.active.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn small_databases_are_not_worth_waiting_for() {
        assert!(SharedScans::new(Scanner::new(), rows(1000).into()).gathering.is_zero());
        let gathering = SharedScans::new(Scanner::new(), rows(3_000_000).into()).gathering;
        assert!(gathering > Duration::from_micros(500) && gathering < Duration::from_millis(5));
    }
}
