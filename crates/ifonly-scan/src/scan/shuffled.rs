//! The form values of a shuffled answer, and how they get to their positions.
//!
//! A first pass over the rows keeps the values of all rows. With the keys of the order it sends
//! each to its bucket of [`Shuffle`], in parts of the rows that threads do on their own. A bucket
//! is put together and brought into its final order only when the answer reaches it, in a window of
//! few positions, so that its values are in the cache for that and for what follows. With a
//! finished order ([`Placement::Picked`]) the values stay where they are and are picked one by one.
//!
//! Parts of a database do the first pass themselves and give their values bucket by bucket, so here
//! only the window is held.

use crate::compact_values::RowValues;
use crate::memory::{self, AlignedBytes};
use crate::parts::PartError;
use crate::scan::plan::{Placement, ScanPlan, ValueSource};
use crate::scan::scanner::Scanner;
use crate::tile::{Gathered, Scratch};
use ifonly_algebra::shuffle::{BucketScatter, Shuffle};
use rayon::prelude::*;
use std::ops::Range;

/// Rows of a part. Its 256 buckets fill at the same pace, so they must not begin at multiples of
/// 4096 bytes of each other, where all would want the same few lines of the cache: 0.38·2^18 and
/// 1.38·2^18 rows of 3 to 32 bytes keep them apart.
const PART_ROWS: [usize; 2] = [99_584, 361_728];

/// Form values in buckets, part by part of the rows, in as few bytes as they need.
pub(crate) struct Scattered {
    all: AlignedBytes,
    row: RowValues,
    part_rows: usize,
    /// The places of each bucket in each part.
    places: Vec<Vec<Range<usize>>>,
}

impl Scattered {
    /// Parts of the rows.
    pub(crate) fn parts(&self) -> usize {
        self.places.len()
    }

    /// What a part has for a bucket.
    pub(crate) fn values(&self, bucket: usize, part: usize) -> Option<&[u8]> {
        let places = self.places.get(part)?.get(bucket)?;
        let (start, bytes) = (part * self.part_rows, self.row.bytes());
        Some(&self.all.as_ref()[(start + places.start) * bytes..(start + places.end) * bytes])
    }
}

/// The form values of one query.
pub(super) struct RowFunctionValues {
    source: Source,
    /// In final order from position `first` on, as far as `buckets` buckets go, which end at
    /// position `end`.
    window: Vec<u32>,
    first: usize,
    buckets: usize,
    end: usize,
}

enum Source {
    /// The query is not shuffled, or values come as they are wanted.
    None,
    /// In stored order, to be picked.
    Stored(AlignedBytes),
    Scattered(Scattered),
    /// Whoever has the parts scatters; how many values each of them has in each bucket.
    Parts(Vec<Vec<usize>>),
}

impl RowFunctionValues {
    /// What a tile inside the window reads.
    pub(super) fn gathered<'v>(&'v self, plan: &'v ScanPlan<'_>) -> Option<Gathered<'v>> {
        plan.values.as_ref().map(|(_, placement)| match (placement, &self.source) {
            (Placement::Picked(order), Source::Stored(all)) => Gathered::Picked { values: all.words(), order },
            _ => Gathered::Moved { values: &self.window, first: self.first },
        })
    }

    /// Memory that the next query can use.
    pub(super) fn into_memory(self) -> Option<AlignedBytes> {
        match self.source {
            Source::Stored(all) | Source::Scattered(Scattered { all, .. }) => Some(all),
            Source::None | Source::Parts(_) => None,
        }
    }
}

impl Scanner {
    /// The first pass of a query.
    pub(super) fn values(&self, rows: usize, plan: &ScanPlan<'_>) -> Result<RowFunctionValues, PartError> {
        let source = match &plan.values {
            None | Some((_, Placement::Stored)) => Source::None,
            Some((source, Placement::Picked(_))) => Source::Stored(self.stored(source, rows)?),
            Some((ValueSource::Rows(program), Placement::Moved(shuffle))) => Source::Scattered(self.scattered(
                rows,
                RowValues::scanned(plan.field, program.outputs()),
                |rows| shuffle.scatter(rows),
                |start, out, scratch| {
                    program.write_rows(start, out, scratch);
                    Ok(())
                },
            )?),
            Some((ValueSource::Parts(values), Placement::Moved(shuffle))) => {
                let lengths = |rows: &Range<usize>| -> Vec<usize> {
                    shuffle.scatter(rows.clone()).buckets().iter().map(Range::len).collect()
                };
                Source::Parts(self.run(|| values.parts().par_iter().map(lengths).collect()))
            }
        };
        Ok(RowFunctionValues { source, window: vec![], first: 0, buckets: 0, end: 0 })
    }

    /// The values of all rows in stored order.
    fn stored(&self, source: &ValueSource<'_>, rows: usize) -> Result<AlignedBytes, PartError> {
        let words = source.words_per_row();
        // In huge pages: where values are picked or placed at random, every small page would cost a
        // translation.
        let mut all = self.spare.take(rows * words * 4);
        let out = &mut all.words_mut()[..rows * words];
        match source {
            ValueSource::Rows(program) => {
                self.in_spans(out, words, |start, out, scratch| program.write_rows(start, out, scratch));
            }
            ValueSource::Parts(values) => values.read_rows(0, out)?,
        }
        Ok(all)
    }

    /// The values of so many rows, in their buckets. `write` gives those from some row on.
    pub(crate) fn scattered<'s>(
        &self,
        rows: usize,
        row: RowValues,
        scatter: impl Fn(Range<usize>) -> BucketScatter<'s> + Sync,
        write: impl Fn(usize, &mut [u32], &mut Scratch) -> Result<(), PartError> + Sync,
    ) -> Result<Scattered, PartError> {
        let bytes = row.bytes();
        let mut all = self.spare.take(rows * bytes);
        let [short, long] = PART_ROWS;
        let part_rows = if rows < 4 * self.threads * long { short } else { long };
        let places = self.map_chunks(&mut all.as_mut()[..rows * bytes], part_rows * bytes, |part, out, scratch| {
            let start = part * part_rows;
            let mut way = scatter(start..start + out.len() / bytes);
            // A tile stays in the cache.
            let tile = self.kernels.tile_rows();
            let (mut places, mut words, mut short) =
                (vec![0; tile], vec![0; tile * row.words()], vec![0; tile * bytes]);
            for first in (0..out.len() / bytes).step_by(tile) {
                let rows = tile.min(out.len() / bytes - first);
                let (places, words) = (&mut places[..rows], &mut words[..rows * row.words()]);
                write(start + first, words, scratch)?;
                row.shorten(words, &mut short);
                way.places(places);
                scatter_rows(bytes, places, &short, out);
            }
            Ok(way.buckets())
        });
        let places = places.into_iter().collect::<Result<_, PartError>>()?;
        Ok(Scattered { all, row, part_rows, places })
    }

    /// Moves the window on to these positions.
    pub(super) fn advance(
        &self,
        plan: &ScanPlan<'_>,
        rows: usize,
        values: &mut RowFunctionValues,
        positions: Range<usize>,
    ) -> Result<(), PartError> {
        match &plan.values {
            Some((source, Placement::Stored)) => {
                self.read_stored(source, values, positions.start..positions.end.min(rows))
            }
            Some((source, Placement::Moved(shuffle))) => match source.words_per_row() {
                1 => self.place_buckets::<1>(source, shuffle, values, positions),
                2 => self.place_buckets::<2>(source, shuffle, values, positions),
                4 => self.place_buckets::<4>(source, shuffle, values, positions),
                _ => self.place_buckets::<8>(source, shuffle, values, positions),
            },
            None | Some((_, Placement::Picked(_))) => Ok(()),
        }
    }

    /// Values that stay in stored order, as far as the window does not have them yet.
    fn read_stored(
        &self,
        source: &ValueSource<'_>,
        values: &mut RowFunctionValues,
        positions: Range<usize>,
    ) -> Result<(), PartError> {
        let RowFunctionValues { window, first, .. } = values;
        let words = source.words_per_row();
        window.drain(..window.len().min((positions.start - *first) * words));
        *first = positions.start;
        let kept = window.len() / words;
        window.resize(positions.len().max(kept) * words, 0);
        let (start, out) = (positions.start + kept, &mut window[kept * words..]);
        match source {
            ValueSource::Rows(program) => {
                self.in_spans(out, words, |row, out, scratch| program.write_rows(start + row, out, scratch));
                Ok(())
            }
            ValueSource::Parts(values) => values.read_rows(start, out),
        }
    }

    fn place_buckets<const W: usize>(
        &self,
        source: &ValueSource<'_>,
        shuffle: &Shuffle<'_>,
        values: &mut RowFunctionValues,
        positions: Range<usize>,
    ) -> Result<(), PartError> {
        let RowFunctionValues { source: held, window, first, buckets, end } = values;
        let passed = (positions.start - *first) * W;
        window.drain(..passed.min(window.len()));
        *first = positions.start;
        let kept = window.len();
        let length_of = |bucket: usize| -> Option<usize> {
            match &*held {
                Source::Scattered(scattered) => {
                    scattered.places.iter().map(|places| places.get(bucket).map(Range::len)).sum()
                }
                Source::Parts(parts) => parts.iter().map(|lengths| lengths.get(bucket).copied()).sum(),
                Source::None | Source::Stored(_) => None,
            }
        };
        let mut lengths = vec![];
        while let Some(length) = length_of(*buckets + lengths.len()).filter(|_| *end < positions.end) {
            *end += length;
            lengths.push(length);
        }
        window.resize(kept + lengths.iter().sum::<usize>() * W, 0);
        let (mut rest, _) = window[kept..].as_chunks_mut::<W>();
        let mut work = vec![];
        for length in lengths {
            let (bucket, tail) = rest.split_at_mut(length);
            work.push((*buckets + work.len(), bucket));
            rest = tail;
        }
        *buckets += work.len();
        if let (ValueSource::Parts(values), Source::Parts(lengths)) = (source, &*held) {
            // On the caller's thread, because it may have to wait for somebody.
            for (number, bucket) in &mut work {
                let mut rest = &mut **bucket;
                for (part, lengths) in lengths.iter().enumerate() {
                    let (here, behind) = rest.split_at_mut(lengths[*number]);
                    values.read_part(part, here.as_flattened_mut())?;
                    rest = behind;
                }
            }
        }
        let place = |(number, bucket): (usize, &mut [[u32; W]])| {
            if let Source::Scattered(scattered) = &*held {
                let mut rest = bucket.as_flattened_mut();
                for part in 0..scattered.parts() {
                    let values = scattered.values(number, part).unwrap_or_default();
                    let (here, behind) = rest.split_at_mut(values.len() / scattered.row.bytes() * W);
                    scattered.row.widen(values, here);
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

/// Rows of so many bytes to their places.
fn scatter_rows(bytes: usize, places: &[u32], rows: &[u8], out: &mut [u8]) {
    macro_rules! of_length {
        ($($length:literal)*) => {
            match bytes {
                $($length => memory::scatter(places, rows.as_chunks::<$length>().0, out.as_chunks_mut().0),)*
                _ => unreachable!("up to eight words per row: see Placement::moves"),
            }
        };
    }
    of_length!(1 2 3 4 5 6 7 8 10 12 14 16 20 24 28 32)
}
