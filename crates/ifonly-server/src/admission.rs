//! How many requests are inside at once: some running, some waiting, the rest turned away at the door.
//!
//! A [`Ticket`] is taken before the body is read, so that bodies in memory are at most `running + queue`; a [`Permit`]
//! before the scan, so that slow uploads do not keep processors idle. Whoever finds no ticket is told when to come again.

use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The door.
#[derive(Clone, Debug)]
pub struct Admission {
    inside: Arc<Semaphore>,
    running: Arc<Semaphore>,
    limits: (usize, usize),
}

/// The right to be inside, waiting.
#[derive(Debug)]
pub struct Ticket {
    inside: OwnedSemaphorePermit,
    running: Arc<Semaphore>,
}

/// The right to run.
#[derive(Debug)]
pub struct Permit {
    _inside: OwnedSemaphorePermit,
    _running: OwnedSemaphorePermit,
}

impl Admission {
    /// At most `running` at work and `queue` waiting.
    pub fn new(running: usize, queue: usize) -> Admission {
        let running = running.clamp(1, Semaphore::MAX_PERMITS / 2);
        let inside = running + queue.min(Semaphore::MAX_PERMITS / 2);
        Admission {
            inside: Arc::new(Semaphore::new(inside)),
            running: Arc::new(Semaphore::new(running)),
            limits: (inside, running),
        }
    }

    /// A ticket, unless the queue is full.
    pub fn enter(&self) -> Option<Ticket> {
        let inside = self.inside.clone().try_acquire_owned().ok()?;
        Some(Ticket { inside, running: self.running.clone() })
    }

    /// Requests at work.
    pub fn running(&self) -> usize {
        self.limits.1.saturating_sub(self.running.available_permits())
    }

    /// Requests inside, at work or waiting.
    pub fn inside(&self) -> usize {
        self.limits.0.saturating_sub(self.inside.available_permits())
    }
}

impl Ticket {
    /// Waits for its turn, first come, first served. The semaphore is never closed, so there is always a permit in the end.
    pub async fn run(self) -> Option<Permit> {
        let running = self.running.acquire_owned().await.ok()?;
        Some(Permit { _inside: self.inside, _running: running })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn beyond_running_and_queue_the_door_is_shut_and_opens_again() {
        let door = Admission::new(1, 1);
        let first = door.enter().unwrap().run().await.unwrap();
        let second = door.enter().unwrap();
        assert!(door.enter().is_none());
        assert_eq!((door.running(), door.inside()), (1, 2));
        drop(first);
        let second = second.run().await.unwrap();
        assert!(door.enter().is_some());
        drop(second);
        assert_eq!((door.running(), door.inside()), (0, 0));
    }
}
