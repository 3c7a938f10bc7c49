//! A ledger in a file: what is spent is appended, one line each, under a file lock, and flushed.
//! Processes that share the file share the budgets.
//!
//! It is counted in memory too, and never forgotten while the server runs: a ledger that shrinks or
//! is replaced ends all spending until the next reload, and renews no budget then either.
//!
//! The file has a thread of its own. Nobody can say how long a lock or a disk takes: another
//! process may hang that holds the lock. So that thread waits, and whoever wants to spend gives up
//! after a while; what was given up before it was counted is not counted any more.

use crate::auth::ledger::{Ledger, LedgerError};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How many may wait for the file's thread, those that have given up included.
const WAITING: usize = 1024;

/// A file of lines.
#[derive(Debug)]
pub(crate) struct FileLedger {
    path: PathBuf,
    claims: SyncSender<PendingSpend>,
    spent: Arc<Spent>,
    patience: Duration,
}

/// What is known to be spent, by line. Held for moments only, so that a reload does not wait for
/// the file.
type Spent = Mutex<HashMap<String, u64>>;

/// One to be counted, if it is not too late.
struct PendingSpend {
    line: String,
    limit: u64,
    until: Instant,
    reply: SyncSender<std::io::Result<bool>>,
}

impl FileLedger {
    /// Opens a file and counts its lines; makes one where there is none. Nobody waits for it longer
    /// than `patience`.
    pub(crate) fn open(path: &Path, patience: Duration) -> Result<FileLedger, LedgerError> {
        let fail = |error| LedgerError::File { path: path.into(), error };
        let file = OpenOptions::new().read(true).append(true).create(true).open(path).map_err(fail)?;
        let spent = Arc::<Spent>::default();
        let mut lines = LedgerLines { path: path.into(), file, read: 0, torn: false, spent: spent.clone() };
        let (claims, waiting) = sync_channel::<PendingSpend>(WAITING);
        let thread = std::thread::Builder::new().name("ledger".into());
        let run = move || {
            for claim in waiting {
                // There is room for one reply, and whoever gave up needs none.
                let _ = claim.reply.try_send(lines.spend(&claim));
            }
        };
        thread.spawn(run).map_err(fail)?;
        let ledger = FileLedger { path: path.into(), claims, spent, patience };
        // Counts nothing, and reads what is there.
        ledger.spend("", 0).map(|_| ledger)
    }
}

/// Why nothing was counted, and what to do.
fn late() -> Error {
    let why = "it could not be written in time; perhaps a process hangs that holds its lock: lslocks names it, and ending it helps";
    Error::new(ErrorKind::TimedOut, why)
}

impl Ledger for FileLedger {
    fn spend(&self, line: &str, limit: u64) -> Result<bool, LedgerError> {
        let (reply, said) = sync_channel(1);
        let claim = PendingSpend { line: line.into(), limit, until: Instant::now() + self.patience, reply };
        let said = match self.claims.try_send(claim) {
            // Without a reply it is late, or its thread has failed, which may have left a count
            // half done.
            Ok(()) => said.recv_timeout(self.patience).unwrap_or_else(|_| Err(late())),
            Err(_) => Err(late()),
        };
        said.map_err(|error| LedgerError::File { path: self.path.clone(), error })
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

/// Lines of `name stage`, counted.
#[derive(Debug)]
struct LedgerLines {
    path: PathBuf,
    file: File,
    /// Bytes that were read or written, all of whole lines.
    read: u64,
    /// A crash cut the last line short.
    torn: bool,
    spent: Arc<Spent>,
}

impl LedgerLines {
    fn spend(&mut self, claim: &PendingSpend) -> std::io::Result<bool> {
        self.file.lock()?;
        // The lock may have taken any time.
        let result = match Instant::now() < claim.until {
            true => self.spend_locked(&claim.line, claim.limit),
            false => Err(late()),
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
        let end = if self.torn { "\n" } else { "" };
        self.file.write_all(format!("{end}{line}\n").as_bytes())?;
        self.file.sync_data()?;
        self.catch_up()?;
        Ok(true)
    }

    /// Reads the lines that were written since, by this process or another. A ledger that is not
    /// the one that was read is none.
    fn catch_up(&mut self) -> std::io::Result<()> {
        let (held, there) = (self.file.metadata()?, std::fs::metadata(&self.path)?);
        if held.len() < self.read || !is_same(&held, &there) {
            let what = "the ledger was shortened or replaced while the server ran; put it back, or restart the server";
            return Err(Error::other(what));
        }
        self.file.seek(SeekFrom::Start(self.read))?;
        let mut text = vec![];
        self.file.read_to_end(&mut text)?;
        let whole = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        for line in text[..whole].split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            *spent.entry(String::from_utf8_lossy(line).into_owned()).or_default() += 1;
        }
        self.read += whole as u64;
        self.torn = whole < text.len();
        Ok(())
    }
}

#[cfg(unix)]
fn is_same(held: &std::fs::Metadata, there: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (held.dev(), held.ino()) == (there.dev(), there.ino())
}

/// Without numbers of files, a shorter one is what shows.
#[cfg(not(unix))]
fn is_same(held: &std::fs::Metadata, there: &std::fs::Metadata) -> bool {
    there.len() >= held.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_holds_the_lock_for_ever_stops_nobody_else_and_nothing_is_counted_that_was_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger");
        let (hasty, retrying) = (Duration::from_millis(10), Duration::from_secs(3600));
        let open = |patience| FileLedger::open(&path, patience);
        let [mut here, there] = [open(retrying).unwrap(), open(retrying).unwrap()];
        assert!(here.spend("a", 9).unwrap());
        here.patience = hasty;
        // A process that was stopped while it counted.
        let stopped = File::open(&path).unwrap();
        stopped.lock().unwrap();
        for _ in 0..WAITING + 9 {
            let error = here.spend("a", 9).unwrap_err();
            assert!(error.to_string().contains("lslocks"), "{error}");
            here.patience = Duration::ZERO;
        }
        // Neither does a start wait, nor a reload, which asks what is known.
        assert!(open(hasty).is_err());
        assert_eq!(here.known()["a"], 1);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| there.spend("a", 9).unwrap());
            drop(stopped);
            assert!(waits.join().unwrap());
        });
        here.patience = retrying;
        // It has read over the claims that came too late before it can take another.
        while here.spend("a", 9).is_err() {}
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a\n".repeat(3));
    }
}
