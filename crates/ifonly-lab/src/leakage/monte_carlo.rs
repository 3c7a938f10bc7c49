//! Leakage by sampling, where enumeration takes too long.
//!
//! For a sampled database the probability of what the user decodes is computed exactly, so `−log P`
//! is an unbiased estimate of the entropy: nothing is binned and there is no ceiling at the
//! logarithm of the number of samples. The control variate is Baseline: for the same sample `−log
//! P(costs)` has the exactly known mean of [`super::closed`], and what the two have in common
//! cancels,
//!
//! `estimate = mean(leak − β·(baseline − E baseline))`, with β fitted on a first, separate part of
//! the samples.
//!
//! Each query is a stratum of its own; where its leakage has a closed form, that is used and only
//! queries are sampled. If the queries are themselves sampled, the standard error is taken between
//! them, and Baseline helps a second time: a sampled query counts with its distance from its own
//! Baseline, to which the exact Baseline over all queries is added (where that is within reach).

use rayon::prelude::*;

use super::classes::{Classes, Rule};
use super::closed::{log2_falling, tuple_entropy};
use super::multisets::Counts;
use super::{Population, check, classes_of_rows, closed, differences, grid, masks};
use crate::LabError;
use crate::leakage::model::{Decoded, LeakageModel, RowOrder, SamplingRule};
use crate::progress::ProgressSink;
use crate::random::Stream;

/// How much to sample.
#[derive(Debug, Clone, Copy)]
pub struct Sampling {
    /// Databases in total, shared out evenly among the queries.
    pub samples: u64,
    /// At most this many queries; if there are more, they are sampled.
    pub queries: u64,
    /// The same seed gives the same estimate on any machine.
    pub seed: u64,
}

/// An estimate.
#[derive(Debug, Clone, Copy)]
pub struct Estimate {
    /// The leakage in bits.
    pub bits: f64,
    /// Its standard error in bits.
    pub standard_error: f64,
    /// The exact leakage of Baseline in bits, over all queries where that is within reach, else
    /// over those used.
    pub baseline: f64,
    /// The factor β of the control variate.
    pub beta: f64,
    /// Databases sampled, the first part included.
    pub samples: u64,
    /// Queries used.
    pub queries: u64,
}

/// Estimates the leakage.
pub fn estimate(
    setting: &LeakageModel,
    population: Population,
    sampling: Sampling,
    progress: &dyn ProgressSink,
) -> Result<Estimate, LabError> {
    check(setting, population)?;
    let rules = setting.rules(matches!(population, Population::Grid))?;
    let (queries, sampled) = queries(setting, population, &rules, sampling);
    let each = sampling.samples / queries.len() as u64;
    // Half of a tenth still has to fit a slope.
    if each < 40 {
        let reason =
            format!("{} leaves {each} for each of {} queries; at least 40 are needed", sampling.samples, queries.len());
        return Err(LabError::flag("--samples", reason));
    }
    progress.start("sampling databases", queries.len() as u64);
    let strata: Vec<Result<Stratum, LabError>> = queries
        .par_iter()
        .enumerate()
        .map(|(number, (rule, x))| {
            let classes = match population {
                Population::Grid => grid::classes_of(&rules[*rule], setting.r, x),
                Population::Rows { rows, .. } => classes_of_rows(&rules[*rule], x, rows),
            };
            let stratum = sample_query(setting, &classes, each, Stream::new(sampling.seed, number as u64 + 1));
            progress.advance(1);
            stratum
        })
        .collect();
    progress.finish();
    let strata: Vec<Stratum> = strata.into_iter().collect::<Result<_, _>>()?;
    let over_all = if sampled { baseline_over_all(setting, population) } else { None };
    Ok(combine(&strata, sampled, over_all, each))
}

/// The exact Baseline over all queries, if they can all be visited.
fn baseline_over_all(setting: &LeakageModel, population: Population) -> Option<f64> {
    let cases = super::cases(setting, population).ok()?;
    let entropy = |(share, classes): &(f64, _)| share * tuple_entropy(classes, setting.m, setting.drawing);
    Some(cases.par_iter().map(entropy).collect::<Vec<f64>>().iter().sum())
}

/// The queries to use, each with the number of its rule, and whether they are a sample.
fn queries(
    setting: &LeakageModel,
    population: Population,
    rules: &[Rule],
    sampling: Sampling,
) -> (Vec<(usize, Vec<u32>)>, bool) {
    let mut stream = Stream::new(sampling.seed, 0);
    let wanted = sampling.queries.max(2);
    match population {
        Population::Rows { queries, .. } if (queries.len() * rules.len()) as u64 <= wanted => {
            let all = (0..rules.len()).flat_map(|rule| queries.iter().map(move |x| (rule, x.clone())));
            (all.collect(), false)
        }
        Population::Rows { queries, .. } => {
            let mut pick = || {
                let rule = stream.below(rules.len() as u64) as usize;
                (rule, queries[stream.below(queries.len() as u64) as usize].clone())
            };
            ((0..wanted).map(|_| pick()).collect(), true)
        }
        Population::Grid => {
            let mut pick = || {
                let rule = stream.below(rules.len() as u64) as usize;
                (rule, (0..setting.d).map(|_| stream.below(u64::from(setting.r) + 1) as u32).collect())
            };
            ((0..wanted).map(|_| pick()).collect(), true)
        }
    }
}

/// One query's samples: what they leak, and how far their Baseline leak is from its mean.
struct Stratum {
    first: Vec<(f64, f64)>,
    rest: Vec<(f64, f64)>,
    baseline: f64,
}

fn sample_query(
    setting: &LeakageModel,
    classes: &Classes,
    samples: u64,
    mut stream: Stream,
) -> Result<Stratum, LabError> {
    let baseline = tuple_entropy(classes, setting.m, setting.drawing);
    if super::has_closed_form(setting) {
        return Ok(Stratum { first: Vec::new(), rest: vec![(super::exact_for(setting, classes), 0.0)], baseline });
    }
    let sampler = Sampler::new(classes);
    let mut draw = || {
        let counts = sampler.draw(setting, &mut stream);
        let costs = -log2_tuple(classes, &counts, setting);
        let leak = leak(setting, classes, &counts, costs, &mut stream);
        if leak.is_finite() {
            Ok((leak, costs - baseline))
        } else {
            Err(LabError::flag("--dmin", "the masks overlap too many rows for this number of rows; use --replace"))
        }
    };
    let first = (0..samples / 10).map(|_| draw()).collect::<Result<_, _>>()?;
    let rest = (samples / 10..samples).map(|_| draw()).collect::<Result<_, _>>()?;
    Ok(Stratum { first, rest, baseline })
}

/// What one database leaks, in expectation over nothing but the masks drawn here.
fn leak(setting: &LeakageModel, classes: &Classes, counts: &Counts, costs: f64, stream: &mut Stream) -> f64 {
    let (m, drawing) = (setting.m, setting.drawing);
    let tuple = match setting.scheme.decoded {
        Decoded::Masked if setting.d_min > 1 => {
            let z = masked(counts, setting.d_min, stream);
            let given_rows = match setting.order {
                RowOrder::Fixed => -f64::from(m) * f64::from(setting.d_min).log2(),
                RowOrder::Shuffled => {
                    let rows = masks::population(counts);
                    masks::log2_probability(&rows, &z, setting.d_min, SamplingRule::WithoutReplacement)
                }
            };
            return given_rows - masks::log2_probability(classes, &z, setting.d_min, drawing);
        }
        Decoded::Differences => -differences::log2_probability(classes, counts, m, drawing),
        _ => costs,
    };
    let repeats: f64 = counts.iter().map(|&(_, k)| closed::log2_factorial(k)).sum();
    match setting.order {
        RowOrder::Fixed => tuple,
        RowOrder::Shuffled => tuple - (closed::log2_factorial(m) - repeats),
    }
}

fn masked(counts: &Counts, d_min: u32, stream: &mut Stream) -> Counts {
    let mut z: Vec<i64> = Vec::new();
    for &(class, k) in counts {
        z.extend((0..k).map(|_| class + stream.below(u64::from(d_min)) as i64));
    }
    count(z)
}

fn count(mut values: Vec<i64>) -> Counts {
    values.sort_unstable();
    values.chunk_by(|a, b| a == b).map(|group| (group[0], group.len() as u32)).collect()
}

/// `log₂` of the probability of one tuple with these counts of classes.
fn log2_tuple(classes: &Classes, counts: &Counts, setting: &LeakageModel) -> f64 {
    match setting.drawing {
        SamplingRule::WithoutReplacement => {
            counts.iter().map(|&(class, k)| log2_falling(classes.size(class), k)).sum::<f64>()
                - log2_falling(classes.total, setting.m)
        }
        SamplingRule::WithReplacement => {
            counts.iter().map(|&(class, k)| f64::from(k) * (classes.size(class) / classes.total).log2()).sum()
        }
    }
}

/// Draws rows as classes.
struct Sampler<'a> {
    classes: &'a Classes,
    /// The number of members up to and including each class.
    cumulative: Vec<f64>,
}

impl<'a> Sampler<'a> {
    fn new(classes: &'a Classes) -> Self {
        let mut sum = 0.0;
        let cumulative = classes
            .sizes
            .iter()
            .map(|&(_, size)| {
                sum += size;
                sum
            })
            .collect();
        Sampler { classes, cumulative }
    }

    fn draw(&self, setting: &LeakageModel, stream: &mut Stream) -> Counts {
        let mut counts = Counts::new();
        let mut left = setting.m;
        while left > 0 {
            let point = stream.unit() * self.classes.total;
            let i = self.cumulative.partition_point(|&sum| sum <= point).min(self.cumulative.len() - 1);
            let (class, size) = self.classes.sizes[i];
            let position = counts.binary_search_by_key(&class, |&(c, _)| c);
            let taken = position.map_or(0, |at| counts[at].1);
            // A member that is taken already is drawn again.
            if setting.drawing == SamplingRule::WithoutReplacement && stream.unit() * size < f64::from(taken) {
                continue;
            }
            match position {
                Ok(at) => counts[at].1 += 1,
                Err(at) => counts.insert(at, (class, 1)),
            }
            left -= 1;
        }
        counts
    }
}

fn combine(strata: &[Stratum], sampled: bool, over_all: Option<f64>, each: u64) -> Estimate {
    let beta = slope(strata);
    let number = strata.len() as f64;
    let moments: Vec<(f64, f64)> = strata
        .iter()
        .map(|stratum| {
            let values: Vec<f64> = stratum.rest.iter().map(|(leak, control)| leak - beta * control).collect();
            mean_and_variance(&values)
        })
        .collect();
    let shift = |stratum: &Stratum| over_all.map_or(0.0, |over_all| over_all - stratum.baseline);
    let means: Vec<f64> = moments.iter().zip(strata).map(|(&(mean, _), stratum)| mean + shift(stratum)).collect();
    let (bits, between) = mean_and_variance(&means);
    let within: f64 =
        moments.iter().zip(strata).map(|((_, variance), stratum)| variance / stratum.rest.len() as f64).sum();
    let standard_error = if sampled { (between / number).sqrt() } else { within.sqrt() / number };
    Estimate {
        bits,
        standard_error,
        baseline: over_all.unwrap_or_else(|| strata.iter().map(|stratum| stratum.baseline).sum::<f64>() / number),
        beta,
        samples: each * strata.len() as u64,
        queries: strata.len() as u64,
    }
}

/// The least-squares slope of leak on control in the first part of the samples, within queries.
fn slope(strata: &[Stratum]) -> f64 {
    let (mut covariance, mut variance) = (0.0, 0.0);
    for stratum in strata {
        let number = stratum.first.len() as f64;
        let leak: f64 = stratum.first.iter().map(|pair| pair.0).sum::<f64>() / number;
        let control: f64 = stratum.first.iter().map(|pair| pair.1).sum::<f64>() / number;
        covariance += stratum.first.iter().map(|pair| (pair.0 - leak) * (pair.1 - control)).sum::<f64>();
        variance += stratum.first.iter().map(|pair| (pair.1 - control).powi(2)).sum::<f64>();
    }
    if variance > 1e-12 { covariance / variance } else { 1.0 }
}

fn mean_and_variance(values: &[f64]) -> (f64, f64) {
    let number = values.len() as f64;
    let mean = values.iter().sum::<f64>() / number;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (number - 1.0).max(1.0);
    (mean, variance)
}
