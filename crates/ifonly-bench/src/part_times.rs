//! Times of the parts of a search that runs by direct calls.

use std::time::{Duration, Instant};

/// The time of one part.
#[derive(Clone, Debug, serde::Serialize)]
pub struct TimedPart {
    /// What was measured.
    pub part: &'static str,
    /// Its best time.
    pub milliseconds: f64,
}

/// The time of each part, in the order of a search.
#[derive(Debug, Default)]
pub(crate) struct PartTimes(Vec<(&'static str, Duration)>);

impl PartTimes {
    /// Adds the time of `work` to a part.
    pub(crate) fn measure<T>(&mut self, part: &'static str, work: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let result = work();
        let elapsed = started.elapsed();
        match self.0.iter_mut().find(|(name, _)| *name == part) {
            Some((_, time)) => *time += elapsed,
            None => self.0.push((part, elapsed)),
        }
        result
    }

    /// Keeps the shorter time of each part.
    pub(crate) fn keep_best(&mut self, round: &PartTimes) {
        if self.0.is_empty() {
            self.0.clone_from(&round.0);
        }
        self.0.iter_mut().zip(&round.0).for_each(|((_, best), (_, time))| *best = (*best).min(*time));
    }

    /// All parts and their sum in milliseconds.
    pub(crate) fn into_parts(self) -> (Vec<TimedPart>, f64) {
        let part = |(part, time)| TimedPart { part, milliseconds: milliseconds(time) };
        let parts: Vec<TimedPart> = self.0.into_iter().map(part).collect();
        let sum = parts.iter().map(|part| part.milliseconds).sum();
        (parts, sum)
    }
}

pub(crate) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
