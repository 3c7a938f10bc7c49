//! The table "Summary of the performances of the proposed scheme": symbols, fields and servers, and
//! bytes as they cross the wire.
//!
//! Symbols, fields and servers come from the schemes' descriptions in the engine; bytes are counted
//! while a real query runs.

use ifonly_algebra::random::SeededRandom;
use ifonly_core::params::Params;
use ifonly_core::scheme::{self, ConstraintKind, CostModel as Cost, Origin, Scheme};
use ifonly_core::secret_query::SecretQuery;

use crate::LabError;
use crate::attack::UniformDatabase;
use crate::engine::{Engine, record_of};
use crate::leakage::{self, Decoded};
use crate::plot::{AxisScale, Curve, Plot};
use crate::report::{ReportItem, cells};

const R: u32 = 100;
const D: usize = 11;
const M: usize = 500;
const WEIGHT_LIMIT: u64 = 10;
const MASK: u64 = 10;
const EXPONENT: u32 = 4;
/// As in docs/schemes.md: tables hold every weighted square.
const COST_LIMIT: u64 = WEIGHT_LIMIT * (R as u64).pow(2);

/// What the paper prints of a scheme: servers, a·d + b·M + c symbols, and what q must exceed. The
/// symbols of ℓ_p and of the dot product it does not print; they follow from its servers and
/// queries.
struct Printed {
    servers: usize,
    cost: (i128, i128, i128),
    field: &'static str,
    bound: u128,
}

const SQUARE: u128 = (R as u128).pow(2);
/// R²d.
const DELTA: u128 = SQUARE * D as u128;
/// R²·L1·d.
const WEIGHTED: u128 = WEIGHT_LIMIT as u128 * DELTA;

const fn printed(servers: usize, cost: (i128, i128, i128), field: &'static str, bound: u128) -> Printed {
    Printed { servers, cost, field, bound }
}

/// In the order of the paper's schemes in [`scheme::ALL`].
const PRINTED: &[Printed] = &[
    printed(2, (2, 2, 0), "R²d", DELTA),
    printed(2, (2, 2, -2), "2R²d", 2 * DELTA),
    printed(2, (2, 2, 0), "R²d", DELTA),
    printed(3, (9, 9, 0), "R²d", DELTA),
    printed(4, (8, 10, 0), "R²d", DELTA),
    printed(3, (6, 3, 0), "F(L−1)R²+R²d", D as u128 * DELTA * SQUARE + DELTA),
    printed(3, (6, 3, 0), "R²L1d", WEIGHTED),
    printed(3, (6, 3, -3), "2R²L1d", 2 * WEIGHTED),
    printed(3, (6, 3, 0), "R²L1d", WEIGHTED),
    printed(4, (14, 11, 0), "R²L1d", WEIGHTED),
    printed(3, (6, 3, 0), "F(L−1)R²+R²L1d", D as u128 * WEIGHTED * SQUARE + WEIGHTED),
    printed(4, (4, 4, 0), "R^p·d", (R as u128).pow(EXPONENT) * D as u128),
    printed(2, (2, 2, 0), "R²d", DELTA),
];

/// The paper's schemes, each with what is printed of it.
fn published() -> impl Iterator<Item = (&'static Scheme, &'static Printed)> {
    let paper = scheme::ALL.iter().copied().filter(|scheme| scheme.origin == Origin::Paper);
    paper.zip(PRINTED)
}

impl Printed {
    fn elements(&self, d: usize, m: usize) -> i128 {
        self.cost.0 * d as i128 + self.cost.1 * m as i128 + self.cost.2
    }

    fn formula(&self) -> String {
        let constant = if self.cost.2 == 0 { String::new() } else { format!("{:+}", self.cost.2) };
        format!("{}d+{}M{constant}", self.cost.0, self.cost.1)
    }
}

pub(super) fn run(seed: u64) -> Result<ReportItem, LabError> {
    let mut rows = Vec::new();
    for scheme in scheme::ALL {
        rows.push(row(scheme, seed)?);
    }
    Ok(ReportItem {
        name: "costs",
        title: format!("Communication and fields, R={R}, d={D}, M={M}"),
        text: format!(
            "Symbols of F_q over all servers and both directions, without the record, at T=1. Where the paper prints \
             a formula, ours costs exactly that; two-phase-4 is its Remark, and for lp and dot its appendix has servers \
             and field, from which the symbols follow. Its fields for the mask schemes are too small (q > R²d lets \
             the masked distance wrap; it must exceed R²d + d_min − 1, with weights L1·R²d + d_min − 1). Bytes were \
             counted while one query ran through the protocol, headers, commitments and key-check values included, \
             with records of {} bytes, L1={WEIGHT_LIMIT}, F={D}, d_min={MASK}, p={EXPONENT}, table entries up to {COST_LIMIT}; q is the largest \
             prime of the fewest bits that hold the bound.",
            2 * D
        ),
        columns: cells([
            "scheme",
            "paper: N",
            "ours: N",
            "paper: symbols",
            "ours: symbols",
            "paper: q >",
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
    Params {
        weight_limit: WEIGHT_LIMIT,
        d_min: MASK,
        exponent: EXPONENT,
        cost_limit: COST_LIMIT,
        ..Params::new(vec![R; D], rows)
    }
}

fn row(scheme: &'static Scheme, seed: u64) -> Result<Vec<String>, LabError> {
    let world = UniformDatabase::uniform(R, D, M, seed);
    let levels: Vec<Vec<u16>> = world.rows.iter().map(|row| row.iter().map(|&level| level as u16).collect()).collect();
    let records: Vec<Vec<u8>> = levels.iter().map(|row| record_of(row)).collect();
    let engine = Engine::new(scheme, params(M), &levels, &records, seed)?;
    let (_, traffic) = engine.search(SecretQuery::new(world.rows[0].clone()), &mut SeededRandom::new(seed))?;
    let instance = engine.instance();
    let printed = published().find(|(paper, _)| paper.name == scheme.name).map(|(_, printed)| printed);
    let none = || "—".to_string();
    Ok(vec![
        scheme.name.into(),
        printed.map_or_else(none, |printed| printed.servers.to_string()),
        instance.servers().to_string(),
        printed.map_or_else(none, |printed| format!("{} = {}", printed.formula(), printed.elements(D, M))),
        instance.cost().total().to_string(),
        printed.map_or_else(none, |printed| format!("{} = {}", printed.field, printed.bound)),
        (scheme.bound)(instance.params()).to_string(),
        instance.field().bits().to_string(),
        traffic.search_up.to_string(),
        traffic.search_down.to_string(),
        traffic.record_up.to_string(),
        traffic.record_down.to_string(),
    ])
}

/// Symbols times bits, over the number of rows, for the schemes that hold features immutable, and
/// for the simplest.
fn plot() -> Result<Plot, LabError> {
    let immutable = |scheme: &&Scheme| {
        scheme.cost_model == Cost::Squared
            && matches!(scheme.constraint, ConstraintKind::Zeros | ConstraintKind::Scaled)
    };
    let simplest = leakage::LeakageScheme::published(Cost::Squared, Decoded::Values)?.described;
    let sizes = [100, 1_000, 10_000, 100_000, 1_000_000];
    let mut curves = Vec::new();
    for scheme in scheme::ALL.iter().copied().filter(immutable).chain([simplest]) {
        let fault = |reason: String| LabError::Protocol { scheme: scheme.name.into(), reason };
        let mut points = Vec::new();
        for m in sizes {
            let instance = ifonly_core::scheme::instance::SchemeInstance::new(
                scheme,
                params(m),
                ifonly_algebra::field::ModulusRule::Deployment,
            )
            .map_err(|error| fault(error.to_string()))?;
            let bytes = instance.cost().total() as f64 * f64::from(instance.field().bits()) / 8.0;
            points.push((m as f64, bytes / m as f64));
        }
        curves.push(Curve { name: scheme.name.into(), points, errors: Vec::new() });
    }
    Ok(Plot {
        title: format!("Bytes per row of the database and query, all servers (R={R}, d={D})"),
        x: "rows in the database".into(),
        y: "bytes per row".into(),
        x_scale: AxisScale::Logarithmic,
        y_range: None,
        curves,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ifonly_core::scheme::DecodeRule;

    #[test]
    fn every_scheme_of_the_paper_has_its_servers_its_symbols_and_its_field() {
        let paper = scheme::ALL.iter().filter(|scheme| scheme.origin == Origin::Paper);
        assert_eq!(paper.count(), PRINTED.len());
        for (scheme, printed) in published() {
            let cells = row(scheme, 1).unwrap();
            assert_eq!(cells[2], printed.servers.to_string(), "{}", scheme.name);
            assert_eq!(cells[4], printed.elements(D, M).to_string(), "{}", scheme.name);
            // Masked values would wrap in the paper's field.
            let masks = scheme.phases.iter().any(|phase| matches!(phase.decode_rule, DecodeRule::Masked));
            let masked = if masks { u128::from(MASK) - 1 } else { 0 };
            assert_eq!(cells[6], (printed.bound + masked).to_string(), "{}", scheme.name);
            let number = |cell: &str| cell.parse::<f64>().unwrap();
            let elements = number(&cells[4]) * number(&cells[7]) / 8.0;
            let counted = number(&cells[8]) + number(&cells[9]);
            assert!(
                counted > elements && counted < 1.5 * elements + 2000.0,
                "{}: {counted} bytes, {elements}",
                scheme.name
            );
        }
    }

    #[test]
    fn the_report_and_the_page_of_schemes_have_the_same_fields() {
        let page = include_str!("../../../../docs/schemes.md");
        let wine = page.split("## ").find(|part| part.starts_with("Wine")).unwrap();
        for scheme in scheme::ALL {
            let line = wine.lines().find(|line| line.starts_with(&format!("| {} |", scheme.name))).unwrap();
            let bits = line.split('|').nth(9).unwrap().trim();
            let instance = ifonly_core::scheme::instance::SchemeInstance::new(
                scheme,
                params(M),
                ifonly_algebra::field::ModulusRule::Deployment,
            );
            assert_eq!(instance.unwrap().field().bits().to_string(), bits, "{}", scheme.name);
        }
    }
}
