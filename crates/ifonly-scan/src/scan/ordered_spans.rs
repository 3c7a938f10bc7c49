//! Spans on several threads: computed in any order, delivered in theirs.

use crate::tile::Scratch;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

/// Spans after which a thread of the pool looks at what other answers have for it.
const SPANS_PER_TURN: usize = 32;

/// Work on the spans `0..spans` on this thread and `helpers` of a pool, `ahead` of them under way,
/// with the results delivered in order on this thread. There are no waves to wait for, and no
/// thread of the pool waits for a delivery.
pub(super) fn deliver_in_order<T: Send>(
    pool: &rayon::ThreadPool,
    helpers: usize,
    spans: usize,
    ahead: usize,
    work: impl Fn(usize, &mut Scratch) -> T + Sync,
    mut deliver: impl FnMut(T) -> ControlFlow<()>,
) {
    let (next, delivered, helping) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let claim = || {
        let end = spans.min(delivered.load(Ordering::Relaxed) + ahead);
        next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |span| (span < end).then_some(span + 1)).ok()
    };
    let (work, claim, helping) = (&work, &claim, &helping);
    pool.in_place_scope(|scope| {
        let (sender, done) = mpsc::channel();
        let mut scratch = Scratch::default();
        let mut early = BTreeMap::new();
        for span in 0..spans {
            // Helpers end when they are too far ahead, or when it is another answer's turn.
            while helping.load(Ordering::Relaxed) < helpers && next.load(Ordering::Relaxed) < spans {
                helping.fetch_add(1, Ordering::Relaxed);
                let sender = sender.clone();
                scope.spawn(move |_| {
                    let mut scratch = Scratch::default();
                    for span in std::iter::from_fn(claim).take(SPANS_PER_TURN) {
                        // A panic must reach the one who waits for this span; nobody does where the
                        // sinks have stopped.
                        let result = catch_unwind(AssertUnwindSafe(|| work(span, &mut scratch)));
                        let _ = sender.send((span, result));
                    }
                    helping.fetch_sub(1, Ordering::Relaxed);
                });
            }
            let result = loop {
                early.extend(done.try_iter());
                if let Some(result) = early.remove(&span) {
                    break result;
                }
                match claim() {
                    Some(mine) => {
                        early.insert(mine, Ok(work(mine, &mut scratch)));
                    }
                    // Spans are claimed in order, so a helper has this one.
                    None => early.extend(done.recv()),
                }
            };
            if deliver(result.unwrap_or_else(|panic| resume_unwind(panic))).is_break() {
                // Nothing is claimed any more.
                next.store(spans, Ordering::Relaxed);
                return;
            }
            delivered.store(span + 1, Ordering::Relaxed);
        }
    });
}
