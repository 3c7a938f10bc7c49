//! Progress of long computations, independent of the terminal. A computation reports to a
//! [`ProgressSink`]; the command line draws it as a bar.

/// Receives the progress of a computation, from several threads.
pub trait ProgressSink: Sync {
    /// A computation of `steps` steps starts.
    fn start(&self, what: &str, steps: u64);
    /// `steps` further steps are done.
    fn advance(&self, steps: u64);
    /// The computation has ended.
    fn finish(&self);
}

/// Ignores all reports.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoProgress;

impl ProgressSink for NoProgress {
    fn start(&self, _what: &str, _steps: u64) {}
    fn advance(&self, _steps: u64) {}
    fn finish(&self) {}
}
