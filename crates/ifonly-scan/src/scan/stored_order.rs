//! From the order of a shuffled answer back to the stored order: the selection of a record fetch
//! names positions, but records are read in stored order.
//!
//! The items of each bucket first return to their order within the bucket. Then every stored row
//! takes the next item of its bucket. Both steps stay in the cache, and no step needs the whole
//! permutation.

use crate::scan::scanner::Scanner;
use ifonly_algebra::keys::TranscriptKeys;
use ifonly_algebra::shuffle::{BUCKETS, Shuffle};
use rayon::prelude::*;

/// Rows that a thread takes at a time.
const CHUNK_ROWS: usize = 1 << 17;
/// Rows whose positions are computed together.
const TILE_ROWS: usize = 960;

impl Scanner {
    /// `stored[order[p]] = shuffled[p]`, where the order is
    /// [`permutation`](ifonly_algebra::shuffle::permutation) under these keys.
    pub fn in_stored_order<T: Copy + Default + Send + Sync>(&self, keys: &TranscriptKeys, shuffled: &[T]) -> Vec<T> {
        let rows = shuffled.len();
        let shuffle = Shuffle::new(keys, rows);
        let mut stored = vec![T::default(); rows];
        let Some(indices) = shuffle.bucket_indices() else {
            undo(&shuffle, 0, shuffled, &mut stored);
            return stored;
        };
        // The first position of each bucket, then for every chunk of the rows.
        let chunks = (0..rows).step_by(CHUNK_ROWS).map(|first| first..rows.min(first + CHUNK_ROWS));
        let counts: Vec<[usize; BUCKETS]> = chunks.map(|rows| indices.count(rows)).collect();
        let mut grouped = vec![T::default(); rows];
        let (mut work, mut rest, mut start) = (vec![], &mut grouped[..], 0);
        let mut next = [0u32; BUCKETS];
        for bucket in 0..BUCKETS {
            let length = counts.iter().map(|counts| counts[bucket]).sum();
            let (here, behind) = rest.split_at_mut(length);
            // A database has fewer than 2^32 rows.
            next[bucket] = start as u32;
            work.push((bucket, &shuffled[start..start + length], here));
            (rest, start) = (behind, start + length);
        }
        let place = |(bucket, shuffled, grouped): (usize, &[T], &mut [T])| undo(&shuffle, bucket, shuffled, grouped);
        match &self.pool {
            Some(pool) => pool.install(|| work.into_par_iter().for_each(place)),
            None => work.into_iter().for_each(place),
        }
        let mut firsts = vec![];
        for counts in &counts {
            firsts.push(next);
            next.iter_mut().zip(counts).for_each(|(next, &count)| *next += count as u32);
        }
        self.map_chunks(&mut stored, CHUNK_ROWS, |chunk, stored, _| {
            let mut positions = indices.positions(chunk * CHUNK_ROWS, firsts[chunk]);
            let mut places = [0; TILE_ROWS];
            for stored in stored.chunks_mut(TILE_ROWS) {
                let places = &mut places[..stored.len()];
                positions.advance(places);
                stored.iter_mut().zip(places).for_each(|(item, place)| *item = grouped[*place as usize]);
            }
        });
        stored
    }
}

/// Undoes the shuffle of one bucket.
fn undo<T: Copy>(shuffle: &Shuffle<'_>, bucket: usize, shuffled: &[T], grouped: &mut [T]) {
    let mut order: Vec<u32> = (0..shuffled.len() as u32).collect();
    shuffle.shuffle_bucket(bucket, &mut order);
    order.iter().zip(shuffled).for_each(|(&index, &item)| grouped[index as usize] = item);
}

#[cfg(test)]
mod tests {
    use super::*;
    use ifonly_algebra::keys::RootKey;
    use ifonly_algebra::shuffle::permutation;

    #[test]
    fn items_return_to_the_rows_that_the_permutation_names() {
        let keys = RootKey::new(0, [7; 32]).transcript(&[9; 32]);
        for rows in [0, 1, 1000, 1 << 16, (1 << 16) + 1, 300_000] {
            let order = permutation(&keys, rows);
            for threads in [1, 2] {
                let scanner = Scanner::new().with_threads(threads).unwrap();
                let stored = scanner.in_stored_order(&keys, &order);
                assert!((0..).zip(stored).all(|(row, item)| row == item), "{rows} rows, {threads} threads");
            }
        }
    }
}
