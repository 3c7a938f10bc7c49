//! The k smallest of many ranks, data-obliviously: the work does not depend on the ranks. A running
//! time that depended on them would reveal decoded values to servers.
//!
//! For k = 1, each block is read twice: for its minimum, then for the first position with it. For
//! larger k, a bitonic network is used. It keeps 2^b ≥ k sorted keys; as many new keys are sorted,
//! and a merge leaves the smaller half. Every compare-exchange is executed, by arithmetic instead
//! of a branch.

use zeroize::Zeroizing;

/// The rank of a row that does not match; larger than any other. All ranks are below 2^63, so that
/// [`smaller`] can compare them.
pub(crate) const OUT: u64 = u64::MAX >> 1;

/// The key of no row.
const EMPTY: u128 = (OUT as u128) << 64 | u64::MAX as u128;

/// Keeps the k smallest (rank, position). Each pair is one key: the rank above the position.
#[derive(Clone)]
pub(crate) struct ObliviousTopK {
    /// The first half are the kept keys, sorted; the second half are waiting keys.
    keys: Zeroizing<Vec<u128>>,
    waiting: usize,
    /// Keys compared so far.
    work: u64,
}

impl ObliviousTopK {
    pub(crate) fn new(k: usize) -> ObliviousTopK {
        let keys = Zeroizing::new(vec![EMPTY; 2 * k.next_power_of_two()]);
        ObliviousTopK { keys, waiting: 0, work: 0 }
    }

    /// Reads the ranks of `position` and the positions after it.
    pub(crate) fn take(&mut self, ranks: &[u64], position: usize) {
        let half = self.keys.len() / 2;
        if half == 1 {
            let smallest = ranks.iter().fold(OUT, |smallest, &rank| smaller(smallest, rank));
            // The first position with the minimum, by counting the positions before it.
            let (mut found, mut first) = (0, position as u64);
            for &rank in ranks {
                found |= u64::from(rank == smallest);
                first += found ^ 1;
            }
            self.keys[1] = key(smallest, first);
            self.work += 2 * ranks.len() as u64;
            self.merge();
            return;
        }
        for (index, &rank) in (position as u64..).zip(ranks) {
            self.keys[half + self.waiting] = key(rank, index);
            self.waiting += 1;
            if self.waiting == half {
                self.merge();
            }
        }
    }

    /// The kept ranks with their positions, sorted, and the work. Rows that do not match have the
    /// rank `OUT`.
    pub(crate) fn finish(mut self) -> (Vec<(u64, usize)>, u64) {
        let half = self.keys.len() / 2;
        self.keys[half + self.waiting..].fill(EMPTY);
        self.merge();
        let kept = self.keys[..half].iter().map(|&key| ((key >> 64) as u64, key as u64 as usize)).collect();
        (kept, self.work)
    }

    /// Merges the waiting keys, so that the first half are the smallest keys, sorted.
    fn merge(&mut self) {
        let half = self.keys.len() / 2;
        let (kept, new) = self.keys.split_at_mut(half);
        let mut work = sort(new);
        work += exchange(kept.iter_mut().zip(new.iter_mut().rev()));
        work += merge_down(kept, kept.len() / 2);
        self.work += work;
        self.waiting = 0;
    }
}

fn key(rank: u64, position: u64) -> u128 {
    u128::from(rank) << 64 | u128::from(position)
}

/// The smaller of two numbers below 2^63, from their difference. Compilers turn comparisons in such
/// loops into branches.
pub(crate) fn smaller(a: u64, b: u64) -> u64 {
    let difference = b.wrapping_sub(a);
    a.wrapping_add(difference & ((difference as i64) >> 63) as u64)
}

/// All ones if `yes`, else zero. `black_box` hides the two possible values from the compiler, which
/// could otherwise use a branch.
pub(crate) fn mask(yes: bool) -> u64 {
    std::hint::black_box(u64::from(yes).wrapping_neg())
}

/// Bitonic sort of 2^b keys.
fn sort(keys: &mut [u128]) -> u64 {
    let (mut work, mut run) = (0, 2);
    while run <= keys.len() {
        for run in keys.chunks_exact_mut(run) {
            let (low, high) = run.split_at_mut(run.len() / 2);
            work += exchange(low.iter_mut().zip(high.iter_mut().rev()));
        }
        work += merge_down(keys, run / 4);
        run *= 2;
    }
    work
}

/// The rest of a merge: exchanges at this distance, then at every smaller one down to neighbours.
fn merge_down(keys: &mut [u128], distance: usize) -> u64 {
    let (mut work, mut distance) = (0, distance);
    while distance > 0 {
        for run in keys.chunks_exact_mut(2 * distance) {
            let (low, high) = run.split_at_mut(distance);
            work += exchange(low.iter_mut().zip(high));
        }
        distance /= 2;
    }
    work
}

/// Puts the smaller key of each pair first. Returns the number of pairs.
fn exchange<'k>(pairs: impl Iterator<Item = (&'k mut u128, &'k mut u128)>) -> u64 {
    let mut work = 0;
    for (low, high) in pairs {
        let difference = (*low ^ *high) & u128::from(*high < *low).wrapping_neg();
        *low ^= difference;
        *high ^= difference;
        work += 1;
    }
    work
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{RandomSource, SeededRandom};

    #[test]
    fn the_smallest_come_in_order_and_ties_by_position() {
        let mut random = SeededRandom::new(5);
        for k in [1, 2, 3, 7, 8, 100] {
            for rows in [0, 1, 2, 9, 64, 500] {
                let ranks: Vec<u64> = (0..rows).map(|_| [random.below(20), OUT][random.below(2) as usize]).collect();
                let mut smallest = ObliviousTopK::new(k);
                let mut position = 0;
                while position < rows {
                    let end = (position + 1 + random.below(40) as usize).min(rows);
                    smallest.take(&ranks[position..end], position);
                    position = end;
                }
                let mut expected: Vec<(u64, usize)> =
                    ranks.iter().copied().zip(0..).filter(|&(rank, _)| rank != OUT).collect();
                expected.sort_unstable();
                expected.truncate(k);
                let (mut kept, _) = smallest.finish();
                kept.retain(|&(rank, _)| rank != OUT);
                kept.truncate(k);
                assert_eq!(kept, expected, "{k} of {rows}");
            }
        }
    }
}
