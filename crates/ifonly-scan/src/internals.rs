//! Single stages of an answer, for the measurements of `ifonly-bench`.
//!
//! The module is compiled with the feature `internals` and is not part of the stable interface.
//! Each function runs one stage over all rows, tile by tile, and discards its result.

use crate::backend::Backend;
use crate::dot::limbs16::Width;
use crate::keystream_planes::{self, KeyBytes};
use crate::lifted::decode::LiftedStream;
use crate::lifted::lookups::{RowBlocks, TILE_ROWS, WordLookups};
use crate::lifted::words::tables_of;
use crate::packing;
use crate::row_store::{BLOCK_ROWS, RowStore};
use crate::tile::{Scratch, TileProgram};
use ifonly_algebra::field::Field;
use ifonly_algebra::keys::KeyedRowRandomness;
use ifonly_algebra::lifted::{LiftedDecoder, LiftedPlan, LiftedTables};
use ifonly_algebra::row_function::ScanJob;
use ifonly_algebra::wire;
use std::hint::black_box;

/// Sums all bytes with the widest loads of the backend: a lower bound for the time of any scan.
pub fn read(backend: Backend, bytes: &[u8]) {
    black_box(backend.kernels().read(black_box(bytes)));
}

/// Evaluates the row functions of a job, without pads and packing.
pub fn evaluate(backend: Backend, store: &RowStore, job: &ScanJob<'_>) {
    let kernels = backend.kernels();
    let program = TileProgram::values(kernels, store, job);
    let mut scratch = Scratch::default();
    for first in (0..store.rows()).step_by(kernels.tile_rows()) {
        program.run(first, kernels.tile_rows().min(store.rows() - first), None, &mut scratch);
        black_box(&scratch);
    }
}

/// Adds up the joined table entries of a lifted query.
pub fn table_sums(backend: Backend, store: &RowStore, tables: &LiftedTables) {
    let kernels = backend.kernels();
    let lookups = WordLookups::new(kernels, store.level_bytes(), tables_of(tables).into_iter());
    let block_bytes = store.block_bytes();
    let (mut low, mut high) = ([0; TILE_ROWS], [0; TILE_ROWS]);
    for bytes in store.data().chunks(TILE_ROWS / BLOCK_ROWS * block_bytes) {
        let rows = bytes.len() / block_bytes * BLOCK_ROWS;
        kernels.word_sums(&lookups, RowBlocks { bytes, block_bytes }, &mut low[..rows], &mut high[..rows]);
        black_box((&low, &high));
    }
}

/// Decodes whole lifted answers. Returns the cost and the position of the nearest row; `None` if an
/// answer is malformed.
pub fn decode_lifted(backend: Backend, plan: &LiftedPlan, answers: [&[u8]; 2]) -> Option<(u64, u64)> {
    let mut decoder = Box::new(LiftedStream::new(plan, backend));
    decoder.advance(answers).ok()?;
    decoder.finish().nearest.first().copied()
}

/// Generates the pads of `rows` rows: `kappa` pads for each of `outputs` outputs.
pub fn generate_pads(backend: Backend, keys: &KeyedRowRandomness, outputs: usize, kappa: usize, rows: usize) {
    let kernels = backend.kernels();
    let mut key = KeyBytes::default();
    let width = Width::of(&keys.rho.field);
    let mut out = vec![0; kernels.tile_rows() * width.planes()];
    for first in (0..rows).step_by(kernels.tile_rows()) {
        for output in 0..outputs {
            for j in 1..=kappa {
                keystream_planes::fill(kernels, width, keys.pad_stream(output, j), first, &mut key, &mut out);
                black_box(&out);
            }
        }
    }
}

/// Packs field elements into bits. In a field of more than 31 bits, `elements` serves as the low
/// and as the high halves.
pub fn pack(backend: Backend, field: &Field, elements: &[u32]) {
    let kernels = backend.kernels();
    let mut out = vec![0; wire::packed_length(field, kernels.tile_rows())];
    for tile in elements.chunks(kernels.tile_rows()) {
        match Width::of(field) {
            Width::Narrow => packing::pack_words(kernels, field.bits(), tile, &mut out),
            Width::Wide => packing::pack_halves(kernels, field.bits(), tile, tile, &mut out),
        }
        black_box(&out);
    }
}
