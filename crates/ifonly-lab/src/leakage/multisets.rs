//! Enumeration of multisets of classes: how many rows are in each class.
//!
//! All orders of a multiset are equally likely. A multiset with counts `k_c` represents `M!/Π k_c!`
//! tuples and has probability `M!/(n)_M · Π_c C(n_c, k_c)`.

use super::classes::Classes;
use crate::LabError;
use crate::leakage::model::SamplingRule;

/// The largest number of multisets.
const LIMIT: f64 = 5e7;

/// (class, number of rows in the class), in ascending order, without zeros.
pub(crate) type Counts = Vec<(i64, u32)>;

/// Calls `visit` with every multiset of M classes and its probability.
pub(crate) fn visit_multisets(classes: &Classes, m: u32, drawing: SamplingRule, visit: &mut dyn FnMut(&Counts, f64)) {
    let all = f64::from(m);
    let scale: f64 = match drawing {
        SamplingRule::WithoutReplacement => {
            (0..m).map(|j| (all - f64::from(j)) / (classes.total - f64::from(j))).product()
        }
        SamplingRule::WithReplacement => (0..m).map(|j| (all - f64::from(j)) / classes.total).product(),
    };
    descend(&classes.sizes, m, drawing, scale, &mut Counts::new(), visit);
}

fn descend(
    sizes: &[(i64, f64)],
    left: u32,
    drawing: SamplingRule,
    weight: f64,
    counts: &mut Counts,
    visit: &mut dyn FnMut(&Counts, f64),
) {
    if left == 0 {
        return visit(counts, weight);
    }
    let Some((&(class, size), rest)) = sizes.split_first() else { return };
    descend(rest, left, drawing, weight, counts, visit);
    let mut weight = weight;
    for k in 1..=left {
        let members = match drawing {
            SamplingRule::WithoutReplacement => size - f64::from(k - 1),
            SamplingRule::WithReplacement => size,
        };
        if members <= 0.0 {
            break;
        }
        weight *= members / f64::from(k);
        counts.push((class, k));
        descend(rest, left - k, drawing, weight, counts, visit);
        counts.pop();
    }
}

/// Checks that `times` enumerations of all multisets of M out of `kinds` classes are feasible.
pub(crate) fn check_count(kinds: f64, m: u32, times: f64) -> Result<(), LabError> {
    let count: f64 = (0..m).map(|j| (kinds + f64::from(j)) / f64::from(j + 1)).product();
    if count * times > LIMIT {
        return Err(LabError::TooLarge {
            what: "the enumeration of all multisets of classes",
            steps: count * times,
            limit: LIMIT,
        });
    }
    Ok(())
}
