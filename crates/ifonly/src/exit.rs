//! Exit codes, so that scripts can tell an answer from a fault. `docs/operations.md` lists them.
// Some of them only asking needs.
#![cfg_attr(not(feature = "ask"), allow(dead_code))]

use ifonly::Blame;
use ifonly::text::{json, plain};
#[cfg(feature = "ask")]
use ifonly_client::ClientError;
use std::io::{ErrorKind, Write};

/// How a command ends when nothing went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    /// 0.
    Fine,
    /// 3: nobody in the database qualifies. An answer, not a fault.
    NothingQualifies,
}

/// What went wrong, by whose fault.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
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

impl Failure {
    /// Whatever the caller gave.
    pub(crate) fn input(error: impl std::fmt::Display) -> Failure {
        Failure::Input(error.to_string())
    }

    /// Whatever this machine could not do.
    pub(crate) fn machine(error: impl std::fmt::Display) -> Failure {
        Failure::Machine(error.to_string())
    }

    /// What somebody is to blame for.
    pub(crate) fn of(blame: Blame, error: impl std::fmt::Display) -> Failure {
        let text = error.to_string();
        match blame {
            Blame::Machine => Failure::Machine(text),
            Blame::Input => Failure::Input(text),
            Blame::Servers => Failure::Servers(text),
            Blame::Integrity => Failure::Integrity(text),
        }
    }

    fn blame(&self) -> Blame {
        match self {
            Failure::Machine(_) => Blame::Machine,
            Failure::Input(_) => Blame::Input,
            Failure::Servers(_) => Blame::Servers,
            Failure::Integrity(_) => Blame::Integrity,
        }
    }

    /// The exit code.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Failure::Machine(_) => 1,
            Failure::Input(_) => 4,
            Failure::Servers(_) => 5,
            Failure::Integrity(_) => 6,
        }
    }

    /// The same as JSON, for programs.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::json!({ "error": { "kind": self.blame().name(), "code": self.code(), "message": self.to_string() } })
    }
}

#[cfg(feature = "ask")]
impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        Failure::of(error.blame(), crate::advice::explained(&error))
    }
}

/// Prints what went wrong and gives the code.
pub(crate) fn finish(result: Result<Done, Failure>) -> u8 {
    match result {
        Ok(Done::Fine) => 0,
        Ok(Done::NothingQualifies) => 3,
        Err(failure) => {
            eprintln!("ifonly: {}", plain(&failure.to_string()));
            failure.code()
        }
    }
}
/// `println!` panics where standard output cannot be written to. A reader who stops (`| head`) is no fault, a full disk is
/// one of this machine; neither is a fault of the program.
pub(crate) fn bear_closed_pipes() {
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
pub(crate) fn out(text: &str) -> Result<(), Failure> {
    write(&plain(text))
}

/// Prints JSON to standard output, with escapes for what steers a terminal.
pub(crate) fn out_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    write(&(json(value).map_err(Failure::machine)? + "\n"))
}

/// Whoever reads it may stop (`| head`), which is no fault; a full disk is.
fn write(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::Machine(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}
