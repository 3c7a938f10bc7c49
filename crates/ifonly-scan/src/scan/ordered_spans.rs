//! Spans on several threads: computed in any order, delivered in ascending order.
//!
//! The calling thread computes spans too, and it alone delivers results. Threads of the pool never
//! wait for a delivery, and there is no barrier between groups of spans.

use crate::tile::Scratch;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

/// Spans after which a pool thread ends its task, so that the pool can serve other answers.
const SPANS_PER_TURN: usize = 32;

/// Computes the spans `0..spans` on this thread and on `helpers` threads of the pool. At most
/// `window` spans are claimed and not yet delivered. `deliver` receives the results in order, on
/// this thread.
pub(crate) fn deliver_in_order<T: Send>(
    pool: &rayon::ThreadPool,
    helpers: usize,
    spans: usize,
    window: usize,
    work: impl Fn(usize, &mut Scratch) -> T + Sync,
    mut deliver: impl FnMut(T) -> ControlFlow<()>,
) {
    let (next, delivered, helping) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let claim = || {
        let end = spans.min(delivered.load(Ordering::Relaxed) + window);
        next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |span| (span < end).then_some(span + 1)).ok()
    };
    let (work, claim, helping) = (&work, &claim, &helping);
    pool.in_place_scope(|scope| {
        let (sender, done) = mpsc::channel();
        let mut scratch = Scratch::default();
        let mut finished = BTreeMap::new();
        for span in 0..spans {
            // A helper ends when the window is exhausted or when it has computed SPANS_PER_TURN
            // spans.
            while helping.load(Ordering::Relaxed) < helpers && next.load(Ordering::Relaxed) < spans {
                helping.fetch_add(1, Ordering::Relaxed);
                let sender = sender.clone();
                scope.spawn(move |_| {
                    let mut scratch = Scratch::default();
                    for span in std::iter::from_fn(claim).take(SPANS_PER_TURN) {
                        // A panic must reach the thread that waits for this span. Sending fails
                        // only after the last delivery, when the receiver is gone.
                        let result = catch_unwind(AssertUnwindSafe(|| work(span, &mut scratch)));
                        let _ = sender.send((span, result));
                    }
                    helping.fetch_sub(1, Ordering::Relaxed);
                });
            }
            let result = loop {
                finished.extend(done.try_iter());
                if let Some(result) = finished.remove(&span) {
                    break result;
                }
                match claim() {
                    Some(own) => {
                        finished.insert(own, Ok(work(own, &mut scratch)));
                    }
                    // Spans are claimed in order, so a helper is computing this span.
                    None => finished.extend(done.recv()),
                }
            };
            if deliver(result.unwrap_or_else(|panic| resume_unwind(panic))).is_break() {
                // Prevents further claims.
                next.store(spans, Ordering::Relaxed);
                return;
            }
            delivered.store(span + 1, Ordering::Relaxed);
        }
    });
}
