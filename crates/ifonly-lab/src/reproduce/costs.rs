//! The table "Summary of the performances of the proposed scheme": symbols, fields and servers, and bytes as they cross
//! the wire.
//!
//! Symbols, fields and servers come from the schemes' descriptions in the engine; bytes are counted while a real query
//! runs.

use ifonly_core::params::Params;
use ifonly_core::random::SeededRandom;
use ifonly_core::scheme::{self, Gate, Metric as Cost, Scheme};
use ifonly_core::secret::Secret;

use crate::LabError;
use crate::attack::World;
use crate::engine::{Engine, record_of};
use crate::leakage::{self, Decoded};
use crate::plot::{Curve, Plot, Scale};
use crate::report::{Exhibit, cells};

const R: u32 = 100;
const D: usize = 11;
const M: usize = 500;
const WEIGHT_LIMIT: u64 = 10;
const MASK: u64 = 10;
const EXPONENT: u32 = 4;

/// A row of the paper's table: a scheme by what it does, its servers, and a·d + b·M + c symbols.
struct Printed {
    metric: Cost,
    decoded: Decoded,
    servers: usize,
    cost: (u128, u128, i128),
}

const PRINTED: [Printed; 10] = [
    Printed { metric: Cost::Squared, decoded: Decoded::Values, servers: 2, cost: (2, 2, 0) },
    Printed { metric: Cost::Squared, decoded: Decoded::Differences, servers: 2, cost: (2, 2, -2) },
    Printed { metric: Cost::Squared, decoded: Decoded::Masked, servers: 2, cost: (2, 2, 0) },
    Printed { metric: Cost::Squared, decoded: Decoded::Gated, servers: 3, cost: (9, 9, 0) },
    Printed { metric: Cost::Squared, decoded: Decoded::Partials, servers: 3, cost: (6, 3, 0) },
    Printed { metric: Cost::Weighted, decoded: Decoded::Values, servers: 3, cost: (6, 3, 0) },
    Printed { metric: Cost::Weighted, decoded: Decoded::Differences, servers: 3, cost: (6, 3, -3) },
    Printed { metric: Cost::Weighted, decoded: Decoded::Masked, servers: 3, cost: (6, 3, 0) },
    Printed { metric: Cost::Weighted, decoded: Decoded::Gated, servers: 4, cost: (14, 11, 0) },
    Printed { metric: Cost::Weighted, decoded: Decoded::Partials, servers: 3, cost: (6, 3, 0) },
];

impl Printed {
    fn scheme(&self) -> Result<leakage::Scheme, LabError> {
        leakage::Scheme::published(self.metric, self.decoded)
    }

    fn symbols(&self, d: usize, m: usize) -> i128 {
        (self.cost.0 * d as u128 + self.cost.1 * m as u128) as i128 + self.cost.2
    }

    fn formula(&self) -> String {
        let constant = if self.cost.2 == 0 { String::new() } else { format!("{:+}", self.cost.2) };
        format!("{}d+{}M{constant}", self.cost.0, self.cost.1)
    }
}

pub(super) fn run(seed: u64) -> Result<Exhibit, LabError> {
    let mut rows = Vec::new();
    for scheme in scheme::ALL {
        rows.push(row(scheme, seed)?);
    }
    Ok(Exhibit {
        name: "costs",
        title: format!("Communication and fields, R={R}, d={D}, M={M}"),
        text: format!(
            "Symbols of F_q over all servers and both directions, without the record, at T=1. Where the paper prints \
             a formula, ours costs exactly that. The paper's fields for the mask schemes are too small (q > R²d lets \
             the masked distance wrap; it must exceed R²d + d_min − 1, with weights L1·R²d + d_min − 1). Bytes were \
             counted while one query ran through the protocol, headers, commitments and key-check values included, \
             with records of {} bytes, L1={WEIGHT_LIMIT}, F={D}, d_min={MASK}, p={EXPONENT}; q is the largest prime \
             of the fewest bits that hold the bound.",
            2 * D
        ),
        columns: cells([
            "scheme",
            "paper: N",
            "ours: N",
            "paper: symbols",
            "ours: symbols",
            "ours: q >",
            "bits of q",
            "bytes up",
            "bytes down",
            "record, bytes up",
            "record, bytes down",
        ]),
        rows,
        plot: Some(plot()?),
    })
}

fn params(rows: usize) -> Params {
    Params { weight_limit: WEIGHT_LIMIT, mask: MASK, exponent: EXPONENT, ..Params::new(vec![R; D], rows) }
}

fn row(scheme: &'static Scheme, seed: u64) -> Result<Vec<String>, LabError> {
    let world = World::uniform(R, D, M, seed);
    let levels: Vec<Vec<u16>> = world.rows.iter().map(|row| row.iter().map(|&level| level as u16).collect()).collect();
    let records: Vec<Vec<u8>> = levels.iter().map(|row| record_of(row)).collect();
    let engine = Engine::new(scheme, params(M), &levels, &records, seed)?;
    let (_, traffic) = engine.search(Secret::new(world.rows[0].clone()), &mut SeededRandom::new(seed))?;
    let deployment = engine.deployment();
    let printed = PRINTED.iter().find(|printed| printed.scheme().is_ok_and(|found| found.name == scheme.name));
    let none = || "—".to_string();
    Ok(vec![
        scheme.name.into(),
        printed.map_or_else(none, |printed| printed.servers.to_string()),
        deployment.servers().to_string(),
        printed.map_or_else(none, |printed| format!("{} = {}", printed.formula(), printed.symbols(D, M))),
        deployment.cost().total().to_string(),
        (scheme.bound)(deployment.params()).to_string(),
        deployment.field().bits().to_string(),
        traffic.search_up.to_string(),
        traffic.search_down.to_string(),
        traffic.record_up.to_string(),
        traffic.record_down.to_string(),
    ])
}

/// Symbols times bits, over the number of rows, for the schemes that hold features immutable, and for the simplest.
fn plot() -> Result<Plot, LabError> {
    let immutable =
        |scheme: &&Scheme| scheme.metric == Cost::Squared && matches!(scheme.gate, Gate::Zeros | Gate::Scaled);
    let simplest = leakage::Scheme::published(Cost::Squared, Decoded::Values)?.described;
    let sizes = [100, 1_000, 10_000, 100_000, 1_000_000];
    let mut curves = Vec::new();
    for scheme in scheme::ALL.iter().copied().filter(immutable).chain([simplest]) {
        let fault = |reason: String| LabError::Protocol { scheme: scheme.name.into(), reason };
        let mut points = Vec::new();
        for m in sizes {
            let deployment =
                ifonly_core::deployment::Deployment::new(scheme, params(m), ifonly_core::prime::FieldRule::Deployment)
                    .map_err(|error| fault(error.to_string()))?;
            let bytes = deployment.cost().total() as f64 * f64::from(deployment.field().bits()) / 8.0;
            points.push((m as f64, bytes / m as f64));
        }
        curves.push(Curve { name: scheme.name.into(), points, errors: Vec::new() });
    }
    Ok(Plot {
        title: format!("Bytes per row of the database and query, all servers (R={R}, d={D})"),
        x: "rows in the database".into(),
        y: "bytes per row".into(),
        x_scale: Scale::Logarithmic,
        y_range: None,
        curves,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scheme_of_the_papers_table_costs_what_it_prints_and_bytes_are_counted() {
        for printed in &PRINTED {
            let scheme = printed.scheme().unwrap();
            let cells = row(scheme.described, 1).unwrap();
            assert_eq!(cells[2], printed.servers.to_string(), "{}", scheme.name);
            assert_eq!(cells[4], printed.symbols(D, M).to_string(), "{}", scheme.name);
            let bytes = |cell: &str| cell.parse::<f64>().unwrap();
            let symbols = bytes(&cells[4]) * bytes(&cells[6]) / 8.0;
            let counted = bytes(&cells[7]) + bytes(&cells[8]);
            assert!(
                counted > symbols && counted < 1.5 * symbols + 2000.0,
                "{}: {counted} bytes, {symbols}",
                scheme.name
            );
        }
    }
}
