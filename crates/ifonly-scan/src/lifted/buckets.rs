//! Finished words in the buckets of a row order.
//!
//! Every bucket gets memory for the mean number of rows and eight standard deviations more, so the
//! rows need not be counted first. If a bucket still overflows, which never happens in practice,
//! the rows are counted and scattered again.

use crate::lifted::lookups::TILE_ROWS;
use crate::lifted::words::{LiftedProgram, LiftedScratch};
use crate::memory::{self, AlignedBytes};
use crate::scan::scanner::Scanner;
use ifonly_algebra::shuffle::{BUCKETS, BucketIndices};
use std::ops::Range;

/// Words of a cache line.
const LINE: usize = 16;
/// Rows of a chunk if there are many: threads share the work evenly.
const CHUNK_ROWS: usize = 1 << 18;

/// Words in buckets, chunk by chunk of the rows.
pub(crate) struct BucketedWords {
    memory: AlignedBytes,
    /// Words of memory per chunk.
    chunk_words: usize,
    /// The words of each bucket of each chunk, within the chunk.
    chunks: Vec<Vec<Range<usize>>>,
}

impl BucketedWords {
    /// Computes the words of all rows. `first_row` is the number of the first row in the whole
    /// database.
    pub(crate) fn new(
        scanner: &Scanner,
        program: &LiftedProgram<'_>,
        first_row: usize,
        buckets: &BucketIndices,
    ) -> BucketedWords {
        let rows = program.rows();
        let chunk_rows = match scanner.threads {
            1 => rows,
            threads if rows < 4 * threads * CHUNK_ROWS => rows.div_ceil(threads),
            _ => CHUNK_ROWS,
        };
        let chunk_rows = chunk_rows.max(1).next_multiple_of(TILE_ROWS);
        BucketedWords::with_capacity(scanner, program, first_row, buckets, chunk_rows, capacity(chunk_rows))
    }

    fn with_capacity(
        scanner: &Scanner,
        program: &LiftedProgram<'_>,
        first_row: usize,
        buckets: &BucketIndices,
        chunk_rows: usize,
        capacity: usize,
    ) -> BucketedWords {
        let rows = program.rows();
        let chunk_words = (BUCKETS * capacity).max(chunk_rows);
        let length = rows.div_ceil(chunk_rows) * chunk_words;
        let mut memory = scanner.buffers.take(length * 4);
        let chunks = scanner.map_chunks(&mut memory.words_mut()[..length], chunk_words, |chunk, out, _| {
            let rows = chunk * chunk_rows..rows.min((chunk + 1) * chunk_rows);
            let starts: [usize; BUCKETS] = std::array::from_fn(|bucket| bucket * capacity);
            let ends = starts.map(|start| start + capacity);
            scatter(program, first_row, rows.clone(), buckets, starts, ends, out).unwrap_or_else(|| {
                let counts = buckets.count(rows.start + first_row..rows.end + first_row);
                let mut end = 0;
                let ends = counts.map(|count| {
                    end += count;
                    end
                });
                let starts = std::array::from_fn(|bucket| ends[bucket] - counts[bucket]);
                scatter(program, first_row, rows, buckets, starts, ends, out).unwrap_or_default()
            })
        });
        BucketedWords { memory, chunk_words, chunks }
    }

    /// Number of chunks of the rows.
    pub(crate) fn chunks(&self) -> usize {
        self.chunks.len()
    }

    /// The words of a chunk in a bucket.
    pub(crate) fn words(&self, bucket: usize, chunk: usize) -> Option<&[u32]> {
        let words = self.chunks.get(chunk)?.get(bucket)?;
        let start = chunk * self.chunk_words;
        Some(&self.memory.words()[start + words.start..start + words.end])
    }

    /// The words of a bucket, chunk by chunk.
    pub(crate) fn bucket(&self, bucket: usize) -> impl Iterator<Item = &[u32]> {
        (0..self.chunks()).filter_map(move |chunk| self.words(bucket, chunk))
    }

    pub(crate) fn into_memory(self) -> AlignedBytes {
        self.memory
    }
}

/// Words per bucket: an odd number of cache lines, so that buckets do not start at multiples of
/// 4096 bytes from each other and compete for the same lines of the cache.
fn capacity(rows: usize) -> usize {
    let mean = rows.div_ceil(BUCKETS);
    let lines = (mean + 8 * (mean.isqrt() + 1)).div_ceil(LINE);
    (lines | 1) * LINE
}

/// Computes the words of these rows and moves them to their buckets; `None` if a bucket would
/// exceed its end.
fn scatter(
    program: &LiftedProgram<'_>,
    first_row: usize,
    rows: Range<usize>,
    buckets: &BucketIndices,
    starts: [usize; BUCKETS],
    ends: [usize; BUCKETS],
    out: &mut [u32],
) -> Option<Vec<Range<usize>>> {
    let mut scratch = LiftedScratch::new();
    let mut places = [0; TILE_ROWS];
    // A database has fewer than 2^32 rows.
    let ends = ends.map(|end| end as u32);
    let mut positions = buckets.positions(first_row + rows.start, starts.map(|start| start as u32));
    for first in rows.clone().step_by(TILE_ROWS) {
        let count = TILE_ROWS.min(rows.end - first);
        let places = &mut places[..count];
        positions.advance(places);
        let fits = positions.next().iter().zip(&ends).fold(true, |fits, (next, end)| fits & (next <= end));
        if !fits {
            return None;
        }
        memory::scatter(places, program.tile(first, count, &mut scratch), out);
    }
    Some(starts.iter().zip(positions.next()).map(|(&start, &next)| start..next as usize).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row_store::RowStore;
    use ifonly_algebra::keys::RootKey;
    use ifonly_algebra::lifted::{LiftedFormat, LiftedTables};

    #[test]
    fn a_bucket_that_overflows_is_counted_instead() {
        let format = LiftedFormat::new(268_435_399, 13).unwrap();
        let tables = LiftedTables::from_entries(&format, vec![200], (0..200).collect()).unwrap();
        let keys = RootKey::new(0, [7; 32]).transcript(&[9; 32]);
        let draws = keys.lifted(&format);
        let store = RowStore::build(&[199], (0..5000u16).map(|row| [row % 200])).unwrap();
        let (scanner, indices) = (Scanner::new(), BucketIndices::from_key([5; 16]));
        let program = LiftedProgram::new(scanner.kernels(), &store, 0, &tables, &draws);
        let words = |capacity: usize| -> Vec<Vec<u32>> {
            let words = BucketedWords::with_capacity(&scanner, &program, 0, &indices, 2048, capacity);
            (0..BUCKETS).map(|bucket| words.bucket(bucket).flatten().copied().collect()).collect()
        };
        let expected = words(capacity(2048));
        assert_eq!(expected.iter().map(Vec::len).sum::<usize>(), 5000);
        // The mean of a chunk is 8 rows per bucket.
        for capacity in [0, 1, 8, 12] {
            assert_eq!(words(capacity), expected, "{capacity}");
        }
    }

    #[test]
    fn capacities_are_odd_numbers_of_lines_eight_deviations_above_the_mean() {
        for rows in [1024, 70_000, 1 << 20, 10_000_000] {
            let (words, mean) = (capacity(rows), rows as f64 / BUCKETS as f64);
            assert!(words % LINE == 0 && words / LINE % 2 == 1 && words as f64 > mean + 8.0 * mean.sqrt(), "{rows}");
        }
    }
}
