//! A ledger in a file: what is spent is appended, one line each, under a file lock, and flushed. Processes that share the file share
//! the budgets.
//!
//! It is counted in memory too, and never forgotten while the server runs: a ledger that shrinks or is replaced ends all spending until
//! the next reload, and renews no budget then either.

use super::{Ledger, LedgerError};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// A file of lines.
#[derive(Debug)]
pub(crate) struct FileLedger {
    path: PathBuf,
    lines: Mutex<Lines>,
}

impl FileLedger {
    /// Opens a file and counts its lines; makes one where there is none.
    pub(crate) fn open(path: &Path) -> Result<FileLedger, LedgerError> {
        let lines = Lines::open(path).map_err(|error| LedgerError::File { path: path.into(), error })?;
        Ok(FileLedger { path: path.into(), lines: Mutex::new(lines) })
    }
}

impl Ledger for FileLedger {
    fn spend(&self, line: &str, limit: u64) -> Result<bool, LedgerError> {
        let fail = |error| LedgerError::File { path: self.path.clone(), error };
        // Whoever panicked may have left a count half done.
        let lines = self.lines.lock().map_err(|_| fail(std::io::Error::other("an earlier fault of the program")));
        lines?.spend(line, limit).map_err(fail)
    }

    fn known(&self) -> HashMap<String, u64> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).spent.clone()
    }

    fn inherit(&self, known: HashMap<String, u64>) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        for (line, count) in known {
            let spent = lines.spent.entry(line).or_default();
            *spent = count.max(*spent);
        }
    }
}

/// Lines of `name stage`, counted.
#[derive(Debug)]
struct Lines {
    path: PathBuf,
    file: File,
    /// Bytes that were read or written, all of whole lines.
    read: u64,
    /// A crash cut the last line short.
    torn: bool,
    spent: HashMap<String, u64>,
}

impl Lines {
    fn open(path: &Path) -> std::io::Result<Lines> {
        let file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        let mut ledger = Lines { path: path.into(), file, read: 0, torn: false, spent: HashMap::new() };
        ledger.file.lock()?;
        let caught_up = ledger.catch_up();
        ledger.file.unlock()?;
        caught_up.map(|()| ledger)
    }

    fn spend(&mut self, line: &str, limit: u64) -> std::io::Result<bool> {
        self.file.lock()?;
        let result = self.spend_locked(line, limit);
        self.file.unlock()?;
        result
    }

    fn spend_locked(&mut self, line: &str, limit: u64) -> std::io::Result<bool> {
        self.catch_up()?;
        if self.spent.get(line).copied().unwrap_or(0) >= limit {
            return Ok(false);
        }
        let end = if self.torn { "\n" } else { "" };
        self.file.write_all(format!("{end}{line}\n").as_bytes())?;
        self.file.sync_data()?;
        self.catch_up()?;
        Ok(true)
    }

    /// Reads the lines that were written since, by this process or another. A ledger that is not the one that was read is none.
    fn catch_up(&mut self) -> std::io::Result<()> {
        let (held, there) = (self.file.metadata()?, std::fs::metadata(&self.path)?);
        if held.len() < self.read || !is_same(&held, &there) {
            let what = "the ledger was shortened or replaced while the server ran; put it back, or restart the server";
            return Err(std::io::Error::other(what));
        }
        self.file.seek(SeekFrom::Start(self.read))?;
        let mut text = vec![];
        self.file.read_to_end(&mut text)?;
        let whole = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        for line in text[..whole].split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            *self.spent.entry(String::from_utf8_lossy(line).into_owned()).or_default() += 1;
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
