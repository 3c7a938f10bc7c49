//! d_min, the size of the masks of Mask-PCR, for the rejected samples of a data set.
//!
//! Masks below d_min never change the order of distances that differ by at least d_min. The paper
//! takes the smallest gap between the distances of two rows from one rejected sample. Ties make it
//! 0, and real data has ties, so d_min is chosen by hand and its accuracy is measured. All
//! distances here have equal weights.

use crate::random::{RandomSource, SeededRandom};

/// Draws of masks per sample.
const DRAWS: u64 = 100;
/// Steps after which the measurement of one property takes too long.
const STEP_LIMIT: u64 = 1_000_000_000;

/// What masks below a chosen d_min do, over some rejected samples.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct MaskEffects {
    /// The d_min that was chosen.
    pub chosen: u64,
    /// The number of rejected samples.
    pub samples: usize,
    /// d_min of the paper: the smallest gap, 0 with ties. `None` if there are fewer than two rows.
    pub d_min: Option<u64>,
    /// The smallest gap between distinct distances. `None` if there is none.
    pub distinct: Option<u64>,
    /// The samples that are in D_c, counted from 0. `None` if the computation takes too long.
    pub in_closure: Option<Vec<usize>>,
    /// The share of searches that return a nearest row.
    pub exact_share: f64,
}

impl MaskEffects {
    /// The effects of masks below `chosen` on these rows, for these rejected samples. The masks are
    /// drawn from a fixed seed.
    pub fn new(rows: &[Vec<u16>], rejected: &[Vec<u16>], chosen: u64) -> MaskEffects {
        let smallest = |ties| rejected.iter().filter_map(|x| smallest_gap(x, rows, ties)).min();
        let pairs = (rows.len() as u64).pow(2) / 2;
        let fits = pairs.saturating_mul(rejected.len() as u64) <= STEP_LIMIT;
        MaskEffects {
            chosen,
            samples: rejected.len(),
            d_min: smallest(Ties::Count),
            distinct: smallest(Ties::Ignore),
            in_closure: fits.then(|| in_closure(rejected, rows, rejected)),
            exact_share: exact_share(rows, rejected, chosen),
        }
    }
}

/// Whether two equal distances count as a gap of 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ties {
    /// The rule of the paper.
    Count,
    /// Only distinct distances. The result is exact except for the choice among tied rows.
    Ignore,
}

/// The smallest gap between the distances of two rows from x. `None` if there is no gap.
pub fn smallest_gap(x: &[u16], rows: &[Vec<u16>], ties: Ties) -> Option<u64> {
    let mut distances: Vec<u64> = rows.iter().map(|y| distance(x, y)).collect();
    distances.sort_unstable();
    if ties == Ties::Ignore {
        distances.dedup();
    }
    distances.windows(2).map(|pair| pair[1] - pair[0]).min()
}

/// The candidates in D_c, the closure of the rejected samples: seen from them, every pair of rows
/// has at least the gap that it has from each rejected sample, and they are not accepted rows. For
/// these the paper's d_min is safe.
pub fn in_closure(candidates: &[Vec<u16>], rows: &[Vec<u16>], rejected: &[Vec<u16>]) -> Vec<usize> {
    let distances = |samples: &[Vec<u16>]| -> Vec<Vec<u64>> {
        samples.iter().map(|x| rows.iter().map(|y| distance(x, y)).collect()).collect()
    };
    let (theirs, ours) = (distances(rejected), distances(candidates));
    let mut found: Vec<usize> = (0..candidates.len()).filter(|&x| !rows.contains(&candidates[x])).collect();
    for i in 0..rows.len() {
        for j in 0..i {
            let gap = |distances: &Vec<u64>| distances[i].abs_diff(distances[j]);
            let widest = theirs.iter().map(gap).max().unwrap_or(0);
            found.retain(|&x| gap(&ours[x]) >= widest);
        }
        if found.is_empty() {
            break;
        }
    }
    found
}

/// The share of searches that return a nearest row if each distance has a uniform mask below d_min.
fn exact_share(rows: &[Vec<u16>], samples: &[Vec<u16>], d_min: u64) -> f64 {
    let mut random = SeededRandom::new(1);
    let (mut exact, mut searches) = (0u64, 0u64);
    for x in samples {
        let distances: Vec<u64> = rows.iter().map(|y| distance(x, y)).collect();
        let Some(&nearest) = distances.iter().min() else { continue };
        // No other row can win.
        let near: Vec<u64> = distances.into_iter().filter(|d| d - nearest < d_min.max(1)).collect();
        let draws = (STEP_LIMIT / 10 / (near.len() as u64 * samples.len() as u64)).clamp(1, DRAWS);
        for _ in 0..draws {
            let winner = near.iter().map(|&d| (d + random.below(d_min.max(1)), d)).min_by_key(|&(masked, _)| masked);
            exact += u64::from(winner.is_some_and(|(_, d)| d == nearest));
        }
        searches += draws;
    }
    exact as f64 / searches.max(1) as f64
}

fn distance(x: &[u16], y: &[u16]) -> u64 {
    x.iter().zip(y).map(|(&x, &y)| u64::from(x.abs_diff(y)).pow(2)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Vec<u16>> {
        vec![vec![0, 0], vec![3, 0], vec![0, 3], vec![9, 9]]
    }

    #[test]
    fn ties_make_the_papers_d_min_zero_and_leave_the_distinct_one() {
        // Distances 2, 5, 5, 128.
        assert_eq!(smallest_gap(&[1, 1], &rows(), Ties::Count), Some(0));
        assert_eq!(smallest_gap(&[1, 1], &rows(), Ties::Ignore), Some(3));
        assert_eq!(smallest_gap(&[1, 1], &[vec![1, 1]], Ties::Count), None);
        let effects = MaskEffects::new(&rows(), &[vec![1, 1], vec![1, 2]], 7);
        assert_eq!((effects.d_min, effects.distinct, effects.samples), (Some(0), Some(3), 2));
    }

    #[test]
    fn the_closure_keeps_every_gap_and_leaves_out_accepted_rows() {
        let rejected = vec![vec![1, 2]];
        let points: Vec<Vec<u16>> = (0..=9).flat_map(|a| (0..=9).map(move |b| vec![a, b])).collect();
        let found = in_closure(&points, &rows(), &rejected);
        let is_in = |point: [u16; 2]| found.iter().any(|&x| points[x] == point);
        assert!(is_in([1, 2]) && !is_in([3, 0]) && !is_in([1, 1]));
        let bound = smallest_gap(&rejected[0], &rows(), Ties::Count).unwrap();
        assert!(found.iter().all(|&x| smallest_gap(&points[x], &rows(), Ties::Count).unwrap() >= bound));
        // The counterexample of docs/paper.md: 4 has a smaller gap than 1.
        let samples = vec![vec![1], vec![4]];
        assert_eq!(in_closure(&samples, &[vec![0], vec![9]], &samples), [0]);
    }

    #[test]
    fn the_measured_share_is_that_of_the_masks() {
        // Distances 0 and 1. With masks 0 or 1 the second row can only tie, and the first row wins
        // a tie.
        let rows = vec![vec![0], vec![1]];
        let samples = vec![vec![0]; 400];
        let share = exact_share(&rows, &samples, 2);
        assert_eq!(exact_share(&rows, &samples, 1), 1.0);
        assert!((share - 1.0).abs() < 1e-9, "distance 0 + 1 equals 1 + 0, and the first row wins: {share}");
        // Masks up to 2: the second row wins with (2, 0) only.
        let share = exact_share(&rows, &samples, 3);
        assert!((share - 8.0 / 9.0).abs() < 0.01, "{share}");
    }
}
