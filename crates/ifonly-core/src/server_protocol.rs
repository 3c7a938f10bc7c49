//! One server's side of the protocol: decode a message, check it, and return what to compute. The
//! scan itself is outside this crate; [`ServerProtocol::respond`] is a slow reference
//! implementation.

use crate::field::FieldElement;
use crate::keys::{RootKey, TranscriptKeys};
use crate::lifted::{LiftedDraws, LiftedSide, LiftedTables};
use crate::row_function::{RowProgram, RowRandomness, Rows};
use crate::scheme::instance::SchemeInstance;
use crate::scheme::sealed::SealedScheme;
use crate::scheme::{Scheme, sealed};
use crate::share::SlotVectors;
use crate::spir::RecordFetch;
use crate::transcript::{Header, Message, MessageKind, SearchRef, Tau, Ticket, VERSION};
use crate::wire::{self, WireError};
use crate::{aont, share_commitment, shuffle};
use std::sync::Arc;
use zeroize::{Zeroize, Zeroizing};

/// Why a server refuses a message. Every refusal is the fault of the client, and none depends on
/// the secret query.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The bytes could not be decoded.
    #[error("malformed message: {0}")]
    Malformed(WireError),
    /// The message has another protocol version.
    #[error("this server speaks version {VERSION} of the protocol, not version {0}")]
    Version(u8),
    /// The message is for another manifest.
    #[error("the query was made for another manifest; fetch the manifest again")]
    Manifest,
    /// The server does not offer the scheme.
    #[error("this server does not offer scheme {0:?}; the manifest lists the offered schemes")]
    Scheme(String),
    /// The scheme does not have this phase.
    #[error("scheme {scheme} has no phase {phase}")]
    Phase {
        /// The scheme.
        scheme: &'static str,
        /// The phase of the message.
        phase: u8,
    },
    /// The server has no root key of this epoch.
    #[error("this server does not serve key epoch {0}; fetch the manifest again")]
    Epoch(u32),
    /// The responders are not those of the phase.
    #[error("the responders of this message must be servers 1 to {need}")]
    Responders {
        /// The number of responders.
        need: usize,
    },
    /// The message is for another server.
    #[error("this message is for server {meant}, not for server {here}")]
    Server {
        /// The server index in the message.
        meant: u8,
        /// The index of this server.
        here: u8,
    },
    /// Phase 0 has a parent, or a later message has none.
    #[error("phase 0 of a search must have no parent, and every later message must have one")]
    Parent,
    /// The ticket is not valid for the parent, the scheme and the key epoch.
    #[error("the ticket is not valid for the parent, scheme and key epoch of this message")]
    Ticket,
    /// The shares of phase 1 do not match the share commitments of phase 0, or a message has share
    /// commitments that the scheme does not use.
    #[error("the shares do not match the share commitments of phase 0")]
    ShareCommitment,
    /// A sealed search at a server without peers.
    #[error("this server has no peers configured, so it cannot run sealed searches")]
    NoPeers,
    /// The commitment does not open to the payload.
    #[error("the commitment does not open to the payload")]
    Commitment,
}

impl From<WireError> for Refusal {
    fn from(error: WireError) -> Refusal {
        match error {
            WireError::Version { have } => Refusal::Version(have),
            other => Refusal::Malformed(other),
        }
    }
}

/// The schemes of a manifest and the key epochs that a server serves.
#[derive(Clone, Debug)]
pub struct ServerProtocol {
    index: u8,
    digest: [u8; 32],
    instances: Vec<Arc<SchemeInstance>>,
    sealed: Option<Arc<SealedScheme>>,
    keys: Vec<RootKey>,
    record_length: usize,
}

/// A checked request for the answer of a phase.
#[derive(Debug)]
pub struct PhaseRequest<'a> {
    /// The scheme instance.
    pub instance: &'a SchemeInstance,
    /// The phase, from 0.
    pub phase: usize,
    /// The row program.
    pub program: RowProgram,
    /// Keys of the transcript, for pads and the key-check value.
    pub keys: TranscriptKeys,
    /// Keys of the row order; `None` for the stored order.
    pub order_keys: Option<TranscriptKeys>,
    /// The index of this server, counted from 0.
    pub server: usize,
    /// The ticket for later messages of the search, in phase 0 only.
    pub ticket: Option<Ticket>,
    /// τ of phase 0, which identifies the search.
    pub search: Tau,
    /// Bytes of the response.
    pub response_length: usize,
}

/// A checked request for a record. Its payload is a share, so it is wiped on drop and never
/// printed.
pub struct RecordRequest {
    /// Sizes of the record fetch.
    pub fetch: RecordFetch,
    /// The selection vector.
    pub payload: Vec<u8>,
    /// Keys of the transcript, for pads and the key-check value.
    pub keys: TranscriptKeys,
    /// The key epoch under which the records must be encoded.
    pub epoch: u32,
    /// Keys of the row order; `None` for the stored order.
    pub order_keys: Option<TranscriptKeys>,
    /// τ of phase 0, which identifies the search.
    pub search: Tau,
    /// Bytes of the response.
    pub response_length: usize,
}

impl std::fmt::Debug for RecordRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RecordRequest({:?}, epoch {}, ..)", self.fetch, self.epoch)
    }
}

impl Drop for RecordRequest {
    fn drop(&mut self) {
        self.payload.zeroize();
    }
}

/// A checked message of a scheme with scans.
#[derive(Debug)]
pub enum CheckedRequest<'a> {
    /// A request for the answer of a phase.
    Answer(PhaseRequest<'a>),
    /// A request for a record.
    Record(RecordRequest),
}

/// A checked request for a sealed search. The share is wiped on drop.
#[derive(Debug)]
pub struct SealedRequest {
    /// The scheme's parameters.
    pub sealed: Arc<SealedScheme>,
    /// The number of rows to find.
    pub top: usize,
    /// This server's share of the tables.
    pub share: Zeroizing<Vec<u64>>,
    /// The transcript digest, which identifies the session.
    pub tau: Tau,
    /// Keys of the transcript, for pads and the key-check value.
    pub keys: TranscriptKeys,
    /// The key epoch under which the records must be encoded.
    pub epoch: u32,
}

impl ServerProtocol {
    /// Server `index` (counted from 1) of the manifest with this digest.
    pub fn new(
        index: u8,
        digest: [u8; 32],
        instances: impl IntoIterator<Item = impl Into<Arc<SchemeInstance>>>,
        keys: Vec<RootKey>,
        record_length: usize,
    ) -> ServerProtocol {
        let instances = instances.into_iter().map(Into::into).collect();
        ServerProtocol { index, digest, instances, sealed: None, keys, record_length }
    }

    /// Adds the scheme `sealed`.
    pub fn with_sealed(mut self, sealed: Option<Arc<SealedScheme>>) -> ServerProtocol {
        self.sealed = sealed;
        self
    }

    /// The scheme `sealed`, if the server offers it.
    pub fn sealed(&self) -> Option<&Arc<SealedScheme>> {
        self.sealed.as_ref()
    }

    /// The length of the longest valid message; servers refuse longer bodies unread.
    pub fn longest_message(&self) -> usize {
        let lengths = self.instances.iter().flat_map(|instance| {
            instance.message_kinds().map(|kind| instance.request_length(kind, self.record_length))
        });
        lengths.chain(self.sealed.iter().map(|sealed| sealed.message_length())).max().unwrap_or(0)
    }

    /// The sizes of a record fetch under one of the schemes.
    pub fn fetch(&self, instance: &SchemeInstance) -> RecordFetch {
        instance.record_fetch(self.record_length)
    }

    /// Decodes and checks a message of a scheme with scans.
    pub fn decode(&self, bytes: &[u8]) -> Result<CheckedRequest<'_>, Refusal> {
        self.check(Message::decode(bytes)?)
    }

    /// Checks a decoded message of a scheme with scans.
    pub fn check(&self, mut message: Message) -> Result<CheckedRequest<'_>, Refusal> {
        let header = &message.header;
        if header.digest != self.digest {
            return Err(Refusal::Manifest);
        }
        let offered = |instance: &&Arc<SchemeInstance>| instance.scheme().name == header.scheme;
        let instance = self.instances.iter().find(offered).ok_or_else(|| Refusal::Scheme(header.scheme.clone()))?;
        let scheme: &'static Scheme = instance.scheme();
        let need = match header.kind {
            MessageKind::Phase(phase) if usize::from(phase) < instance.phases() => instance.responders(phase.into()),
            MessageKind::Phase(phase) => return Err(Refusal::Phase { scheme: scheme.name, phase }),
            MessageKind::Record => self.fetch(instance).responders(),
        };
        if header.responders.len() != need
            || header.responders.iter().zip(1..).any(|(&server, expected)| server != expected)
        {
            return Err(Refusal::Responders { need });
        }
        if message.server != self.index || usize::from(self.index) > need {
            return Err(Refusal::Server { meant: message.server, here: self.index });
        }
        let is_first = header.kind == MessageKind::Phase(0);
        if (header.parent == SearchRef::default()) != is_first {
            return Err(Refusal::Parent);
        }
        let key = self.keys.iter().find(|key| key.epoch() == header.epoch).ok_or(Refusal::Epoch(header.epoch))?;
        // BLAKE3 compares hashes in constant time, so that a client cannot guess a ticket byte by
        // byte.
        let valid = key.ticket(scheme.name, &header.parent.tau);
        if !is_first && blake3::hash(&header.parent.ticket) != blake3::hash(&valid) {
            return Err(Refusal::Ticket);
        }
        // The payload size is checked before the commitment, because that is cheaper.
        let fetch = self.fetch(instance);
        let vectors = match header.kind {
            MessageKind::Phase(phase) => Some(instance.unpack_share(phase.into(), &message.payload)?),
            MessageKind::Record if fetch.is_query(&message.payload) => None,
            MessageKind::Record => {
                let (have, need) = (message.payload.len(), fetch.query_length());
                return Err(WireError::Length { what: "the record query", have, need }.into());
            }
        };
        if !message.verify() {
            return Err(Refusal::Commitment);
        }
        if !share_commitments_hold(instance, &message, vectors.as_ref()) {
            return Err(Refusal::ShareCommitment);
        }
        let tau = message.tau();
        let keys = key.transcript(&tau);
        // All steps of a search use the row order of phase 0.
        let search = if is_first { tau } else { header.parent.tau };
        let order_keys = instance.params().shuffle.then(|| key.transcript(&search));
        let response_length = instance.response_length(header.kind, self.record_length);
        Ok(match (header.kind, vectors) {
            (MessageKind::Phase(phase), Some(vectors)) => {
                let (phase, server) = (phase.into(), usize::from(self.index) - 1);
                let program = instance.program(phase, &vectors);
                let ticket = is_first.then(|| key.ticket(scheme.name, &tau));
                CheckedRequest::Answer(PhaseRequest {
                    instance,
                    phase,
                    program,
                    keys,
                    order_keys,
                    server,
                    ticket,
                    search,
                    response_length,
                })
            }
            _ => {
                let payload = std::mem::take(&mut message.payload);
                let epoch = key.epoch();
                CheckedRequest::Record(RecordRequest {
                    fetch,
                    payload,
                    keys,
                    epoch,
                    order_keys,
                    search,
                    response_length,
                })
            }
        })
    }

    /// Checks a decoded message of a sealed search.
    pub fn check_sealed(&self, message: &Message) -> Result<SealedRequest, Refusal> {
        let header = &message.header;
        if header.digest != self.digest {
            return Err(Refusal::Manifest);
        }
        let offered = self.sealed.as_ref().filter(|_| header.scheme == sealed::SCHEME.name);
        let sealed = offered.ok_or_else(|| Refusal::Scheme(header.scheme.clone()))?;
        match header.kind {
            MessageKind::Phase(0) => {}
            MessageKind::Phase(phase) => return Err(Refusal::Phase { scheme: sealed::SCHEME.name, phase }),
            MessageKind::Record => return Err(Refusal::Parent),
        }
        if header.responders[..] != [1, 2, 3] {
            return Err(Refusal::Responders { need: sealed::SERVERS });
        }
        if message.server != self.index || usize::from(self.index) > sealed::SERVERS {
            return Err(Refusal::Server { meant: message.server, here: self.index });
        }
        if header.parent != SearchRef::default()
            || !message.share_commitments.is_empty()
            || message.share_opening.is_some()
        {
            return Err(Refusal::Parent);
        }
        let key = self.keys.iter().find(|key| key.epoch() == header.epoch).ok_or(Refusal::Epoch(header.epoch))?;
        let (top, share) = sealed.decode_payload(&message.payload)?;
        if !message.verify() {
            return Err(Refusal::Commitment);
        }
        let tau = message.tau();
        Ok(SealedRequest { sealed: sealed.clone(), top, share, tau, keys: key.transcript(&tau), epoch: key.epoch() })
    }

    /// The encoded records as this server stores them: for the epoch of `key` and for all schemes.
    pub fn encode_records<'r>(&self, key: &RootKey, records: impl Iterator<Item = &'r [u8]>) -> Vec<Vec<u8>> {
        (0..).zip(records).map(|(row, record)| aont::encode(record, &key.record(&self.digest, row))).collect()
    }

    /// Writes one encoded record to `encoded`.
    pub fn encode_record_into(&self, key: &RootKey, row: u64, record: &[u8], encoded: &mut [u8]) {
        aont::encode_into(record, &key.record(&self.digest, row), encoded);
    }

    /// The complete response to a message, computed from the rows and the records encoded for the
    /// epoch of the message. This is the slow reference for tests and demonstrations; a server
    /// streams the same bytes from a faster scan.
    pub fn respond(&self, bytes: &[u8], rows: &Rows, records: &[Vec<u8>]) -> Result<Vec<u8>, Refusal> {
        match self.decode(bytes)? {
            CheckedRequest::Answer(request) => Ok(request.respond(rows)),
            CheckedRequest::Record(request) => Ok(request.respond(self.index, records)),
        }
    }
}

/// Whether phase 0 has as many share commitments as the scheme requires, phase 1 opens them, and
/// all other messages have none.
fn share_commitments_hold(instance: &SchemeInstance, message: &Message, vectors: Option<&SlotVectors>) -> bool {
    let (Message { header, share_commitments, share_opening, .. }, need) = (message, instance.share_commitments());
    match (header.kind, vectors) {
        (MessageKind::Phase(1..), Some(vectors)) if need > 0 => {
            let responders = (1..=instance.responders(0) as u8).collect();
            let first =
                Header { kind: MessageKind::Phase(0), responders, parent: SearchRef::default(), ..header.clone() };
            let part = Zeroizing::new(wire::pack(instance.field(), instance.committed_slots(vectors).flatten()));
            share_commitments.len() == need && share_commitment::is_opened(message, &first, &part)
        }
        (MessageKind::Phase(0), _) => share_commitments.len() == need && share_opening.is_none(),
        _ => share_commitments.is_empty() && share_opening.is_none(),
    }
}

impl PhaseRequest<'_> {
    /// The row at each position; `None` if the rows are not shuffled.
    pub(crate) fn permutation(&self) -> Option<Vec<u32>> {
        Some(shuffle::permutation(self.order_keys.as_ref()?, self.instance.params().rows))
    }

    /// The bytes before the answer: the key-check value, and in phase 0 the ticket.
    pub fn lead(&self) -> Vec<u8> {
        let mut lead = self.keys.check_value().to_vec();
        lead.extend(self.ticket.iter().flatten());
        lead
    }

    /// The lead, then the packed answer.
    pub(crate) fn respond(&self, rows: &Rows) -> Vec<u8> {
        let (instance, kappa) = (self.instance, self.instance.kappa(self.phase));
        let order = self.permutation();
        let answer = match instance.lifted() {
            Some(format) => self.elements(rows, &self.keys.lifted(format), order.as_deref()),
            None => {
                let outputs = self.program.outputs.len();
                let randomness = self.keys.rows(instance.field(), outputs, kappa, instance.params().d_min);
                self.elements(rows, &randomness, order.as_deref())
            }
        };
        let mut response = self.lead();
        response.extend(instance.pack_answer(&answer));
        response
    }

    fn elements(&self, rows: &Rows, randomness: &impl RowRandomness, order: Option<&[u32]>) -> Vec<FieldElement> {
        self.instance.answer(self.phase, self.server, &self.program, rows, randomness, order)
    }

    /// The evaluation point of this server.
    pub fn alpha(&self) -> FieldElement {
        self.instance.points()[self.server]
    }

    /// The tables that this server adds up, and the numbers that hide the sums, if the gate is
    /// lifted.
    pub fn lifted(&self) -> Option<(LiftedTables, LiftedDraws)> {
        let side = if self.server == 0 { LiftedSide::First } else { LiftedSide::Second };
        Some((self.instance.lifted_tables(&self.program, side)?, self.keys.lifted(self.instance.lifted()?)))
    }
}

impl RecordRequest {
    /// The key-check value, then the padded inner product. `server` counts from 1.
    pub(crate) fn respond(&self, server: u8, records: &[Vec<u8>]) -> Vec<u8> {
        let order = self.order_keys.as_ref().map(|keys| shuffle::permutation(keys, records.len()));
        let record = |p: usize| records[order.as_ref().map_or(p, |order| order[p] as usize)].as_slice();
        let mut product = self.fetch.inner_product(&self.payload, record);
        self.fetch.pad(usize::from(server) - 1, &self.keys, &mut product);
        let mut response = self.keys.check_value().to_vec();
        response.extend(product);
        response
    }
}
