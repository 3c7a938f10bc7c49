//! What a determined user learns over several sessions, and what stops them.
//!
//! Every attack plays its sessions against a database of uniform rows and counts what it has
//! *proved*: a row is recovered when exactly one row of `[0:R]^d` fits all that was seen, and that
//! row is the true one. The attacks are lower bounds on what is possible: a cleverer one may need
//! fewer sessions, none is ruled out here.

mod cheat;
pub mod collecting;
pub mod linking;
mod pairs;
pub mod partials;
pub mod radix;
mod recovery;
pub mod replay;
mod sessions;
pub mod stopping;
mod tracks;
pub mod trilateration;

pub use recovery::RecoveredFraction;
pub use sessions::{AttackSearch, EngineOracle, ModelOracle, SearchOracle, UniformDatabase};

use crate::LabError;
use crate::progress::ProgressSink;
use crate::report::ReportItem;

/// The attacks by name.
pub const NAMES: [&str; 6] = ["trilateration", "linking", "replay", "radix", "collecting", "stopping"];

/// The size at which the attacks are shown: levels 0..=100, 11 features, 500 rows.
const SIZE: (u32, usize, usize) = (100, 11, 500);

/// One attack at the size at which it is shown.
pub fn run(name: &str, seed: u64, progress: &dyn ProgressSink) -> Result<ReportItem, LabError> {
    let (r, d, m) = SIZE;
    match name {
        "trilateration" => trilateration::run(r, d, m, seed),
        "linking" => linking::run(r, d, &[10, 20, 50, 100, 200, 500, 1000, 2000, 5000], seed, progress),
        "replay" => replay::run(r, d, m, seed),
        "radix" => radix::run(&radix::Target::uniform(r, d, m, seed), seed, progress),
        "collecting" => collecting::run(r, d, m, seed, progress),
        "stopping" => stopping::run(3, 3, 3),
        other => Err(LabError::flag("NAME", format!("there is no attack {other:?}; there are {}", NAMES.join(", ")))),
    }
}
