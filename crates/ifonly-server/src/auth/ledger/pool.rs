//! A small connection pool. A caller takes an idle connection or the permission to open one, and
//! returns it unless the connection has failed.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// A pool of connections.
pub(crate) struct Pool<C> {
    state: Mutex<PoolState<C>>,
    returned: Condvar,
    capacity: usize,
}

struct PoolState<C> {
    idle: Vec<C>,
    taken: usize,
}

/// A place in the pool, with a connection if one was idle. Dropping it returns both.
pub(crate) struct PooledConnection<'a, C> {
    pool: &'a Pool<C>,
    /// The connection that goes back to the pool. A caller takes it out if it has failed.
    pub(crate) connection: Option<C>,
}

impl<C> Pool<C> {
    /// A pool for `capacity` connections, one of them idle.
    pub(crate) fn new(first: C, capacity: usize) -> Pool<C> {
        Pool { state: Mutex::new(PoolState { idle: vec![first], taken: 0 }), returned: Condvar::new(), capacity }
    }

    /// Takes a place. Returns `None` if none becomes free within `timeout`.
    pub(crate) fn take(&self, timeout: Duration) -> Option<PooledConnection<'_, C>> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = |state: &mut PoolState<C>| state.taken >= self.capacity;
        let waited = self.returned.wait_timeout_while(state, timeout, is_full);
        let (mut state, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            return None;
        }
        state.taken += 1;
        Some(PooledConnection { pool: self, connection: state.idle.pop() })
    }
}

impl<C> Drop for PooledConnection<'_, C> {
    fn drop(&mut self) {
        let mut state = self.pool.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.taken -= 1;
        state.idle.extend(self.connection.take());
        self.pool.returned.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pool_never_exceeds_its_capacity_and_failed_connections_do_not_return() {
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
        // A waiting caller gets the place that becomes free.
        let last = pool.take(Duration::ZERO).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| pool.take(Duration::from_secs(600)).unwrap().connection.is_some());
            drop(first);
            assert!(waiting.join().unwrap());
        });
        drop(last);
    }
}
