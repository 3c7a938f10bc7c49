//! Exit codes, so that scripts can tell an answer from a fault. `docs/operations.md` lists them.
// Some of them only asking needs.
#![cfg_attr(not(feature = "ask"), allow(dead_code))]

use ifonly::ErrorCategory;
use ifonly::cli::sanitize::{json, plain};
#[cfg(feature = "ask")]
use ifonly_client::ClientError;
use std::io::{ErrorKind, Write};

/// How a command ends when nothing went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandOutcome {
    /// 0.
    Fine,
    /// 3: nobody in the database qualifies. An answer, not a fault.
    NothingQualifies,
}

/// What went wrong, by whose fault.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    /// 4: what the caller gave: a file, a flag, a profile, a wish. Nothing was sent.
    #[error("{0}")]
    Input(String),
    /// 5: too few servers could be reached or would answer.
    #[error("{0}")]
    Servers(String),
    /// 6: servers contradict each other or gave something impossible. No explanation is shown.
    #[error("{0}")]
    Integrity(String),
    /// 1: this machine: a port, a file that cannot be written.
    #[error("{0}")]
    Machine(String),
}

impl CommandError {
    /// Whatever the caller gave.
    pub(crate) fn input(error: impl std::fmt::Display) -> CommandError {
        CommandError::Input(error.to_string())
    }

    /// Whatever this machine could not do.
    pub(crate) fn machine(error: impl std::fmt::Display) -> CommandError {
        CommandError::Machine(error.to_string())
    }

    /// What somebody is to blame for.
    pub(crate) fn of(blame: ErrorCategory, error: impl std::fmt::Display) -> CommandError {
        let text = error.to_string();
        match blame {
            ErrorCategory::Machine => CommandError::Machine(text),
            ErrorCategory::Input => CommandError::Input(text),
            ErrorCategory::Servers => CommandError::Servers(text),
            ErrorCategory::Integrity => CommandError::Integrity(text),
        }
    }

    fn blame(&self) -> ErrorCategory {
        match self {
            CommandError::Machine(_) => ErrorCategory::Machine,
            CommandError::Input(_) => ErrorCategory::Input,
            CommandError::Servers(_) => ErrorCategory::Servers,
            CommandError::Integrity(_) => ErrorCategory::Integrity,
        }
    }

    /// The exit code.
    pub(crate) fn code(&self) -> u8 {
        match self {
            CommandError::Machine(_) => 1,
            CommandError::Input(_) => 4,
            CommandError::Servers(_) => 5,
            CommandError::Integrity(_) => 6,
        }
    }

    /// The same as JSON, for programs.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::json!({ "error": { "kind": self.blame().name(), "code": self.code(), "message": self.to_string() } })
    }
}

#[cfg(feature = "ask")]
impl From<ClientError> for CommandError {
    fn from(error: ClientError) -> CommandError {
        CommandError::of(error.category(), crate::cli::hints::explained(&error))
    }
}

/// Prints what went wrong and gives the code.
pub(crate) fn finish(result: Result<CommandOutcome, CommandError>) -> u8 {
    match result {
        Ok(CommandOutcome::Fine) => 0,
        Ok(CommandOutcome::NothingQualifies) => 3,
        Err(failure) => {
            eprintln!("ifonly: {}", plain(&failure.to_string()));
            failure.code()
        }
    }
}
/// `println!` panics where standard output cannot be written to. A reader who stops (`| head`) is
/// no fault, a full disk is one of this machine; neither is a fault of the program.
pub(crate) fn ignore_broken_pipe() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let message = panic.payload().downcast_ref::<String>().map(String::as_str).unwrap_or_default();
        match message.strip_prefix("failed printing to stdout: ") {
            Some(error) if error.starts_with("Broken pipe") => std::process::exit(0),
            Some(error) => {
                eprintln!("ifonly: cannot write to standard output: {error}");
                std::process::exit(1)
            }
            None => usual(panic),
        }
    }));
}

/// Prints text to standard output, without anything in it that steers a terminal.
pub(crate) fn out(text: &str) -> Result<(), CommandError> {
    write(&plain(text))
}

/// Prints JSON to standard output, with escapes for what steers a terminal.
pub(crate) fn out_json(value: &impl serde::Serialize) -> Result<(), CommandError> {
    write(&(json(value).map_err(CommandError::machine)? + "\n"))
}

/// Whoever reads it may stop (`| head`), which is no fault; a full disk is.
fn write(text: &str) -> Result<(), CommandError> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(CommandError::Machine(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}
