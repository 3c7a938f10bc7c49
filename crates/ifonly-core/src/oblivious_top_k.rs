//! The k smallest of many ranks, by the same work whatever the ranks are: a running time that
//! depended on them would tell servers what a person decoded.
//!
//! For one, two passes over each block: its minimum, then the first place that holds it. For more,
//! a bitonic network: 2^b ≥ k keys are kept in order; as many new ones are sorted, and a merge of
//! both leaves the smaller half. Every compare and exchange happens, and moves by arithmetic
//! instead of a branch.

use zeroize::Zeroizing;

/// The rank of a row that does not count; larger than any other. All are below 2^63, so that
/// [`smaller`] can compare them.
pub(crate) const OUT: u64 = u64::MAX >> 1;

/// No row.
const EMPTY: u128 = (OUT as u128) << 64 | u64::MAX as u128;

/// Keeps the k smallest (rank, position), as one key each: the rank above the position.
#[derive(Clone)]
pub(crate) struct ObliviousTopK {
    /// Half of them kept, in order; the other half waiting.
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

    /// The ranks at `position` and those behind it.
    pub(crate) fn take(&mut self, ranks: &[u64], position: usize) {
        let half = self.keys.len() / 2;
        if half == 1 {
            let smallest = ranks.iter().fold(OUT, |smallest, &rank| smaller(smallest, rank));
            // The first place that holds it, by counting the places before.
            let (mut found, mut place) = (0, position as u64);
            for &rank in ranks {
                found |= u64::from(rank == smallest);
                place += found ^ 1;
            }
            self.keys[1] = key(smallest, place);
            self.work += 2 * ranks.len() as u64;
            self.settle();
            return;
        }
        for (here, &rank) in (position as u64..).zip(ranks) {
            self.keys[half + self.waiting] = key(rank, here);
            self.waiting += 1;
            if self.waiting == half {
                self.settle();
            }
        }
    }

    /// The kept ranks and their positions, in order; those that do not count are out.
    pub(crate) fn finish(mut self) -> (Vec<(u64, usize)>, u64) {
        let half = self.keys.len() / 2;
        self.keys[half + self.waiting..].fill(EMPTY);
        self.settle();
        let kept = self.keys[..half].iter().map(|&key| ((key >> 64) as u64, key as u64 as usize)).collect();
        (kept, self.work)
    }

    /// The smaller half of all keys, in order.
    fn settle(&mut self) {
        let half = self.keys.len() / 2;
        let (kept, new) = self.keys.split_at_mut(half);
        let mut work = sort(new);
        work += exchange(kept.iter_mut().zip(new.iter_mut().rev()));
        work += clean(kept, kept.len() / 2);
        self.work += work;
        self.waiting = 0;
    }
}

fn key(rank: u64, position: u64) -> u128 {
    u128::from(rank) << 64 | u128::from(position)
}

/// The smaller of two numbers below 2^63, from their difference: compilers turn a comparison in a
/// loop into a branch where they see fit, and they did.
pub(crate) fn smaller(a: u64, b: u64) -> u64 {
    let difference = b.wrapping_sub(a);
    a.wrapping_add(difference & ((difference as i64) >> 63) as u64)
}

/// All ones, or none. The compiler must not know that it is one of the two, or it would choose by a
/// branch.
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
        work += clean(keys, run / 4);
        run *= 2;
    }
    work
}

/// The rest of a merge, from exchanges at this distance down to neighbours.
fn clean(keys: &mut [u128], distance: usize) -> u64 {
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

/// The smaller of each pair comes first.
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
                let mut right: Vec<(u64, usize)> =
                    ranks.iter().copied().zip(0..).filter(|&(rank, _)| rank != OUT).collect();
                right.sort_unstable();
                right.truncate(k);
                let (mut kept, _) = smallest.finish();
                kept.retain(|&(rank, _)| rank != OUT);
                kept.truncate(k);
                assert_eq!(kept, right, "{k} of {rows}");
            }
        }
    }
}
