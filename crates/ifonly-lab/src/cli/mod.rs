//! The commands `leakage`, `attack` and `reproduce`: their arguments and their output. The crate
//! `ifonly` includes them in its command line.

mod attack;
mod bars;
mod leakage;
mod reproduce;

pub use attack::{AttackArgs, attack, attack_on, show_linkage};
pub use leakage::{LeakageArgs, leakage, leakage_of};
pub use reproduce::{ReproduceArgs, reproduce};

use std::io::Write as _;
use std::path::PathBuf;

use crate::LabError;

/// Prints to standard output. A closed pipe is not an error.
fn print(text: &str) -> Result<(), LabError> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(source) if source.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(LabError::File { path: PathBuf::from("standard output"), source })
        }
        _ => Ok(()),
    }
}
