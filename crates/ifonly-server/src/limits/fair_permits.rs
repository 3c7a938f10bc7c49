//! Fair permits: a limited number of concurrent computations, shared fairly between addresses.
//!
//! Start-time fair queueing. Every address has a virtual time, which advances by the weight of each
//! permit that it gets. A free permit goes to the waiting address with the lowest virtual time. One
//! address has at most half of the permits, unless there is only one. So an address with many
//! waiting requests delays others by at most one computation.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// The permits of one server.
#[derive(Debug)]
pub(crate) struct FairPermits {
    capacity: usize,
    per_address: usize,
    queue: Mutex<FairQueue>,
}

#[derive(Debug, Default)]
struct FairQueue {
    running: HashMap<IpAddr, usize>,
    in_use: usize,
    virtual_time: u64,
    /// Virtual times at which the last permit of an address ends, if later than `virtual_time`.
    ends: HashMap<IpAddr, u64>,
    /// In order of arrival.
    waiting: Vec<SlotWaiter>,
}

#[derive(Debug)]
struct SlotWaiter {
    address: IpAddr,
    weight: u64,
    granted: oneshot::Sender<FairPermit>,
}

/// The right to compute; dropping it frees the permit.
#[derive(Debug)]
pub(crate) struct FairPermit {
    /// `None` after the permit was returned under the lock.
    permits: Option<Arc<FairPermits>>,
    address: IpAddr,
}

impl FairPermits {
    pub(crate) fn new(capacity: usize) -> Arc<FairPermits> {
        let capacity = capacity.max(1);
        Arc::new(FairPermits { capacity, per_address: capacity.div_ceil(2), queue: Mutex::default() })
    }

    /// Waits for a permit. The larger the weight of a request, the more it delays later requests of
    /// its address.
    pub(crate) async fn acquire(self: &Arc<FairPermits>, address: IpAddr, weight: u64) -> FairPermit {
        let (granted, permit) = oneshot::channel();
        {
            let mut queue = self.lock();
            queue.waiting.push(SlotWaiter { address, weight: weight.max(1), granted });
            self.grant(&mut queue);
        }
        match permit.await {
            Ok(permit) => permit,
            // Waiters are removed from the queue only when they get a permit or have given up.
            Err(_) => std::future::pending().await,
        }
    }

    /// Number of free permits, for tests.
    #[cfg(test)]
    pub(crate) fn available(&self) -> usize {
        self.capacity - self.lock().in_use
    }

    /// Grants free permits to waiting requests.
    fn grant(self: &Arc<FairPermits>, queue: &mut FairQueue) {
        queue.waiting.retain(|waiter| !waiter.granted.is_closed());
        while queue.in_use < self.capacity
            && let Some((position, start)) = self.next(queue)
        {
            let SlotWaiter { address, weight, granted } = queue.waiting.remove(position);
            let permit = FairPermit { permits: Some(self.clone()), address };
            if let Err(mut unused) = granted.send(permit) {
                // The request has given up; the lock is held, so nothing is returned on drop.
                unused.permits = None;
                continue;
            }
            queue.in_use += 1;
            *queue.running.entry(address).or_default() += 1;
            queue.virtual_time = start;
            queue.ends.insert(address, start.saturating_add(weight));
            queue.ends.retain(|_, end| *end > start);
        }
    }

    /// Position and start time of the waiter that gets the next permit.
    fn next(&self, queue: &FairQueue) -> Option<(usize, u64)> {
        let start = |address: &IpAddr| queue.ends.get(address).map_or(queue.virtual_time, |end| *end);
        let eligible =
            queue.waiting.iter().enumerate().filter(|(_, waiter)| {
                queue.running.get(&waiter.address).is_none_or(|running| *running < self.per_address)
            });
        eligible
            .map(|(position, waiter)| (position, start(&waiter.address)))
            .min_by_key(|(position, start)| (*start, *position))
    }

    fn lock(&self) -> MutexGuard<'_, FairQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for FairPermit {
    fn drop(&mut self) {
        let Some(permits) = self.permits.take() else { return };
        let mut queue = permits.lock();
        queue.in_use -= 1;
        if let Some(running) = queue.running.get_mut(&self.address) {
            *running -= 1;
            if *running == 0 {
                queue.running.remove(&self.address);
            }
        }
        permits.grant(&mut queue);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    const A: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const B: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    #[test]
    fn an_address_with_many_waiting_requests_has_at_most_half_of_the_slots() {
        let permits = FairPermits::new(4);
        let mut waiting: Vec<_> = (0..24).map(|_| Box::pin(permits.acquire(A, 1))).collect();
        let granted: Vec<_> = waiting.iter_mut().filter_map(FutureExt::now_or_never).collect();
        assert_eq!(granted.len(), 2);
        assert!(permits.acquire(B, 1).now_or_never().is_some());
    }

    #[test]
    fn with_one_slot_the_other_address_is_next_however_many_wait_before_it() {
        let permits = FairPermits::new(1);
        let first = permits.acquire(A, 1).now_or_never().unwrap();
        let mut many: Vec<_> = (0..24).map(|_| Box::pin(permits.acquire(A, 1))).collect();
        assert!(many.iter_mut().all(|waiting| waiting.now_or_never().is_none()));
        let mut other = Box::pin(permits.acquire(B, 1));
        assert!(other.as_mut().now_or_never().is_none());
        drop(first);
        assert!(other.now_or_never().is_some());
        // Requests that gave up leave the queue, and no permit is lost.
        drop(many);
        assert!(permits.acquire(A, 1).now_or_never().is_some());
        assert_eq!(permits.available(), 1);
    }

    #[test]
    fn a_search_for_many_records_weighs_as_many_searches() {
        let permits = FairPermits::new(1);
        let first = permits.acquire(A, 10).now_or_never().unwrap();
        let mut heavy = Box::pin(permits.acquire(A, 10));
        assert!(heavy.as_mut().now_or_never().is_none());
        let mut light: Vec<_> = (0..10).map(|_| Box::pin(permits.acquire(B, 1))).collect();
        assert!(light.iter_mut().all(|waiting| waiting.now_or_never().is_none()));
        drop(first);
        // Ten searches of B for one record have the weight of one search of A for ten.
        for waiting in light {
            assert!(waiting.now_or_never().is_some());
        }
        assert!(heavy.now_or_never().is_some());
    }
}
