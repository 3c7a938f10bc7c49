//! The bytes of shares and answers.
//!
//! The vectors of a share are one packed bit stream in their order. If the gate is lifted, its
//! vector is in F_p and follows as a second stream. An answer is one packed bit stream; with a
//! lifted gate it is one little-endian 32-bit word per row, which is read as two elements: the gate
//! in F_p, then the cost in F_q.

use crate::field::{Field, FieldElement};
use crate::lifted::LiftedFormat;
use crate::row_function::{self, RowProgram, RowRandomness, Rows, ScanJob};
use crate::scheme::instance::SchemeInstance;
use crate::scheme::lengths::WORD;
use crate::share::SlotVectors;
use crate::wire::{self, WireError};
use crate::{lifted, lifted::LiftedSide};
use zeroize::Zeroizing;

impl SchemeInstance {
    /// Field elements of the vectors in F_q, and of the vectors in F_p.
    pub(super) fn stream_lengths(&self, phase: usize) -> (usize, usize) {
        let slots = self.scheme().phases[phase].slots;
        let in_gate_field = |slot: usize| self.lifted().is_some() && slots.get(slot).is_some_and(|slot| slot.is_gate);
        let lengths = self.slot_lengths(phase);
        let gate = (0..lengths.len()).filter(|&slot| in_gate_field(slot)).map(|slot| lengths[slot]).sum::<usize>();
        (lengths.iter().sum::<usize>() - gate, gate)
    }

    /// Packs a share.
    pub fn pack_share(&self, phase: usize, share: &SlotVectors) -> Zeroizing<Vec<u8>> {
        let elements: Zeroizing<Vec<FieldElement>> = Zeroizing::new(share.iter().flatten().copied().collect());
        let (cost, gate) = elements.split_at(self.stream_lengths(phase).0);
        // The capacity is exact, because growing would leave copies of shares in freed memory.
        let mut bytes = Zeroizing::new(Vec::with_capacity(self.share_bytes(phase)));
        bytes.extend_from_slice(&Zeroizing::new(wire::pack(self.field(), cost)));
        if let Some(format) = self.lifted() {
            bytes.extend_from_slice(&Zeroizing::new(wire::pack(format.gate_field(), gate)));
        }
        bytes
    }

    /// Decodes a packed share. Its length must be exact.
    pub fn unpack_share(&self, phase: usize, bytes: &[u8]) -> Result<SlotVectors, WireError> {
        let need = self.share_bytes(phase);
        if bytes.len() != need {
            return Err(WireError::Length { what: "packed field elements", have: bytes.len(), need });
        }
        let (cost, gate) = self.stream_lengths(phase);
        let (first, second) = bytes.split_at(wire::packed_length(self.field(), cost));
        let mut elements = Zeroizing::new(Vec::with_capacity(cost + gate));
        elements.extend_from_slice(&Zeroizing::new(wire::unpack(self.field(), first, cost)?));
        if let Some(format) = self.lifted() {
            let unpacked = wire::unpack(format.gate_field(), second, gate).map_err(|error| match error {
                WireError::NotReduced { index } => WireError::NotReduced { index: cost + index },
                other => other,
            })?;
            elements.extend_from_slice(&Zeroizing::new(unpacked));
        }
        let mut rest = elements.as_slice();
        let vectors = self.slot_lengths(phase).into_iter().map(|length| {
            let (vector, tail) = rest.split_at(length);
            rest = tail;
            vector.to_vec()
        });
        Ok(SlotVectors::new(vectors.collect::<Vec<_>>()))
    }

    /// The field of an output.
    pub fn output_field(&self, output: usize) -> &Field {
        self.lifted().filter(|_| output == 0).map_or(self.field(), LiftedFormat::gate_field)
    }

    /// Whether these bytes have the length and the zero padding of an answer. Does not check that
    /// the elements are reduced.
    pub(crate) fn has_answer_shape(&self, phase: usize, bytes: &[u8]) -> bool {
        match self.lifted() {
            Some(_) => self.answer_bytes(phase) == bytes.len(),
            None => wire::has_packed_shape(self.field(), bytes, self.answer_length(phase)),
        }
    }

    /// Packs the elements of an answer.
    pub fn pack_answer(&self, elements: &[FieldElement]) -> Vec<u8> {
        match self.lifted() {
            Some(format) => {
                let word = |[gate, cost]: &[FieldElement; 2]| format.word(*cost, *gate).to_le_bytes();
                elements.as_chunks().0.iter().flat_map(word).collect()
            }
            None => wire::pack(self.field(), elements),
        }
    }

    /// Decodes a packed answer. Its length must be exact.
    pub fn unpack_answer(&self, phase: usize, bytes: &[u8]) -> Result<Vec<FieldElement>, WireError> {
        let Some(format) = self.lifted() else {
            return wire::unpack(self.field(), bytes, self.answer_length(phase));
        };
        let need = self.answer_bytes(phase);
        if bytes.len() != need {
            return Err(WireError::Length { what: "answer words", have: bytes.len(), need });
        }
        let mut elements = Vec::with_capacity(self.answer_length(phase));
        for (row, word) in bytes.as_chunks::<WORD>().0.iter().enumerate() {
            let (cost, gate) =
                format.split(u32::from_le_bytes(*word)).ok_or(WireError::NotReduced { index: 2 * row })?;
            elements.extend([gate, cost]);
        }
        Ok(elements)
    }

    /// The elements that a server answers in a phase. `server` counts from 0, and `order[p]` is the
    /// stored row at position p. This is the slow reference.
    pub fn answer(
        &self,
        phase: usize,
        server: usize,
        program: &RowProgram,
        rows: &Rows,
        randomness: &impl RowRandomness,
        order: Option<&[u32]>,
    ) -> Vec<FieldElement> {
        let side = if server == 0 { LiftedSide::First } else { LiftedSide::Second };
        if let (Some(format), Some(tables)) = (self.lifted(), self.lifted_tables(program, side)) {
            let words = lifted::answer(&tables, rows, randomness, order);
            // The reference evaluator makes valid words.
            return words.into_iter().filter_map(|word| format.split(word)).flat_map(|(c, g)| [g, c]).collect();
        }
        let (alpha, kappa) = (self.points()[server], self.kappa(phase));
        let job = ScanJob { field: self.field(), alpha, kappa, program };
        row_function::answer(&job, rows, randomness, order)
    }
}
