//! A part that is a row store in this process.

use super::{PartError, RowFunctions, RowPart, ValueStream};
use crate::dot::limbs16::Width;
use crate::parts::lifted;
use crate::row_store::{BLOCK_ROWS, RowStore};
use crate::scan::plan::fits_buckets;
use crate::scan::scanner::{Scanner, Scattered, check_functions};
use crate::tile::{Scratch, TileProgram};
use ifonly_algebra::lifted::{LiftedDraws, LiftedTables};
use ifonly_algebra::shuffle::BucketIndices;
use std::ops::Range;
use std::sync::Arc;

/// A store that holds the rows from `first_row` on.
#[derive(Debug)]
pub struct LocalPart {
    scanner: Scanner,
    store: Arc<RowStore>,
    first_row: usize,
}

impl LocalPart {
    /// A part whose first row is row `first_row` of the database. The scanner's backend and threads
    /// compute its values.
    pub fn new(scanner: &Scanner, store: Arc<RowStore>, first_row: usize) -> LocalPart {
        LocalPart { scanner: scanner.clone(), store, first_row }
    }
}

impl RowPart for LocalPart {
    fn rows(&self) -> Range<usize> {
        self.first_row..self.first_row + self.store.rows()
    }

    fn max_levels(&self) -> &[u32] {
        self.store.max_levels()
    }

    fn evaluate<'a>(
        &'a self,
        functions: &'a RowFunctions,
        buckets: Option<&BucketIndices>,
    ) -> Result<Box<dyn ValueStream + 'a>, PartError> {
        let unavailable = |error: String| PartError::Unavailable { rows: self.rows(), reason: error };
        check_functions(self.store.features(), functions.row_functions())
            .map_err(|error| unavailable(error.to_string()))?;
        // The request may come from another process, so it is checked.
        if buckets.is_some() && !fits_buckets(functions.words_per_row()) {
            return Err(unavailable(format!(
                "the bucket shuffle does not support rows of {} words",
                functions.words_per_row()
            )));
        }
        let program = TileProgram::values(self.scanner.kernels(), &self.store, &functions.job());
        let values = LocalValues { part: self, program, functions };
        Ok(match buckets {
            None => Box::new(InOrder { values, next: 0 }),
            Some(buckets) => {
                let scattered = self.scanner.scattered(
                    self.store.rows(),
                    functions.row(),
                    |rows| buckets.scatter(rows.start + self.first_row..rows.end + self.first_row),
                    |start, out, scratch| {
                        values.read(start, out, scratch);
                        Ok(())
                    },
                )?;
                Box::new(ByBucket { scattered, bucket: 0, chunk: 0, done: 0 })
            }
        })
    }

    fn lifted_words<'a>(
        &'a self,
        tables: &'a LiftedTables,
        draws: &'a LiftedDraws,
        buckets: Option<&BucketIndices>,
    ) -> Result<Box<dyn ValueStream + 'a>, PartError> {
        lifted::words_of_store(&self.scanner, &self.store, self.first_row, (tables, draws), buckets)
            .map_err(|error| PartError::Unavailable { rows: self.rows(), reason: error.to_string() })
    }

    fn table_sums(&self, tables: &[&[u64]], sums: &mut [u64]) -> Result<(), PartError> {
        self.store.table_sums_into(self.scanner.kernels(), tables, sums);
        Ok(())
    }
}

/// Row functions compiled for a part.
struct LocalValues<'a> {
    part: &'a LocalPart,
    program: TileProgram<'a>,
    functions: &'a RowFunctions,
}

impl LocalValues<'_> {
    /// Computes the values from row `start` on. A scan starts only at block boundaries.
    fn read(&self, start: usize, out: &mut [u32], scratch: &mut Scratch) {
        let words = self.functions.words_per_row();
        let (block, before) = (start / BLOCK_ROWS * BLOCK_ROWS, start % BLOCK_ROWS);
        let (mut rest, mut next) = (&mut *out, block);
        if before > 0 {
            let rows = BLOCK_ROWS.min(self.part.store.rows() - block);
            let mut values = vec![0; rows * words];
            self.program.write_rows(block, &mut values, scratch);
            let length = rest.len().min((rows - before) * words);
            let (first, remaining) = rest.split_at_mut(length);
            first.copy_from_slice(&values[before * words..][..first.len()]);
            (rest, next) = (remaining, block + BLOCK_ROWS);
        }
        if !rest.is_empty() {
            self.program.write_rows(next, rest, scratch);
        }
        // Narrow sums of table entries are not reduced.
        if Width::of(self.functions.field()) == Width::Narrow {
            let q = self.functions.field().q() as u32;
            out.iter_mut().filter(|word| **word >= q).for_each(|word| *word %= q);
        }
    }
}

/// Values in stored order.
struct InOrder<'a> {
    values: LocalValues<'a>,
    next: usize,
}

impl ValueStream for InOrder<'_> {
    fn read(&mut self, out: &mut [u8]) -> Result<(), PartError> {
        let (row, part) = (self.values.functions.row(), self.values.part);
        let rows = self.next..self.next + out.len().checked_div(row.bytes()).unwrap_or(0);
        if rows.end > part.store.rows() {
            let wanted = rows.start + part.first_row..rows.end + part.first_row;
            return Err(PartError::OutOfRange { wanted, held: part.rows() });
        }
        part.scanner.fill_spans(out, row.bytes(), |first, out, scratch| {
            let mut words = vec![0; out.len() / row.bytes() * row.words()];
            self.values.read(rows.start + first, &mut words, scratch);
            row.words_to_bytes(&words, out);
        });
        self.next = rows.end;
        Ok(())
    }
}

/// Values bucket by bucket.
struct ByBucket {
    scattered: Scattered,
    /// Read position: the bucket, the chunk of the scattered rows, and the bytes read of that
    /// chunk.
    bucket: usize,
    chunk: usize,
    done: usize,
}

impl ValueStream for ByBucket {
    fn read(&mut self, mut out: &mut [u8]) -> Result<(), PartError> {
        while !out.is_empty() {
            if self.chunk == self.scattered.chunks() {
                (self.bucket, self.chunk) = (self.bucket + 1, 0);
            }
            let values = self.scattered.values(self.bucket, self.chunk).ok_or(PartError::TooFew)?;
            let left = &values[self.done..];
            let length = left.len().min(out.len());
            let (here, remaining) = out.split_at_mut(length);
            here.copy_from_slice(&left[..length]);
            out = remaining;
            self.done += length;
            if self.done == values.len() {
                (self.chunk, self.done) = (self.chunk + 1, 0);
            }
        }
        Ok(())
    }
}
