//! Decoding of answers, on the client: the packed answers of N servers in, decoded values out. The
//! memory of the decoder does not grow with the number of rows.
//!
//! With the weights w_n that interpolate at 0, the value of every field element is `constant + Σ_n
//! w_n·A_n`. The constant removes the part that the client knows. Values come in the order of the
//! answer. This module does not interpret them (a distance, a gate, a difference): the scheme does.

use crate::backend::{Backend, Kernels};
use crate::dot::limbs16::Width;
use crate::lifted::decode::LiftedStream;
use crate::packing::{unpack_long_words, unpack_words};
use ifonly_algebra::field::FieldElement;
pub use ifonly_algebra::interpolate::InterpolationPlan;
use ifonly_algebra::interpolate::{DecodedWords, InterpolationStream, Interpolator, MalformedAnswer};
use ifonly_algebra::lifted::{LiftedDecoder, LiftedPlan};
use ifonly_algebra::wipe::wipe;
use ifonly_algebra::wire::packed_length;

/// Rows decoded at a time: a multiple of 8, so that a run ends at a byte boundary. The words of all
/// servers stay in the first-level cache.
const RUN_ROWS: usize = 512;

/// Decodes the rows of growing answers as soon as the bytes of all servers are present.
#[derive(Debug)]
pub struct Decoder {
    interpolation: InterpolationPlan,
    kernels: &'static dyn Kernels,
    rows: usize,
    next_row: usize,
    words: Vec<Vec<u32>>,
    elements: Vec<u64>,
    values: Vec<u64>,
    narrow_values: Vec<u32>,
}

// The values of a search are as secret as the profile, and those of the last run are still in
// memory.
impl Drop for Decoder {
    fn drop(&mut self) {
        self.words.iter_mut().for_each(|words| wipe(words));
        wipe(&mut self.elements);
        wipe(&mut self.values);
        wipe(&mut self.narrow_values);
    }
}

/// Decodes answers with the fastest kernels of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct KernelInterpolator;

impl Interpolator for KernelInterpolator {
    fn begin(&self, interpolation: InterpolationPlan, rows: usize) -> Box<dyn InterpolationStream> {
        Box::new(Decoder::new(interpolation, rows, Backend::best()))
    }

    fn begin_lifted(&self, plan: &LiftedPlan) -> Option<Box<dyn LiftedDecoder>> {
        Some(Box::new(LiftedStream::new(plan, Backend::best())))
    }
}

impl InterpolationStream for Decoder {
    fn advance(&mut self, answers: &[&[u8]], visit: &mut dyn FnMut(DecodedWords<'_>)) -> Result<(), MalformedAnswer> {
        while self.next_row < self.rows {
            let rows = self.rows.min(self.next_row + RUN_ROWS) - self.next_row;
            let bytes = self.packed_rows(self.next_row)..self.packed_rows(self.next_row + rows);
            let parts: Option<Vec<&[u8]>> = answers.iter().map(|answer| answer.get(bytes.clone())).collect();
            let Some(parts) = parts else { break };
            visit(self.decode_run(&parts, rows * self.outputs())?);
            self.next_row += rows;
        }
        Ok(())
    }
}

impl Decoder {
    /// A decoder for answers of `rows` rows.
    pub fn new(interpolation: InterpolationPlan, rows: usize, backend: Backend) -> Decoder {
        Decoder {
            words: vec![vec![]; interpolation.weights.len()],
            interpolation,
            kernels: backend.kernels(),
            rows,
            next_row: 0,
            elements: vec![],
            values: vec![],
            narrow_values: vec![],
        }
    }

    /// Bytes of the first `rows` rows of an answer.
    fn packed_rows(&self, rows: usize) -> usize {
        packed_length(&self.interpolation.field, rows * self.outputs())
    }

    fn outputs(&self) -> usize {
        self.interpolation.constants.len()
    }

    /// Decodes `count` field elements of every server.
    fn decode_run(&mut self, parts: &[&[u8]], count: usize) -> Result<DecodedWords<'_>, MalformedAnswer> {
        match Width::of(&self.interpolation.field) {
            Width::Narrow => {
                self.decode_narrow(parts, count)?;
                Ok(DecodedWords::Narrow(&self.narrow_values))
            }
            Width::Wide => {
                self.decode_wide(parts, count)?;
                Ok(DecodedWords::Wide(&self.values))
            }
        }
    }

    fn decode_narrow(&mut self, parts: &[&[u8]], count: usize) -> Result<(), MalformedAnswer> {
        let InterpolationPlan { field, weights, constants } = &self.interpolation;
        let q = field.q() as u32;
        for (words, bytes) in self.words.iter_mut().zip(parts) {
            words.resize(count, 0);
            if unpack_words(self.kernels, field.bits(), bytes, words) >= q {
                return Err(MalformedAnswer);
            }
        }
        self.narrow_values.resize(count, 0);
        let first = constants.first().copied().unwrap_or_default();
        let constant = first.value() as u32;
        match (&weights[..], &self.words[..]) {
            ([w, v], [a, b]) if w == v && field.add(*w, *v) == FieldElement::ONE => {
                self.kernels.halve_sums(q, a, b, constant, &mut self.narrow_values);
            }
            _ => {
                let scale = field.reduce(1 << 32);
                let weights: Vec<u32> = weights.iter().map(|&w| field.mul(w, scale).value() as u32).collect();
                let parts: Vec<&[u32]> = self.words.iter().map(Vec::as_slice).collect();
                self.kernels.interpolate(q, &weights, &parts, constant, &mut self.narrow_values);
            }
        }
        // The kernel added the first constant to every element. The other outputs need the
        // difference.
        for (output, &constant) in constants.iter().enumerate().filter(|(_, constant)| **constant != first) {
            let difference = field.sub(constant, first).value() as u32;
            for value in self.narrow_values.iter_mut().skip(output).step_by(constants.len()) {
                let sum = *value + difference;
                *value = sum.min(sum.wrapping_sub(q));
            }
        }
        Ok(())
    }

    fn decode_wide(&mut self, parts: &[&[u8]], count: usize) -> Result<(), MalformedAnswer> {
        let InterpolationPlan { field, weights, constants } = &self.interpolation;
        self.elements.resize(count, 0);
        self.values.clear();
        self.values.extend(constants.iter().cycle().take(count).map(|constant| constant.value()));
        let q = field.q();
        for (bytes, &weight) in parts.iter().zip(weights) {
            unpack_long_words(field.bits(), bytes, &mut self.elements);
            if self.elements.iter().fold(0, |largest, &element| largest.max(element)) >= q {
                return Err(MalformedAnswer);
            }
            let both = self.values.iter_mut().zip(&self.elements);
            let add = |(value, product): (&mut u64, u64)| {
                let sum = *value + product;
                *value = sum.min(sum.wrapping_sub(q));
            };
            if field.add(weight, weight) == FieldElement::ONE {
                // Two servers at the points ±1: halves instead of products.
                both.map(|(value, &element)| (value, element / 2 + (element % 2) * q.div_ceil(2))).for_each(add);
            } else {
                let times = |element: u64| field.mul(weight, field.element(element).unwrap_or_default()).value();
                both.map(|(value, &element)| (value, times(element))).for_each(add);
            }
        }
        Ok(())
    }
}
