//! The lengths of messages and responses.
//!
//! They follow from public parameters. A server therefore knows them before it reads a message, and
//! a client before it receives a response. An instance exists only if all of them fit into memory
//! ([`SchemeInstance::fits_memory`]), so none overflows.

use crate::lifted::LiftedFormat;
use crate::scheme::instance::{CommunicationCost, SchemeInstance};
use crate::spir::RecordFetch;
use crate::transcript::{MessageKind, before_payload};
use crate::wire;

/// Bytes of an answer word of a lifted gate.
pub(super) const WORD: usize = 4;
/// No field element takes more bytes.
const MOST_BYTES: u64 = 8;

impl SchemeInstance {
    /// Whether messages and responses fit into the memory of this machine: 32-bit machines, such as
    /// browsers, cannot hold the answers of very large databases.
    pub(super) fn fits_memory(&self) -> bool {
        let params = self.params();
        let (rows, copies) = (params.rows as u64, if params.verified { 2 } else { 1 });
        let fits = |phase: usize| {
            let slots = self.scheme().phases[phase].slots.iter();
            // A verified share also has r.
            let share = copies * slots.map(|slot| slot.length.elements(params) as u64).sum::<u64>() + 1;
            share.max(rows * self.outputs(phase) as u64) * MOST_BYTES <= isize::MAX as u64
        };
        // A record query has at most a byte per row and server.
        (0..self.phases()).all(fits) && rows * self.servers() as u64 <= isize::MAX as u64
    }

    /// The record fetch for records of `record_length` bytes.
    pub fn record_fetch(&self, record_length: usize) -> RecordFetch {
        RecordFetch::new(self.params(), self.servers(), record_length)
    }

    /// Bytes of a message of this kind, for records of `record_length` bytes.
    pub fn request_length(&self, kind: MessageKind, record_length: usize) -> usize {
        let overhead = |responders, committed, first| before_payload(self.scheme().name, responders, committed, first);
        match kind {
            MessageKind::Phase(phase) => {
                let (phase, committed) = (usize::from(phase), self.share_commitments());
                let first = if phase > 0 && committed > 0 { self.responders(0) } else { 0 };
                overhead(self.responders(phase), committed, first) + self.share_bytes(phase)
            }
            MessageKind::Record => {
                let fetch = self.record_fetch(record_length);
                overhead(fetch.responders(), 0, 0) + fetch.query_length()
            }
        }
    }

    /// Bytes of the response to a message of this kind, without the checksum of HTTP.
    pub fn response_length(&self, kind: MessageKind, record_length: usize) -> usize {
        let answer = match kind {
            MessageKind::Phase(phase) => self.answer_bytes(phase.into()),
            MessageKind::Record => self.record_fetch(record_length).stripe_length(),
        };
        kind.lead() + answer
    }

    /// The kinds of messages of a search: its phases, then the record fetch.
    pub(crate) fn message_kinds(&self) -> impl Iterator<Item = MessageKind> + use<> {
        (0..self.phases() as u8).map(MessageKind::Phase).chain([MessageKind::Record])
    }

    /// Bytes of all messages and responses of a search with `top` records, without HTTP and TLS.
    pub fn traffic(&self, top: usize, record_length: usize) -> CommunicationCost {
        self.message_kinds().fold(CommunicationCost::default(), |cost, kind| {
            let messages = match kind {
                MessageKind::Phase(phase) => self.responders(phase.into()),
                MessageKind::Record => top * self.record_fetch(record_length).responders(),
            };
            let bytes = |length: usize| messages as u128 * length as u128;
            CommunicationCost {
                up: cost.up + bytes(self.request_length(kind, record_length)),
                down: cost.down + bytes(self.response_length(kind, record_length)),
            }
        })
    }

    /// Bytes of all packed shares and answers, without headers, key-check values and the record.
    /// Servers keep no state, so carried shares are sent again and count here.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> CommunicationCost {
        (0..self.phases()).fold(CommunicationCost::default(), |cost, phase| {
            let bytes = |length: usize| self.responders(phase) as u128 * length as u128;
            CommunicationCost {
                up: cost.up + bytes(self.share_bytes(phase)),
                down: cost.down + bytes(self.answer_bytes(phase)),
            }
        })
    }

    /// Bytes of a packed share.
    pub(super) fn share_bytes(&self, phase: usize) -> usize {
        let (cost, gate) = self.stream_lengths(phase);
        wire::packed_length(self.field(), cost)
            + self.lifted().map(LiftedFormat::gate_field).map_or(0, |field| wire::packed_length(field, gate))
    }

    /// Bytes of a packed answer.
    pub(super) fn answer_bytes(&self, phase: usize) -> usize {
        match self.lifted() {
            Some(_) => self.params().rows * WORD,
            None => wire::packed_length(self.field(), self.answer_length(phase)),
        }
    }
}
