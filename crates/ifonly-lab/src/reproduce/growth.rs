//! How computing grows with d and M, measured, beside the orders of growth of the paper.
//!
//! The servers are those of [`crate::engine`], which use the reference evaluator. Times differ from
//! run to run, so they belong to the header of a report.

use std::time::Duration;

use ifonly_algebra::random::SeededRandom;
use ifonly_core::params::Params;
use ifonly_core::scheme;
use ifonly_core::secret_query::SecretQuery;

use crate::LabError;
use crate::attack::UniformDatabase;
use crate::engine::{ComputingTimes, Engine};

const R: u32 = 20;
const ROWS: [usize; 2] = [2_000, 16_000];
const FEATURES: [usize; 2] = [16, 128];
const REPEATS: usize = 5;

/// Schemes of the paper, and the paper's orders of growth at the user and at a server.
const ORDERS: [(&str, &str, &str); 5] = [
    ("baseline", "O(d+M)", "O(Md)"),
    ("diff", "O(d+M)", "O(Md)"),
    ("mask", "O(d+M)", "O(Md)"),
    ("two-phase", "O(d), then O(M)", "O(Md)"),
    ("single-phase", "O(M+d)", "O(Md)"),
];

/// One line per scheme: the orders of the paper and the measured exponents.
pub(crate) fn measure() -> Result<Vec<String>, LabError> {
    let mut lines = Vec::new();
    for (name, user, server) in ORDERS {
        let base = times(name, FEATURES[0], ROWS[0])?;
        let rows = times(name, FEATURES[0], ROWS[1])?;
        let features = times(name, FEATURES[1], ROWS[0])?;
        let exponent = |from: Duration, to: Duration, factor: usize| {
            (to.as_secs_f64() / from.as_secs_f64().max(1e-9)).ln() / (factor as f64).ln()
        };
        let (more_rows, more_features) = (ROWS[1] / ROWS[0], FEATURES[1] / FEATURES[0]);
        lines.push(format!(
            "{name}: user {user}, measured M^{:.1} d^{:.1}; servers {server}, measured M^{:.1} d^{:.1}",
            exponent(base.user, rows.user, more_rows),
            exponent(base.user, features.user, more_features),
            exponent(base.servers, rows.servers, more_rows),
            exponent(base.servers, features.servers, more_features),
        ));
    }
    Ok(lines)
}

/// The shortest of several times.
fn times(name: &str, d: usize, m: usize) -> Result<ComputingTimes, LabError> {
    let scheme =
        scheme::named(name).ok_or_else(|| LabError::parameter("scheme", format!("unknown scheme {name:?}")))?;
    let database = UniformDatabase::uniform(R, d, m, 1);
    let rows: Vec<Vec<u16>> = database.rows.iter().map(|row| row.iter().map(|&level| level as u16).collect()).collect();
    let engine = Engine::new(scheme, Params::new(vec![R; d], m), &rows, 1)?;
    let mut random = SeededRandom::new(1);
    let mut best = ComputingTimes { user: Duration::MAX, servers: Duration::MAX };
    for _ in 0..REPEATS {
        let (_, _, times) = engine.timed_search(SecretQuery::new(database.rows[0].clone()), &mut random)?;
        best = ComputingTimes { user: best.user.min(times.user), servers: best.servers.min(times.servers) };
    }
    Ok(best)
}
