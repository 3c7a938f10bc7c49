//! The rows and the sealed records of one version of a database, and the two computations over them.
//!
//! A phase's answer is a scan over the rows; a record's answer is an inner product over GF(2^8) of the query with all sealed
//! records. Sums over GF(2^8) need no multiplication until the end: the records whose factor has bit b are XORed into
//! accumulator b, and `Σ_b x^b·accumulator_b` is the product. Both hand their bytes to a sink that may stop them.

use ifonly_core::decode::Arithmetic;
use ifonly_core::form::{self, Job, Rows};
use ifonly_core::gf256::Gf256;
use ifonly_core::order;
use ifonly_core::replica::{Ask, FetchAsk};
use ifonly_core::wire;
use std::ops::ControlFlow;

/// Takes the next bytes of a response; may say that no more are wanted.
pub type Sink<'s> = dyn FnMut(&[u8]) -> ControlFlow<()> + 's;

/// Bytes of the key-check value before every response.
pub const CHECK_LENGTH: usize = 16;

/// Symbols are packed in groups of this many bytes.
const CHUNK: usize = 1 << 16;

/// Rows, and records sealed for each key epoch. Never printed.
pub struct Database {
    rows: Rows,
    sealed_length: usize,
    sealed: Vec<Sealed>,
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Database({} rows, ..)", self.rows.len())
    }
}

/// All records under one epoch's key, one after another.
pub struct Sealed {
    /// Which epoch.
    pub epoch: u32,
    /// `rows · sealed_length` bytes.
    pub bytes: Vec<u8>,
}

impl Database {
    /// These rows and records.
    pub fn new(rows: Rows, sealed_length: usize, sealed: Vec<Sealed>) -> Database {
        Database { rows, sealed_length, sealed }
    }

    /// Bytes of the response to a phase.
    pub fn answer_length(ask: &Ask<'_>) -> usize {
        let symbols = ask.deployment.answer_length(ask.phase);
        // A deployment whose answer did not fit into memory's size could not have been loaded.
        CHECK_LENGTH + wire::packed_length(ask.deployment.field(), symbols).unwrap_or(usize::MAX - CHECK_LENGTH)
    }

    /// Bytes of the response to a record fetch.
    pub fn record_length(ask: &FetchAsk) -> usize {
        CHECK_LENGTH + ask.fetch.stripe_length()
    }

    /// Key-check value, then the packed answer. `Break` if the sink stopped it.
    pub fn answer(&self, ask: &Ask<'_>, sink: &mut Sink<'_>) -> ControlFlow<()> {
        sink(&ask.keys.check_value())?;
        let (field, kappa) = (ask.deployment.field(), ask.deployment.kappa(ask.phase));
        let order = ask.permutation();
        let job = Job { field, alpha: ask.alpha, kappa, program: &ask.program, order: order.as_deref() };
        let randomness = ask.keys.rows(field, ask.program.outputs.len(), kappa, ask.deployment.params().mask);
        let packed = wire::pack(field, &form::answer(&job, &self.rows, &randomness));
        packed.chunks(CHUNK).try_for_each(sink)
    }

    /// Key-check value, then server `server`'s padded inner product; `None` if the epoch is not held.
    pub fn record(&self, epoch: u32, server: u8, ask: &FetchAsk, sink: &mut Sink<'_>) -> Option<ControlFlow<()>> {
        let sealed = self.sealed.iter().find(|sealed| sealed.epoch == epoch)?;
        let rows = self.rows.len();
        let order = ask.order.as_ref().map(|keys| order::permutation(keys, rows));
        let mut product = self.product(ask, &sealed.bytes, order.as_deref());
        ask.fetch.pad(usize::from(server).saturating_sub(1), &ask.keys, &mut product);
        Some(sink(&ask.keys.check_value()).is_continue().then(|| sink(&product)).unwrap_or(ControlFlow::Break(())))
    }

    fn product(&self, ask: &FetchAsk, sealed: &[u8], order: Option<&[u32]>) -> Vec<u8> {
        let rows = self.rows.len();
        let (stripes, length) = (ask.fetch.stripes(), ask.fetch.stripe_length());
        // Queries over GF(2) have a bit per row, which is fewer bytes than rows except for a single row, where a bit and a
        // byte that is 0 or 1 are the same.
        let binary = ask.payload.len() < rows;
        let factor = |position: usize, stripe: usize| match binary {
            true => ask.payload[position / 8] >> (position % 8) & 1,
            false => ask.payload[position * stripes + stripe],
        };
        // Records are read in stored order, so the queries are the ones that are looked up.
        let mut position_of = vec![0u32; if order.is_some() { rows } else { 0 }];
        for (position, &row) in order.iter().flat_map(|order| order.iter().enumerate()) {
            position_of[row as usize] = position as u32;
        }
        let mut accumulators = vec![0u8; 8 * length];
        for (row, record) in sealed.chunks_exact(self.sealed_length).enumerate() {
            let position = position_of.get(row).map_or(row, |&position| position as usize);
            // The last stripe may be shorter; what it lacks is zero.
            for (stripe, part) in record.chunks(length).enumerate() {
                let mut bits = factor(position, stripe);
                while bits != 0 {
                    let start = bits.trailing_zeros() as usize * length;
                    let sum = &mut accumulators[start..start + length];
                    sum.iter_mut().zip(part).for_each(|(sum, &byte)| *sum ^= byte);
                    bits &= bits - 1;
                }
            }
        }
        let mut product = vec![0; length];
        for (bit, sum) in accumulators.chunks_exact(length).enumerate() {
            product.iter_mut().zip(sum).for_each(|(total, &byte)| *total ^= Gf256.mul(1 << bit, byte));
        }
        product
    }
}
