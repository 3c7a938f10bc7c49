//! Guesses of rows, and which of them are proved.
//!
//! A track is a guess of some features of one row. It explains one observed field element of every
//! search so far. Every true row has a track at all times. Two rules follow:
//!
//! 1. A field element that only one track explains proves that track.
//! 2. If a field element has as many proved tracks as rows, every other track that explains it is
//!    false.
//!
//! [`conclude`] applies both rules until no track is removed.

/// A guess of some features of one row.
#[derive(Debug, Clone)]
pub(super) struct Track {
    /// The levels of the features requested so far, in the order of the requests.
    pub levels: Vec<u16>,
    /// `Σ y^p` over all features, up to a mask, if the scheme always reveals it.
    pub power: u64,
    /// For each search, the index of the field element that the track explains.
    pub explains: Vec<u32>,
    /// Whether the track is proved.
    pub proved: bool,
}

/// The distinct field elements of one search in ascending order, and how many rows have each.
#[derive(Debug)]
pub(super) struct ObservedElements {
    pub elements: Vec<u64>,
    pub rows: Vec<u32>,
}

impl ObservedElements {
    /// From the field elements in any order.
    pub(super) fn new(mut values: Vec<u64>) -> ObservedElements {
        values.sort_unstable();
        let groups = || values.chunk_by(|a, b| a == b);
        ObservedElements {
            elements: groups().map(|group| group[0]).collect(),
            rows: groups().map(|group| group.len() as u32).collect(),
        }
    }
}

/// Marks the proved tracks and removes the refuted ones.
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
        let is_only_explanation =
            |track: &Track| track.explains.iter().zip(&claims).any(|(&element, claims)| claims[element as usize] == 1);
        tracks.iter_mut().for_each(|track| track.proved |= is_only_explanation(track));
        let proved = count(tracks, true);
        let before = tracks.len();
        tracks.retain(|track| {
            let mut explained = track.explains.iter().zip(&proved).zip(searches);
            track.proved
                || explained.all(|((&element, proved), seen)| proved[element as usize] < seen.rows[element as usize])
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
    fn an_element_with_one_explanation_proves_it_and_proved_tracks_refute_others() {
        let searches = [ObservedElements::new(vec![5, 7]), ObservedElements::new(vec![3, 9])];
        // Element 7 has one explanation, the first track. It also explains element 3, so the second
        // track is false. The third track is then the only explanation of elements 5 and 9.
        let mut tracks = vec![track([1], [1, 0]), track([2], [0, 0]), track([3], [0, 1])];
        conclude(&mut tracks, &searches);
        let left: Vec<u16> = tracks.iter().map(|track| track.levels[0]).collect();
        assert_eq!(left, [1, 3]);
        assert!(tracks.iter().all(|track| track.proved));
    }

    #[test]
    fn nothing_is_proved_if_two_guesses_explain_the_same_elements() {
        let searches = [ObservedElements::new(vec![5, 5]), ObservedElements::new(vec![3, 3])];
        let mut tracks = vec![track([1], [0, 0]), track([2], [0, 0])];
        conclude(&mut tracks, &searches);
        assert_eq!((tracks.len(), tracks.iter().any(|track| track.proved)), (2, false));
    }
}
