//! Whom to believe when some say something else than the others.

/// The largest group of those who say the same; of equally large ones, the one that spoke first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plurality {
    /// The place of its first member.
    pub first: usize,
    /// The places of all who say something else.
    pub odd: Vec<usize>,
    agreeing: usize,
}

impl Plurality {
    /// Of what was said, place by place; `None` if nothing was.
    pub(crate) fn of<T: PartialEq>(said: &[T]) -> Option<Plurality> {
        let agreeing = |place: usize| said.iter().filter(|other| **other == said[place]).count();
        let first = (0..said.len()).max_by_key(|&place| (agreeing(place), usize::MAX - place))?;
        let odd = (0..said.len()).filter(|&place| said[place] != said[first]).collect();
        Some(Plurality { first, odd, agreeing: agreeing(first) })
    }

    /// The odd ones may be left out if the deployment bears so many and they are fewer than the
    /// others; otherwise nobody can say who is right, and this is the first of them.
    pub(crate) fn too_odd(&self, borne: usize) -> Option<usize> {
        self.odd.first().copied().filter(|_| self.odd.len() > borne || self.odd.len() >= self.agreeing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_group_wins_and_the_first_of_equals() {
        assert_eq!(Plurality::of::<u8>(&[]), None);
        let vote = |said: &[u8]| Plurality::of(said).map(|vote| (vote.first, vote.odd)).unwrap();
        assert_eq!(vote(&[4, 5, 5]), (1, vec![0]));
        assert_eq!(vote(&[4, 5, 5, 4]), (0, vec![1, 2]));
        assert_eq!(vote(&[1, 1]), (0, vec![]));
    }

    #[test]
    fn half_is_never_borne_and_more_than_allowed_neither() {
        let too_odd = |said: &[u8], borne| Plurality::of(said).unwrap().too_odd(borne);
        assert_eq!(too_odd(&[1, 2, 1], 1), None);
        assert_eq!(too_odd(&[1, 2, 1], 0), Some(1));
        assert_eq!(too_odd(&[1, 2], 1), Some(1));
        assert_eq!(too_odd(&[1, 1], 0), None);
    }
}
