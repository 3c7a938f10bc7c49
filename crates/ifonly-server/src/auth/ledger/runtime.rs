//! The runtime of one connection to a store. It runs only while a caller waits for a result, so an
//! idle connection costs no thread.

use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// A runtime on the thread of the caller, which must not belong to another runtime.
pub(crate) struct StoreRuntime {
    /// `Some` until the runtime is dropped.
    runtime: Option<Runtime>,
}

impl StoreRuntime {
    pub(crate) fn new() -> std::io::Result<StoreRuntime> {
        Ok(StoreRuntime { runtime: Some(Builder::new_current_thread().enable_all().build()?) })
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("the runtime is taken out only when it is dropped")
    }

    /// Runs `work`; `None` if it takes longer than `timeout`.
    pub(crate) fn wait<T>(&self, timeout: Duration, work: impl Future<Output = T>) -> Option<T> {
        self.runtime().block_on(async { tokio::time::timeout(timeout, work).await }).ok()
    }

    /// Lets the tasks of an idle connection process what has arrived since the last call.
    pub(crate) fn process_arrivals(&self) {
        self.runtime().block_on(async {
            for _ in 0..3 {
                tokio::task::yield_now().await;
            }
        });
    }
}

impl Drop for StoreRuntime {
    fn drop(&mut self) {
        // A thread of another runtime may drop the connection. It must not block, so the runtime
        // shuts down in the background.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
