//! When the next request leaves: at a time that depends on public sizes and on this machine, not on
//! what was decoded.
//!
//! A server sees how long a client takes between the last byte of an answer and its next request.
//! The work in between is the same for everybody; caches, allocators and branch predictors are not.
//! So every request but the first waits for the next multiple of a step after the last answer's
//! end, and the step covers all that work: before a search, its reading is rehearsed with empty
//! answers of the same sizes, and the step is the power of two of milliseconds above twice the time
//! that took.
//!
//! Waiting needs a [`Clock`], which a [`Transport`](crate::Transport) that leaves the process has.

use crate::transport::TransportFuture;
use ifonly_algebra::random::OsRandom;
use ifonly_core::params::Params;
use ifonly_core::scheme::instance::SchemeInstance;
use ifonly_core::scheme::{CostModel, Scheme};
use ifonly_core::search::{HeaderContext, Search, StepMessages};
use ifonly_core::secret_query::SecretQuery;
use ifonly_scan::decode::KernelInterpolator;
use std::time::Duration;

/// Reads the time and waits.
pub trait Clock: Send + Sync {
    /// The time since some moment that stays the same.
    fn now(&self) -> Duration;

    /// Waits until then.
    fn wait_until(&self, time: Duration) -> TransportFuture<'_, ()>;
}

/// No step is shorter, and every step is a power of two of these.
const SHORTEST: Duration = Duration::from_millis(1);

/// The step of searches for `k` records under this deployment, on this machine.
pub(crate) fn step(instance: &SchemeInstance, header_context: HeaderContext, k: usize, clock: &dyn Clock) -> Duration {
    // More rows take longer in proportion; so many show how much longer.
    const REHEARSED: usize = 1 << 18;
    let rows = instance.params().rows;
    let params = Params { rows: rows.min(REHEARSED), ..instance.params().clone() };
    let field = instance.field();
    let alphas: Vec<i64> = instance.points().iter().map(|&point| field.signed(point)).collect();
    // Fewer rows fit wherever the deployment's do; without a rehearsal there is the shortest step.
    let Ok(small) = SchemeInstance::with_field(instance.scheme(), params, field.q(), &alphas) else {
        return SHORTEST;
    };
    let parts = rows.div_ceil(small.params().rows) as u32;
    rounded(rehearsed(small, header_context, k, clock).saturating_mul(parts).saturating_mul(2))
}

/// The longest time between the last bytes of a step's answers and the next step's messages.
fn rehearsed(instance: SchemeInstance, header_context: HeaderContext, k: usize, clock: &dyn Clock) -> Duration {
    // What may still be on its way when all other bytes have been read.
    const LAST: usize = 64 << 10;
    let (mut longest, random) = (Duration::ZERO, &mut OsRandom::default());
    let nobody = nobody(instance.scheme(), instance.params());
    let Ok(search) = Search::nearest(instance, nobody, header_context, k) else { return longest };
    let mut search = search.interpolated_by(&KernelInterpolator);
    let mut outgoing = search.next(random);
    while let Some(StepMessages { messages, response_length, .. }) = outgoing {
        let response = vec![0; response_length];
        let (most, last) = response.split_at(response_length.saturating_sub(LAST));
        for server in 1..=messages.len() {
            search.receive_part(server, most);
        }
        let started = clock.now();
        for server in 1..=messages.len() {
            search.receive_part(server, last);
        }
        outgoing = search.next(random);
        longest = longest.max(clock.now().saturating_sub(started));
    }
    longest
}

/// Somebody who looks for nothing, under every limit of the deployment.
pub(crate) fn nobody(scheme: &Scheme, params: &Params) -> SecretQuery {
    let ranges = &params.ranges;
    let nobody = SecretQuery::new(vec![0; ranges.len()]);
    match scheme.cost_model {
        // Costs of nothing fit under every limit; squared levels need not.
        CostModel::Table => nobody.cost_tables(ranges.iter().map(|&range| vec![0; range as usize + 1]).collect()),
        _ => nobody,
    }
}

/// The power of two of milliseconds above this.
fn rounded(time: Duration) -> Duration {
    let shortest = SHORTEST.as_micros();
    let steps = time.as_micros().div_ceil(shortest).max(1).next_power_of_two();
    SHORTEST.saturating_mul(u32::try_from(steps).unwrap_or(u32::MAX))
}

/// When a request may leave that was ready `now`, after answers that ended at `ended`.
pub(crate) fn departure(ended: Duration, now: Duration, step: Duration) -> Duration {
    let steps = now.saturating_sub(ended).as_nanos().div_ceil(step.as_nanos().max(1)).max(1);
    ended.saturating_add(step.saturating_mul(u32::try_from(steps).unwrap_or(u32::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_request_leaves_at_the_same_time_however_long_reading_took_within_a_step() {
        let (ended, step) = (1000 * MS, 8 * MS);
        for took in 0..=8 {
            assert_eq!(departure(ended, ended + took * MS, step), ended + step);
        }
        // Whoever is slower still leaves at a multiple.
        assert_eq!(departure(ended, ended + 9 * MS, step), ended + 2 * step);
        // A clock that goes back is no reason to leave early.
        assert_eq!(departure(ended, ended - MS, step), ended + step);
    }

    #[test]
    fn steps_are_powers_of_two() {
        assert_eq!(
            [0, 1, 999, 1000, 1001, 5000].map(Duration::from_micros).map(rounded),
            [MS, MS, MS, MS, 2 * MS, 8 * MS]
        );
        assert!(rounded(Duration::MAX) > Duration::from_secs(3600));
    }
}
