//! A part that is a row store in this process, and its form values for whoever else wants them.

use super::{Forms, Part, PartError, Values};
use crate::answer::{ScanError, Scanner, check_forms};
use crate::backend::Kernels;
use crate::dot::Width;
use crate::store::{BLOCK_ROWS, RowStore};
use crate::tile::{Scratch, TileProgram};
use std::ops::Range;
use std::sync::Arc;

/// A store that holds the rows from `first_row` on.
#[derive(Debug)]
pub struct LocalPart {
    kernels: &'static dyn Kernels,
    store: Arc<RowStore>,
    first_row: usize,
}

impl LocalPart {
    /// The store's first row is row `first_row` of the database. Its values come from the scanner's backend.
    pub fn new(scanner: &Scanner, store: Arc<RowStore>, first_row: usize) -> LocalPart {
        LocalPart { kernels: scanner.kernels(), store, first_row }
    }
}

impl Part for LocalPart {
    fn rows(&self) -> Range<usize> {
        self.first_row..self.first_row + self.store.rows()
    }

    fn ranges(&self) -> &[u32] {
        self.store.ranges()
    }

    fn evaluate<'a>(&'a self, forms: &'a Forms) -> Result<Box<dyn Values + 'a>, PartError> {
        let unfit = |error: ScanError| PartError::Unavailable { rows: self.rows(), reason: error.to_string() };
        check_forms(self.store.features(), forms.forms()).map_err(unfit)?;
        let program = TileProgram::values(self.kernels, &self.store, &forms.job());
        Ok(Box::new(LocalValues { program, forms, first_row: self.first_row, rows: self.store.rows() }))
    }
}

/// The compiled forms.
struct LocalValues<'a> {
    program: TileProgram<'a>,
    forms: &'a Forms,
    first_row: usize,
    rows: usize,
}

impl Values for LocalValues<'_> {
    fn read(&self, rows: Range<usize>, out: &mut [u32]) -> Result<(), PartError> {
        let held = self.first_row..self.first_row + self.rows;
        if rows.start < held.start || rows.end > held.end || rows.len() * self.forms.words_per_row() != out.len() {
            return Err(PartError::Elsewhere { wanted: rows, held });
        }
        let start = rows.start - self.first_row;
        self.read_store(start, out);
        // Narrow sums of table entries come unreduced.
        if Width::of(self.forms.field()) == Width::Narrow {
            let q = self.forms.field().q() as u32;
            out.iter_mut().filter(|word| **word >= q).for_each(|word| *word %= q);
        }
        Ok(())
    }
}

impl LocalValues<'_> {
    /// From any row of the store on; a scan begins at whole blocks only.
    fn read_store(&self, start: usize, mut out: &mut [u32]) {
        let words = self.forms.words_per_row();
        let mut scratch = Scratch::default();
        let (block, before) = (start / BLOCK_ROWS * BLOCK_ROWS, start % BLOCK_ROWS);
        let mut next = block;
        if before > 0 {
            let rows = BLOCK_ROWS.min(self.rows - block);
            let mut values = vec![0; rows * words];
            self.program.write_rows(block, &mut values, &mut scratch);
            let (first, rest) = out.split_at_mut(out.len().min((rows - before) * words));
            first.copy_from_slice(&values[before * words..][..first.len()]);
            (out, next) = (rest, block + BLOCK_ROWS);
        }
        if !out.is_empty() {
            self.program.write_rows(next, out, &mut scratch);
        }
    }
}

impl Scanner {
    /// The values of forms at some rows of a store, into `out`: [`Forms::words_per_row`] words per row, every value below q.
    pub fn values_of(
        &self,
        store: &Arc<RowStore>,
        forms: &Forms,
        rows: Range<usize>,
        out: &mut [u32],
    ) -> Result<(), PartError> {
        LocalPart::new(self, store.clone(), 0).evaluate(forms)?.read(rows, out)
    }
}
