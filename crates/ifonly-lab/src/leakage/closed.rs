//! Entropies that have a closed form, because a tuple of classes is as likely as it has members.
//!
//! A tuple with `k_c` rows in class c of size `n_c` has probability `Π_c (n_c)_{k_c} / (n)_M`, with
//! falling factorials, so `H = log (n)_M − Σ_c E log (n_c)_{k_c}`, where `k_c` is hypergeometric:
//! one sum per class, no tuples at all. With replacement it is `M` times the entropy of one row.
//! The order of the rows carries `E log (M! / Π_c k_c!)`, which is what a shuffle takes away.

use super::classes::{BEHIND_THE_GATE, Classes};
use crate::leakage::model::SamplingRule;

/// The entropy of the classes of M rows in order.
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

/// The expected number of bits that the order of the rows carries, given how many rows each class
/// has.
pub(crate) fn order_entropy(classes: &Classes, m: u32, drawing: SamplingRule) -> f64 {
    log2_factorial(m) - expectation(classes, m, drawing, |_, j| f64::from(j + 1).log2())
}

/// The entropy of the nearest row: its class, and which member of the class it is, all being
/// equally likely. Rows behind the gate are never the nearest; if there are no others, that is what
/// is learnt.
pub(crate) fn nearest_entropy(classes: &Classes, m: u32, drawing: SamplingRule) -> f64 {
    // log₂ of the probability that all M rows are among so many members.
    let all_among = |members: f64| match drawing {
        SamplingRule::WithReplacement => f64::from(m) * (members / classes.total).log2(),
        SamplingRule::WithoutReplacement if members < f64::from(m) => f64::NEG_INFINITY,
        SamplingRule::WithoutReplacement => log2_falling(members, m) - log2_falling(classes.total, m),
    };
    let mut left = classes.total;
    let mut entropy = 0.0;
    let (behind, open): (Vec<_>, Vec<_>) = classes.sizes.iter().partition(|&&(class, _)| class == BEHIND_THE_GATE);
    for (class, size) in open.into_iter().chain(behind) {
        let probability = all_among(left).exp2() - if left > size { all_among(left - size).exp2() } else { 0.0 };
        left -= size;
        let members = if class == BEHIND_THE_GATE { 1.0 } else { size };
        if probability > 0.0 {
            entropy += probability * (members / probability).log2();
        }
    }
    entropy
}

/// `log₂ n(n−1)…(n−k+1)`.
pub(crate) fn log2_falling(n: f64, k: u32) -> f64 {
    (0..k).map(|j| (n - f64::from(j)).log2()).sum()
}

/// `log₂ k!`.
pub(crate) fn log2_factorial(k: u32) -> f64 {
    (2..=k).map(|j| f64::from(j).log2()).sum()
}

/// `Σ_c E f(n_c, k_c)`, for `f(n, k) = Σ_{j<k} step(n, j)`.
fn expectation(classes: &Classes, m: u32, drawing: SamplingRule, step: impl Fn(f64, u32) -> f64) -> f64 {
    // Classes of one size contribute the same: compute each size once.
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

/// The distribution of the number of rows, of M, that fall into a class, hypergeometric or
/// binomial: the lowest count, and the probabilities from there up to where they no longer matter.
fn row_counts(size: f64, total: f64, m: u32, drawing: SamplingRule) -> (u32, Vec<f64>) {
    /// exp(−46) ≈ 10⁻²⁰ of the largest probability is less than rounding takes.
    const NEGLIGIBLE: f64 = 46.0;
    let (rest, all) = (total - size, f64::from(m));
    let (lowest, highest) = match drawing {
        SamplingRule::WithReplacement if rest <= 0.0 => (m, m),
        SamplingRule::WithReplacement => (0, m),
        SamplingRule::WithoutReplacement => ((all - rest).max(0.0) as u32, size.min(all) as u32),
    };
    // Log weights relative to the lowest count, then normalised: no under- or overflow at any M.
    // The weight of k members inside and M − k outside is C(M,k)·in(k)·out(M−k), of which
    // neighbours have simple ratios.
    let mut logs = vec![0.0];
    let (mut log, mut peak) = (0.0, 0.0f64);
    for k in lowest + 1..=highest {
        let j = f64::from(k);
        let taken = if drawing == SamplingRule::WithReplacement { 0.0 } else { 1.0 };
        let ratio: f64 = (all - j + 1.0) / j * (size - taken * (j - 1.0)) / (rest - taken * (all - j));
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn the_nearest_row_says_as_much_as_all_databases_counted_one_by_one() {
        // Seven people in four classes, one of them behind the gate.
        let people: [i64; 7] = [4, 0, BEHIND_THE_GATE, 4, 9, BEHIND_THE_GATE, 4];
        let classes = Classes::new(people.iter().map(|&class| (class, 1.0)));
        for drawing in [SamplingRule::WithReplacement, SamplingRule::WithoutReplacement] {
            for m in 1..=3u32 {
                let mut counts: BTreeMap<Option<usize>, f64> = BTreeMap::new();
                for number in 0..7usize.pow(m) {
                    let rows: Vec<usize> = (0..m).map(|place| number / 7usize.pow(place) % 7).collect();
                    let distinct = rows.iter().enumerate().all(|(place, row)| !rows[..place].contains(row));
                    if drawing == SamplingRule::WithReplacement || distinct {
                        let open = rows.iter().copied().filter(|&row| people[row] != BEHIND_THE_GATE);
                        *counts.entry(open.min_by_key(|&row| people[row])).or_default() += 1.0;
                    }
                }
                let total: f64 = counts.values().sum();
                let expected: f64 = counts.values().map(|count| count / total * (total / count).log2()).sum();
                let computed = nearest_entropy(&classes, m, drawing);
                assert!((computed - expected).abs() < 1e-12, "{drawing:?}, M = {m}: {computed}, not {expected}");
            }
        }
    }
}
