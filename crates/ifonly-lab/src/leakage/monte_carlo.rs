//! Leakage by sampling, where enumeration takes too long.
//!
//! For a sampled database the probability P of the decoded values is computed exactly. So `−log P`
//! is an unbiased estimate of the entropy. There is no histogram, and the logarithm of the number
//! of samples is not an upper bound.
//!
//! The control variate is Baseline: for the same sample, the mean of `−log P(costs)` is known
//! exactly from [`super::closed`]. The common part of the two cancels:
//!
//! `estimate = mean(leak − β·(baseline − E baseline))`
//!
//! β is fitted on a first, separate part of the samples.
//!
//! Each query is a stratum. If the leakage of a query has a closed form, only queries are sampled.
//! If the queries are sampled, the standard error is that between queries. Baseline then helps a
//! second time: the estimate is the mean difference from the Baseline of each query, plus the exact
//! Baseline over all queries, if that can be computed.

use rayon::prelude::*;

use super::classes::{Classes, Rule};
use super::closed::{log2_falling, tuple_entropy};
use super::multisets::Counts;
use super::{Population, check, classes_of_rows, closed, differences, grid, masks};
use crate::LabError;
use crate::leakage::model::{Decoded, LeakageModel, RowOrder, SamplingRule};
use crate::progress::ProgressSink;
use crate::random::Stream;

/// The number of samples.
#[derive(Debug, Clone, Copy)]
pub struct Sampling {
    /// The total number of databases, divided evenly among the queries.
    pub samples: u64,
    /// The largest number of queries. If there are more, the queries are sampled.
    pub queries: u64,
    /// The seed. The same seed gives the same estimate on every machine.
    pub seed: u64,
}

/// An estimated leakage.
#[derive(Debug, Clone, Copy)]
pub struct Estimate {
    /// The leakage in bits.
    pub bits: f64,
    /// The standard error in bits.
    pub standard_error: f64,
    /// The exact leakage of Baseline in bits, over all queries if that can be computed, otherwise
    /// over the queries used.
    pub baseline: f64,
    /// The factor β of the control variate.
    pub beta: f64,
    /// The number of sampled databases, including the first part.
    pub samples: u64,
    /// The number of queries used.
    pub queries: u64,
}

/// Estimates the leakage.
pub fn estimate(
    model: &LeakageModel,
    population: Population,
    sampling: Sampling,
    progress: &dyn ProgressSink,
) -> Result<Estimate, LabError> {
    check(model, population)?;
    let rules = model.rules(matches!(population, Population::Grid))?;
    let (queries, sampled) = queries(model, population, &rules, sampling);
    let each = sampling.samples / queries.len() as u64;
    // A tenth of the samples of each query is used to fit β.
    if each < 40 {
        let reason = format!(
            "{} is too small for {} queries; use at least {}",
            sampling.samples,
            queries.len(),
            40 * queries.len()
        );
        return Err(LabError::parameter("samples", reason));
    }
    progress.start("sampling databases", queries.len() as u64);
    let strata: Vec<Result<Stratum, LabError>> = queries
        .par_iter()
        .enumerate()
        .map(|(number, (rule, x))| {
            let classes = match population {
                Population::Grid => grid::classes_of(&rules[*rule], model.r, x),
                Population::Rows { rows, .. } => classes_of_rows(&rules[*rule], x, rows),
            };
            let stratum = sample_query(model, &classes, each, Stream::new(sampling.seed, number as u64 + 1));
            progress.advance(1);
            stratum
        })
        .collect();
    progress.finish();
    let strata: Vec<Stratum> = strata.into_iter().collect::<Result<_, _>>()?;
    let over_all = if sampled { baseline_over_all(model, population) } else { None };
    Ok(combine(&strata, sampled, over_all, each))
}

/// The exact leakage of Baseline over all queries, if it can be computed.
fn baseline_over_all(model: &LeakageModel, population: Population) -> Option<f64> {
    let cases = super::cases(model, population).ok()?;
    let entropy = |(share, classes): &(f64, _)| share * tuple_entropy(classes, model.m, model.drawing);
    Some(cases.par_iter().map(entropy).collect::<Vec<f64>>().iter().sum())
}

/// The queries to use, each with the index of its rule, and whether they are a sample.
fn queries(
    model: &LeakageModel,
    population: Population,
    rules: &[Rule],
    sampling: Sampling,
) -> (Vec<(usize, Vec<u32>)>, bool) {
    let mut stream = Stream::new(sampling.seed, 0);
    let limit = sampling.queries.max(2);
    match population {
        Population::Rows { queries, .. } if (queries.len() * rules.len()) as u64 <= limit => {
            let all = (0..rules.len()).flat_map(|rule| queries.iter().map(move |x| (rule, x.clone())));
            (all.collect(), false)
        }
        Population::Rows { queries, .. } => {
            let mut pick = || {
                let rule = stream.below(rules.len() as u64) as usize;
                (rule, queries[stream.below(queries.len() as u64) as usize].clone())
            };
            ((0..limit).map(|_| pick()).collect(), true)
        }
        Population::Grid => {
            let mut pick = || {
                let rule = stream.below(rules.len() as u64) as usize;
                (rule, (0..model.d).map(|_| stream.below(u64::from(model.r) + 1) as u32).collect())
            };
            ((0..limit).map(|_| pick()).collect(), true)
        }
    }
}

/// The samples of one query: pairs of the leakage and the deviation of the Baseline leakage from
/// its mean.
struct Stratum {
    /// The part to which β is fitted.
    first: Vec<(f64, f64)>,
    rest: Vec<(f64, f64)>,
    baseline: f64,
}

fn sample_query(
    model: &LeakageModel,
    classes: &Classes,
    samples: u64,
    mut stream: Stream,
) -> Result<Stratum, LabError> {
    let baseline = tuple_entropy(classes, model.m, model.drawing);
    if super::has_closed_form(model) {
        return Ok(Stratum { first: Vec::new(), rest: vec![(super::exact_for(model, classes), 0.0)], baseline });
    }
    let sampler = Sampler::new(classes);
    let mut draw = || {
        let counts = sampler.draw(model, &mut stream);
        let costs = -log2_tuple(classes, &counts, model);
        let leak = leak(model, classes, &counts, costs, &mut stream);
        if leak.is_finite() {
            Ok((leak, costs - baseline))
        } else {
            Err(LabError::parameter(
                "d_min",
                "too many rows have overlapping masks; reduce d_min or m, or draw with replacement",
            ))
        }
    };
    let first = (0..samples / 10).map(|_| draw()).collect::<Result<_, _>>()?;
    let rest = (samples / 10..samples).map(|_| draw()).collect::<Result<_, _>>()?;
    Ok(Stratum { first, rest, baseline })
}

/// The leakage of one sampled database, with masks drawn from the stream.
fn leak(model: &LeakageModel, classes: &Classes, counts: &Counts, costs: f64, stream: &mut Stream) -> f64 {
    let (m, drawing) = (model.m, model.drawing);
    let tuple = match model.scheme.decoded {
        Decoded::Masked if model.d_min > 1 => {
            let z = masked(counts, model.d_min, stream);
            let given_rows = match model.order {
                RowOrder::Fixed => -f64::from(m) * f64::from(model.d_min).log2(),
                RowOrder::Shuffled => {
                    let rows = masks::population(counts);
                    masks::log2_probability(&rows, &z, model.d_min, SamplingRule::WithoutReplacement)
                }
            };
            return given_rows - masks::log2_probability(classes, &z, model.d_min, drawing);
        }
        Decoded::Differences => -differences::log2_probability(classes, counts, m, drawing),
        _ => costs,
    };
    let repeats: f64 = counts.iter().map(|&(_, k)| closed::log2_factorial(k)).sum();
    match model.order {
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

/// `log₂` of the probability of each tuple with these counts of classes.
fn log2_tuple(classes: &Classes, counts: &Counts, model: &LeakageModel) -> f64 {
    match model.drawing {
        SamplingRule::WithoutReplacement => {
            counts.iter().map(|&(class, k)| log2_falling(classes.size(class), k)).sum::<f64>()
                - log2_falling(classes.total, model.m)
        }
        SamplingRule::WithReplacement => {
            counts.iter().map(|&(class, k)| f64::from(k) * (classes.size(class) / classes.total).log2()).sum()
        }
    }
}

/// Draws the classes of random rows.
struct Sampler<'a> {
    classes: &'a Classes,
    /// The number of members of each class and all classes before it.
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

    fn draw(&self, model: &LeakageModel, stream: &mut Stream) -> Counts {
        let mut counts = Counts::new();
        let mut left = model.m;
        while left > 0 {
            let point = stream.unit() * self.classes.total;
            let i = self.cumulative.partition_point(|&sum| sum <= point).min(self.cumulative.len() - 1);
            let (class, size) = self.classes.sizes[i];
            let position = counts.binary_search_by_key(&class, |&(c, _)| c);
            let taken = position.map_or(0, |index| counts[index].1);
            // The drawn member is already in the database: draw again.
            if model.drawing == SamplingRule::WithoutReplacement && stream.unit() * size < f64::from(taken) {
                continue;
            }
            match position {
                Ok(index) => counts[index].1 += 1,
                Err(index) => counts.insert(index, (class, 1)),
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

/// β: the least-squares slope of the leakage on the control variate within queries, in the first
/// part of the samples.
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
