//! d_min, the size of the masks of Mask-PCR. Masks below d_min never change the order of distances
//! that differ by at least d_min.

use crate::row_function::Rows;

/// How d_min is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MaskRule {
    /// The rule of the paper: the smallest gap between the distances of two rows from one rejected
    /// sample. Ties make it 0, and real data has ties.
    Closure,
    /// The smallest gap between *distinct* distances. The result is exact except for the choice
    /// among tied rows.
    Distinct,
    /// A given value. A report must state the accuracy measured with it.
    Given(u64),
}

/// d_min of the rows for the given rejected samples. The result is `None` if there are fewer than
/// two rows or there is no gap, because then nothing can be confused. 0 means that no mask is safe.
pub(crate) fn d_min(rule: MaskRule, rows: &Rows, rejected: &[Vec<u16>]) -> Option<u64> {
    let gaps = |x: &Vec<u16>| {
        let mut distances: Vec<u64> = rows.iter().map(|y| distance(x, y)).collect();
        distances.sort_unstable();
        if rule == MaskRule::Distinct {
            distances.dedup();
        }
        distances.windows(2).map(|pair| pair[1] - pair[0]).min()
    };
    match rule {
        MaskRule::Given(d_min) => Some(d_min),
        MaskRule::Closure | MaskRule::Distinct => rejected.iter().filter_map(gaps).min(),
    }
}

/// Whether x is in the closure of the rejected samples: seen from x, every pair of rows has at
/// least the gap that it has from each rejected sample, and x is not an accepted row. For such x
/// the paper's d_min is safe.
pub(crate) fn in_closure(x: &[u16], rows: &Rows, rejected: &[Vec<u16>]) -> bool {
    let gaps = |x: &[u16]| {
        let distances: Vec<u64> = rows.iter().map(|y| distance(x, y)).collect();
        (0..distances.len())
            .flat_map(|i| (0..i).map(move |j| (i, j)))
            .map(|(i, j)| distances[i].abs_diff(distances[j]))
            .collect::<Vec<u64>>()
    };
    let ours = gaps(x);
    let wide = |sample: &Vec<u16>| gaps(sample).iter().zip(&ours).all(|(theirs, ours)| ours >= theirs);
    !rows.iter().any(|y| y == x) && rejected.iter().all(wide)
}

fn distance(x: &[u16], y: &[u16]) -> u64 {
    x.iter().zip(y).map(|(&x, &y)| u64::from(x.abs_diff(y)).pow(2)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Rows {
        Rows::new(&[9, 9], [[0, 0], [3, 0], [0, 3], [9, 9]]).unwrap()
    }

    #[test]
    fn ties_make_the_papers_d_min_zero_and_leave_the_distinct_one() {
        let rejected = vec![vec![1, 1]];
        // Distances 2, 5, 5, 128.
        assert_eq!(d_min(MaskRule::Closure, &rows(), &rejected), Some(0));
        assert_eq!(d_min(MaskRule::Distinct, &rows(), &rejected), Some(3));
        assert_eq!(d_min(MaskRule::Given(7), &rows(), &rejected), Some(7));
        let single = Rows::new(&[9, 9], [[1, 1]]).unwrap();
        assert_eq!(d_min(MaskRule::Closure, &single, &rejected), None);
    }

    #[test]
    fn the_closure_keeps_every_gap_and_leaves_out_accepted_rows() {
        let rejected = vec![vec![1, 2]];
        assert!(in_closure(&[1, 2], &rows(), &rejected));
        assert!(!in_closure(&[3, 0], &rows(), &rejected));
        assert!(!in_closure(&[1, 1], &rows(), &rejected));
        let bound = d_min(MaskRule::Closure, &rows(), &rejected).unwrap();
        for x in (0..=9).flat_map(|a| (0..=9).map(move |b| vec![a, b])) {
            if in_closure(&x, &rows(), &rejected) {
                assert!(d_min(MaskRule::Closure, &rows(), &[x]).unwrap() >= bound);
            }
        }
    }
}
