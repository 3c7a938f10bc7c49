//! Attacks on the database: what users and cheating clients learn over several searches.
//!
//! An attack runs its searches against a database of uniform rows and counts what it has *proved*:
//! a row is recovered when exactly one row of `[0:R]^d` is consistent with all observed values, and
//! that row is the true one. The results are lower bounds: a better attack may need fewer searches.
//!
//! * Users of the unmodified client: [`trilateration`], [`partials`], [`linking`].
//! * Cheating clients: [`radix`], [`replay`], [`collecting`].
//! * Somebody who knows a few facts about a person of the table: [`linkage`], which needs a bundle
//!   and its data.
//! * A server that observes when the client stops: [`stopping`].

mod cheat;
pub mod collecting;
pub mod linkage;
pub mod linking;
mod oracle;
mod pairs;
pub mod partials;
pub mod radix;
mod recovery;
pub mod replay;
pub mod stopping;
mod tracks;
pub mod trilateration;

pub use oracle::{AttackSearch, EngineOracle, ModelOracle, SearchOracle, UniformDatabase};
pub use recovery::RecoveredFraction;

use crate::LabError;
use crate::progress::ProgressSink;
use crate::report::ReportItem;

/// The names of the attacks.
pub const NAMES: [&str; 6] = ["trilateration", "linking", "replay", "radix", "collecting", "stopping"];

/// R, d and M of the reports: levels 0 to 100, 11 features, 500 rows.
const SIZE: (u32, usize, usize) = (100, 11, 500);

/// Runs one attack with the parameters of the reports.
pub fn run(name: &str, seed: u64, progress: &dyn ProgressSink) -> Result<ReportItem, LabError> {
    let (r, d, m) = SIZE;
    match name {
        "trilateration" => trilateration::run(r, d, m, seed),
        "linking" => linking::run(r, d, &[10, 20, 50, 100, 200, 500, 1000, 2000, 5000], seed, progress),
        "replay" => replay::run(r, d, m, seed),
        "radix" => radix::run(&radix::Target::uniform(r, d, m, seed), seed, progress),
        "collecting" => collecting::run(r, d, m, seed, progress),
        "stopping" => stopping::run(3, 3, 3),
        other => Err(unknown(other)),
    }
}

pub(crate) fn unknown(name: &str) -> LabError {
    LabError::parameter("attack", format!("unknown attack {name:?}; use one of {}", NAMES.join(", ")))
}
