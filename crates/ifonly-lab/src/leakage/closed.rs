//! Entropies with a closed form.
//!
//! All members of a class are equally likely. A tuple of classes with `k_c` rows in class c of size
//! `n_c` therefore has probability `Π_c (n_c)_{k_c} / (n)_M`, where `(n)_k` is the falling
//! factorial. Its entropy is `H = log (n)_M − Σ_c E log (n_c)_{k_c}` with hypergeometric `k_c`: one
//! sum per class, without an enumeration of tuples. With replacement, H is `M` times the entropy of
//! one row.
//!
//! The row order carries `E log (M! / Π_c k_c!)` bits of H. A shuffle removes them.

use super::classes::Classes;
use crate::leakage::model::SamplingRule;

/// The entropy of the classes of M rows in fixed order.
pub(crate) fn tuple_entropy(classes: &Classes, m: u32, drawing: SamplingRule) -> f64 {
    match drawing {
        SamplingRule::WithReplacement => {
            let bits = |size: f64| -(size / classes.total) * (size / classes.total).log2();
            f64::from(m) * classes.sizes.iter().map(|&(_, size)| bits(size)).sum::<f64>()
        }
        SamplingRule::WithoutReplacement => {
            log2_falling(classes.total, m)
                - expectation(classes, m, drawing, |size, j| (size - f64::from(j)).max(1.0).log2())
        }
    }
}

/// The entropy of the row order, given the number of rows in each class.
pub(crate) fn order_entropy(classes: &Classes, m: u32, drawing: SamplingRule) -> f64 {
    log2_factorial(m) - expectation(classes, m, drawing, |_, j| f64::from(j + 1).log2())
}

/// `log₂ n(n−1)…(n−k+1)`.
pub(crate) fn log2_falling(n: f64, k: u32) -> f64 {
    const LONG: u32 = 512;
    if k <= LONG {
        return (0..k).map(|j| (n - f64::from(j)).log2()).sum();
    }
    (ln_factorial(n) - ln_factorial(n - f64::from(k))) / std::f64::consts::LN_2
}

/// `ln n!` by Stirling's series, whose error is below 10⁻¹⁵ from 20 on.
fn ln_factorial(n: f64) -> f64 {
    if n < 20.0 {
        return (2..=n.max(0.0) as u32).map(|j| f64::from(j).ln()).sum();
    }
    let series = (1.0 / 12.0 - (1.0 / 360.0 - 1.0 / (1260.0 * n * n)) / (n * n)) / n;
    n * n.ln() - n + 0.5 * (std::f64::consts::TAU * n).ln() + series
}

/// `log₂ k!`.
pub(crate) fn log2_factorial(k: u32) -> f64 {
    (2..=k).map(|j| f64::from(j).log2()).sum()
}

/// `Σ_c E f(n_c, k_c)`, for `f(n, k) = Σ_{j<k} step(n, j)`.
fn expectation(classes: &Classes, m: u32, drawing: SamplingRule, step: impl Fn(f64, u32) -> f64) -> f64 {
    // Classes of equal size have equal terms, so each size is computed once.
    let mut sizes: Vec<f64> = classes.sizes.iter().map(|&(_, size)| size).collect();
    sizes.sort_by(f64::total_cmp);
    let of_size = |size: f64| {
        let (lowest, probabilities) = row_counts(size, classes.total, m, drawing);
        let mut value: f64 = (0..lowest).map(|j| step(size, j)).sum();
        let mut mean = 0.0;
        for (probability, k) in probabilities.iter().zip(lowest..) {
            mean += probability * value;
            value += step(size, k);
        }
        mean
    };
    sizes.chunk_by(|a, b| a == b).map(|group| group.len() as f64 * of_size(group[0])).sum()
}

/// The distribution of the number of rows in one class (hypergeometric or binomial): the smallest
/// count, and the probabilities from there on, without a negligible tail.
pub(crate) fn row_counts(size: f64, total: f64, m: u32, drawing: SamplingRule) -> (u32, Vec<f64>) {
    /// A probability below exp(−46) ≈ 10⁻²⁰ of the largest one is less than the rounding error.
    const NEGLIGIBLE: f64 = 46.0;
    let (rest, all) = (total - size, f64::from(m));
    let (lowest, highest) = match drawing {
        SamplingRule::WithReplacement if rest <= 0.0 => (m, m),
        SamplingRule::WithReplacement => (0, m),
        SamplingRule::WithoutReplacement => ((all - rest).max(0.0) as u32, size.min(all) as u32),
    };
    // The weights are logarithms relative to the smallest count, and are normalised at the end. So
    // they neither underflow nor overflow at any M. The weight of k members inside the class and
    // M − k outside is C(M,k)·in(k)·out(M−k); consecutive weights have simple ratios.
    let mut logs = vec![0.0];
    let (mut log, mut peak) = (0.0, 0.0f64);
    for k in lowest + 1..=highest {
        let j = f64::from(k);
        let removed = if drawing == SamplingRule::WithReplacement { 0.0 } else { 1.0 };
        let ratio: f64 = (all - j + 1.0) / j * (size - removed * (j - 1.0)) / (rest - removed * (all - j));
        log += ratio.ln();
        logs.push(log);
        peak = peak.max(log);
        if log < peak - NEGLIGIBLE {
            break;
        }
    }
    let weights: Vec<f64> = logs.iter().map(|log| (log - peak).exp()).collect();
    let sum: f64 = weights.iter().sum();
    (lowest, weights.into_iter().map(|weight| weight / sum).collect())
}
