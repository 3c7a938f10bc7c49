//! The Tokio runtime of this process, and waiting that Ctrl-C interrupts.

use crate::errors::machine;
use pyo3::prelude::*;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// The longest time between two checks for signals.
const SLICE: Duration = Duration::from_millis(100);

/// The runtime, started at its first use.
pub(crate) fn runtime() -> PyResult<&'static Runtime> {
    static RUNTIME: OnceLock<Result<Runtime, String>> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| {
        Builder::new_multi_thread().enable_all().thread_name("ifonly").build().map_err(|error| error.to_string())
    });
    runtime.as_ref().map_err(machine)
}

/// Runs work in its own thread, without the interpreter lock. On a signal the exception of the
/// signal is raised, and the work continues in the background.
pub(crate) fn in_background<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let (sender, receiver) = sync_channel(1);
    let spawned = std::thread::Builder::new().name("ifonly".into()).spawn(move || {
        // After a signal there is no receiver for the result.
        let _ = sender.send(work());
    });
    spawned.map_err(machine)?;
    await_signals(py, Mutex::new(receiver))
}

/// Waits for the result and checks for signals.
fn await_signals<T: Send>(py: Python<'_>, receiver: Mutex<Receiver<T>>) -> PyResult<T> {
    loop {
        let received = py.detach(|| match receiver.lock() {
            Ok(receiver) => receiver.recv_timeout(SLICE),
            Err(_) => Err(RecvTimeoutError::Disconnected),
        });
        match received {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(machine("a background thread ended without a result; this is a bug in ifonly"));
            }
        }
    }
}
