//! Room for those who wait for somebody's network, and who gives way when it is full.
//!
//! Idle connections, messages on their way in and answers on their way out take room, and some
//! never come to an end. They keep nobody out: a newcomer who finds no room displaces whoever has
//! waited longest among those of the address that takes most of it. Those at work are not
//! displaced; they need no network, so they are done soon. One address alone thus displaces itself,
//! and a person elsewhere does not notice.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Whom limits per address count together: an IPv6 network of 64 bits belongs to one customer.
pub(crate) fn rate_limit_key(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
}

/// Some room, in bytes or places.
#[derive(Debug)]
pub(crate) struct EvictingPool {
    room: u64,
    places: Mutex<Places>,
}

#[derive(Debug, Default)]
struct Places {
    next: u64,
    taken: u64,
    /// In the order of coming.
    all: BTreeMap<u64, Place>,
}

#[derive(Debug)]
struct Place {
    address: IpAddr,
    size: u64,
    /// How many things are done for it that need no network.
    work: usize,
    displaced: Arc<Notify>,
}

/// A place; it is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct PoolSlot {
    pool: Arc<EvictingPool>,
    number: u64,
    displaced: Arc<Notify>,
}

impl EvictingPool {
    pub(crate) fn new(room: u64) -> Arc<EvictingPool> {
        Arc::new(EvictingPool { room, places: Mutex::default() })
    }

    /// A place of this size for somebody from this address; `None` only if all others are at work.
    pub(crate) fn enter(self: &Arc<EvictingPool>, address: IpAddr, size: u64) -> Option<PoolSlot> {
        let mut places = self.lock();
        places.make_room(self.room, size).then(|| self.slot(&mut places, address, size, 0))
    }

    /// A place for an answer that is being computed; it is made whatever others do, since those at
    /// work are few.
    pub(crate) fn enter_working(self: &Arc<EvictingPool>, address: IpAddr, size: u64) -> PoolSlot {
        let mut places = self.lock();
        places.make_room(self.room, size);
        self.slot(&mut places, address, size, 1)
    }

    /// How much room is taken.
    pub(crate) fn taken(&self) -> u64 {
        self.lock().taken
    }

    fn slot(self: &Arc<EvictingPool>, places: &mut Places, address: IpAddr, size: u64, work: usize) -> PoolSlot {
        let (number, displaced) = (places.next, Arc::new(Notify::new()));
        places.next += 1;
        places.taken += size;
        places.all.insert(number, Place { address, size, work, displaced: displaced.clone() });
        PoolSlot { pool: self.clone(), number, displaced }
    }

    fn lock(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Places {
    /// Whether there is room for `size` now; the only one inside may take more than there is.
    fn make_room(&mut self, room: u64, size: u64) -> bool {
        while self.taken.saturating_add(size) > room && !self.all.is_empty() {
            let Some(number) = self.longest_waiting() else { return false };
            if let Some(place) = self.remove(number) {
                place.displaced.notify_one();
            }
        }
        true
    }

    fn longest_waiting(&self) -> Option<u64> {
        let mut taken: HashMap<IpAddr, u64> = HashMap::new();
        self.all.values().for_each(|place| *taken.entry(place.address).or_default() += place.size);
        let waiting = self.all.iter().filter(|(_, place)| place.work == 0);
        let (number, _) = waiting.max_by_key(|(number, place)| (taken.get(&place.address), u64::MAX - **number))?;
        Some(*number)
    }

    fn remove(&mut self, number: u64) -> Option<Place> {
        let place = self.all.remove(&number)?;
        self.taken -= place.size;
        Some(place)
    }
}

impl PoolSlot {
    /// Resolves when somebody else has got the place.
    pub(crate) async fn evicted(&self) {
        self.displaced.notified().await;
    }

    /// Something is done for it from now on that needs no network; until [`Seat::rest`] it is not
    /// displaced.
    pub(crate) fn work(&self) {
        if let Some(place) = self.pool.lock().all.get_mut(&self.number) {
            place.work += 1;
        }
    }

    /// One thing less is done for it.
    pub(crate) fn rest(&self) {
        if let Some(place) = self.pool.lock().all.get_mut(&self.number) {
            place.work = place.work.saturating_sub(1);
        }
    }
}

impl Drop for PoolSlot {
    fn drop(&mut self) {
        self.pool.lock().remove(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const B: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    /// Whether a seat has been displaced by now.
    async fn is_displaced(slot: &PoolSlot) -> bool {
        tokio::select! {
            biased;
            () = slot.evicted() => true,
            () = std::future::ready(()) => false,
        }
    }

    #[tokio::test]
    async fn the_longest_waiting_of_the_largest_address_gives_way() {
        let pool = EvictingPool::new(4);
        let first = pool.enter(B, 1).unwrap();
        let many: Vec<PoolSlot> = (0..3).map(|_| pool.enter(A, 1).unwrap()).collect();
        // From wherever the next ones come, B's is the oldest place and stays.
        let next = pool.enter(A, 1).unwrap();
        assert!(is_displaced(&many[0]).await && !is_displaced(&many[1]).await);
        let other = pool.enter(B, 1).unwrap();
        assert!(is_displaced(&many[1]).await && !is_displaced(&first).await);
        assert!(!is_displaced(&many[2]).await && !is_displaced(&next).await);
        assert_eq!(pool.taken(), 4);
        // Who was displaced takes nothing with them when they go.
        drop(many);
        assert_eq!(pool.taken(), 3);
        drop((first, next, other));
        assert_eq!(pool.taken(), 0);
    }

    #[tokio::test]
    async fn those_at_work_stay_and_without_others_there_is_no_room() {
        let pool = EvictingPool::new(2);
        let (working, resting) = (pool.enter_working(A, 1), pool.enter(A, 1).unwrap());
        let newcomer = pool.enter(B, 1).unwrap();
        assert!(is_displaced(&resting).await && !is_displaced(&working).await);
        newcomer.work();
        assert!(pool.enter(B, 1).is_none());
        // A second answer is computed all the same.
        let second = pool.enter_working(B, 1);
        assert_eq!(pool.taken(), 3);
        working.rest();
        second.rest();
        assert!(pool.enter(A, 1).is_some() && is_displaced(&second).await && is_displaced(&working).await);
    }

    #[test]
    fn the_only_one_may_take_more_than_there_is() {
        let pool = EvictingPool::new(2);
        let large = pool.enter(A, 5).unwrap();
        assert_eq!(pool.taken(), 5);
        drop(large);
        assert!(pool.enter(A, 1).is_some());
    }

    #[test]
    fn a_network_of_64_bits_is_one_address_and_ipv4_is_itself() {
        let of = |text: &str| rate_limit_key(text.parse().unwrap());
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::9"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    }
}
