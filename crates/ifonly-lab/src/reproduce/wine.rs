//! The figure "Accuracy-quantization trade-off": how often the nearest row by levels is also the
//! nearest row by the original values.
//!
//! Every search runs through the real protocol (Mask-PCR with two servers; d_min = 1 is Baseline),
//! including the record fetch. A round draws 500 accepted wines as the database and 50 rejected
//! wines as queries. An answer is right if no row of the database is nearer to the query before
//! quantisation.

use ifonly_algebra::random::SeededRandom;
use ifonly_core::params::Params;
use ifonly_core::scheme::CostModel as Cost;
use ifonly_core::secret_query::SecretQuery;
use rayon::prelude::*;

use super::{Effort, remark_on_origin};
use crate::LabError;
use crate::data::{UnitQuantiser, WINE, Wine, WineDatabase};
use crate::engine::Engine;
use crate::leakage::{Decoded, LeakageScheme};
use crate::plot::{AxisScale, Curve, Plot};
use crate::progress::ProgressSink;
use crate::report::ReportItem;

/// The number of levels n; R = n − 1.
pub const LEVELS: [u32; 7] = [20, 40, 60, 100, 140, 200, 300];
/// The values of d_min.
pub const MASKS: [u64; 5] = [1, 5, 10, 20, 50];
const M: usize = 500;
const QUERIES: usize = 50;

/// A mean over the rounds.
#[derive(Debug, Clone, Copy)]
pub struct Accuracy {
    /// The mean.
    pub mean: f64,
    /// The standard error of the mean.
    pub standard_error: f64,
}

/// The parameters of one curve: the quantiser and d_min.
type Series = (UnitQuantiser, u64);

/// One report item for the quantiser of the paper and one for the default of ifonly.
pub(super) fn run(
    wine: &Wine,
    genuine: bool,
    effort: Effort,
    progress: &dyn ProgressSink,
) -> Result<Vec<ReportItem>, LabError> {
    let masked = |quantiser| MASKS.map(|d_min| (quantiser, d_min)).to_vec();
    let mut paper = masked(UnitQuantiser::PaperBins);
    paper.push((UnitQuantiser::Floor, 1));
    let origin = remark_on_origin(genuine, WINE);
    let first = ReportItem {
        name: "wine",
        title: "Accuracy and quantisation on white wine, floor bins".into(),
        text: format!(
            "{} The paper prints a figure without numbers. Its curves for d_min > 1 are lower, because each server drew \
             its own masks, so they did not cancel. The paper searches bins in floating point, which gives some values \
             the top bin by mistake (visible at 100 levels). The last column is Baseline with exact bins.{origin}",
            description(effort.wine_rounds)
        ),
        ..measure(wine, &paper, "floor bins", effort, progress)?
    };
    let second = ReportItem {
        name: "wine-rounding",
        title: "Accuracy and quantisation on white wine, rounding".into(),
        text: format!(
            "{} Rounding to the nearest level is the default of ifonly.{origin}",
            description(effort.wine_rounds)
        ),
        ..measure(wine, &masked(UnitQuantiser::Round), "rounding", effort, progress)?
    };
    Ok(vec![first, second])
}

fn description(rounds: usize) -> String {
    format!(
        "The fraction of queries whose answer is the true nearest wine, ± one standard error, over {rounds} rounds of \
         {QUERIES} queries with M={M}. Every search ran through the real protocol."
    )
}

fn measure(
    wine: &Wine,
    series: &[Series],
    quantiser: &str,
    effort: Effort,
    progress: &dyn ProgressSink,
) -> Result<ReportItem, LabError> {
    let rounds = effort.wine_rounds;
    progress.start(&format!("wine, {quantiser}"), rounds as u64);
    let measured: Vec<Vec<Vec<f64>>> = (0..rounds as u64)
        .into_par_iter()
        .map(|round| {
            let database = wine.round(M, QUERIES, effort.seed, round);
            let fraction = |levels: u32, &(quantiser, d_min): &Series| {
                fraction_right(wine, &database, quantiser, levels, d_min, effort.seed ^ round << 20)
            };
            let of_levels =
                |&levels: &u32| series.iter().map(|one| fraction(levels, one)).collect::<Result<Vec<f64>, _>>();
            let fractions = LEVELS.iter().map(of_levels).collect::<Result<Vec<_>, LabError>>();
            progress.advance(1);
            fractions
        })
        .collect::<Result<_, _>>()?;
    progress.finish();
    let accuracy = |level: usize, one: usize| {
        let values: Vec<f64> = measured.iter().map(|round| round[level][one]).collect();
        let number = values.len() as f64;
        let mean = values.iter().sum::<f64>() / number;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (number - 1.0).max(1.0);
        Accuracy { mean, standard_error: (variance / number).sqrt() }
    };
    let label = |&(quantiser, d_min): &Series| match (quantiser, d_min) {
        (UnitQuantiser::Floor, _) => format!("d_min={d_min}, exact bins"),
        (_, 1) => "d_min=1 (Baseline)".into(),
        _ => format!("d_min={d_min}"),
    };
    let table = LEVELS.iter().enumerate().map(|(level, levels)| {
        let cell = |one| format!("{:.3} ± {:.3}", accuracy(level, one).mean, accuracy(level, one).standard_error);
        [levels.to_string()].into_iter().chain((0..series.len()).map(cell)).collect()
    });
    let curve = |(number, one): (usize, &Series)| Curve {
        name: label(one),
        points: LEVELS.iter().enumerate().map(|(level, &n)| (f64::from(n), accuracy(level, number).mean)).collect(),
        errors: (0..LEVELS.len()).map(|level| accuracy(level, number).standard_error).collect(),
    };
    Ok(ReportItem {
        name: "",
        title: String::new(),
        text: String::new(),
        columns: ["levels".to_string()].into_iter().chain(series.iter().map(label)).collect(),
        rows: table.collect(),
        plot: Some(Plot {
            title: format!("White wine, M={M}: {quantiser}"),
            x: "levels per feature".into(),
            y: "fraction of true nearest neighbours".into(),
            x_scale: AxisScale::Linear,
            y_range: Some((0.2, 1.0)),
            curves: series.iter().enumerate().map(curve).collect(),
        }),
    })
}

/// The fraction of the queries of a round that the protocol answers with a true nearest neighbour.
pub fn fraction_right(
    wine: &Wine,
    database: &WineDatabase,
    quantiser: UnitQuantiser,
    levels: u32,
    d_min: u64,
    seed: u64,
) -> Result<f64, LabError> {
    let truth = |row: usize| &wine.accepted[database.rows[row]];
    let rows: Vec<Vec<u16>> = (0..database.rows.len())
        .map(|row| quantiser.row(truth(row), levels).into_iter().map(|level| level as u16).collect())
        .collect();
    let features = rows.first().map_or(0, Vec::len);
    let params = Params { d_min, ..Params::new(vec![levels - 1; features], rows.len()) };
    let mask = LeakageScheme::published(Cost::Squared, Decoded::Masked)?;
    let engine = Engine::new(mask.definition, params, &rows, seed)?;
    let mut random = SeededRandom::new(seed ^ u64::from(levels) << 40 ^ d_min << 52);
    let mut right = 0usize;
    for &query in &database.queries {
        let x = &wine.rejected[query];
        let (outcome, _) = engine.search(SecretQuery::new(quantiser.row(x, levels)), &mut random)?;
        // The rows are not shuffled, so the position is the index of the row.
        let Some(found) = outcome.found.first() else { continue };
        let distance = |row: usize| squared_distance(x, truth(row));
        let nearest = (0..database.rows.len()).map(distance).fold(f64::INFINITY, f64::min);
        right += usize::from(found.position.is_some_and(|row| distance(row) <= nearest));
    }
    Ok(right as f64 / database.queries.len().max(1) as f64)
}

fn squared_distance(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(a, b)| (a - b).powi(2)).sum()
}
