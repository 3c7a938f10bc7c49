//! A few connections that are kept: whoever asks takes one, or the right to make one, and gives it
//! back unless something went wrong with it.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Connections, idle ones here and the others with whoever took them.
pub(crate) struct Pool<C> {
    inside: Mutex<PoolState<C>>,
    returned: Condvar,
    most: usize,
}

struct PoolState<C> {
    idle: Vec<C>,
    taken: usize,
}

/// A place in the pool, with its connection if one was idle.
pub(crate) struct PooledConnection<'a, C> {
    pool: &'a Pool<C>,
    /// What goes back in the end; taken out by whoever finds it broken.
    pub(crate) connection: Option<C>,
}

impl<C> Pool<C> {
    /// With one idle connection and places for `most`.
    pub(crate) fn new(first: C, most: usize) -> Pool<C> {
        Pool { inside: Mutex::new(PoolState { idle: vec![first], taken: 0 }), returned: Condvar::new(), most }
    }

    /// A place, unless none comes free for so long.
    pub(crate) fn take(&self, patience: Duration) -> Option<PooledConnection<'_, C>> {
        let inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        let full = |inside: &mut PoolState<C>| inside.taken >= self.most;
        let waited = self.returned.wait_timeout_while(inside, patience, full);
        let (mut inside, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            return None;
        }
        inside.taken += 1;
        Some(PooledConnection { pool: self, connection: inside.idle.pop() })
    }
}

impl<C> Drop for PooledConnection<'_, C> {
    fn drop(&mut self) {
        let mut inside = self.pool.inside.lock().unwrap_or_else(PoisonError::into_inner);
        inside.taken -= 1;
        inside.idle.extend(self.connection.take());
        self.pool.returned.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_never_more_than_the_most_and_broken_ones_do_not_come_back() {
        let pool = Pool::new(1, 2);
        let (first, mut second) = (pool.take(Duration::ZERO).unwrap(), pool.take(Duration::ZERO).unwrap());
        assert_eq!((first.connection, second.connection), (Some(1), None));
        assert!(pool.take(Duration::from_millis(1)).is_none());
        second.connection = Some(2);
        drop(second);
        let mut broken = pool.take(Duration::ZERO).unwrap();
        assert_eq!(broken.connection.take(), Some(2));
        drop(broken);
        assert_eq!(pool.take(Duration::ZERO).unwrap().connection, None);
        // Whoever waits gets the place that comes free.
        let last = pool.take(Duration::ZERO).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| pool.take(Duration::from_secs(600)).unwrap().connection.is_some());
            drop(first);
            assert!(waiting.join().unwrap());
        });
        drop(last);
    }
}
