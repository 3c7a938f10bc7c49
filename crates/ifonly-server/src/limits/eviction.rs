//! Eviction: a pool of limited capacity for connections and transfers that wait for a client.
//!
//! Idle connections, uploads and responses take capacity, and a hostile client never finishes them.
//! When the pool is full, a new entry evicts the oldest waiting entry of the address that uses the
//! most capacity. Busy entries, for which the server computes, are not evicted: they do not wait
//! for the network, so they end soon. An attacker with one address therefore evicts only its own
//! entries.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// The address by which limits count a client. IPv6 addresses count by their 64-bit prefix, because
/// one customer usually has the whole prefix.
pub(crate) fn rate_limit_key(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
}

/// A pool whose capacity is a number of bytes or of connections.
#[derive(Debug)]
pub(crate) struct EvictingPool {
    capacity: u64,
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    next: u64,
    used: u64,
    /// By number, so the oldest entry is first.
    all: BTreeMap<u64, Entry>,
}

#[derive(Debug)]
struct Entry {
    address: IpAddr,
    size: u64,
    /// Number of tasks that compute for this entry. An entry with 0 waits for its client.
    tasks: usize,
    evicted: Arc<Notify>,
}

/// An entry of the pool; dropping it frees its capacity.
#[derive(Debug)]
pub(crate) struct PoolEntry {
    pool: Arc<EvictingPool>,
    number: u64,
    evicted: Arc<Notify>,
}

impl EvictingPool {
    pub(crate) fn new(capacity: u64) -> Arc<EvictingPool> {
        Arc::new(EvictingPool { capacity, entries: Mutex::default() })
    }

    /// Adds a waiting entry. Returns `None` only if the pool is full and all its entries are busy.
    pub(crate) fn enter(self: &Arc<EvictingPool>, address: IpAddr, size: u64) -> Option<PoolEntry> {
        let mut entries = self.lock();
        entries.make_room(self.capacity, size).then(|| self.entry(&mut entries, address, size, 0))
    }

    /// Adds a busy entry for a response that is being computed. It may exceed the capacity: the
    /// admission queue limits the number of busy entries.
    pub(crate) fn enter_busy(self: &Arc<EvictingPool>, address: IpAddr, size: u64) -> PoolEntry {
        let mut entries = self.lock();
        entries.make_room(self.capacity, size);
        self.entry(&mut entries, address, size, 1)
    }

    /// Evicts one waiting entry, if there is one.
    pub(crate) fn evict_one(&self) {
        self.lock().evict_one();
    }

    /// The capacity in use.
    pub(crate) fn used(&self) -> u64 {
        self.lock().used
    }

    fn entry(self: &Arc<EvictingPool>, entries: &mut Entries, address: IpAddr, size: u64, tasks: usize) -> PoolEntry {
        let (number, evicted) = (entries.next, Arc::new(Notify::new()));
        entries.next += 1;
        entries.used += size;
        entries.all.insert(number, Entry { address, size, tasks, evicted: evicted.clone() });
        PoolEntry { pool: self.clone(), number, evicted }
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    /// Evicts entries until `size` fits; returns whether it fits. An entry that is alone in the
    /// pool may exceed the capacity.
    fn make_room(&mut self, capacity: u64, size: u64) -> bool {
        while self.used.saturating_add(size) > capacity && !self.all.is_empty() {
            if !self.evict_one() {
                return false;
            }
        }
        true
    }

    /// Evicts the oldest waiting entry of the address that uses the most capacity; returns whether
    /// there is one.
    fn evict_one(&mut self) -> bool {
        let evicted = self.next_to_evict().and_then(|number| self.remove(number));
        evicted.map(|entry| entry.evicted.notify_one()).is_some()
    }

    /// The oldest waiting entry of the address that uses the most capacity.
    fn next_to_evict(&self) -> Option<u64> {
        let mut used: HashMap<IpAddr, u64> = HashMap::new();
        self.all.values().for_each(|entry| *used.entry(entry.address).or_default() += entry.size);
        let waiting = self.all.iter().filter(|(_, entry)| entry.tasks == 0);
        let (number, _) = waiting.max_by_key(|(number, entry)| (used.get(&entry.address), u64::MAX - **number))?;
        Some(*number)
    }

    fn remove(&mut self, number: u64) -> Option<Entry> {
        let entry = self.all.remove(&number)?;
        self.used -= entry.size;
        Some(entry)
    }
}

impl PoolEntry {
    /// Resolves when the entry was evicted.
    pub(crate) async fn evicted(&self) {
        self.evicted.notified().await;
    }

    /// Starts a task that computes for the entry. Until [`PoolEntry::end_task`], it is not evicted.
    pub(crate) fn begin_task(&self) {
        if let Some(entry) = self.pool.lock().all.get_mut(&self.number) {
            entry.tasks += 1;
        }
    }

    /// Ends a task of the entry.
    pub(crate) fn end_task(&self) {
        if let Some(entry) = self.pool.lock().all.get_mut(&self.number) {
            entry.tasks = entry.tasks.saturating_sub(1);
        }
    }
}

impl Drop for PoolEntry {
    fn drop(&mut self) {
        self.pool.lock().remove(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const B: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    /// Whether the entry has been evicted.
    async fn is_evicted(entry: &PoolEntry) -> bool {
        tokio::select! {
            biased;
            () = entry.evicted() => true,
            () = std::future::ready(()) => false,
        }
    }

    #[tokio::test]
    async fn the_oldest_waiting_entry_of_the_largest_address_is_evicted() {
        let pool = EvictingPool::new(4);
        let first = pool.enter(B, 1).unwrap();
        let many: Vec<PoolEntry> = (0..3).map(|_| pool.enter(A, 1).unwrap()).collect();
        // The entry of B is the oldest and stays, whichever address the next entry has.
        let next = pool.enter(A, 1).unwrap();
        assert!(is_evicted(&many[0]).await && !is_evicted(&many[1]).await);
        let other = pool.enter(B, 1).unwrap();
        assert!(is_evicted(&many[1]).await && !is_evicted(&first).await);
        assert!(!is_evicted(&many[2]).await && !is_evicted(&next).await);
        assert_eq!(pool.used(), 4);
        // An evicted entry has no capacity to free when it is dropped.
        drop(many);
        assert_eq!(pool.used(), 3);
        drop((first, next, other));
        assert_eq!(pool.used(), 0);
    }

    #[tokio::test]
    async fn busy_entries_are_not_evicted_and_a_pool_of_busy_entries_is_full() {
        let pool = EvictingPool::new(2);
        let (busy, waiting) = (pool.enter_busy(A, 1), pool.enter(A, 1).unwrap());
        let new = pool.enter(B, 1).unwrap();
        assert!(is_evicted(&waiting).await && !is_evicted(&busy).await);
        new.begin_task();
        assert!(pool.enter(B, 1).is_none());
        // A busy entry may exceed the capacity.
        let second = pool.enter_busy(B, 1);
        assert_eq!(pool.used(), 3);
        busy.end_task();
        second.end_task();
        assert!(pool.enter(A, 1).is_some() && is_evicted(&second).await && is_evicted(&busy).await);
    }

    #[test]
    fn a_single_entry_may_exceed_the_capacity() {
        let pool = EvictingPool::new(2);
        let large = pool.enter(A, 5).unwrap();
        assert_eq!(pool.used(), 5);
        drop(large);
        assert!(pool.enter(A, 1).is_some());
    }

    #[test]
    fn ipv6_addresses_count_by_64_bit_prefix_and_ipv4_addresses_by_themselves() {
        let of = |text: &str| rate_limit_key(text.parse().unwrap());
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::9"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    }
}
