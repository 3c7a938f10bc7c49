//! Binding every answer's randomness to the whole query, without server state.
//!
//! The client commits to each server's payload, `c_n = g^{H(hdr, n, Q_n)}·h^{r_n}`: Pedersen on
//! ristretto255, perfectly hiding, so the commitments to the others' queries tell server n nothing.
//! `τ = H(hdr, c_1..c_N)` keys all randomness of the answers: the same τ means the same query, any
//! other query gets fresh pads.
//!
//! A search's later messages name τ of its first phase as parent and show the ticket that the
//! servers gave for it, so a parent cannot be made up. What the first phase
//! [promises](crate::share_commitment) about the second is part of its τ.

use crate::http_api::{CHECK_LENGTH, Route, TICKET_LENGTH};
use crate::random::RandomSource;
use crate::scheme::instance::SchemeInstance;
use crate::share_commitment::ShareCommitmentOpening;
use crate::wire::{WireError, WireReader};
use curve25519_dalek::constants::RISTRETTO_BASEPOINT_TABLE;
use curve25519_dalek::ristretto::{CompressedRistretto, RistrettoBasepointTable, RistrettoPoint};
use curve25519_dalek::scalar::Scalar;
use std::sync::LazyLock;
use zeroize::Zeroize;

/// The protocol's version, first in every header.
pub const VERSION: u8 = 2;
const MAGIC: &[u8; 6] = b"ifonly";
/// How the wire writes [`Stage::Record`]; no scheme has so many phases.
const RECORD: u8 = 255;

/// τ.
pub type Tau = [u8; 32];

/// What servers give for the first phase of a search, and every later message shows.
pub type Ticket = [u8; TICKET_LENGTH];

/// The search that a message belongs to; all zero in the message that begins it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SearchRef {
    /// τ of the first phase.
    pub tau: Tau,
    /// What the servers gave for it.
    pub ticket: Ticket,
}

/// What a query is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// The answer of a phase, counted from 0.
    Phase(u8),
    /// A record.
    Record,
}

impl MessageKind {
    /// Where such a query is sent.
    pub fn route(self) -> Route {
        match self {
            MessageKind::Phase(_) => Route::Answer,
            MessageKind::Record => Route::Record,
        }
    }

    /// Bytes of a response before the answer itself: the key-check value, and the ticket of a
    /// search that begins.
    pub fn lead(self) -> usize {
        match self {
            MessageKind::Phase(0) => CHECK_LENGTH + TICKET_LENGTH,
            _ => CHECK_LENGTH,
        }
    }
}

/// What all servers of a query see alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The scheme's name.
    pub scheme: String,
    /// What the query is for.
    pub stage: MessageKind,
    /// Which root key.
    pub epoch: u32,
    /// The manifest that the client has read.
    pub digest: [u8; 32],
    /// The servers asked, counted from 1, in order.
    pub responders: Vec<u8>,
    /// The search that it belongs to.
    pub parent: SearchRef,
}

impl Header {
    /// The canonical bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.push(VERSION);
        bytes.push(match self.stage {
            MessageKind::Phase(phase) => phase,
            MessageKind::Record => RECORD,
        });
        bytes.extend(self.epoch.to_le_bytes());
        bytes.extend(self.digest);
        bytes.extend(self.parent.tau);
        bytes.extend(self.parent.ticket);
        for part in [self.scheme.as_bytes(), &self.responders] {
            // Names are chosen by this crate and servers number at most 255, so lengths fit into a
            // byte.
            bytes.push(part.len() as u8);
            bytes.extend(part);
        }
        bytes
    }

    fn read(reader: &mut WireReader<'_>) -> Result<Header, WireError> {
        if &reader.array::<6>("the magic")? != MAGIC {
            return Err(WireError::Value { what: "the magic" });
        }
        let version = reader.byte("the version")?;
        if version != VERSION {
            return Err(WireError::Version { have: version });
        }
        let stage = match reader.byte("the phase")? {
            RECORD => MessageKind::Record,
            phase => MessageKind::Phase(phase),
        };
        let epoch = u32::from_le_bytes(reader.array("the key epoch")?);
        let digest = reader.array("the manifest digest")?;
        let parent = SearchRef { tau: reader.array("the parent")?, ticket: reader.array("the ticket")? };
        let scheme = String::from_utf8(reader.short("the scheme")?.to_vec())
            .map_err(|_| WireError::Value { what: "the scheme" })?;
        let responders = reader.short("the responders")?.to_vec();
        if responders.is_empty() || responders.windows(2).any(|pair| pair[0] >= pair[1]) || responders[0] == 0 {
            return Err(WireError::Value { what: "the responders" });
        }
        Ok(Header { scheme, stage, epoch, digest, responders, parent })
    }
}

/// The message to one server: header, commitments to all payloads, the opening of its own,
/// promises, its payload. The user's copies together hold the secret, so they are wiped on drop.
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    /// What all servers see.
    pub header: Header,
    /// c_1..c_N, in the order of the responders.
    pub commitments: Vec<[u8; 32]>,
    /// Whose message this is, counted from 1.
    pub server: u8,
    /// r_n.
    pub blinding: [u8; 32],
    /// In the first phase, commitments to what the second will use; in the second, the same again.
    /// Empty elsewhere.
    pub promises: Vec<[u8; 32]>,
    /// In the second phase, what shows that the promises are those of the first.
    pub kept: Option<ShareCommitmentOpening>,
    /// Q_n.
    pub payload: Vec<u8>,
}

impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Message(to {}, {:?}, ..)", self.server, self.header)
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        self.payload.zeroize();
        self.blinding.zeroize();
    }
}

impl Message {
    /// The bytes to send.
    pub fn encode(&self) -> Vec<u8> {
        // Exactly as long as needed, so that no copy of a share is left behind by growing.
        let first = self.kept.as_ref().map_or(0, |kept| kept.first.len());
        let length = before_payload(&self.header.scheme, self.commitments.len(), self.promises.len(), first);
        let mut bytes = Vec::with_capacity(length + self.payload.len());
        bytes.extend(self.header.encode());
        bytes.push(self.server);
        bytes.extend(self.commitments.as_flattened());
        bytes.extend(self.blinding);
        // Servers number at most 255, so both counts fit into a byte.
        bytes.push(self.promises.len() as u8);
        bytes.extend(self.promises.as_flattened());
        bytes.push(first as u8);
        if let Some(kept) = &self.kept {
            bytes.extend(kept.first.as_flattened());
            bytes.extend(kept.blinding);
        }
        bytes.extend(&self.payload);
        bytes
    }

    /// Bytes before the payload.
    pub(crate) fn overhead(instance: &SchemeInstance, stage: MessageKind) -> usize {
        let promises = instance.share_commitments();
        let (responders, promises, first) = match stage {
            MessageKind::Phase(0) => (instance.responders(0), promises, 0),
            MessageKind::Phase(phase) if promises > 0 => {
                (instance.responders(phase.into()), promises, instance.responders(0))
            }
            MessageKind::Phase(phase) => (instance.responders(phase.into()), 0, 0),
            MessageKind::Record => (instance.servers(), 0, 0),
        };
        before_payload(instance.scheme().name, responders, promises, first)
    }

    /// A message from its bytes; the payload is whatever follows and is checked later, by the
    /// replica.
    pub fn decode(bytes: &[u8]) -> Result<Message, WireError> {
        let mut reader = WireReader::new(bytes);
        let header = Header::read(&mut reader)?;
        let server = reader.byte("the server")?;
        let commitments = several(&mut reader, header.responders.len(), "a commitment")?;
        let blinding = reader.array("the blinding")?;
        let promises = reader.byte("the number of promises")?;
        let promises = several(&mut reader, promises.into(), "a promise")?;
        let kept = match reader.byte("the number of first commitments")? {
            0 => None,
            count => Some(ShareCommitmentOpening {
                first: several(&mut reader, count.into(), "a first commitment")?,
                blinding: reader.array("the blinding of a promise")?,
            }),
        };
        Ok(Message { header, commitments, server, blinding, promises, kept, payload: reader.rest().to_vec() })
    }

    /// Whether c_n opens to the payload.
    pub(crate) fn verify(&self) -> bool {
        let Some(place) = self.header.responders.iter().position(|&server| server == self.server) else { return false };
        let header = self.header.encode();
        opens(&self.commitments[place], "payload", &header, self.server, &self.payload, self.blinding)
    }

    /// τ.
    pub fn tau(&self) -> Tau {
        tau(&self.header, &self.commitments, &self.promises)
    }
}

/// τ of messages with this header and these commitments and promises.
pub(crate) fn tau(header: &Header, commitments: &[[u8; 32]], promises: &[[u8; 32]]) -> Tau {
    let mut hasher = blake3::Hasher::new_derive_key("ifonly transcript v1");
    hasher.update(&header.encode()).update(commitments.as_flattened()).update(promises.as_flattened());
    *hasher.finalize().as_bytes()
}

pub(crate) fn before_payload(scheme: &str, responders: usize, promises: usize, first: usize) -> usize {
    let header = 6 + 1 + 1 + 4 + 32 + 32 + TICKET_LENGTH + 1 + scheme.len() + 1 + responders;
    let kept = if first > 0 { 32 * first + 32 } else { 0 };
    header + 1 + 32 * responders + 32 + 1 + 32 * promises + 1 + kept
}

fn several(reader: &mut WireReader<'_>, count: usize, what: &'static str) -> Result<Vec<[u8; 32]>, WireError> {
    (0..count).map(|_| reader.array(what)).collect()
}

/// The messages of one query, one per responder, whose payloads are given in their order.
pub fn messages(header: &Header, payloads: Vec<Vec<u8>>, random: &mut (impl RandomSource + ?Sized)) -> Vec<Message> {
    let bytes = header.encode();
    let mut blindings: Vec<Scalar> = payloads.iter().map(|_| uniform_scalar(random)).collect();
    let parts = header.responders.iter().zip(&payloads).zip(&blindings);
    let commitments: Vec<[u8; 32]> =
        parts.map(|((&server, payload), blinding)| commit("payload", &bytes, server, payload, blinding)).collect();
    let parts = header.responders.iter().zip(payloads).zip(&blindings);
    let messages = parts
        .map(|((&server, payload), blinding)| Message {
            header: header.clone(),
            commitments: commitments.clone(),
            server,
            blinding: blinding.to_bytes(),
            promises: vec![],
            kept: None,
            payload,
        })
        .collect();
    blindings.zeroize();
    messages
}

/// `g^{H(hdr, n, Q_n)}·h^r`; what kind of bytes Q_n are is part of the hash.
pub(crate) fn commit(kind: &str, header: &[u8], server: u8, payload: &[u8], blinding: &Scalar) -> [u8; 32] {
    // Nobody knows the logarithm of h to the base g: it is hashed to the group.
    static H: LazyLock<RistrettoBasepointTable> =
        LazyLock::new(|| RistrettoBasepointTable::create(&RistrettoPoint::from_uniform_bytes(&wide("h", &[]))));
    let length = (header.len() as u64).to_le_bytes();
    let exponent = Scalar::from_bytes_mod_order_wide(&wide(kind, &[&length, header, &[server], payload]));
    let commitment: CompressedRistretto = (RISTRETTO_BASEPOINT_TABLE * &exponent + &*H * blinding).compress();
    commitment.to_bytes()
}

/// Whether a commitment opens to these bytes.
pub(crate) fn opens(
    commitment: &[u8; 32],
    kind: &str,
    header: &[u8],
    server: u8,
    payload: &[u8],
    blinding: [u8; 32],
) -> bool {
    let blinding: Option<Scalar> = Scalar::from_canonical_bytes(blinding).into();
    blinding.is_some_and(|blinding| commit(kind, header, server, payload, &blinding) == *commitment)
}

fn wide(label: &str, parts: &[&[u8]]) -> [u8; 64] {
    let mut hasher = blake3::Hasher::new_derive_key("ifonly commitment v1");
    hasher.update(&(label.len() as u64).to_le_bytes()).update(label.as_bytes());
    parts.iter().for_each(|part| {
        hasher.update(part);
    });
    let mut bytes = [0; 64];
    hasher.finalize_xof().fill(&mut bytes);
    bytes
}

/// Exactly uniform, by rejection: a reduction of wide bytes would be hiding only almost perfectly.
pub(crate) fn uniform_scalar(random: &mut (impl RandomSource + ?Sized)) -> Scalar {
    loop {
        let mut bytes = [0; 32];
        random.fill(&mut bytes);
        // The group order is a little above 2^252.
        bytes[31] &= 0x1f;
        let scalar = Option::from(Scalar::from_canonical_bytes(bytes));
        bytes.zeroize();
        if let Some(scalar) = scalar {
            return scalar;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SeededRandom;

    fn header() -> Header {
        Header {
            scheme: "baseline".into(),
            stage: MessageKind::Phase(0),
            epoch: 3,
            digest: [4; 32],
            responders: vec![1, 2],
            parent: SearchRef::default(),
        }
    }

    /// Gives these bytes, one entry per draw.
    struct Queue(Vec<[u8; 32]>);

    impl RandomSource for Queue {
        fn fill(&mut self, bytes: &mut [u8]) {
            bytes.copy_from_slice(&self.0.remove(0));
        }
    }

    #[test]
    fn messages_round_trip_and_open() {
        let messages = messages(&header(), vec![vec![1, 2, 3], vec![9; 5]], &mut SeededRandom::new(7));
        for message in &messages {
            let bytes = message.encode();
            assert_eq!(bytes.len(), before_payload("baseline", 2, 0, 0) + message.payload.len());
            assert_eq!(Message::decode(&bytes).as_ref(), Ok(message));
            assert!(message.verify());
            assert_eq!(message.tau(), messages[0].tau());
            for cut in 0..before_payload("baseline", 2, 0, 0) {
                assert!(Message::decode(&bytes[..cut]).is_err(), "{cut}");
            }
        }
    }

    #[test]
    fn any_change_of_a_message_breaks_its_commitment_or_changes_tau() {
        let message = messages(&header(), vec![vec![1, 2, 3], vec![4]], &mut SeededRandom::new(8)).remove(0);
        let bytes = message.encode();
        for place in 0..bytes.len() {
            let mut bent = bytes.clone();
            bent[place] ^= 1;
            if let Ok(bent) = Message::decode(&bent) {
                assert!(!bent.verify() || bent.tau() != message.tau(), "byte {place}");
            }
        }
    }

    #[test]
    fn every_commitment_is_blinded_by_a_draw_of_its_own() {
        // Small numbers are scalars as they are, so the draws are the blindings, first in one
        // order, then in another.
        let draws = |first: u8, second: u8| {
            let scalar = |byte| {
                let mut bytes = [0; 32];
                bytes[0] = byte;
                bytes
            };
            messages(&header(), vec![vec![1, 2, 3], vec![1, 2, 3]], &mut Queue(vec![scalar(first), scalar(second)]))
        };
        let commitments = |messages: &[Message]| messages[0].commitments.clone();
        let (first, other, swapped) = (draws(5, 6), draws(5, 7), draws(6, 5));
        assert_eq!(first.iter().map(|message| message.blinding[0]).collect::<Vec<_>>(), [5, 6]);
        assert!([&first, &other, &swapped].iter().all(|messages| messages.iter().all(Message::verify)));
        // A commitment depends on its own blinding and on no other.
        assert_eq!(commitments(&first)[0], commitments(&other)[0]);
        assert_ne!(commitments(&first)[1], commitments(&other)[1]);
        assert_ne!(commitments(&first)[0], commitments(&swapped)[0]);
        // Whoever knows the payload but not the blinding cannot recognise it: without h, only one
        // commitment is possible.
        let bare = commit("payload", &header().encode(), 1, &[1, 2, 3], &Scalar::ZERO);
        assert!([&first, &swapped].iter().all(|messages| messages[0].commitments[0] != bare));
    }

    #[test]
    fn blindings_are_uniform_by_rejection_and_move_a_commitment_along_h() {
        // g^m·h^r is perfectly hiding when r is uniform and h generates the group: then h^r alone
        // is uniform. The group has prime order, so any h but the identity generates it, and r must
        // be below the order, never reduced.
        let minus_one = -Scalar::ONE;
        let mut order = minus_one.to_bytes();
        order[0] += 1;
        assert_eq!(uniform_scalar(&mut Queue(vec![order, [0xff; 32], minus_one.to_bytes()])), minus_one);
        let point = |payload: &[u8], blinding: Scalar| {
            CompressedRistretto(commit("payload", b"header", 1, payload, &blinding)).decompress().unwrap()
        };
        let step = point(b"a", Scalar::ONE) - point(b"a", Scalar::ZERO);
        assert_ne!(step, RistrettoPoint::default());
        assert_eq!(point(b"b", Scalar::from(7u8)) - point(b"b", Scalar::ZERO), step * Scalar::from(7u8));
    }
}
