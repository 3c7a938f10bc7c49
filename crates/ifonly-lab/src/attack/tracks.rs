//! Guesses of rows, and which of them are proved.
//!
//! A track is a guess of some features of one row that explains one symbol of every search so far.
//! No true row is ever without its track, so a symbol that only one track explains proves that
//! track; and where as many proved tracks as rows share a symbol, every other track that claims it
//! is false. Applied until nothing changes.

/// A guess.
#[derive(Debug, Clone)]
pub(super) struct Track {
    /// The levels of the features asked for so far, in the order in which they were asked for.
    pub levels: Vec<u16>,
    /// `Σ y^p` over all features, up to a mask, where the scheme always tells it.
    pub power: u64,
    /// Which symbol it explains, of each search.
    pub explains: Vec<u32>,
    /// Whether it is proved.
    pub proved: bool,
}

/// The different symbols of one search, ascending, and how many rows share each.
#[derive(Debug)]
pub(super) struct ObservedElements {
    pub elements: Vec<u64>,
    pub rows: Vec<u32>,
}

impl ObservedElements {
    /// From the symbols in any order.
    pub(super) fn new(mut values: Vec<u64>) -> ObservedElements {
        values.sort_unstable();
        let groups = || values.chunk_by(|a, b| a == b);
        ObservedElements {
            elements: groups().map(|group| group[0]).collect(),
            rows: groups().map(|group| group.len() as u32).collect(),
        }
    }
}

/// Marks what is proved and drops what is refuted.
pub(super) fn conclude(tracks: &mut Vec<Track>, searches: &[ObservedElements]) {
    loop {
        let count = |tracks: &[Track], proved_only: bool| {
            let mut counts: Vec<Vec<u32>> = searches.iter().map(|seen| vec![0; seen.elements.len()]).collect();
            for track in tracks.iter().filter(|track| !proved_only || track.proved) {
                for (counts, &element) in counts.iter_mut().zip(&track.explains) {
                    counts[element as usize] += 1;
                }
            }
            counts
        };
        let claims = count(tracks, false);
        let alone =
            |track: &Track| track.explains.iter().zip(&claims).any(|(&element, claims)| claims[element as usize] == 1);
        tracks.iter_mut().for_each(|track| track.proved |= alone(track));
        let proved = count(tracks, true);
        let before = tracks.len();
        tracks.retain(|track| {
            let mut places = track.explains.iter().zip(&proved).zip(searches);
            track.proved
                || places.all(|((&element, proved), seen)| proved[element as usize] < seen.rows[element as usize])
        });
        if tracks.len() == before {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn track(levels: [u16; 1], explains: [u32; 2]) -> Track {
        Track { levels: levels.to_vec(), power: 0, explains: explains.to_vec(), proved: false }
    }

    #[test]
    fn a_symbol_with_one_explanation_proves_it_and_what_it_proves_refutes_others() {
        let searches = [ObservedElements::new(vec![5, 7]), ObservedElements::new(vec![3, 9])];
        // Symbol 7 has one explanation, which takes symbol 3 from the second guess at 5: the third
        // must be right.
        let mut tracks = vec![track([1], [1, 0]), track([2], [0, 0]), track([3], [0, 1])];
        conclude(&mut tracks, &searches);
        let left: Vec<u16> = tracks.iter().map(|track| track.levels[0]).collect();
        assert_eq!(left, [1, 3]);
        assert!(tracks.iter().all(|track| track.proved));
    }

    #[test]
    fn nothing_is_proved_where_two_guesses_explain_the_same() {
        let searches = [ObservedElements::new(vec![5, 5]), ObservedElements::new(vec![3, 3])];
        let mut tracks = vec![track([1], [0, 0]), track([2], [0, 0])];
        conclude(&mut tracks, &searches);
        assert_eq!((tracks.len(), tracks.iter().any(|track| track.proved)), (2, false));
    }
}
