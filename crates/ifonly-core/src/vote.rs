//! Plurality vote among servers whose responses differ (docs/protocol.md, section 5.4).

/// The largest group of equal values; of equally large groups, the group with the lowest index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plurality {
    /// Index of the first member of the group.
    pub first: usize,
    /// Indices of all values outside the group.
    pub outvoted: Vec<usize>,
    agreeing: usize,
}

impl Plurality {
    /// The vote over `values`; `None` if there are none.
    pub fn of<T: PartialEq>(values: &[T]) -> Option<Plurality> {
        let agreeing = |index: usize| values.iter().filter(|other| **other == values[index]).count();
        let first = (0..values.len()).max_by_key(|&index| (agreeing(index), usize::MAX - index))?;
        let outvoted = (0..values.len()).filter(|&index| values[index] != values[first]).collect();
        Some(Plurality { first, outvoted, agreeing: agreeing(first) })
    }

    /// Outvoted servers may be excluded if they are at most `tolerated` and fewer than the group.
    /// Otherwise the vote fails, and this is the first outvoted index.
    pub fn failure(&self, tolerated: usize) -> Option<usize> {
        self.outvoted
            .first()
            .copied()
            .filter(|_| self.outvoted.len() > tolerated || self.outvoted.len() >= self.agreeing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_group_wins_and_the_first_of_equals() {
        assert_eq!(Plurality::of::<u8>(&[]), None);
        let vote = |values: &[u8]| Plurality::of(values).map(|vote| (vote.first, vote.outvoted)).unwrap();
        assert_eq!(vote(&[4, 5, 5]), (1, vec![0]));
        assert_eq!(vote(&[4, 5, 5, 4]), (0, vec![1, 2]));
        assert_eq!(vote(&[1, 1]), (0, vec![]));
    }

    #[test]
    fn outvoted_servers_must_be_a_minority_within_the_limit() {
        let failure = |values: &[u8], tolerated| Plurality::of(values).unwrap().failure(tolerated);
        assert_eq!(failure(&[1, 2, 1], 1), None);
        assert_eq!(failure(&[1, 2, 1], 0), Some(1));
        assert_eq!(failure(&[1, 2], 1), Some(1));
        assert_eq!(failure(&[1, 1], 0), None);
    }
}
