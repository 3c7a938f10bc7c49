//! Two features from one distance.
//!
//! A search at the origin gives ‖y‖². A search at x, with distance D, then gives
//! `⟨y, x⟩ = (‖y‖² − D + ‖x‖²)/2`. For `x = R·e_a + (R−1)·e_b` this is `R·y_a + (R−1)·y_b`. R and
//! R−1 are coprime, so two pairs of values have the same sum only if they differ by (R−1, −R). The
//! sum therefore nearly always determines both values; the norm decides the other cases.

/// Two features; or one, if the number of features is odd.
pub(crate) type FeaturePair = (usize, Option<usize>);

/// A pair with the values that are consistent with the observed distance.
pub(crate) type PairCandidates = (FeaturePair, Vec<(i64, i64)>);

/// The query that reveals features a and b, or a alone.
pub(crate) fn query(d: usize, r: u32, a: usize, b: Option<usize>) -> Vec<u32> {
    let mut x = vec![0; d];
    x[a] = r;
    if let Some(b) = b {
        x[b] = r - 1;
    }
    x
}

/// The values of the pair that are consistent with `⟨y, x⟩`.
pub(crate) fn candidates(r: u32, product: i64, pair: FeaturePair) -> Vec<(i64, i64)> {
    let r = i64::from(r);
    let pair_with = |a: i64| {
        let rest = product - r * a;
        match pair.1 {
            Some(_) if rest >= 0 && rest % (r - 1) == 0 && rest / (r - 1) <= r => Some((a, rest / (r - 1))),
            None if rest == 0 => Some((a, 0)),
            _ => None,
        }
    };
    (0..=r).filter_map(pair_with).collect()
}

/// The rows that are consistent with the candidates of each pair and with the norm. At most one
/// feature, `last`, is in no pair; it follows from the norm. The search stops after two rows.
pub(crate) fn solve(r: u32, pairs: &[PairCandidates], last: Option<usize>, norm: i64) -> Vec<Vec<(usize, u32)>> {
    let mut found = Vec::new();
    descend(r, pairs, last, norm, &mut Vec::new(), &mut found);
    found
}

fn descend(
    r: u32,
    pairs: &[PairCandidates],
    last: Option<usize>,
    norm: i64,
    chosen: &mut Vec<(usize, u32)>,
    found: &mut Vec<Vec<(usize, u32)>>,
) {
    if norm < 0 || found.len() > 1 {
        return;
    }
    let Some((((a, b), candidates), rest)) = pairs.split_first() else {
        let value = norm.isqrt();
        match last {
            Some(feature) if value * value == norm && value <= i64::from(r) => {
                found.push(chosen.iter().copied().chain([(feature, value as u32)]).collect());
            }
            None if norm == 0 => found.push(chosen.clone()),
            _ => {}
        }
        return;
    };
    for &(value_a, value_b) in candidates {
        let length = chosen.len();
        chosen.push((*a, value_a as u32));
        chosen.extend(b.map(|b| (b, value_b as u32)));
        descend(r, rest, last, norm - value_a * value_a - value_b * value_b, chosen, found);
        chosen.truncate(length);
    }
}

/// The features of a range in pairs.
pub(crate) fn pair_up(features: std::ops::Range<usize>) -> Vec<FeaturePair> {
    let end = features.end;
    features.step_by(2).map(|a| (a, Some(a + 1).filter(|&b| b < end))).collect()
}
