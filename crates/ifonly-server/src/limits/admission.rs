//! How many requests are inside at once: some running, some waiting, the rest turned away at the
//! door.
//!
//! A [`Turn`] is taken when the message is there, a [`Permit`] before the scan; both are given back
//! before the answer goes out, so neither is ever held for somebody's network. One address has a
//! share of the turns and no more. Whoever gets no turn is told when to come again.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The door.
#[derive(Clone, Debug)]
pub(crate) struct AdmissionQueue {
    inside: Arc<Semaphore>,
    running: Arc<Semaphore>,
    limits: (usize, usize),
    addresses: Arc<Addresses>,
}

/// Who is inside, by address.
#[derive(Debug)]
struct Addresses {
    share: usize,
    inside: Mutex<HashMap<IpAddr, usize>>,
}

/// One more from an address, until it is dropped.
#[derive(Debug)]
struct AddressQuota(Arc<Addresses>, IpAddr);

impl AddressQuota {
    fn take(addresses: &Arc<Addresses>, address: IpAddr) -> Option<AddressQuota> {
        let mut inside = addresses.inside.lock().unwrap_or_else(PoisonError::into_inner);
        let count = inside.entry(address).or_default();
        if *count >= addresses.share {
            return None;
        }
        *count += 1;
        Some(AddressQuota(addresses.clone(), address))
    }
}

impl Drop for AddressQuota {
    fn drop(&mut self) {
        let mut inside = self.0.inside.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = inside.get_mut(&self.1) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                inside.remove(&self.1);
            }
        }
    }
}

/// The right to be inside, waiting.
#[derive(Debug)]
pub(crate) struct QueueSlot {
    inside: OwnedSemaphorePermit,
    portion: AddressQuota,
    running: Arc<Semaphore>,
}

/// The right to run.
#[derive(Debug)]
pub(crate) struct RunPermit {
    _inside: OwnedSemaphorePermit,
    _portion: AddressQuota,
    _running: OwnedSemaphorePermit,
}

impl AdmissionQueue {
    /// At most `running` at work and `queue` waiting, of which one address may have `share`
    /// percent.
    pub(crate) fn new(running: usize, queue: usize, share: usize) -> AdmissionQueue {
        let running = running.clamp(1, Semaphore::MAX_PERMITS / 2);
        let inside = running + queue.min(Semaphore::MAX_PERMITS / 2);
        let share = (inside * share.clamp(1, 100) / 100).max(1);
        AdmissionQueue {
            inside: Arc::new(Semaphore::new(inside)),
            running: Arc::new(Semaphore::new(running)),
            limits: (inside, running),
            addresses: Arc::new(Addresses { share, inside: Mutex::default() }),
        }
    }

    /// A turn for somebody from this address, unless the queue or the address's part of it is full.
    pub(crate) fn enter(&self, address: IpAddr) -> Option<QueueSlot> {
        let portion = AddressQuota::take(&self.addresses, address)?;
        let inside = self.inside.clone().try_acquire_owned().ok()?;
        Some(QueueSlot { inside, portion, running: self.running.clone() })
    }

    /// Requests at work.
    pub(crate) fn running(&self) -> usize {
        self.limits.1.saturating_sub(self.running.available_permits())
    }

    /// Requests inside, at work or waiting.
    pub(crate) fn inside(&self) -> usize {
        self.limits.0.saturating_sub(self.inside.available_permits())
    }
}

impl QueueSlot {
    /// Waits for its turn, first come, first served. The semaphore is never closed, so there is
    /// always a permit in the end.
    pub(crate) async fn run(self) -> Option<RunPermit> {
        let running = self.running.acquire_owned().await.ok()?;
        Some(RunPermit { _inside: self.inside, _portion: self.portion, _running: running })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    const THERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    #[tokio::test]
    async fn beyond_running_and_queue_the_door_is_shut_and_opens_again() {
        let acceptor = AdmissionQueue::new(1, 1, 100);
        let first = acceptor.enter(HERE).unwrap().run().await.unwrap();
        let second = acceptor.enter(HERE).unwrap();
        assert!(acceptor.enter(HERE).is_none() && acceptor.enter(THERE).is_none());
        assert_eq!((acceptor.running(), acceptor.inside()), (1, 2));
        drop(first);
        let second = second.run().await.unwrap();
        assert!(acceptor.enter(HERE).is_some());
        drop(second);
        assert_eq!((acceptor.running(), acceptor.inside()), (0, 0));
    }

    #[test]
    fn one_address_does_not_shut_out_another() {
        let acceptor = AdmissionQueue::new(2, 6, 50);
        let mut here: Vec<QueueSlot> = std::iter::from_fn(|| acceptor.enter(HERE)).collect();
        assert_eq!(here.len(), 4);
        let there: Vec<QueueSlot> = std::iter::from_fn(|| acceptor.enter(THERE)).collect();
        assert_eq!((there.len(), acceptor.inside()), (4, 8));
        here.pop();
        assert!(acceptor.enter(HERE).is_some());
        drop((here, there));
        assert!(acceptor.addresses.inside.lock().unwrap().is_empty());
        // However small the share, somebody can ask.
        assert!(AdmissionQueue::new(1, 0, 1).enter(HERE).is_some());
    }
}
