//! Timing on a noisy machine: all parts take turns, round after round, and each keeps its best time. A ratio between two
//! parts of one run then compares times from the same quiet moments.

use std::time::{Duration, Instant};

/// A named piece of work.
pub(super) struct Part<'a> {
    pub(super) name: &'static str,
    work: Box<dyn FnMut() + 'a>,
    best: Duration,
}

impl<'a> Part<'a> {
    pub(super) fn new(name: &'static str, work: impl FnMut() + 'a) -> Part<'a> {
        Part { name, work: Box::new(work), best: Duration::MAX }
    }

    /// The best time so far, in seconds.
    pub(super) fn seconds(&self) -> f64 {
        self.best.as_secs_f64()
    }
}

/// Runs every part once per round.
pub(super) fn interleave(parts: &mut [Part<'_>], rounds: usize) {
    for _ in 0..rounds.max(1) {
        for part in parts.iter_mut() {
            let start = Instant::now();
            (part.work)();
            part.best = part.best.min(start.elapsed());
        }
    }
}
