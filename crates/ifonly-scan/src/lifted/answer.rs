//! Lifted answers of a whole store, in stored order or shuffled.

use crate::lifted::buckets::BucketedWords;
use crate::lifted::lookups::TILE_ROWS;
use crate::lifted::words::{LiftedProgram, LiftedScratch};
use crate::memory;
use crate::row_store::RowStore;
use crate::scan::ordered_spans::deliver_in_order;
use crate::scan::scanner::{ScanError, Scanner};
use ifonly_algebra::keys::TranscriptKeys;
use ifonly_algebra::lifted::{LiftedDraws, LiftedTables};
use ifonly_algebra::shuffle::{BUCKETS, Shuffle};
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};

/// A query with a lifted gate.
#[derive(Clone, Copy, Debug)]
pub struct LiftedQuery<'a> {
    /// The tables of this server.
    pub tables: &'a LiftedTables,
    /// The numbers that the servers draw for each row.
    pub draws: &'a LiftedDraws,
    /// The keys of the row order, for a shuffled answer.
    pub order_keys: Option<&'a TranscriptKeys>,
}

/// Words that are delivered together: enough that the sink's own cost does not matter.
const SPAN_WORDS: usize = 1 << 14;

impl Scanner {
    /// Delivers the answer of one query to the sink, span by span: one little-endian word per row.
    /// The sink may stop the scan.
    pub fn answer_lifted(
        &self,
        store: &RowStore,
        query: &LiftedQuery<'_>,
        sink: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), ScanError> {
        check_tables(store.max_levels(), query.tables)?;
        let rows = store.rows();
        let program = LiftedProgram::new(self.kernels(), store, 0, query.tables, query.draws);
        let Some(keys) = query.order_keys else {
            let span_rows = SPAN_WORDS.next_multiple_of(TILE_ROWS);
            return self.deliver(rows.div_ceil(span_rows), sink, |span, out| {
                append_words(&program, span * span_rows..rows.min((span + 1) * span_rows), out);
            });
        };
        let shuffle = Shuffle::new(keys, rows);
        let Some(indices) = shuffle.bucket_indices() else {
            return self.deliver(1, sink, |_, out| {
                append_words(&program, 0..rows, out);
                shuffle.shuffle_bucket(0, out);
            });
        };
        let words = BucketedWords::new(self, &program, 0, indices);
        let per_span = (SPAN_WORDS * BUCKETS / rows).clamp(1, BUCKETS);
        let delivered = self.deliver(BUCKETS.div_ceil(per_span), sink, |span, out| {
            for bucket in span * per_span..BUCKETS.min((span + 1) * per_span) {
                let start = out.len();
                words.bucket(bucket).for_each(|words| out.extend_from_slice(words));
                shuffle.shuffle_bucket(bucket, &mut out[start..]);
            }
        });
        self.buffers.give_back(vec![words.into_memory()]);
        delivered
    }

    /// Computes the words of every span, on all threads, and delivers them in order. `append`
    /// receives an empty vector.
    pub(crate) fn deliver(
        &self,
        spans: usize,
        sink: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
        append: impl Fn(usize, &mut Vec<u32>) + Sync,
    ) -> Result<(), ScanError> {
        // Delivered buffers are reused: new memory would have to be cleared first.
        let free: Mutex<Vec<Vec<u32>>> = Mutex::default();
        let free = || free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut stopped = false;
        let work = |span| {
            let mut words = free().pop().unwrap_or_default();
            append(span, &mut words);
            words
        };
        let mut hand_over = |mut words: Vec<u32>| {
            let after = if words.is_empty() { ControlFlow::Continue(()) } else { sink(memory::bytes_of(&words)) };
            stopped |= after.is_break();
            words.clear();
            free().push(words);
            after
        };
        match &self.pool {
            Some(pool) => {
                let window = 4 * self.threads;
                deliver_in_order(pool, self.threads - 1, spans, window, |span, _| work(span), hand_over);
            }
            None => {
                let _ = (0..spans).try_for_each(|span| hand_over(work(span)));
            }
        }
        if stopped { Err(ScanError::Stopped) } else { Ok(()) }
    }
}

/// Appends the words of rows in stored order.
pub(crate) fn append_words(program: &LiftedProgram<'_>, rows: std::ops::Range<usize>, out: &mut Vec<u32>) {
    let mut scratch = LiftedScratch::new();
    out.reserve(rows.len());
    for first in rows.clone().step_by(TILE_ROWS) {
        out.extend_from_slice(program.tile(first, TILE_ROWS.min(rows.end - first), &mut scratch));
    }
}

/// Checks that there is a table for every feature, with an entry for each level.
pub(crate) fn check_tables(max_levels: &[u32], tables: &LiftedTables) -> Result<(), ScanError> {
    let lengths = tables.lengths();
    if lengths.len() != max_levels.len() {
        return Err(ScanError::Features { function: 0, have: lengths.len(), need: max_levels.len() });
    }
    for (feature, (&have, &max_level)) in lengths.iter().zip(max_levels).enumerate() {
        let need = max_level as usize + 1;
        if have != need {
            return Err(ScanError::TableLength { feature, have, need });
        }
    }
    Ok(())
}
