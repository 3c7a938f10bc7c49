//! One pool of threads for servers and questions of this process, and waiting that Ctrl-C ends.

use crate::errors::machine;
use pyo3::prelude::*;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// How long a signal waits at most.
const SLICE: Duration = Duration::from_millis(100);

/// The pool, made when it is first needed.
pub(crate) fn runtime() -> PyResult<&'static Runtime> {
    static RUNTIME: OnceLock<Result<Runtime, String>> = OnceLock::new();
    let made = RUNTIME.get_or_init(|| {
        Builder::new_multi_thread().enable_all().thread_name("ifonly").build().map_err(|error| error.to_string())
    });
    made.as_ref().map_err(machine)
}

/// Does something in a thread of its own, without the interpreter's lock. On a signal its exception
/// is raised, and what is being done goes on alone until it ends.
pub(crate) fn aside<T: Send + 'static>(py: Python<'_>, work: impl FnOnce() -> T + Send + 'static) -> PyResult<T> {
    let (sender, receiver) = sync_channel(1);
    let spawned = std::thread::Builder::new().name("ifonly".into()).spawn(move || {
        // Whoever does not wait any more needs no result.
        let _ = sender.send(work());
    });
    spawned.map_err(machine)?;
    await_signals(py, Mutex::new(receiver))
}

/// Waits, and looks for signals in between.
fn await_signals<T: Send>(py: Python<'_>, receiver: Mutex<Receiver<T>>) -> PyResult<T> {
    loop {
        let received = py.detach(|| match receiver.lock() {
            Ok(receiver) => receiver.recv_timeout(SLICE),
            Err(_) => Err(RecvTimeoutError::Disconnected),
        });
        match received {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => return Err(machine("a computation ended without a result")),
        }
    }
}
