//! Progress without a terminal: long work reports to a [`Progress`], the command line draws it as a
//! bar.

/// Receives the progress of long work. Called from many threads.
pub trait ProgressSink: Sync {
    /// A new piece of work begins, of so many steps.
    fn start(&self, what: &str, steps: u64);
    /// So many steps are done.
    fn advance(&self, steps: u64);
    /// The piece of work has ended.
    fn finish(&self);
}

/// Reports nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoProgress;

impl ProgressSink for NoProgress {
    fn start(&self, _what: &str, _steps: u64) {}
    fn advance(&self, _steps: u64) {}
    fn finish(&self) {}
}
