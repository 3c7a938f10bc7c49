//! Lifted answers of a database in parts: each part computes its finished words, and the frontend
//! puts them in the order of the answer.

use super::{PartError, RowParts, RowSource, ValueStream};
use crate::lifted::LiftedQuery;
use crate::lifted::answer::check_tables;
use crate::lifted::buckets::BucketedWords;
use crate::lifted::lookups::TILE_ROWS;
use crate::lifted::words::{LiftedProgram, LiftedScratch};
use crate::memory;
use crate::row_store::{BLOCK_ROWS, RowStore};
use crate::scan::scanner::{ScanError, Scanner};
use ifonly_algebra::lifted::{LiftedDraws, LiftedTables};
use ifonly_algebra::shuffle::{BUCKETS, BucketIndices, Shuffle};
use std::ops::ControlFlow;

/// Bytes of a word.
const WORD: usize = 4;
/// Bytes that are delivered together.
const SPAN: usize = 1 << 16;

impl Scanner {
    /// Like [`Scanner::answer_lifted`], over a database in parts.
    pub fn answer_lifted_parts(
        &self,
        rows: &RowParts,
        query: &LiftedQuery<'_>,
        sink: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), ScanError> {
        let (parts, empty) = match &rows.source {
            RowSource::Single(store) => return self.answer_lifted(store, query, sink),
            RowSource::Parts { parts, empty } => (parts, empty),
        };
        check_tables(empty.max_levels(), query.tables)?;
        let shuffle = query.order_keys.map(|keys| Shuffle::new(keys, rows.rows));
        let buckets = shuffle.as_ref().and_then(Shuffle::bucket_indices);
        // All parts start before the first read.
        let streams = parts.iter().map(|part| part.lifted_words(query.tables, query.draws, buckets));
        let mut streams: Vec<_> = streams.collect::<Result<_, _>>()?;
        // The bytes of each part in each bucket. In stored order the parts follow one another.
        let lengths: Vec<Vec<usize>> = match buckets {
            Some(buckets) => {
                parts.iter().map(|part| buckets.count(part.rows()).map(|rows| rows * WORD).to_vec()).collect()
            }
            None => parts.iter().map(|part| vec![part.rows().len() * WORD]).collect(),
        };
        let mut waiting = vec![];
        for bucket in 0..if buckets.is_some() { BUCKETS } else { 1 } {
            let start = waiting.len();
            for (stream, lengths) in streams.iter_mut().zip(&lengths) {
                let mut left = lengths[bucket];
                while left > 0 {
                    // A shuffled bucket is complete before it is delivered.
                    let length = if shuffle.is_some() { left } else { left.min(SPAN) };
                    let end = waiting.len();
                    waiting.resize(end + length, 0);
                    stream.read(&mut waiting[end..])?;
                    left -= length;
                    if shuffle.is_none() {
                        hand_over(&mut waiting, sink)?;
                    }
                }
            }
            if let Some(shuffle) = &shuffle {
                shuffle.shuffle_bucket(bucket, waiting[start..].as_chunks_mut::<WORD>().0);
            }
            if waiting.len() >= SPAN {
                hand_over(&mut waiting, sink)?;
            }
        }
        hand_over(&mut waiting, sink)
    }
}

fn hand_over(waiting: &mut Vec<u8>, sink: &mut dyn FnMut(&[u8]) -> ControlFlow<()>) -> Result<(), ScanError> {
    if !waiting.is_empty() && sink(waiting).is_break() {
        return Err(ScanError::Stopped);
    }
    waiting.clear();
    Ok(())
}

/// The words of a store whose first row has the number `first_row` in the whole database.
pub(super) fn words_of_store<'a>(
    scanner: &Scanner,
    store: &'a RowStore,
    first_row: usize,
    (tables, draws): (&LiftedTables, &'a LiftedDraws),
    buckets: Option<&BucketIndices>,
) -> Result<Box<dyn ValueStream + 'a>, ScanError> {
    // The request may come from another process, so it is checked.
    check_tables(store.max_levels(), tables)?;
    let program = LiftedProgram::new(scanner.kernels(), store, first_row, tables, draws);
    Ok(match buckets {
        None => Box::new(InOrder { program, next: 0, scratch: LiftedScratch::new() }),
        Some(buckets) => {
            let words = BucketedWords::new(scanner, &program, first_row, buckets);
            Box::new(ByBucket { words, bucket: 0, chunk: 0, done: 0 })
        }
    })
}

/// Words in stored order.
struct InOrder<'a> {
    program: LiftedProgram<'a>,
    next: usize,
    scratch: LiftedScratch,
}

impl ValueStream for InOrder<'_> {
    fn read(&mut self, mut out: &mut [u8]) -> Result<(), PartError> {
        if self.next + out.len() / WORD > self.program.rows() {
            return Err(PartError::TooFew);
        }
        while !out.is_empty() {
            // A tile begins with a block.
            let before = self.next % BLOCK_ROWS;
            let rows = (before + out.len() / WORD).min(TILE_ROWS);
            let words = &self.program.tile(self.next - before, rows, &mut self.scratch)[before..];
            let (here, rest) = out.split_at_mut(words.len() * WORD);
            here.copy_from_slice(memory::bytes_of(words));
            out = rest;
            self.next += words.len();
        }
        Ok(())
    }
}

/// Words bucket by bucket.
struct ByBucket {
    words: BucketedWords,
    /// Read position: the bucket, the chunk of the rows, and the bytes read of that chunk.
    bucket: usize,
    chunk: usize,
    done: usize,
}

impl ValueStream for ByBucket {
    fn read(&mut self, mut out: &mut [u8]) -> Result<(), PartError> {
        while !out.is_empty() {
            if self.chunk == self.words.chunks() {
                (self.bucket, self.chunk) = (self.bucket + 1, 0);
            }
            let words = self.words.words(self.bucket, self.chunk).ok_or(PartError::TooFew)?;
            let left = &memory::bytes_of(words)[self.done..];
            let (here, rest) = out.split_at_mut(left.len().min(out.len()));
            here.copy_from_slice(&left[..here.len()]);
            self.done += here.len();
            if here.len() == left.len() {
                (self.chunk, self.done) = (self.chunk + 1, 0);
            }
            out = rest;
        }
        Ok(())
    }
}
