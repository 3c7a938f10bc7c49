//! The lab's commands: their arguments and what they print. The command line of ifonly mounts these
//! as they are.

mod attack;
mod bars;
mod leakage;
mod reproduce;

pub use attack::{AttackArgs, attack, attack_on};
pub use leakage::{LeakageArgs, answer as leakage_of, leakage};
pub use reproduce::{ReproduceArgs, reproduce};

use std::io::Write as _;
use std::path::PathBuf;

use crate::LabError;

/// Prints to standard output; a reader that has gone away is no error.
fn print(text: &str) -> Result<(), LabError> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(source) if source.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(LabError::File { path: PathBuf::from("standard output"), source })
        }
        _ => Ok(()),
    }
}
