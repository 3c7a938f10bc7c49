//! Whose fault it was, by the codes with which the command line exits and which other programs give too.

#[cfg(any(feature = "build", feature = "serve"))]
use ifonly_bundle::{BuildError, OpenError};
#[cfg(feature = "ask")]
use ifonly_client::ClientError;

/// Who has to do something about a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// This machine: a port, a file that cannot be written.
    Machine,
    /// The caller: a file, an option, a profile, a wish. Nothing was asked.
    Input,
    /// Servers: too few could be reached or would answer.
    Servers,
    /// Servers contradict each other or gave something impossible. No explanation is shown.
    Integrity,
}

impl Blame {
    /// The exit code; `docs/operations.md` lists them.
    pub fn code(self) -> u8 {
        match self {
            Blame::Machine => 1,
            Blame::Input => 4,
            Blame::Servers => 5,
            Blame::Integrity => 6,
        }
    }

    /// A word for programs.
    pub fn name(self) -> &'static str {
        match self {
            Blame::Machine => "machine",
            Blame::Input => "input",
            Blame::Servers => "servers",
            Blame::Integrity => "integrity",
        }
    }
}

#[cfg(feature = "ask")]
impl From<&ClientError> for Blame {
    fn from(error: &ClientError) -> Blame {
        match error.blame() {
            ifonly_client::Blame::Asker => Blame::Input,
            ifonly_client::Blame::Servers => Blame::Servers,
            ifonly_client::Blame::Integrity => Blame::Integrity,
        }
    }
}

#[cfg(any(feature = "build", feature = "serve"))]
impl From<&BuildError> for Blame {
    fn from(error: &BuildError) -> Blame {
        match error {
            BuildError::Io { .. } => Blame::Machine,
            _ => Blame::Input,
        }
    }
}

#[cfg(any(feature = "build", feature = "serve"))]
impl From<&OpenError> for Blame {
    fn from(_: &OpenError) -> Blame {
        Blame::Input
    }
}
