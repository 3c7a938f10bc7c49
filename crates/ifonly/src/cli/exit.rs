//! Exit codes and output of commands. `docs/configuration.md#exit-codes` lists the codes, so that
//! scripts can distinguish an answer from an error.
//!
//! All text goes through [`sanitize`](ifonly::cli::sanitize), because names and values come from
//! other parties and could contain terminal control sequences.
// Only a program with all commands uses all variants.
#![cfg_attr(not(all(feature = "ask", feature = "build")), allow(dead_code))]

use ifonly::ErrorCategory;
use ifonly::cli::sanitize::{json, plain};
#[cfg(feature = "ask")]
use ifonly_client::ClientError;
#[cfg(feature = "ask")]
use ifonly_values::message::Coded;
use ifonly_values::message::CodedMessage;
use std::io::{ErrorKind, Write};

/// How a command ends without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandOutcome {
    /// Exit code 0.
    Success,
    /// Exit code 3: no row matches the wishes. This is an answer, not an error.
    NoMatch,
}

/// Why a command failed, by category.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    /// Exit code 4: invalid input: a file, flag, profile or wish. No query about the user was sent.
    #[error("{0}")]
    Input(String),
    /// Exit code 5: too few servers could be reached, compared or answered.
    #[error("{0}")]
    Servers(String),
    /// Exit code 6: servers contradict each other or sent malformed data. No result is shown.
    #[error("{0}")]
    Integrity(String),
    /// Exit code 1: a problem of this machine, such as a port in use or a full disk.
    #[error("{0}")]
    Machine(String),
    /// An error of the client, with the exit code of its category.
    #[error("{message}")]
    Client {
        /// The category.
        category: ErrorCategory,
        /// The code and the text, with hints.
        message: Box<CodedMessage>,
    },
}

impl CommandError {
    /// An error in the input.
    pub(crate) fn input(error: impl std::fmt::Display) -> CommandError {
        CommandError::Input(error.to_string())
    }

    /// An error of this machine.
    pub(crate) fn machine(error: impl std::fmt::Display) -> CommandError {
        CommandError::Machine(error.to_string())
    }

    /// An error of the given category.
    pub(crate) fn from_category(category: ErrorCategory, error: impl std::fmt::Display) -> CommandError {
        let text = error.to_string();
        match category {
            ErrorCategory::Machine => CommandError::Machine(text),
            ErrorCategory::Input => CommandError::Input(text),
            ErrorCategory::Servers => CommandError::Servers(text),
            ErrorCategory::Integrity => CommandError::Integrity(text),
        }
    }

    pub(crate) fn category(&self) -> ErrorCategory {
        match self {
            CommandError::Machine(_) => ErrorCategory::Machine,
            CommandError::Input(_) => ErrorCategory::Input,
            CommandError::Servers(_) => ErrorCategory::Servers,
            CommandError::Integrity(_) => ErrorCategory::Integrity,
            CommandError::Client { category, .. } => *category,
        }
    }

    pub(crate) fn exit_code(&self) -> u8 {
        match self.category() {
            ErrorCategory::Machine => 1,
            ErrorCategory::Input => 4,
            ErrorCategory::Servers => 5,
            ErrorCategory::Integrity => 6,
        }
    }

    /// The error as JSON, for `--json`.
    pub(crate) fn json(&self) -> serde_json::Value {
        let kind = self.category().name();
        let (code, arguments) = match self {
            CommandError::Client { message, .. } => (message.code, serde_json::json!(message.arguments)),
            _ => (kind, serde_json::json!({})),
        };
        serde_json::json!({ "error": {
            "kind": kind,
            "exit_code": self.exit_code(),
            "code": code,
            "arguments": arguments,
            "message": self.to_string(),
        } })
    }
}

#[cfg(feature = "ask")]
impl From<ClientError> for CommandError {
    fn from(error: ClientError) -> CommandError {
        let message = CodedMessage { message: crate::cli::hints::for_client(&error), ..error.coded() };
        CommandError::Client { category: error.category(), message: Box::new(message) }
    }
}

/// Prints an error to standard error and returns the exit code.
pub(crate) fn finish(result: Result<CommandOutcome, CommandError>) -> u8 {
    match result {
        Ok(CommandOutcome::Success) => 0,
        Ok(CommandOutcome::NoMatch) => 3,
        Err(failure) => {
            eprintln!("ifonly: {}", plain(&failure.to_string()));
            failure.exit_code()
        }
    }
}

/// Replaces the panic of `println!` on a failed write by an exit code: 0 if the reader has stopped
/// (`| head`), else 1, as for a full disk.
pub(crate) fn ignore_broken_pipe() {
    let default_hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let message = panic.payload().downcast_ref::<String>().map(String::as_str).unwrap_or_default();
        match message.strip_prefix("failed printing to stdout: ") {
            Some(error) if error.starts_with("Broken pipe") => std::process::exit(0),
            Some(error) => {
                eprintln!("ifonly: cannot write to standard output: {error}");
                std::process::exit(1)
            }
            None => default_hook(panic),
        }
    }));
}

/// Prints text to standard output. Terminal control characters are replaced.
pub(crate) fn out(text: &str) -> Result<(), CommandError> {
    write(&plain(text))
}

/// Prints JSON to standard output. Terminal control characters are escaped.
pub(crate) fn out_json(value: &impl serde::Serialize) -> Result<(), CommandError> {
    write(&(json(value).map_err(CommandError::machine)? + "\n"))
}

/// Writes to standard output. A reader that stops early (`| head`) is not an error; a full disk is.
fn write(text: &str) -> Result<(), CommandError> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(CommandError::Machine(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}
