//! The leakage of Diff-PCR: the tuple of costs up to a common shift.
//!
//! The differences of consecutive rows determine the costs up to a number t that is added to all of
//! them. So `P(differences) = Σ_t P(tuple + t)`, a sum over classes. The entropy is
//! `E −log P(differences)`, over all multisets (exact) or over samples.
//!
//! With a shuffle the user sees the differences of a random order. The order carries as many bits
//! as for Baseline, and the leakage is lower by that amount.

use super::classes::Classes;
use super::closed::log2_falling;
use super::multisets::Counts;
use crate::leakage::model::SamplingRule;

/// `log₂ P(differences)` of each tuple with these counts.
pub(crate) fn log2_probability(classes: &Classes, counts: &Counts, m: u32, drawing: SamplingRule) -> f64 {
    let Some(&(first, _)) = counts.first() else { return 0.0 };
    let logs: Vec<f64> =
        classes.sizes.iter().filter_map(|&(class, _)| log2_weight(classes, counts, class - first, drawing)).collect();
    log2_sum(&logs)
        - match drawing {
            SamplingRule::WithoutReplacement => log2_falling(classes.total, m),
            SamplingRule::WithReplacement => f64::from(m) * classes.total.log2(),
        }
}

/// `log₂` of the number of tuples of members whose classes are those of the counts, shifted by t.
/// `None` if there is no such tuple.
fn log2_weight(classes: &Classes, counts: &Counts, t: i64, drawing: SamplingRule) -> Option<f64> {
    let mut log = 0.0;
    for &(value, k) in counts {
        let size = classes.size(value + t);
        match drawing {
            SamplingRule::WithoutReplacement if k == 1 && size > 0.0 => log += size.log2(),
            SamplingRule::WithoutReplacement if size >= f64::from(k) => log += log2_falling(size, k),
            SamplingRule::WithReplacement if size > 0.0 => log += f64::from(k) * size.log2(),
            _ => return None,
        }
    }
    Some(log)
}

fn log2_sum(logs: &[f64]) -> f64 {
    let peak = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    peak + logs.iter().map(|log| (log - peak).exp2()).sum::<f64>().log2()
}
