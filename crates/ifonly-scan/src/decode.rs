//! Decoding of answers, on the client: the packed streams of N servers in, decoded values out. The
//! memory does not grow with the number of rows.
//!
//! With the weights w_n that interpolate at 0, the value of every field element is `constant + Σ_n
//! w_n·A_n`. The constant removes the part that the client knows. Values come in the order of the
//! answer, so a minimum with a strict comparison finds the first of tied rows. This module does not
//! interpret the values (a distance, a gate, a difference): the scheme does. [`ArgMin`] covers
//! plain and gated answers.

use crate::backend::{Backend, Kernels};
use crate::dot::limbs16::Width;
use crate::lifted::decode::LiftedStream;
use crate::packing::{packed_length, unpack_long_words, unpack_words};
use ifonly_algebra::field::FieldElement;
pub use ifonly_algebra::interpolate::InterpolationPlan;
use ifonly_algebra::interpolate::{DecodedWords, InterpolationStream, Interpolator, MalformedAnswer};
use ifonly_algebra::lifted::{LiftedDecoder, LiftedPlan};
use ifonly_algebra::wipe::wipe;

/// Rows decoded at a time. The words of all servers stay in the first-level cache.
const RUN_ROWS: usize = 512;

/// Why a stream is not a valid answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerStreamError {
    /// A server sent more bytes than the answer has.
    #[error("server {0} sent more bytes than the answer has")]
    TooLong(usize),
    /// A server sent fewer bytes than the answer has.
    #[error("server {server} sent only {have} of {need} bytes")]
    TooShort {
        /// Which server, counted from 0.
        server: usize,
        /// Bytes received.
        have: usize,
        /// Bytes of a complete answer.
        need: usize,
    },
    /// A field element is not below q.
    #[error("server {server} sent a number that is not a field element, in the rows from {row} on")]
    NotReduced {
        /// Which server, counted from 0.
        server: usize,
        /// The first row of the run.
        row: usize,
    },
}

/// Receives the bytes of each server and decodes rows as soon as the bytes of all servers are
/// present.
#[derive(Debug)]
pub struct Decoder {
    interpolation: InterpolationPlan,
    kernels: &'static dyn Kernels,
    rows: usize,
    next_row: usize,
    parts: Vec<ServerStream>,
    words: Vec<Vec<u32>>,
    elements: Vec<u64>,
    values: Vec<u64>,
    narrow_values: Vec<u32>,
}

/// Bytes from one server that are not decoded yet.
#[derive(Debug, Default)]
struct ServerStream {
    waiting: Vec<u8>,
    /// Number of waiting bytes that are decoded.
    decoded: usize,
    received: usize,
}

impl ServerStream {
    fn clear(&mut self) {
        self.waiting.clear();
        (self.decoded, self.received) = (0, 0);
    }

    fn undecoded(&self) -> &[u8] {
        &self.waiting[self.decoded..]
    }

    /// Appends bytes. Moves the undecoded bytes to the front only if they are the smaller half, so
    /// that a byte moves once on average.
    fn append(&mut self, bytes: &[u8]) {
        if self.decoded > self.waiting.len() / 2 {
            self.waiting.drain(..self.decoded);
            self.decoded = 0;
        }
        self.waiting.extend_from_slice(bytes);
    }
}

/// A run of decoded rows.
#[derive(Clone, Copy, Debug)]
pub struct DecodedRun<'a> {
    /// Position of the first row.
    pub first_row: usize,
    /// Field elements per row.
    pub outputs: usize,
    kernels: &'static dyn Kernels,
    words: DecodedWords<'a>,
}

impl<'a> DecodedRun<'a> {
    /// All field elements, row by row, as stored.
    pub fn words(&self) -> DecodedWords<'a> {
        self.words
    }

    /// All field elements, row by row.
    pub fn iter(&self) -> Box<dyn Iterator<Item = u64> + '_> {
        match self.words {
            DecodedWords::Narrow(words) => Box::new(words.iter().map(|&word| u64::from(word))),
            DecodedWords::Wide(words) => Box::new(words.iter().copied()),
        }
    }
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
        Box::new(Decoder::new(interpolation, rows))
    }

    fn begin_lifted(&self, plan: &LiftedPlan) -> Option<Box<dyn LiftedDecoder>> {
        Some(Box::new(LiftedStream::new(plan, Backend::best())))
    }
}

impl InterpolationStream for Decoder {
    fn advance(&mut self, answers: &[&[u8]], visit: &mut dyn FnMut(DecodedWords<'_>)) -> Result<(), MalformedAnswer> {
        // Every run except the last ends at a byte boundary.
        let taken = packed_length(&self.interpolation.field, self.next_row * self.outputs());
        let undecoded = answers.iter().map(|answer| answer.get(taken..).unwrap_or_default()).collect();
        self.decode_runs(undecoded, &mut |values| visit(values.words())).map(|_| ()).map_err(|_| MalformedAnswer)
    }
}

impl Decoder {
    /// A decoder for answers of `rows` rows, on the fastest backend.
    pub fn new(interpolation: InterpolationPlan, rows: usize) -> Decoder {
        Decoder::with_backend(interpolation, rows, Backend::best())
    }

    /// A decoder on another backend.
    pub fn with_backend(interpolation: InterpolationPlan, rows: usize, backend: Backend) -> Decoder {
        let servers = interpolation.weights.len();
        Decoder {
            interpolation,
            kernels: backend.kernels(),
            rows,
            next_row: 0,
            parts: (0..servers).map(|_| ServerStream::default()).collect(),
            words: vec![vec![]; servers],
            elements: vec![],
            values: vec![],
            narrow_values: vec![],
        }
    }

    /// Restarts with the answers of another query to the same rows; reuses the memory.
    pub fn restart(&mut self, interpolation: InterpolationPlan) {
        self.words.resize(interpolation.weights.len(), vec![]);
        self.parts.resize_with(interpolation.weights.len(), ServerStream::default);
        self.parts.iter_mut().for_each(ServerStream::clear);
        self.interpolation = interpolation;
        self.next_row = 0;
    }

    /// Bytes of one complete answer.
    pub fn answer_length(&self) -> usize {
        packed_length(&self.interpolation.field, self.rows * self.outputs())
    }

    /// Adds the next bytes of one server. `visit` receives every run of rows that they complete.
    pub fn feed(
        &mut self,
        server: usize,
        mut bytes: &[u8],
        visit: &mut dyn FnMut(DecodedRun<'_>),
    ) -> Result<(), AnswerStreamError> {
        let part = &mut self.parts[server];
        part.received += bytes.len();
        if part.received > self.answer_length() {
            return Err(AnswerStreamError::TooLong(server));
        }
        let mut parts = std::mem::take(&mut self.parts);
        let result = self.decode_ready(&mut parts, server, &mut bytes, visit);
        parts[server].append(bytes);
        self.parts = parts;
        result
    }

    /// Decodes all complete runs. The bytes of `server` are decoded in place, without a copy.
    fn decode_ready(
        &mut self,
        parts: &mut [ServerStream],
        server: usize,
        bytes: &mut &[u8],
        visit: &mut dyn FnMut(DecodedRun<'_>),
    ) -> Result<(), AnswerStreamError> {
        loop {
            let pending = parts[server].undecoded().len();
            if pending > 0 {
                let (head, tail) = bytes.split_at(self.run_bytes().saturating_sub(pending).min(bytes.len()));
                parts[server].append(head);
                *bytes = tail;
            }
            let is_in_place = |number: usize| number == server && pending == 0;
            let undecoded =
                parts.iter().enumerate().map(|(n, part)| if is_in_place(n) { *bytes } else { part.undecoded() });
            let used = self.decode_runs(undecoded.collect(), visit)?;
            if used == 0 {
                return Ok(());
            }
            for (number, part) in parts.iter_mut().enumerate() {
                if is_in_place(number) {
                    *bytes = &bytes[used..];
                } else {
                    part.decoded += used;
                }
            }
        }
    }

    /// Decodes all runs for which every server has bytes; returns the number of bytes used of each
    /// server.
    fn decode_runs(
        &mut self,
        mut undecoded: Vec<&[u8]>,
        visit: &mut dyn FnMut(DecodedRun<'_>),
    ) -> Result<usize, AnswerStreamError> {
        let mut used = 0;
        while self.next_row < self.rows {
            let run = self.run_bytes();
            if undecoded.iter().any(|undecoded| undecoded.len() < run) {
                break;
            }
            self.decode_run(&undecoded, visit)?;
            undecoded.iter_mut().for_each(|undecoded| *undecoded = &undecoded[run..]);
            used += run;
        }
        Ok(used)
    }

    /// Decodes complete answers.
    pub fn decode_all(
        &mut self,
        answers: &[&[u8]],
        visit: &mut dyn FnMut(DecodedRun<'_>),
    ) -> Result<(), AnswerStreamError> {
        for (server, answer) in answers.iter().enumerate() {
            self.parts[server].received += answer.len();
        }
        self.finish()?;
        self.decode_runs(answers.to_vec(), visit).map(|_| ())
    }

    /// Checks that every server sent a complete answer.
    pub fn finish(&self) -> Result<(), AnswerStreamError> {
        let need = self.answer_length();
        for (server, part) in self.parts.iter().enumerate() {
            if part.received > need {
                return Err(AnswerStreamError::TooLong(server));
            }
            if part.received < need {
                return Err(AnswerStreamError::TooShort { server, have: part.received, need });
            }
        }
        Ok(())
    }

    fn outputs(&self) -> usize {
        self.interpolation.constants.len()
    }

    fn run_rows(&self) -> usize {
        RUN_ROWS.min(self.rows - self.next_row)
    }

    fn run_bytes(&self) -> usize {
        packed_length(&self.interpolation.field, self.run_rows() * self.outputs())
    }

    /// Decodes the next run, which starts at the beginning of each part.
    fn decode_run(&mut self, parts: &[&[u8]], visit: &mut dyn FnMut(DecodedRun<'_>)) -> Result<(), AnswerStreamError> {
        let rows = self.run_rows();
        let count = rows * self.outputs();
        let words = match Width::of(&self.interpolation.field) {
            Width::Narrow => {
                self.decode_narrow(parts, count)?;
                DecodedWords::Narrow(&self.narrow_values)
            }
            Width::Wide => {
                self.decode_wide(parts, count)?;
                DecodedWords::Wide(&self.values)
            }
        };
        visit(DecodedRun {
            first_row: self.next_row,
            outputs: self.interpolation.constants.len(),
            kernels: self.kernels,
            words,
        });
        self.next_row += rows;
        Ok(())
    }

    fn decode_narrow(&mut self, parts: &[&[u8]], count: usize) -> Result<(), AnswerStreamError> {
        let InterpolationPlan { field, weights, constants } = &self.interpolation;
        let q = field.q() as u32;
        for (server, (words, bytes)) in self.words.iter_mut().zip(parts).enumerate() {
            words.resize(count, 0);
            if unpack_words(self.kernels, field.bits(), bytes, words) >= q {
                return Err(AnswerStreamError::NotReduced { server, row: self.next_row });
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

    fn decode_wide(&mut self, parts: &[&[u8]], count: usize) -> Result<(), AnswerStreamError> {
        let InterpolationPlan { field, weights, constants } = &self.interpolation;
        self.elements.resize(count, 0);
        self.values.clear();
        self.values.extend(constants.iter().cycle().take(count).map(|constant| constant.value()));
        let q = field.q();
        for (server, (bytes, &weight)) in parts.iter().zip(weights).enumerate() {
            unpack_long_words(field.bits(), bytes, &mut self.elements);
            if self.elements.iter().fold(0, |largest, &element| largest.max(element)) >= q {
                return Err(AnswerStreamError::NotReduced { server, row: self.next_row });
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

/// The row with the smallest value of an answer, the first of ties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArgMin {
    rule: Rule,
    best: Option<ArgMinResult>,
}

/// A row and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArgMinResult {
    /// Position in the answer.
    pub row: usize,
    /// Decoded distance or cost.
    pub value: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    Plain,
    Gated,
}

impl ArgMin {
    /// Finds the smallest value of answers with one field element per row.
    pub fn plain() -> ArgMin {
        ArgMin { rule: Rule::Plain, best: None }
    }

    /// Finds the smallest second element among rows whose first element is 0.
    pub fn gated() -> ArgMin {
        ArgMin { rule: Rule::Gated, best: None }
    }

    /// Processes a run of rows; runs must come in order.
    pub fn visit(&mut self, values: DecodedRun<'_>) {
        let found = match (self.rule, values.words) {
            (Rule::Plain, DecodedWords::Narrow(words)) => {
                // Searches for the position only if the minimum is better than before.
                let smallest = values.kernels.minimum(words);
                let better = self.best.is_none_or(|best| u64::from(smallest) < best.value);
                let row = better.then(|| words.iter().position(|&word| word == smallest)).flatten();
                row.map(|row| (u64::from(smallest), row))
            }
            (Rule::Plain, DecodedWords::Wide(words)) => {
                words.iter().copied().enumerate().map(|(row, value)| (value, row)).min()
            }
            (Rule::Gated, DecodedWords::Narrow(words)) => {
                let rows = words.as_chunks::<2>().0.iter().enumerate().filter(|(_, [gate, _])| *gate == 0);
                rows.map(|(row, &[_, cost])| (u64::from(cost), row)).min()
            }
            (Rule::Gated, DecodedWords::Wide(words)) => {
                let rows = words.as_chunks::<2>().0.iter().enumerate().filter(|(_, [gate, _])| *gate == 0);
                rows.map(|(row, &[_, cost])| (cost, row)).min()
            }
        };
        if let Some((value, row)) = found
            && self.best.is_none_or(|best| value < best.value)
        {
            self.best = Some(ArgMinResult { row: values.first_row + row, value });
        }
    }

    /// The row, if there is any (or any that passes the gate).
    pub fn found(&self) -> Option<ArgMinResult> {
        self.best
    }
}
