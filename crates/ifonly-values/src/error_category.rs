//! Categories of errors. Exit codes, Python exceptions and the messages of the web page follow
//! them.

/// The category of an error: where it has to be fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorCategory {
    /// This machine: for example a port in use, or a file that cannot be written.
    Machine,
    /// The input: a file, an option, an address, a profile or a wish. No query was sent.
    Input,
    /// The servers: too few could be reached or answered.
    Servers,
    /// Integrity: servers contradict each other or sent malformed data. No result is shown.
    Integrity,
}

impl ErrorCategory {
    /// The name of the category, for programs.
    pub fn name(self) -> &'static str {
        match self {
            ErrorCategory::Machine => "machine",
            ErrorCategory::Input => "input",
            ErrorCategory::Servers => "servers",
            ErrorCategory::Integrity => "integrity",
        }
    }
}
