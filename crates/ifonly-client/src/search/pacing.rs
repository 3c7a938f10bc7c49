//! Pacing: requests depart at times that do not depend on decoded values.
//!
//! A server sees the time between the last byte of an answer and the next request. The client does
//! the same work in between for every profile, but caches, allocators and branch predictors make
//! its duration depend on data. Therefore every request departs at a multiple of a fixed interval
//! after the end of the last answer. The interval covers the work: before a search, the client
//! measures the decoding of all-zero answers of the same sizes (a rehearsal), doubles that time,
//! and rounds it up to one of four steps per power of two. The interval depends on public sizes and
//! on this machine.
//!
//! The first message of a question departs at a multiple of another interval after the arrival of
//! the manifests. It covers the preparation of a search, measured on one without a target: in wide
//! schemas, the time to compile wishes would show. Between two searches of one question, the sum of
//! both intervals applies.
//!
//! Pacing needs a [`Clock`]. Every [`Transport`](crate::Transport) that leaves the process has one.

use crate::transport::TransportFuture;
use ifonly_algebra::random::OsRandom;
use ifonly_core::params::Params;
use ifonly_core::scheme::instance::SchemeInstance;
use ifonly_core::scheme::{CostModel, Scheme};
use ifonly_core::search::{HeaderContext, Search, StepMessages};
use ifonly_core::secret_query::SecretQuery;
use ifonly_scan::decode::KernelInterpolator;
use std::time::Duration;

/// Tells the time and waits.
pub trait Clock: Send + Sync {
    /// The time since a fixed moment.
    fn now(&self) -> Duration;

    /// Waits until this time.
    fn wait_until(&self, time: Duration) -> TransportFuture<'_, ()>;
}

/// The shortest interval.
const SHORTEST: Duration = Duration::from_millis(1);

/// The departure of the requests of one question.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    /// The interval between two steps of a search.
    steps: Duration,
    /// The interval between two searches.
    between: Duration,
    /// The interval of the next request, which departs at a multiple of it.
    next: Duration,
    /// When the manifests arrived or the last answer ended; `None` without a clock.
    pub(crate) ended: Option<Duration>,
}

impl Pace {
    /// `arrived` is when the manifests arrived, `steps` the interval of the steps of a search, and
    /// `preparation` the time that the preparation of a search takes, measured without a target.
    pub(crate) fn new(arrived: Option<Duration>, steps: Duration, preparation: Duration) -> Pace {
        let next = rounded(preparation.saturating_mul(2));
        Pace { steps, between: rounded(next.saturating_add(steps)), next, ended: arrived }
    }

    /// Waits for the departure of the next step. If the clock fails, the search continues without
    /// pacing.
    pub(crate) async fn wait(&mut self, clock: &dyn Clock) {
        if let Some(ended) = self.ended.take() {
            let _ = clock.wait_until(departure(ended, clock.now(), self.next)).await;
        }
        self.next = self.steps;
    }

    /// The next step belongs to another search.
    pub(crate) fn end_search(&mut self) {
        self.next = self.between;
    }
}

/// The interval of searches for `k` records with this scheme instance, on this machine.
pub(crate) fn interval(
    instance: &SchemeInstance,
    header_context: HeaderContext,
    k: usize,
    clock: &dyn Clock,
) -> Duration {
    // Decoding time is proportional to the number of rows, so this many rows suffice.
    const REHEARSED: usize = 1 << 18;
    let rows = instance.params().rows;
    let small = instance.with_rows(rows.min(REHEARSED));
    let parts = rows.div_ceil(small.params().rows) as u32;
    rounded(rehearse(small, header_context, k, clock).saturating_mul(parts).saturating_mul(2))
}

/// Measures the longest time from the last bytes of a step's answers to the next step's messages.
fn rehearse(instance: SchemeInstance, header_context: HeaderContext, k: usize, clock: &dyn Clock) -> Duration {
    // Bytes that may still be in transit when the client has decoded all others.
    const LAST: usize = 64 << 10;
    let (mut longest, random) = (Duration::ZERO, &mut OsRandom::default());
    let query = dummy_query(instance.scheme(), instance.params());
    let Ok(search) = Search::nearest(instance, query, header_context, k) else { return longest };
    let mut search = search.interpolated_by(&KernelInterpolator);
    let mut step = search.next(random);
    while let Some(StepMessages { messages, response_length, .. }) = step {
        let response = vec![0; response_length];
        let (most, last) = response.split_at(response_length.saturating_sub(LAST));
        for server in 1..=messages.len() {
            search.receive_part(server, most);
        }
        let started = clock.now();
        for server in 1..=messages.len() {
            search.receive_part(server, last);
        }
        step = search.next(random);
        longest = longest.max(clock.now().saturating_sub(started));
    }
    longest
}

/// A query without a target that satisfies every limit of the scheme.
pub(crate) fn dummy_query(scheme: &Scheme, params: &Params) -> SecretQuery {
    let max_levels = &params.max_levels;
    let query = SecretQuery::new(vec![0; max_levels.len()]);
    match scheme.cost_model {
        // Costs of zero are below every cost limit; squared differences of levels may not be.
        CostModel::Table => {
            query.cost_tables(max_levels.iter().map(|&max_level| vec![0; max_level as usize + 1]).collect())
        }
        _ => query,
    }
}

/// Rounds up to a multiple of a quarter of the largest power of two of milliseconds below: 1, 1.25,
/// 1.5, 1.75, 2, 2.5, 3 and so on. Coarse enough that the noise of one measurement rarely shows.
fn rounded(time: Duration) -> Duration {
    let shortest = SHORTEST.as_micros();
    let micros = (time.as_nanos().div_ceil(1000)).max(shortest);
    let power = shortest << (micros / shortest).ilog2();
    let rounded = micros.next_multiple_of(power / 4);
    Duration::from_micros(u64::try_from(rounded).unwrap_or(u64::MAX))
}

/// The departure time of a request that is ready at `now`, after answers that ended at `ended`.
fn departure(ended: Duration, now: Duration, interval: Duration) -> Duration {
    let multiple = now.saturating_sub(ended).as_nanos().div_ceil(interval.as_nanos().max(1)).max(1);
    ended.saturating_add(interval.saturating_mul(u32::try_from(multiple).unwrap_or(u32::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn decoding_time_within_the_interval_does_not_change_the_departure() {
        let (ended, interval) = (1000 * MS, 8 * MS);
        for took in 0..=8 {
            assert_eq!(departure(ended, ended + took * MS, interval), ended + interval);
        }
        // A slower client departs at the next multiple.
        assert_eq!(departure(ended, ended + 9 * MS, interval), ended + 2 * interval);
        // A clock that goes back does not cause an early departure.
        assert_eq!(departure(ended, ended - MS, interval), ended + interval);
    }

    #[test]
    fn intervals_have_four_steps_per_power_of_two() {
        let micros = [0, 1, 999, 1000, 1001, 1251, 1999, 2001, 5000, 5001, 7001, 8001];
        let expected = [1000, 1000, 1000, 1000, 1250, 1500, 2000, 2500, 5000, 6000, 8000, 10_000];
        assert_eq!(micros.map(Duration::from_micros).map(rounded), expected.map(Duration::from_micros));
        assert_eq!(rounded(Duration::from_nanos(1_000_001)), Duration::from_micros(1250));
        assert!(rounded(Duration::MAX) > Duration::from_secs(3600));
    }
}
