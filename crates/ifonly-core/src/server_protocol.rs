//! One server's side of the protocol: open a message, check it, say what to compute. The scan
//! itself is somebody else's.

use crate::field::FieldElement;
use crate::keys::{RootKey, TranscriptKeys};
use crate::row_function::{self, RowProgram, Rows, ScanJob};
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

/// What a server refuses, and why. All of these are the client's fault; none depends on what the
/// query hides.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The bytes are no message.
    #[error("malformed message: {0}")]
    Malformed(WireError),
    /// Another version of the protocol.
    #[error("this server speaks version {VERSION} of the protocol, not version {0}")]
    Version(u8),
    /// Another manifest.
    #[error("the query was made for another manifest; fetch the manifest again")]
    Manifest,
    /// A scheme that is not offered.
    #[error("scheme {0:?} is not offered here; the manifest lists what is")]
    Scheme(String),
    /// A phase that the scheme does not have.
    #[error("scheme {scheme} has no phase {phase}")]
    Phase {
        /// The scheme.
        scheme: &'static str,
        /// As received.
        phase: u8,
    },
    /// A key epoch that is not served.
    #[error("key epoch {0} is not served here; fetch the manifest again")]
    Epoch(u32),
    /// The responders are not those of the scheme.
    #[error("this phase asks servers 1 to {need}")]
    Responders {
        /// How many.
        need: usize,
    },
    /// A message for another server.
    #[error("this message is for server {meant}, not for server {here}")]
    Server {
        /// Whom it names.
        meant: u8,
        /// Who received it.
        here: u8,
    },
    /// The first phase has no parent, every other one has.
    #[error("the first phase of a search has no parent, and every other message has one")]
    Parent,
    /// A search that was not begun here, or not with this scheme.
    #[error("the ticket is not the one that servers gave for the first phase of a search with this scheme")]
    Ticket,
    /// The second phase does not use what the first promised.
    #[error("the message does not keep what the first phase of its search promised")]
    Promise,
    /// A sealed search where the others are not to be reached.
    #[error("a sealed search takes three servers that reach each other, and this one reaches nobody")]
    Alone,
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

/// What a server serves: the schemes of a manifest, under some key epochs.
#[derive(Clone, Debug)]
pub struct ServerProtocol {
    index: u8,
    digest: [u8; 32],
    instances: Vec<Arc<SchemeInstance>>,
    sealed: Option<Arc<SealedScheme>>,
    keys: Vec<RootKey>,
    record_length: usize,
}

/// A checked request for a phase's answer.
#[derive(Debug)]
pub struct PhaseRequest<'a> {
    /// The scheme's deployment.
    pub instance: &'a SchemeInstance,
    /// Which phase.
    pub phase: usize,
    /// What to compute per row.
    pub program: RowProgram,
    /// The transcript's randomness.
    pub keys: TranscriptKeys,
    /// Where the order of the rows comes from; `None` for the stored order.
    pub order_keys: Option<TranscriptKeys>,
    /// This server's point.
    pub alpha: FieldElement,
    /// For a search that begins: what its later messages must show.
    pub ticket: Option<Ticket>,
}

/// A checked request for a record. Its payload is a share: wiped on drop, never printed.
pub struct RecordRequest {
    /// The sizes.
    pub fetch: RecordFetch,
    /// The selection.
    pub payload: Vec<u8>,
    /// The transcript's randomness.
    pub keys: TranscriptKeys,
    /// Under which epoch's key the records must be sealed.
    pub epoch: u32,
    /// Where the order of the rows comes from; `None` for the stored order.
    pub order_keys: Option<TranscriptKeys>,
}

impl std::fmt::Debug for RecordRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FetchAsk({:?}, epoch {}, ..)", self.fetch, self.epoch)
    }
}

impl Drop for RecordRequest {
    fn drop(&mut self) {
        self.payload.zeroize();
    }
}

/// What a message asks for.
#[derive(Debug)]
pub enum CheckedRequest<'a> {
    /// A phase's answer.
    Answer(PhaseRequest<'a>),
    /// A record.
    Record(RecordRequest),
    /// A part in a search of three servers among themselves.
    Sealed(SealedRequest),
}

/// A checked request for a sealed search. The share is wiped on drop.
#[derive(Debug)]
pub struct SealedRequest {
    /// The scheme's parameters.
    pub sealed: Arc<SealedScheme>,
    /// How many rows to find.
    pub top: usize,
    /// This server's share of the tables.
    pub share: Zeroizing<Vec<u64>>,
    /// The transcript, which names the session.
    pub tau: Tau,
    /// The transcript's randomness.
    pub keys: TranscriptKeys,
    /// Under which epoch's key the records must be sealed.
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

    /// The same, one of three that also search among themselves.
    pub fn with_sealed(mut self, sealed: Option<Arc<SealedScheme>>) -> ServerProtocol {
        self.sealed = sealed;
        self
    }

    /// The sealed search, if it is one of three.
    pub fn sealed(&self) -> Option<&Arc<SealedScheme>> {
        self.sealed.as_ref()
    }

    /// The longest message that can be meant for this server: a limit before anything is read.
    pub fn longest_message(&self) -> usize {
        let instances = self.instances.iter();
        let lengths = instances.flat_map(|instance| {
            let phases = (0..instance.phases()).filter_map(|phase| {
                let elements = instance.slot_lengths(phase).iter().sum();
                let payload = wire::packed_length(instance.field(), elements)?;
                Some(Message::overhead(instance, MessageKind::Phase(phase as u8)) + payload)
            });
            let record = Message::overhead(instance, MessageKind::Record) + self.fetch(instance).query_length();
            phases.chain([record])
        });
        lengths.chain(self.sealed.iter().map(|sealed| sealed.message_length())).max().unwrap_or(0)
    }

    /// The sizes of a record fetch under one of the schemes.
    pub fn fetch(&self, instance: &SchemeInstance) -> RecordFetch {
        RecordFetch::new(instance.params(), instance.servers(), self.record_length)
    }

    /// Reads a message, checks it and says what it asks for.
    pub fn open(&self, bytes: &[u8]) -> Result<CheckedRequest<'_>, Refusal> {
        self.check(Message::decode(bytes)?)
    }

    /// Checks a message and says what it asks for.
    pub fn check(&self, mut message: Message) -> Result<CheckedRequest<'_>, Refusal> {
        let header = &message.header;
        if header.digest != self.digest {
            return Err(Refusal::Manifest);
        }
        if let Some(sealed) = self.sealed.as_ref().filter(|_| header.scheme == sealed::SCHEME.name) {
            return self.check_sealed(sealed, &message).map(CheckedRequest::Sealed);
        }
        let offered = |instance: &&Arc<SchemeInstance>| instance.scheme().name == header.scheme;
        let instance = self.instances.iter().find(offered).ok_or_else(|| Refusal::Scheme(header.scheme.clone()))?;
        let scheme: &'static Scheme = instance.scheme();
        let need = match header.stage {
            MessageKind::Phase(phase) if usize::from(phase) < instance.phases() => instance.responders(phase.into()),
            MessageKind::Phase(phase) => return Err(Refusal::Phase { scheme: scheme.name, phase }),
            MessageKind::Record => instance.servers(),
        };
        if header.responders.len() != need || header.responders.iter().zip(1..).any(|(&n, place)| n != place) {
            return Err(Refusal::Responders { need });
        }
        if message.server != self.index || usize::from(self.index) > need {
            return Err(Refusal::Server { meant: message.server, here: self.index });
        }
        let is_first = header.stage == MessageKind::Phase(0);
        if (header.parent == SearchRef::default()) != is_first {
            return Err(Refusal::Parent);
        }
        let key = self.keys.iter().find(|key| key.epoch() == header.epoch).ok_or(Refusal::Epoch(header.epoch))?;
        // Hashes are compared in constant time, so that nobody finds a ticket byte by byte.
        let given = key.ticket(scheme.name, &header.parent.tau);
        if !is_first && blake3::hash(&header.parent.ticket) != blake3::hash(&given) {
            return Err(Refusal::Ticket);
        }
        // Before the commitment, because it is cheaper: the payload must have exactly the size that
        // the scheme says.
        let fetch = self.fetch(instance);
        let vectors = match header.stage {
            MessageKind::Phase(phase) => Some(vectors(instance, phase.into(), &message.payload)?),
            MessageKind::Record if fetch.is_query(&message.payload) => None,
            MessageKind::Record => {
                let (have, need) = (message.payload.len(), fetch.query_length());
                return Err(WireError::Length { what: "the record query", have, need }.into());
            }
        };
        if !message.verify() {
            return Err(Refusal::Commitment);
        }
        if !keeps_promises(instance, &message, vectors.as_ref()) {
            return Err(Refusal::Promise);
        }
        let tau = message.tau();
        let keys = key.transcript(&tau);
        // The whole search has one order: that of its first phase.
        let first = if is_first { tau } else { header.parent.tau };
        let order_keys = instance.params().shuffle.then(|| key.transcript(&first));
        Ok(match (header.stage, vectors) {
            (MessageKind::Phase(phase), Some(vectors)) => {
                let (phase, alpha) = (phase.into(), instance.points()[usize::from(self.index) - 1]);
                let program = instance.program(phase, &vectors);
                let ticket = is_first.then(|| key.ticket(scheme.name, &tau));
                CheckedRequest::Answer(PhaseRequest { program, instance, phase, keys, order_keys, alpha, ticket })
            }
            _ => {
                let payload = std::mem::take(&mut message.payload);
                CheckedRequest::Record(RecordRequest { fetch, payload, keys, epoch: key.epoch(), order_keys })
            }
        })
    }

    fn check_sealed(&self, sealed: &Arc<SealedScheme>, message: &Message) -> Result<SealedRequest, Refusal> {
        let header = &message.header;
        match header.stage {
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
        if header.parent != SearchRef::default() || !message.promises.is_empty() || message.kept.is_some() {
            return Err(Refusal::Parent);
        }
        let key = self.keys.iter().find(|key| key.epoch() == header.epoch).ok_or(Refusal::Epoch(header.epoch))?;
        let (top, share) = sealed.open(&message.payload)?;
        if !message.verify() {
            return Err(Refusal::Commitment);
        }
        let tau = message.tau();
        Ok(SealedRequest { sealed: sealed.clone(), top, share, tau, keys: key.transcript(&tau), epoch: key.epoch() })
    }

    /// The sealed records as this server stores them, for the epoch of `key` and all schemes alike.
    pub fn encode_records<'r>(&self, key: &RootKey, records: impl Iterator<Item = &'r [u8]>) -> Vec<Vec<u8>> {
        (0..).zip(records).map(|(row, record)| aont::encode(record, &key.record(&self.digest, row))).collect()
    }

    /// One of them to where it is stored.
    pub fn encode_record_into(&self, key: &RootKey, row: u64, record: &[u8], sealed: &mut [u8]) {
        aont::seal_into(record, &key.record(&self.digest, row), sealed);
    }

    /// The whole response to a message, computed plainly from rows and the records sealed for its
    /// epoch. Tests and demonstrations use it; a server streams the same bytes from a faster scan.
    pub fn respond(&self, bytes: &[u8], rows: &Rows, records: &[Vec<u8>]) -> Result<Vec<u8>, Refusal> {
        match self.open(bytes)? {
            CheckedRequest::Answer(ask) => Ok(ask.respond(rows)),
            CheckedRequest::Record(ask) => Ok(ask.respond(self.index, records)),
            CheckedRequest::Sealed(_) => Err(Refusal::Alone),
        }
    }
}

/// Whether the first phase promises as much as the scheme wants, the second keeps it, and nothing
/// else speaks of promises.
fn keeps_promises(instance: &SchemeInstance, message: &Message, vectors: Option<&SlotVectors>) -> bool {
    let (Message { header, promises, kept, .. }, need) = (message, instance.share_commitments());
    match (header.stage, vectors) {
        (MessageKind::Phase(1..), Some(vectors)) if need > 0 => {
            let responders = (1..=instance.responders(0) as u8).collect();
            let first =
                Header { stage: MessageKind::Phase(0), responders, parent: SearchRef::default(), ..header.clone() };
            let part = Zeroizing::new(wire::pack(instance.field(), instance.promised(vectors).flatten()));
            promises.len() == need && share_commitment::is_opened(message, &first, &part)
        }
        (MessageKind::Phase(0), _) => promises.len() == need && kept.is_none(),
        _ => promises.is_empty() && kept.is_none(),
    }
}

/// The shares in a payload.
fn vectors(instance: &SchemeInstance, phase: usize, payload: &[u8]) -> Result<SlotVectors, WireError> {
    let lengths = instance.slot_lengths(phase);
    let elements = Zeroizing::new(wire::unpack(instance.field(), payload, lengths.iter().sum())?);
    let mut rest = elements.as_slice();
    let vectors = lengths.iter().map(|&length| {
        let (vector, tail) = rest.split_at(length);
        rest = tail;
        vector.to_vec()
    });
    Ok(SlotVectors::new(vectors.collect::<Vec<_>>()))
}

impl PhaseRequest<'_> {
    /// `order[p]`, if the rows are shuffled.
    pub(crate) fn permutation(&self) -> Option<Vec<u32>> {
        Some(shuffle::permutation(self.order_keys.as_ref()?, self.instance.params().rows))
    }

    /// What comes before the answer itself: the key-check value, and the ticket of a search that
    /// begins.
    pub fn lead(&self) -> Vec<u8> {
        let mut lead = self.keys.check_value().to_vec();
        lead.extend(self.ticket.iter().flatten());
        lead
    }

    /// The lead, then the packed answer.
    pub(crate) fn respond(&self, rows: &Rows) -> Vec<u8> {
        let (field, kappa) = (self.instance.field(), self.instance.kappa(self.phase));
        let order = self.permutation();
        let job = ScanJob { field, alpha: self.alpha, kappa, program: &self.program, order: order.as_deref() };
        let randomness = self.keys.rows(field, self.program.outputs.len(), kappa, self.instance.params().d_min);
        let mut response = self.lead();
        response.extend(wire::pack(field, &row_function::answer(&job, rows, &randomness)));
        response
    }
}

impl RecordRequest {
    /// Key-check value, then the padded inner product. `server` counts from 1.
    pub(crate) fn respond(&self, server: u8, sealed: &[Vec<u8>]) -> Vec<u8> {
        let order = self.order_keys.as_ref().map(|keys| shuffle::permutation(keys, sealed.len()));
        let record = |p: usize| sealed[order.as_ref().map_or(p, |order| order[p] as usize)].as_slice();
        let mut product = self.fetch.inner_product(&self.payload, record);
        self.fetch.pad(usize::from(server) - 1, &self.keys, &mut product);
        let mut response = self.keys.check_value().to_vec();
        response.extend(product);
        response
    }
}
