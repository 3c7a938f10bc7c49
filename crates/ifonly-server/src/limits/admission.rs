//! The admission queue: a limit on running and queued requests.
//!
//! A request takes a [`QueueEntry`] when its message has arrived, and exchanges it for a
//! [`RunPermit`] before the scan. The permit is returned before the response is sent, so no client
//! can hold a place or a permit by reading or writing slowly. One address gets only a share of all
//! places. A request without a place is refused with `overloaded` and Retry-After.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The limits, and the requests that were admitted.
#[derive(Clone, Debug)]
pub(crate) struct AdmissionQueue {
    admitted: Arc<Semaphore>,
    running: Arc<Semaphore>,
    limits: (usize, usize),
    addresses: Arc<Addresses>,
}

/// Admitted requests by address.
#[derive(Debug)]
struct Addresses {
    limit: usize,
    admitted: Mutex<HashMap<IpAddr, usize>>,
}

/// One admitted request of an address; dropping it decrements the count.
#[derive(Debug)]
struct AddressQuota(Arc<Addresses>, IpAddr);

impl AddressQuota {
    fn take(addresses: &Arc<Addresses>, address: IpAddr) -> Option<AddressQuota> {
        let mut admitted = addresses.admitted.lock().unwrap_or_else(PoisonError::into_inner);
        let count = admitted.entry(address).or_default();
        if *count >= addresses.limit {
            return None;
        }
        *count += 1;
        Some(AddressQuota(addresses.clone(), address))
    }
}

impl Drop for AddressQuota {
    fn drop(&mut self) {
        let mut admitted = self.0.admitted.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = admitted.get_mut(&self.1) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                admitted.remove(&self.1);
            }
        }
    }
}

/// The right to wait for a [`RunPermit`].
#[derive(Debug)]
pub(crate) struct QueueEntry {
    admitted: OwnedSemaphorePermit,
    quota: AddressQuota,
    running: Arc<Semaphore>,
}

/// The right to compute.
#[derive(Debug)]
pub(crate) struct RunPermit {
    _admitted: OwnedSemaphorePermit,
    _quota: AddressQuota,
    _running: OwnedSemaphorePermit,
}

impl AdmissionQueue {
    /// A queue for at most `running` running and `queue` waiting requests. One address may have
    /// `address_percent` percent of the sum, and at least one.
    pub(crate) fn new(running: usize, queue: usize, address_percent: usize) -> AdmissionQueue {
        let running = running.clamp(1, Semaphore::MAX_PERMITS / 2);
        let admitted = running + queue.min(Semaphore::MAX_PERMITS / 2);
        let limit = (admitted * address_percent.clamp(1, 100) / 100).max(1);
        AdmissionQueue {
            admitted: Arc::new(Semaphore::new(admitted)),
            running: Arc::new(Semaphore::new(running)),
            limits: (admitted, running),
            addresses: Arc::new(Addresses { limit, admitted: Mutex::default() }),
        }
    }

    /// A place for a request from this address, or `None` if the queue or the share of the address
    /// is full.
    pub(crate) fn enter(&self, address: IpAddr) -> Option<QueueEntry> {
        let quota = AddressQuota::take(&self.addresses, address)?;
        let admitted = self.admitted.clone().try_acquire_owned().ok()?;
        Some(QueueEntry { admitted, quota, running: self.running.clone() })
    }

    /// Running requests.
    pub(crate) fn running(&self) -> usize {
        self.limits.1.saturating_sub(self.running.available_permits())
    }

    /// Running and queued requests.
    pub(crate) fn admitted(&self) -> usize {
        self.limits.0.saturating_sub(self.admitted.available_permits())
    }
}

impl QueueEntry {
    /// Waits for a permit, in order of arrival. The semaphore is never closed, so the result is
    /// always `Some`.
    pub(crate) async fn run(self) -> Option<RunPermit> {
        let running = self.running.acquire_owned().await.ok()?;
        Some(RunPermit { _admitted: self.admitted, _quota: self.quota, _running: running })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    const SECOND: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    #[tokio::test]
    async fn a_full_queue_refuses_requests_until_a_request_ends() {
        let queue = AdmissionQueue::new(1, 1, 100);
        let first = queue.enter(FIRST).unwrap().run().await.unwrap();
        let second = queue.enter(FIRST).unwrap();
        assert!(queue.enter(FIRST).is_none() && queue.enter(SECOND).is_none());
        assert_eq!((queue.running(), queue.admitted()), (1, 2));
        drop(first);
        let second = second.run().await.unwrap();
        assert!(queue.enter(FIRST).is_some());
        drop(second);
        assert_eq!((queue.running(), queue.admitted()), (0, 0));
    }

    #[test]
    fn one_address_cannot_take_all_places() {
        let queue = AdmissionQueue::new(2, 6, 50);
        let mut first: Vec<QueueEntry> = std::iter::from_fn(|| queue.enter(FIRST)).collect();
        assert_eq!(first.len(), 4);
        let second: Vec<QueueEntry> = std::iter::from_fn(|| queue.enter(SECOND)).collect();
        assert_eq!((second.len(), queue.admitted()), (4, 8));
        first.pop();
        assert!(queue.enter(FIRST).is_some());
        drop((first, second));
        assert!(queue.addresses.admitted.lock().unwrap().is_empty());
        // An address always gets one place, however small its share.
        assert!(AdmissionQueue::new(1, 0, 1).enter(FIRST).is_some());
    }
}
