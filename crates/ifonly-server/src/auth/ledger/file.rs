//! A ledger in a file. Every charged request appends one line under a file lock and flushes it.
//! Processes that share the file share the budgets.
//!
//! The process also counts in memory. If the file is shortened or replaced while the server runs,
//! all spending stops until the next reload, and the reload renews no budget.
//!
//! One thread per ledger accesses the file, because a lock or a disk may block for any time:
//! another process that holds the lock may hang. Callers wait for the thread only until a timeout.
//! A request whose caller timed out before it was counted is not counted later.

use crate::auth::ledger::{Ledger, LedgerError};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Maximum requests that wait for the thread, including those whose callers have timed out.
const MAX_PENDING: usize = 1024;

/// A ledger in a file of lines.
#[derive(Debug)]
pub(crate) struct FileLedger {
    path: PathBuf,
    requests: SyncSender<PendingSpend>,
    spent: Arc<Spent>,
    timeout: Duration,
}

/// Counts by line. The lock is held only briefly, so a reload does not wait for the file.
type Spent = Mutex<HashMap<String, u64>>;

/// A request for the thread; it is counted only before the deadline.
struct PendingSpend {
    line: String,
    limit: u64,
    deadline: Instant,
    reply: SyncSender<std::io::Result<bool>>,
}

impl FileLedger {
    /// Opens a file and counts its lines; creates the file if it is missing. No call waits longer
    /// than `timeout`.
    pub(crate) fn open(path: &Path, timeout: Duration) -> Result<FileLedger, LedgerError> {
        let fail = |error| LedgerError::File { path: path.into(), error };
        let file = OpenOptions::new().read(true).append(true).create(true).open(path).map_err(fail)?;
        let spent = Arc::<Spent>::default();
        let mut lines = LedgerLines { path: path.into(), file, read: 0, is_torn: false, spent: spent.clone() };
        let (requests, pending) = sync_channel::<PendingSpend>(MAX_PENDING);
        let thread = std::thread::Builder::new().name("ledger".into());
        let run = move || {
            for request in pending {
                // The channel has capacity for the reply; a caller that timed out does not read it.
                let _ = request.reply.try_send(lines.spend(&request));
            }
        };
        thread.spawn(run).map_err(fail)?;
        let ledger = FileLedger { path: path.into(), requests, spent, timeout };
        // A limit of 0 counts nothing, but reads the lines of the file.
        ledger.spend("", 0).map(|_| ledger)
    }
}

/// The file was not written in time.
fn timed_out() -> Error {
    let text = "the file could not be written in time; a process may hang while it holds the lock: find it with lslocks, and end it";
    Error::new(ErrorKind::TimedOut, text)
}

impl Ledger for FileLedger {
    fn spend(&self, line: &str, limit: u64) -> Result<bool, LedgerError> {
        let (reply, received) = sync_channel(1);
        let request = PendingSpend { line: line.into(), limit, deadline: Instant::now() + self.timeout, reply };
        let result = match self.requests.try_send(request) {
            // Without a reply, the thread is late or has panicked; the count may be incomplete.
            Ok(()) => received.recv_timeout(self.timeout).unwrap_or_else(|_| Err(timed_out())),
            Err(_) => Err(timed_out()),
        };
        result.map_err(|error| LedgerError::File { path: self.path.clone(), error })
    }

    fn known(&self) -> HashMap<String, u64> {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn inherit(&self, known: HashMap<String, u64>) {
        let mut all = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        for (line, count) in known {
            let spent = all.entry(line).or_default();
            *spent = count.max(*spent);
        }
    }
}

/// The file and its counts, owned by the thread. A line is `name kind`.
#[derive(Debug)]
struct LedgerLines {
    path: PathBuf,
    file: File,
    /// Bytes of complete lines that were read or written.
    read: u64,
    /// Whether a crash left the last line incomplete.
    is_torn: bool,
    spent: Arc<Spent>,
}

impl LedgerLines {
    fn spend(&mut self, request: &PendingSpend) -> std::io::Result<bool> {
        self.file.lock()?;
        // The wait for the lock may have taken longer than the timeout.
        let result = if Instant::now() < request.deadline {
            self.spend_locked(&request.line, request.limit)
        } else {
            Err(timed_out())
        };
        self.file.unlock()?;
        result
    }

    fn spend_locked(&mut self, line: &str, limit: u64) -> std::io::Result<bool> {
        self.catch_up()?;
        let spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner).get(line).copied();
        if spent.unwrap_or(0) >= limit {
            return Ok(false);
        }
        let end = if self.is_torn { "\n" } else { "" };
        self.file.write_all(format!("{end}{line}\n").as_bytes())?;
        self.file.sync_data()?;
        self.catch_up()?;
        Ok(true)
    }

    /// Reads the lines that this process or another one has added. It is an error if the file is
    /// not the opened one or has become shorter.
    fn catch_up(&mut self) -> std::io::Result<()> {
        let (opened, current) = (self.file.metadata()?, std::fs::metadata(&self.path)?);
        if opened.len() < self.read || !is_same_file(&opened, &current) {
            let text = "the file was shortened or replaced while the server ran; restore it, or restart the server";
            return Err(Error::other(text));
        }
        self.file.seek(SeekFrom::Start(self.read))?;
        let mut text = vec![];
        self.file.read_to_end(&mut text)?;
        let complete = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        for line in text[..complete].split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            *spent.entry(String::from_utf8_lossy(line).into_owned()).or_default() += 1;
        }
        self.read += complete as u64;
        self.is_torn = complete < text.len();
        Ok(())
    }
}

#[cfg(unix)]
fn is_same_file(opened: &std::fs::Metadata, current: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (opened.dev(), opened.ino()) == (current.dev(), current.ino())
}

/// Without inode numbers, only a shorter file is detected.
#[cfg(not(unix))]
fn is_same_file(opened: &std::fs::Metadata, current: &std::fs::Metadata) -> bool {
    current.len() >= opened.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_keeps_the_lock_causes_timeouts_and_timed_out_requests_are_not_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger");
        let (short, long) = (Duration::from_millis(10), Duration::from_secs(3600));
        let open = |timeout| FileLedger::open(&path, timeout);
        let [mut here, there] = [open(long).unwrap(), open(long).unwrap()];
        assert!(here.spend("a", 9).unwrap());
        here.timeout = short;
        // A process that was stopped while it held the lock.
        let stopped = File::open(&path).unwrap();
        stopped.lock().unwrap();
        for _ in 0..MAX_PENDING + 9 {
            let error = here.spend("a", 9).unwrap_err();
            assert!(error.to_string().contains("lslocks"), "{error}");
            here.timeout = Duration::ZERO;
        }
        // Opening times out too, and a reload, which reads the known counts, does not wait.
        assert!(open(short).is_err());
        assert_eq!(here.known()["a"], 1);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| there.spend("a", 9).unwrap());
            drop(stopped);
            assert!(waits.join().unwrap());
        });
        here.timeout = long;
        // The thread skips the timed-out requests before it accepts another one.
        while here.spend("a", 9).is_err() {}
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a\n".repeat(3));
    }
}
