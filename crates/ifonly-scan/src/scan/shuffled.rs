//! The row function values of an answer in two passes, and how they reach their positions.
//!
//! For a shuffled answer, a first pass over the rows computes the values of all rows and writes
//! each value to its bucket of the bucket shuffle ([`Shuffle`]). Threads do this independently for
//! chunks of the rows. A bucket is assembled and shuffled only when the answer reaches it, in a
//! window of a few positions, so that its values are still in the cache for the next step.
//!
//! The parts of a database compute the first pass themselves and deliver their values bucket by
//! bucket, or in stored order. Only the window is held here.

use crate::compact_values::RowValues;
use crate::memory::{self, AlignedBytes};
use crate::parts::{PartError, PartValues};
use crate::scan::plan::{FirstPass, ScanPlan};
use crate::scan::scanner::Scanner;
use crate::tile::{Gathered, Scratch};
use ifonly_algebra::shuffle::{BucketScatter, Shuffle};
use rayon::prelude::*;
use std::ops::Range;

/// Rows of a chunk. Its 256 buckets fill at the same rate. They must not start at multiples of 4096
/// bytes from each other, because all of them would then compete for the same few cache lines.
/// 0.38·2^18 and 1.38·2^18 rows of 3 to 32 bytes keep them apart.
const CHUNK_ROWS: [usize; 2] = [99_584, 361_728];

/// Row function values in buckets, chunk by chunk of the rows, in compact form.
pub(crate) struct Scattered {
    all: AlignedBytes,
    row: RowValues,
    chunk_rows: usize,
    /// The range of each bucket within each chunk, in rows.
    buckets: Vec<Vec<Range<usize>>>,
}

impl Scattered {
    /// Number of chunks of the rows.
    pub(crate) fn chunks(&self) -> usize {
        self.buckets.len()
    }

    /// The values of a chunk in a bucket.
    pub(crate) fn values(&self, bucket: usize, chunk: usize) -> Option<&[u8]> {
        let rows = self.buckets.get(chunk)?.get(bucket)?;
        let (start, bytes) = (chunk * self.chunk_rows, self.row.bytes());
        Some(&self.all.as_ref()[(start + rows.start) * bytes..(start + rows.end) * bytes])
    }
}

/// The row function values of one query.
pub(super) struct RowFunctionValues {
    source: Source,
    /// Values in the order of the answer, from position `first` on. The first `buckets` buckets
    /// have been placed; they end at position `end`.
    window: Vec<u32>,
    first: usize,
    buckets: usize,
    end: usize,
}

enum Source {
    /// A single pass computes the answer, or the parts deliver their values in stored order.
    None,
    Scattered(Scattered),
    /// The parts of the database scatter their rows; the number of values of each part in each
    /// bucket.
    Parts(Vec<Vec<usize>>),
}

impl RowFunctionValues {
    /// The values that a tile inside the window reads.
    pub(super) fn gathered(&self, plan: &ScanPlan<'_>) -> Option<Gathered<'_>> {
        plan.first_pass.as_ref().map(|_| Gathered { values: &self.window, first: self.first })
    }

    /// The buffer, for reuse by the next query.
    pub(super) fn into_memory(self) -> Option<AlignedBytes> {
        match self.source {
            Source::Scattered(Scattered { all, .. }) => Some(all),
            Source::None | Source::Parts(_) => None,
        }
    }
}

impl Scanner {
    /// Runs the first pass of a query.
    pub(super) fn values(&self, rows: usize, plan: &ScanPlan<'_>) -> Result<RowFunctionValues, PartError> {
        let source = match &plan.first_pass {
            None | Some(FirstPass::Parts { shuffle: None, .. }) => Source::None,
            Some(FirstPass::Store { program, shuffle }) => Source::Scattered(self.scattered(
                rows,
                RowValues::scanned(plan.field, program.outputs()),
                |rows| shuffle.scatter(rows),
                |start, out, scratch| {
                    program.write_rows(start, out, scratch);
                    Ok(())
                },
            )?),
            Some(FirstPass::Parts { values, shuffle: Some(shuffle) }) => {
                let lengths = |rows: &Range<usize>| -> Vec<usize> {
                    shuffle.scatter(rows.clone()).buckets().iter().map(Range::len).collect()
                };
                Source::Parts(self.run(|| values.parts().par_iter().map(lengths).collect()))
            }
        };
        Ok(RowFunctionValues { source, window: vec![], first: 0, buckets: 0, end: 0 })
    }

    /// Computes the values of `rows` rows and writes them to their buckets. `write` computes the
    /// values from a given row on.
    pub(crate) fn scattered<'s>(
        &self,
        rows: usize,
        row: RowValues,
        scatter: impl Fn(Range<usize>) -> BucketScatter<'s> + Sync,
        write: impl Fn(usize, &mut [u32], &mut Scratch) -> Result<(), PartError> + Sync,
    ) -> Result<Scattered, PartError> {
        let bytes = row.bytes();
        let mut all = self.buffers.take(rows * bytes);
        let [short, long] = CHUNK_ROWS;
        let chunk_rows = if rows < 4 * self.threads * long { short } else { long };
        let buckets = self.map_chunks(&mut all.as_mut()[..rows * bytes], chunk_rows * bytes, |chunk, out, scratch| {
            let start = chunk * chunk_rows;
            let mut scatter_state = scatter(start..start + out.len() / bytes);
            // Tile by tile, so that the values stay in the cache.
            let tile = self.kernels.tile_rows();
            let (mut places, mut words, mut short) =
                (vec![0; tile], vec![0; tile * row.words()], vec![0; tile * bytes]);
            for first in (0..out.len() / bytes).step_by(tile) {
                let rows = tile.min(out.len() / bytes - first);
                let (places, words) = (&mut places[..rows], &mut words[..rows * row.words()]);
                write(start + first, words, scratch)?;
                row.words_to_bytes(words, &mut short);
                scatter_state.positions(places);
                scatter_rows(bytes, places, &short, out);
            }
            Ok(scatter_state.buckets())
        });
        let buckets = buckets.into_iter().collect::<Result<_, PartError>>()?;
        Ok(Scattered { all, row, chunk_rows, buckets })
    }

    /// Moves the window to these positions.
    pub(super) fn advance(
        &self,
        plan: &ScanPlan<'_>,
        rows: usize,
        values: &mut RowFunctionValues,
        positions: Range<usize>,
    ) -> Result<(), PartError> {
        let (parts, shuffle, words) = match &plan.first_pass {
            None => return Ok(()),
            Some(FirstPass::Parts { values: parts, shuffle: None }) => {
                return read_stored(parts, values, positions.start..positions.end.min(rows));
            }
            Some(FirstPass::Parts { values: parts, shuffle: Some(shuffle) }) => {
                (Some(parts), shuffle, parts.words_per_row())
            }
            Some(FirstPass::Store { program, shuffle }) => (None, shuffle, program.words_per_row()),
        };
        match words {
            1 => self.place_buckets::<1>(parts, shuffle, values, positions),
            2 => self.place_buckets::<2>(parts, shuffle, values, positions),
            4 => self.place_buckets::<4>(parts, shuffle, values, positions),
            _ => self.place_buckets::<8>(parts, shuffle, values, positions),
        }
    }

    fn place_buckets<const W: usize>(
        &self,
        parts: Option<&PartValues<'_>>,
        shuffle: &Shuffle<'_>,
        values: &mut RowFunctionValues,
        positions: Range<usize>,
    ) -> Result<(), PartError> {
        let RowFunctionValues { source: stored, window, first, buckets, end } = values;
        let passed = (positions.start - *first) * W;
        window.drain(..passed.min(window.len()));
        *first = positions.start;
        let present = window.len();
        let length_of = |bucket: usize| -> Option<usize> {
            match &*stored {
                Source::Scattered(scattered) => {
                    scattered.buckets.iter().map(|buckets| buckets.get(bucket).map(Range::len)).sum()
                }
                Source::Parts(lengths) => lengths.iter().map(|lengths| lengths.get(bucket).copied()).sum(),
                Source::None => None,
            }
        };
        let mut lengths = vec![];
        while let Some(length) = length_of(*buckets + lengths.len()).filter(|_| *end < positions.end) {
            *end += length;
            lengths.push(length);
        }
        window.resize(present + lengths.iter().sum::<usize>() * W, 0);
        let (mut rest, _) = window[present..].as_chunks_mut::<W>();
        let mut work = vec![];
        for length in lengths {
            let (bucket, tail) = rest.split_at_mut(length);
            work.push((*buckets + work.len(), bucket));
            rest = tail;
        }
        *buckets += work.len();
        if let (Some(parts), Source::Parts(lengths)) = (parts, &*stored) {
            // On the calling thread, because a part may wait for a remote shard.
            for (number, bucket) in &mut work {
                let mut rest = &mut **bucket;
                for (part, lengths) in lengths.iter().enumerate() {
                    let (here, behind) = rest.split_at_mut(lengths[*number]);
                    parts.read_part(part, here.as_flattened_mut())?;
                    rest = behind;
                }
            }
        }
        let place = |(number, bucket): (usize, &mut [[u32; W]])| {
            if let Source::Scattered(scattered) = &*stored {
                let mut rest = bucket.as_flattened_mut();
                for chunk in 0..scattered.chunks() {
                    let values = scattered.values(number, chunk).unwrap_or_default();
                    let (here, behind) = rest.split_at_mut(values.len() / scattered.row.bytes() * W);
                    scattered.row.bytes_to_words(values, here);
                    rest = behind;
                }
            }
            shuffle.shuffle_bucket(number, bucket);
        };
        match &self.pool {
            Some(pool) => pool.install(|| work.into_par_iter().for_each(place)),
            None => work.into_iter().for_each(place),
        }
        Ok(())
    }
}

/// Reads the values in stored order that the window does not have yet.
fn read_stored(
    parts: &PartValues<'_>,
    values: &mut RowFunctionValues,
    positions: Range<usize>,
) -> Result<(), PartError> {
    let RowFunctionValues { window, first, .. } = values;
    let words = parts.words_per_row();
    window.drain(..window.len().min((positions.start - *first) * words));
    *first = positions.start;
    let present = window.len();
    window.resize((positions.len() * words).max(present), 0);
    parts.read_next(&mut window[present..])
}

/// Writes rows of `bytes` bytes each to their positions in `out`.
fn scatter_rows(bytes: usize, places: &[u32], rows: &[u8], out: &mut [u8]) {
    macro_rules! of_length {
        ($($length:literal)*) => {
            match bytes {
                $($length => memory::scatter(places, rows.as_chunks::<$length>().0, out.as_chunks_mut().0),)*
                _ => unreachable!("`fits_buckets` allows at most eight words per row"),
            }
        };
    }
    of_length!(1 2 3 4 5 6 7 8 10 12 14 16 20 24 28 32)
}
