//! Messages and their transcript digest, which binds the randomness of all answers to the whole
//! query without server state (docs/protocol.md, section 4).
//!
//! The client commits to the payload of each server, `c_n = g^{H(hdr, n, Q_n)}·h^{r_n}`. These are
//! Pedersen commitments in ristretto255. They are perfectly hiding, so server n learns nothing
//! about the queries of the other servers. `τ = H(hdr, c_1..c_N)` keys all randomness of the
//! answers: equal τ means equal queries, and any other query gets fresh pads.
//!
//! Later messages of a search contain τ of phase 0 as parent and the ticket that the servers issued
//! for it, so a client cannot invent a parent. τ of phase 0 also covers the [share
//! commitments](crate::share_commitment).

use crate::http_api::{CHECK_LENGTH, Route, TICKET_LENGTH};
use crate::random::RandomSource;
use crate::share_commitment::ShareCommitmentOpening;
use crate::wire::{WireError, WireReader};
use curve25519_dalek::constants::RISTRETTO_BASEPOINT_TABLE;
use curve25519_dalek::ristretto::{CompressedRistretto, RistrettoBasepointTable, RistrettoPoint};
use curve25519_dalek::scalar::Scalar;
use std::sync::LazyLock;
use zeroize::Zeroize;

/// Protocol version, in every header.
pub const VERSION: u8 = 3;
const MAGIC: &[u8; 6] = b"ifonly";
/// The phase byte of [`MessageKind::Record`]; no scheme has that many phases.
const RECORD: u8 = 255;

/// τ.
pub type Tau = [u8; 32];

/// Keyed hash that proves that the servers answered phase 0; every later message contains it.
pub type Ticket = [u8; TICKET_LENGTH];

/// The search of a later message; all zero in phase 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SearchRef {
    /// τ of phase 0.
    pub tau: Tau,
    /// The ticket for it.
    pub ticket: Ticket,
}

/// What a query is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// A query for the answer of a phase, counted from 0.
    Phase(u8),
    /// A query for a record.
    Record,
}

impl MessageKind {
    /// The path of such a query.
    pub fn route(self) -> Route {
        match self {
            MessageKind::Phase(_) => Route::Answer,
            MessageKind::Record => Route::Record,
        }
    }

    /// Length of the lead of a response: the key-check value, and in phase 0 the ticket.
    pub fn lead(self) -> usize {
        match self {
            MessageKind::Phase(0) => CHECK_LENGTH + TICKET_LENGTH,
            _ => CHECK_LENGTH,
        }
    }
}

/// The part of a message that is the same for all servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The scheme's name.
    pub scheme: String,
    /// What the query is for.
    pub kind: MessageKind,
    /// The key epoch.
    pub epoch: u32,
    /// The digest of the manifest that the client uses.
    pub digest: [u8; 32],
    /// The queried servers, counted from 1, in order.
    pub responders: Vec<u8>,
    /// The search of a later message.
    pub parent: SearchRef,
}

impl Header {
    /// The canonical bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.push(VERSION);
        bytes.push(match self.kind {
            MessageKind::Phase(phase) => phase,
            MessageKind::Record => RECORD,
        });
        bytes.extend(self.epoch.to_le_bytes());
        bytes.extend(self.digest);
        bytes.extend(self.parent.tau);
        bytes.extend(self.parent.ticket);
        for part in [self.scheme.as_bytes(), &self.responders] {
            // Scheme names are defined in this crate and there are at most 255 servers, so both
            // lengths fit into a byte.
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
        let kind = match reader.byte("the phase")? {
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
        Ok(Header { scheme, kind, epoch, digest, responders, parent })
    }
}

/// The message to one server: header, commitments to all payloads, the blinding of this server's
/// commitment, share commitments, payload. All messages of a query together determine the secret,
/// so they are wiped on drop.
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    /// The common header.
    pub header: Header,
    /// c_1..c_N, in the order of the responders.
    pub commitments: Vec<[u8; 32]>,
    /// The recipient, counted from 1.
    pub server: u8,
    /// r_n.
    pub blinding: [u8; 32],
    /// In phase 0 of two-phase schemes, commitments to the shares of phase 1; in phase 1, the same
    /// again. Empty in other messages.
    pub share_commitments: Vec<[u8; 32]>,
    /// In phase 1 of two-phase schemes, the opening of the share commitments.
    pub share_opening: Option<ShareCommitmentOpening>,
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
        // Allocated with the exact length, because growing would leave unwiped copies of a share.
        let first = self.share_opening.as_ref().map_or(0, |opening| opening.first_commitments.len());
        let length = before_payload(&self.header.scheme, self.commitments.len(), self.share_commitments.len(), first);
        let mut bytes = Vec::with_capacity(length + self.payload.len());
        bytes.extend(self.header.encode());
        bytes.push(self.server);
        bytes.extend(self.commitments.as_flattened());
        bytes.extend(self.blinding);
        // There are at most 255 servers, so both counts fit into a byte.
        bytes.push(self.share_commitments.len() as u8);
        bytes.extend(self.share_commitments.as_flattened());
        bytes.push(first as u8);
        if let Some(opening) = &self.share_opening {
            bytes.extend(opening.first_commitments.as_flattened());
            bytes.extend(opening.blinding);
        }
        bytes.extend(&self.payload);
        bytes
    }

    /// Decodes a message. The payload is the rest of the bytes; [`crate::server_protocol`] checks
    /// it.
    pub fn decode(bytes: &[u8]) -> Result<Message, WireError> {
        let mut reader = WireReader::new(bytes);
        let header = Header::read(&mut reader)?;
        let server = reader.byte("the server")?;
        let commitments = several(&mut reader, header.responders.len(), "a commitment")?;
        let blinding = reader.array("the blinding")?;
        let share_commitments = reader.byte("the number of share commitments")?;
        let share_commitments = several(&mut reader, share_commitments.into(), "a share commitment")?;
        let share_opening = match reader.byte("the number of first commitments")? {
            0 => None,
            count => Some(ShareCommitmentOpening {
                first_commitments: several(&mut reader, count.into(), "a first commitment")?,
                blinding: reader.array("the share blinding")?,
            }),
        };
        Ok(Message {
            header,
            commitments,
            server,
            blinding,
            share_commitments,
            share_opening,
            payload: reader.rest().to_vec(),
        })
    }

    /// Whether c_n opens to the payload.
    pub(crate) fn verify(&self) -> bool {
        let Some(index) = self.header.responders.iter().position(|&server| server == self.server) else { return false };
        let header = self.header.encode();
        opens(&self.commitments[index], "payload", &header, self.server, &self.payload, self.blinding)
    }

    /// τ.
    pub fn tau(&self) -> Tau {
        tau(&self.header, &self.commitments, &self.share_commitments)
    }
}

/// τ of messages with this header, these commitments and these share commitments.
pub(crate) fn tau(header: &Header, commitments: &[[u8; 32]], share_commitments: &[[u8; 32]]) -> Tau {
    let mut hasher = blake3::Hasher::new_derive_key("ifonly transcript v1");
    hasher.update(&header.encode()).update(commitments.as_flattened()).update(share_commitments.as_flattened());
    *hasher.finalize().as_bytes()
}

pub(crate) fn before_payload(scheme: &str, responders: usize, share_commitments: usize, first: usize) -> usize {
    let header = 6 + 1 + 1 + 4 + 32 + 32 + TICKET_LENGTH + 1 + scheme.len() + 1 + responders;
    let opening = if first > 0 { 32 * first + 32 } else { 0 };
    header + 1 + 32 * responders + 32 + 1 + 32 * share_commitments + 1 + opening
}

fn several(reader: &mut WireReader<'_>, count: usize, what: &'static str) -> Result<Vec<[u8; 32]>, WireError> {
    (0..count).map(|_| reader.array(what)).collect()
}

/// The messages of one query, one per responder, with these payloads in order.
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
            share_commitments: vec![],
            share_opening: None,
            payload,
        })
        .collect();
    blindings.zeroize();
    messages
}

/// `g^{H(hdr, n, Q_n)}·h^r`. The hash includes `kind`, the kind of bytes Q_n.
pub(crate) fn commit(kind: &str, header: &[u8], server: u8, payload: &[u8], blinding: &Scalar) -> [u8; 32] {
    // h is hashed to the group, so no party knows its logarithm to the base g.
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

/// Exactly uniform, by rejection. Reduction of wide bytes would make commitments only almost
/// perfectly hiding.
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
            kind: MessageKind::Phase(0),
            epoch: 3,
            digest: [4; 32],
            responders: vec![1, 2],
            parent: SearchRef::default(),
        }
    }

    /// Returns these bytes, one entry per draw.
    struct QueuedRandom(Vec<[u8; 32]>);

    impl RandomSource for QueuedRandom {
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
        for index in 0..bytes.len() {
            let mut altered = bytes.clone();
            altered[index] ^= 1;
            if let Ok(altered) = Message::decode(&altered) {
                assert!(!altered.verify() || altered.tau() != message.tau(), "byte {index}");
            }
        }
    }

    #[test]
    fn every_commitment_is_blinded_by_a_draw_of_its_own() {
        // Small numbers are canonical scalars, so the draws are the blindings.
        let draws = |first: u8, second: u8| {
            let scalar = |byte| {
                let mut bytes = [0; 32];
                bytes[0] = byte;
                bytes
            };
            messages(
                &header(),
                vec![vec![1, 2, 3], vec![1, 2, 3]],
                &mut QueuedRandom(vec![scalar(first), scalar(second)]),
            )
        };
        let commitments = |messages: &[Message]| messages[0].commitments.clone();
        let (first, other, swapped) = (draws(5, 6), draws(5, 7), draws(6, 5));
        assert_eq!(first.iter().map(|message| message.blinding[0]).collect::<Vec<_>>(), [5, 6]);
        assert!([&first, &other, &swapped].iter().all(|messages| messages.iter().all(Message::verify)));
        // A commitment depends only on its own blinding.
        assert_eq!(commitments(&first)[0], commitments(&other)[0]);
        assert_ne!(commitments(&first)[1], commitments(&other)[1]);
        assert_ne!(commitments(&first)[0], commitments(&swapped)[0]);
        // An observer who knows the payload but not the blinding cannot recognise the commitment.
        // Without h, only one commitment would be possible.
        let bare = commit("payload", &header().encode(), 1, &[1, 2, 3], &Scalar::ZERO);
        assert!([&first, &swapped].iter().all(|messages| messages[0].commitments[0] != bare));
    }

    #[test]
    fn blindings_are_uniform_by_rejection_and_move_a_commitment_along_h() {
        // g^m·h^r is perfectly hiding if r is uniform and h generates the group, because h^r is
        // then uniform. The group has prime order, so every h except the identity generates it. r
        // must be drawn below the order, never reduced.
        let minus_one = -Scalar::ONE;
        let mut order = minus_one.to_bytes();
        order[0] += 1;
        assert_eq!(uniform_scalar(&mut QueuedRandom(vec![order, [0xff; 32], minus_one.to_bytes()])), minus_one);
        let point = |payload: &[u8], blinding: Scalar| {
            CompressedRistretto(commit("payload", b"header", 1, payload, &blinding)).decompress().unwrap()
        };
        let step = point(b"a", Scalar::ONE) - point(b"a", Scalar::ZERO);
        assert_ne!(step, RistrettoPoint::default());
        assert_eq!(point(b"b", Scalar::from(7u8)) - point(b"b", Scalar::ZERO), step * Scalar::from(7u8));
    }
}
