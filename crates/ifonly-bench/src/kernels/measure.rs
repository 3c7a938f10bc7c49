//! Timing on a noisy machine.
//!
//! All parts run once per round, and each part keeps its best time. A ratio between two parts of
//! one run then compares times from the same quiet moments. Work on one thread is timed by the CPU
//! clock of that thread, which stops while the machine runs something else.

use cpu_time::ThreadTime;
use serde::Serialize;
use std::time::{Duration, Instant};

/// The source of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BenchClock {
    /// CPU time of the measuring thread.
    Thread,
    /// Wall-clock time, the only clock that is meaningful for several threads.
    Wall,
}

/// A named piece of work.
pub(super) struct BenchPart<'a> {
    pub(super) name: &'static str,
    work: Box<dyn FnMut() + 'a>,
    best: Duration,
}

impl<'a> BenchPart<'a> {
    pub(super) fn new(name: &'static str, work: impl FnMut() + 'a) -> BenchPart<'a> {
        BenchPart { name, work: Box::new(work), best: Duration::MAX }
    }

    /// The best time so far, in seconds.
    pub(super) fn seconds(&self) -> f64 {
        self.best.as_secs_f64()
    }
}

impl BenchClock {
    /// The time that `work` takes.
    pub(super) fn time(self, work: &mut dyn FnMut()) -> Duration {
        match self {
            BenchClock::Thread => {
                let start = ThreadTime::now();
                work();
                start.elapsed()
            }
            BenchClock::Wall => {
                let start = Instant::now();
                work();
                start.elapsed()
            }
        }
    }
}

/// Runs every part once per round.
pub(super) fn interleave(parts: &mut [BenchPart<'_>], rounds: usize, clock: BenchClock) {
    for _ in 0..rounds.max(1) {
        for part in parts.iter_mut() {
            part.best = part.best.min(clock.time(&mut part.work));
        }
    }
}
