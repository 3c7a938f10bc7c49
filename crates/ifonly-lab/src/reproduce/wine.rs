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
use crate::random::Stream;
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

/// Who draws the masks of Mask-PCR.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MaskSource {
    /// One mask per row from the key that the servers share.
    SharedKey,
    /// Every server for itself, as the figure of the paper suggests. With the points 1 and 2 a
    /// distance decodes to `d + 2μ₁ − μ₂`.
    EachServer,
}

/// The parameters of one curve: the quantiser, d_min, and who draws the masks.
type Series = (UnitQuantiser, u64, MaskSource);

/// Accuracies that were computed before, by other programs or with other seeds: the floor bins of
/// the paper, by levels, d_min and mask source.
const KNOWN: [(u32, u64, MaskSource, f64); 11] = [
    (20, 1, MaskSource::SharedKey, 0.631),
    (20, 50, MaskSource::SharedKey, 0.249),
    (100, 1, MaskSource::SharedKey, 0.914),
    (100, 50, MaskSource::SharedKey, 0.874),
    (20, 50, MaskSource::EachServer, 0.110),
    (40, 50, MaskSource::EachServer, 0.379),
    (60, 50, MaskSource::EachServer, 0.580),
    (100, 50, MaskSource::EachServer, 0.806),
    (140, 50, MaskSource::EachServer, 0.882),
    (200, 50, MaskSource::EachServer, 0.940),
    (300, 50, MaskSource::EachServer, 0.968),
];

/// One report item for the quantiser of the paper and one for the default of ifonly.
pub(super) fn run(
    wine: &Wine,
    genuine: bool,
    effort: Effort,
    progress: &dyn ProgressSink,
) -> Result<Vec<ReportItem>, LabError> {
    let masked = |quantiser| MASKS.map(|d_min| (quantiser, d_min, MaskSource::SharedKey)).to_vec();
    let mut paper = masked(UnitQuantiser::PaperBins);
    paper.push((UnitQuantiser::Floor, 1, MaskSource::SharedKey));
    let own = MASKS.map(|d_min| (UnitQuantiser::PaperBins, d_min, MaskSource::EachServer));
    let origin = remark_on_origin(genuine, WINE);
    let first = ReportItem {
        name: "wine",
        title: "Accuracy and quantisation on white wine, floor bins".into(),
        text: format!(
            "{} {PROTOCOL} The paper prints a figure without numbers. Its curves for d_min > 1 are lower, because each server drew \
             its own masks, so they did not cancel (next table). The paper searches bins in floating point, which gives some values \
             the top bin by mistake (visible at 100 levels). The last column is Baseline with exact bins.{origin}",
            description(effort.wine_rounds)
        ),
        ..measure(wine, &paper, "floor bins", genuine, effort, progress)?
    };
    let separate = ReportItem {
        name: "wine-separate-masks",
        title: "Accuracy and quantisation on white wine, masks drawn by each server".into(),
        text: format!(
            "{} Here each of two servers draws its own masks below d_min, as in the figure of the paper. A distance then \
             decodes to d + 2μ₁ − μ₂, and the accuracy is lower than with one mask per row. These values are computed \
             without the protocol, whose servers share their masks.{origin}",
            description(effort.wine_rounds)
        ),
        ..measure(wine, &own, "masks of each server", genuine, effort, progress)?
    };
    let second = ReportItem {
        name: "wine-rounding",
        title: "Accuracy and quantisation on white wine, rounding".into(),
        text: format!(
            "{} {PROTOCOL} Rounding to the nearest level is the default of ifonly.{origin}",
            description(effort.wine_rounds)
        ),
        ..measure(wine, &masked(UnitQuantiser::Round), "rounding", genuine, effort, progress)?
    };
    Ok(vec![first, separate, second])
}

const PROTOCOL: &str = "Every search ran through the real protocol.";

fn description(rounds: usize) -> String {
    format!(
        "The fraction of queries whose answer is the true nearest wine, ± one standard error, over {rounds} rounds of \
         {QUERIES} queries with M={M}."
    )
}

fn measure(
    wine: &Wine,
    series: &[Series],
    quantiser: &str,
    genuine: bool,
    effort: Effort,
    progress: &dyn ProgressSink,
) -> Result<ReportItem, LabError> {
    let rounds = effort.wine_rounds;
    progress.start(&format!("wine, {quantiser}"), rounds as u64);
    let measured: Vec<Vec<Vec<f64>>> = (0..rounds as u64)
        .into_par_iter()
        .map(|round| {
            let database = wine.round(M, QUERIES, effort.seed, round);
            let fraction = |levels: u32, &(quantiser, d_min, source): &Series| {
                let seed = effort.seed ^ round << 20;
                match source {
                    MaskSource::SharedKey => fraction_right(wine, &database, quantiser, levels, d_min, seed),
                    MaskSource::EachServer => {
                        Ok(fraction_right_with_separate_masks(wine, &database, quantiser, levels, d_min, seed))
                    }
                }
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
    let label = |&(quantiser, d_min, _): &Series| match (quantiser, d_min) {
        (UnitQuantiser::Floor, _) => format!("d_min={d_min}, exact bins"),
        (_, 1) => "d_min=1 (Baseline)".into(),
        _ => format!("d_min={d_min}"),
    };
    let verdict = |level: usize, levels: u32| {
        let known = |&(quantiser, d_min, source): &Series| {
            let same = |known: &&(u32, u64, MaskSource, f64)| (known.0, known.1, known.2) == (levels, d_min, source);
            let found = KNOWN.iter().find(same).filter(|_| quantiser == UnitQuantiser::PaperBins);
            found.map(|known| known.3)
        };
        let compared: Vec<(usize, f64)> =
            series.iter().enumerate().filter_map(|(one, parameters)| Some((one, known(parameters)?))).collect();
        verdict(genuine, compared.into_iter().map(|(one, known)| (accuracy(level, one), known)))
    };
    let table = LEVELS.iter().enumerate().map(|(level, &levels)| {
        let cell = |one| format!("{:.3} ± {:.3}", accuracy(level, one).mean, accuracy(level, one).standard_error);
        let first = std::iter::once(levels.to_string());
        first.chain((0..series.len()).map(cell)).chain([verdict(level, levels)]).collect()
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
        columns: std::iter::once("levels".to_string())
            .chain(series.iter().map(label))
            .chain(["verdict".to_string()])
            .collect(),
        rows: table.collect(),
        figure: Some(
            Plot {
                title: format!("White wine, M={M}: {quantiser}"),
                x: "levels per feature".into(),
                y: "fraction of true nearest neighbours, ± 4 standard errors".into(),
                x_scale: AxisScale::Linear,
                y_range: Some((0.0, 1.0)),
                curves: series.iter().enumerate().map(curve).collect(),
            }
            .into(),
        ),
    })
}

/// Compares accuracies with those known before.
fn verdict(genuine: bool, compared: impl Iterator<Item = (Accuracy, f64)>) -> String {
    let (mut agree, mut differ) = (0, Vec::new());
    for (found, known) in compared {
        // Both have an error, and a few rounds estimate theirs badly.
        let error = 4.0 * std::f64::consts::SQRT_2 * found.standard_error + 0.0005;
        if (found.mean - known).abs() <= error { agree += 1 } else { differ.push(format!("{known:.3}")) }
    }
    match (genuine, agree, differ.is_empty()) {
        (false, ..) => "not compared: another data file".into(),
        (true, _, false) => format!("NOT CONFIRMED: expected {}", differ.join(", ")),
        (true, 0, true) => "the paper prints no value".into(),
        (true, ..) => format!("within four standard errors ({agree} compared)"),
    }
}

/// The fraction of the queries of a round with a right answer if each of two servers draws its own
/// masks.
fn fraction_right_with_separate_masks(
    wine: &Wine,
    database: &WineDatabase,
    quantiser: UnitQuantiser,
    levels: u32,
    d_min: u64,
    seed: u64,
) -> f64 {
    let mut stream = Stream::new(seed, u64::from(levels) << 16 ^ d_min);
    let truth = |row: usize| &wine.accepted[database.rows[row]];
    let rows: Vec<Vec<u32>> = (0..database.rows.len()).map(|row| quantiser.row(truth(row), levels)).collect();
    let mut right = 0usize;
    for &query in &database.queries {
        let x = &wine.rejected[query];
        let quantised = quantiser.row(x, levels);
        let decoded: Vec<i64> = rows
            .iter()
            .map(|row| {
                let distance: u64 = quantised.iter().zip(row).map(|(a, b)| u64::from(a.abs_diff(*b)).pow(2)).sum();
                distance as i64 + 2 * stream.below(d_min) as i64 - stream.below(d_min) as i64
            })
            .collect();
        let distance = |row: usize| squared_distance(x, truth(row));
        let nearest = (0..rows.len()).map(distance).fold(f64::INFINITY, f64::min);
        let found = (0..rows.len()).min_by_key(|&row| decoded[row]);
        right += usize::from(found.is_some_and(|row| distance(row) <= nearest));
    }
    right as f64 / database.queries.len().max(1) as f64
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
