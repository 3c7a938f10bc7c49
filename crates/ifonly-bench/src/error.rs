//! Errors of measurements.

use ifonly::{ErrorCategory, LoopbackError};
use ifonly_client::ClientError;

/// Why a measurement failed.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct BenchError {
    category: ErrorCategory,
    message: String,
}

impl BenchError {
    /// The options cannot be measured.
    pub fn input(error: impl std::fmt::Display) -> BenchError {
        BenchError { category: ErrorCategory::Input, message: error.to_string() }
    }

    /// This machine cannot measure, or a result is wrong.
    pub fn machine(error: impl std::fmt::Display) -> BenchError {
        BenchError { category: ErrorCategory::Machine, message: error.to_string() }
    }

    /// The exit code, equal to that of the other commands of `ifonly`.
    pub fn exit_code(&self) -> u8 {
        match self.category {
            ErrorCategory::Machine => 1,
            ErrorCategory::Input => 4,
            ErrorCategory::Servers => 5,
            ErrorCategory::Integrity => 6,
        }
    }
}

impl From<ClientError> for BenchError {
    fn from(error: ClientError) -> BenchError {
        BenchError { category: error.category(), message: error.to_string() }
    }
}

impl From<LoopbackError> for BenchError {
    fn from(error: LoopbackError) -> BenchError {
        BenchError { category: error.category(), message: error.to_string() }
    }
}
