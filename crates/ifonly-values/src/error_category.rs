//! Whose fault it was, in the words of every program here: exit codes, exceptions and a page's
//! messages go by it.

/// Who has to do something about a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorCategory {
    /// This machine: a port, a file that cannot be written.
    Machine,
    /// The caller: a file, an option, an address, a profile, a wish. Nothing was asked.
    Input,
    /// Servers: too few could be reached or would answer.
    Servers,
    /// Servers contradict each other or gave something impossible. No explanation is shown.
    Integrity,
}

impl ErrorCategory {
    /// A word for programs.
    pub fn name(self) -> &'static str {
        match self {
            ErrorCategory::Machine => "machine",
            ErrorCategory::Input => "input",
            ErrorCategory::Servers => "servers",
            ErrorCategory::Integrity => "integrity",
        }
    }
}
