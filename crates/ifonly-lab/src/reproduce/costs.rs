//! The table "Summary of the performances of the proposed scheme": field elements, fields, servers
//! and bytes.
//!
//! Field elements, fields and servers come from the scheme definitions of `ifonly-core`. Bytes are
//! counted while a search runs through the real protocol.

use std::cmp::Ordering;

use ifonly_algebra::random::SeededRandom;
use ifonly_core::params::Params;
use ifonly_core::scheme::instance::SchemeInstance;
use ifonly_core::scheme::{self, ConstraintKind, CostModel as Cost, Origin, Scheme};
use ifonly_core::secret_query::SecretQuery;

use crate::LabError;
use crate::attack::UniformDatabase;
use crate::engine::Engine;
use crate::leakage::{self, Decoded};
use crate::plot::{AxisScale, Curve, Plot};
use crate::report::{ReportItem, cells};

const R: u32 = 100;
const D: usize = 11;
const M: usize = 500;
const WEIGHT_LIMIT: u64 = 10;
const MASK: u64 = 10;
const EXPONENT: u32 = 4;
/// As in docs/schemes.md: a cost table can contain every weighted square.
const COST_LIMIT: u64 = WEIGHT_LIMIT * (R as u64).pow(2);

/// What the paper prints about a scheme: servers, a·d + b·M + c field elements, and the lower bound
/// of q. For ℓ_p and the dot product the paper prints no field elements; they follow from its
/// servers and queries.
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

/// One entry per scheme of the paper, in the order of [`scheme::ALL`].
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

/// The schemes of the paper with their printed values.
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
            "Elements of F_q over all servers and both directions, without the record fetch, at T=1. Where the paper \
             prints a formula, ifonly needs exactly that number. two-phase-4 is the Remark of the paper. For lp and dot \
             the appendix gives servers and field, from which the field elements follow. The fields of the mask schemes \
             are too small in the paper: with q > R²d a masked distance wraps around. q must exceed R²d + d_min − 1, or \
             L1·R²d + d_min − 1 with weights. The fields of Single-Phase are larger in the paper than they must be. Bytes were counted while one search ran through the protocol, including \
             headers, commitments and key-check values, with records of {} bytes, L1={WEIGHT_LIMIT}, F={D}, \
             d_min={MASK}, p={EXPONENT} and table entries up to {COST_LIMIT}. q is the largest prime with the smallest \
             sufficient number of bits.",
            2 * D
        ),
        columns: cells([
            "scheme",
            "paper: N",
            "ifonly: N",
            "paper: elements",
            "ifonly: elements",
            "paper: q >",
            "ifonly: q >",
            "bits of q",
            "bytes up",
            "bytes down",
            "record, bytes up",
            "record, bytes down",
            "verdict",
        ]),
        rows,
        figure: Some(plot()?.into()),
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
    let database = UniformDatabase::uniform(R, D, M, seed);
    let levels: Vec<Vec<u16>> =
        database.rows.iter().map(|row| row.iter().map(|&level| level as u16).collect()).collect();
    let engine = Engine::new(scheme, params(M), &levels, seed)?;
    let (_, traffic) = engine.search(SecretQuery::new(database.rows[0].clone()), &mut SeededRandom::new(seed))?;
    let instance = engine.instance();
    let printed = published().find(|(paper, _)| paper.name == scheme.name).map(|(_, printed)| printed);
    let unprinted = || "—".to_string();
    Ok(vec![
        scheme.name.into(),
        printed.map_or_else(unprinted, |printed| printed.servers.to_string()),
        instance.servers().to_string(),
        printed.map_or_else(unprinted, |printed| format!("{} = {}", printed.formula(), printed.elements(D, M))),
        instance.cost().total().to_string(),
        printed.map_or_else(unprinted, |printed| format!("{} = {}", printed.field, printed.bound)),
        (scheme.bound)(instance.params()).to_string(),
        instance.field().bits().to_string(),
        traffic.search_up.to_string(),
        traffic.search_down.to_string(),
        traffic.record_up.to_string(),
        traffic.record_down.to_string(),
        printed.map_or_else(|| "not in the paper".into(), |printed| verdict(instance, scheme, printed)),
    ])
}

/// Whether servers, field elements and field are those of the paper.
fn verdict(instance: &SchemeInstance, scheme: &Scheme, printed: &Printed) -> String {
    let bound = (scheme.bound)(instance.params());
    let same = instance.servers() == printed.servers && instance.cost().total() as i128 == printed.elements(D, M);
    let is_scaled = scheme.constraint == ConstraintKind::Scaled;
    match (same, bound.cmp(&printed.bound)) {
        (true, Ordering::Equal) => "exact".into(),
        (true, Ordering::Greater) if scheme.is_masked() => {
            "differs because a masked distance wraps around in the field of the paper".into()
        }
        (true, Ordering::Less) if is_scaled => {
            "elements exact; field differs because L = L1·R²(d−|I|)+1 suffices (Theorem 6 in docs/paper.md)".into()
        }
        _ => "NOT CONFIRMED".into(),
    }
}

/// Bytes per row by the number of rows, for Baseline and for the unweighted schemes with immutable
/// features.
fn plot() -> Result<Plot, LabError> {
    let has_immutable = |scheme: &&Scheme| {
        scheme.cost_model == Cost::Squared
            && matches!(scheme.constraint, ConstraintKind::Zeros | ConstraintKind::Scaled)
    };
    let baseline = leakage::LeakageScheme::published(Cost::Squared, Decoded::Values)?.definition;
    let sizes = [100, 1_000, 10_000, 100_000, 1_000_000];
    let mut curves = Vec::new();
    for scheme in scheme::ALL.iter().copied().filter(has_immutable).chain([baseline]) {
        let fault = |reason: String| LabError::Protocol { scheme: scheme.name.into(), reason };
        let mut points = Vec::new();
        for m in sizes {
            let instance = SchemeInstance::new(scheme, params(m), ifonly_algebra::field::ModulusRule::Deployment)
                .map_err(|error| fault(error.to_string()))?;
            let bytes = instance.cost().total() as f64 * f64::from(instance.field().bits()) / 8.0;
            points.push((m as f64, bytes / m as f64));
        }
        curves.push(Curve { name: scheme.name.into(), points, errors: Vec::new() });
    }
    Ok(Plot {
        title: format!("Bytes per search and row of the database, all servers (R={R}, d={D})"),
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

    #[test]
    fn servers_elements_and_field_of_every_scheme_are_those_of_the_paper() {
        let paper = scheme::ALL.iter().filter(|scheme| scheme.origin == Origin::Paper);
        assert_eq!(paper.count(), PRINTED.len());
        for (scheme, printed) in published() {
            let cells = row(scheme, 1).unwrap();
            assert_eq!(cells[2], printed.servers.to_string(), "{}", scheme.name);
            assert_eq!(cells[4], printed.elements(D, M).to_string(), "{}", scheme.name);
            // Masked values would wrap around in the field of the paper; Single-Phase needs less.
            let masked = if scheme.is_masked() { u128::from(MASK) - 1 } else { 0 };
            if scheme.constraint == ConstraintKind::Scaled {
                assert!(cells[6].parse::<u128>().unwrap() < printed.bound, "{}", scheme.name);
            } else {
                assert_eq!(cells[6], (printed.bound + masked).to_string(), "{}", scheme.name);
            }
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
    fn the_report_and_docs_schemes_md_have_the_same_fields() {
        let page = include_str!("../../../../docs/schemes.md");
        let wine = page.split("## ").find(|part| part.starts_with("Wine")).unwrap();
        for scheme in scheme::ALL {
            let line = wine.lines().find(|line| line.starts_with(&format!("| {} |", scheme.name))).unwrap();
            // The bits of a lifted gate follow those of a cost.
            let bits = line.split('|').nth(9).unwrap().split('+').next().unwrap().trim();
            let instance = SchemeInstance::new(scheme, params(M), ifonly_algebra::field::ModulusRule::Deployment);
            assert_eq!(instance.unwrap().field().bits().to_string(), bits, "{}", scheme.name);
        }
    }
}
