//! Entropies that have a closed form, because a tuple of classes is as likely as it has members.
//!
//! A tuple with `k_c` rows in class c of size `n_c` has probability `Π_c (n_c)_{k_c} / (n)_M`, with falling factorials, so
//! `H = log (n)_M − Σ_c E log (n_c)_{k_c}`, where `k_c` is hypergeometric: one sum per class, no tuples at all.
//! With replacement it is `M` times the entropy of one row. The order of the rows carries `E log (M! / Π_c k_c!)`, which is
//! what a shuffle takes away.

use super::classes::Classes;
use super::setting::Drawing;

/// The entropy of the classes of M rows in order.
pub(crate) fn tuple_entropy(classes: &Classes, m: u32, drawing: Drawing) -> f64 {
    match drawing {
        Drawing::WithReplacement => {
            let bits = |size: f64| -(size / classes.total) * (size / classes.total).log2();
            f64::from(m) * classes.sizes.iter().map(|&(_, size)| bits(size)).sum::<f64>()
        }
        Drawing::WithoutReplacement => {
            log2_falling(classes.total, m) - expectation(classes, m, drawing, |size, k| log2_falling(size, k))
        }
    }
}

/// The expected number of bits that the order of the rows carries, given how many rows each class has.
pub(crate) fn order_entropy(classes: &Classes, m: u32, drawing: Drawing) -> f64 {
    log2_factorial(m) - expectation(classes, m, drawing, |_, k| log2_factorial(k))
}

/// `log₂ n(n−1)…(n−k+1)`.
pub(crate) fn log2_falling(n: f64, k: u32) -> f64 {
    (0..k).map(|j| (n - f64::from(j)).log2()).sum()
}

/// `log₂ k!`.
pub(crate) fn log2_factorial(k: u32) -> f64 {
    (2..=k).map(|j| f64::from(j).log2()).sum()
}

/// `Σ_c E f(n_c, k_c)`.
fn expectation(classes: &Classes, m: u32, drawing: Drawing, f: impl Fn(f64, u32) -> f64) -> f64 {
    // Classes of one size contribute the same: compute each size once.
    let mut sizes: Vec<f64> = classes.sizes.iter().map(|&(_, size)| size).collect();
    sizes.sort_by(f64::total_cmp);
    let alike = sizes.chunk_by(|a, b| a == b);
    alike
        .map(|group| {
            let size = group[0];
            let probabilities = row_counts(size, classes.total, m, drawing);
            let mean: f64 = probabilities.iter().zip(0..).filter(|(p, _)| **p > 0.0).map(|(p, k)| p * f(size, k)).sum();
            mean * group.len() as f64
        })
        .sum()
}

/// The distribution of the number of rows, of M, that fall into a class: hypergeometric or binomial.
fn row_counts(size: f64, total: f64, m: u32, drawing: Drawing) -> Vec<f64> {
    let (rest, all) = (total - size, f64::from(m));
    // The weight of k members inside and M − k outside is C(M,k)·in(k)·out(M−k); neighbours have simple ratios.
    let (inside, outside): (Box<dyn Fn(f64) -> f64>, Box<dyn Fn(f64) -> f64>) = match drawing {
        Drawing::WithReplacement => (Box::new(move |_| size), Box::new(move |_| rest)),
        Drawing::WithoutReplacement => (Box::new(move |j| size - j), Box::new(move |j| rest - j)),
    };
    let (lowest, highest) = match drawing {
        Drawing::WithReplacement if rest <= 0.0 => (m, m),
        Drawing::WithReplacement => (0, m),
        Drawing::WithoutReplacement => ((all - rest).max(0.0) as u32, size.min(all) as u32),
    };
    // Log weights relative to the lowest count, then normalised: no under- or overflow at any M.
    let mut logs = vec![f64::NEG_INFINITY; m as usize + 1];
    logs[lowest as usize] = 0.0;
    for k in lowest + 1..=highest {
        let j = f64::from(k);
        let ratio = (all - j + 1.0) / j * inside(j - 1.0) / outside(all - j);
        logs[k as usize] = logs[k as usize - 1] + ratio.ln();
    }
    let peak = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = logs.iter().map(|log| (log - peak).exp()).collect();
    let sum: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / sum).collect()
}
