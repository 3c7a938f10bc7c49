//! The randomness that the servers share: root keys, epochs, and labelled random-access streams.
//!
//! `K_τ = BLAKE3_keyed(root, "transcript" ‖ τ)`. Every purpose has a stream of its own under K_τ:
//! AES-128 in counter mode, with the key from `BLAKE3_keyed(K_τ, label)`. A label is a [`Purpose`],
//! six bytes that no two purposes share, and a purpose fixes what its numbers are (uniform,
//! non-zero, below d_min), so one index cannot serve two ends.
//!
//! A number of position i is the little-endian word at offset `i·width` of the stream, masked to
//! the bits it needs; its width is as many bytes as hold these bits, or 8 if that is more than 4.
//! Words that are not below the limit are drawn again from blocks that no position reaches: block
//! counter `2^127 + i·2^32 + attempt`. The result is exactly uniform and every row can be computed
//! anywhere.

use crate::field::{Field, FieldElement};
use crate::random::{RandomSource, mask_for};
use crate::row_function::RowRandomness;
use aes::Aes128;
use aes::cipher::{BlockCipherEncrypt, KeyInit};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// Bytes of the key-check value with which every response begins.
pub const CHECK_LENGTH: usize = 16;
/// Bytes of the ticket that follows it in the response to the first phase of a search.
pub const TICKET_LENGTH: usize = 16;

/// The servers' common secret for one key epoch.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct RootKey {
    bytes: [u8; 32],
    #[zeroize(skip)]
    epoch: u32,
}

impl RootKey {
    /// The key of `epoch`.
    pub fn new(epoch: u32, bytes: [u8; 32]) -> RootKey {
        RootKey { bytes, epoch }
    }

    /// A fresh key.
    pub fn generate(epoch: u32, random: &mut impl RandomSource) -> RootKey {
        let mut bytes = [0; 32];
        random.fill(&mut bytes);
        let key = RootKey { bytes, epoch };
        bytes.zeroize();
        key
    }

    /// Which epoch this key is for; the client's header names it.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// The 32 bytes, for a key file.
    pub fn expose(&self) -> &[u8; 32] {
        &self.bytes
    }

    /// The keys of one transcript.
    pub fn transcript(&self, tau: &[u8; 32]) -> TranscriptKeys {
        TranscriptKeys { key: derive(&self.bytes, &[b"transcript", &self.epoch.to_le_bytes(), tau]) }
    }

    /// What shows that a search with this scheme and this τ of its first phase was begun at a
    /// server with this key.
    pub fn ticket(&self, scheme: &str, tau: &[u8; 32]) -> [u8; TICKET_LENGTH] {
        let whole = derive(&self.bytes, &[b"ticket", &self.epoch.to_le_bytes(), scheme.as_bytes(), tau]);
        let mut ticket = [0; TICKET_LENGTH];
        ticket.copy_from_slice(&whole[..TICKET_LENGTH]);
        ticket
    }

    /// A key for the all-or-nothing encoding of stored record `row`, the same at all servers of
    /// this epoch.
    pub fn record(&self, digest: &[u8; 32], row: u64) -> [u8; 16] {
        let key: [u8; 32] = derive(&self.bytes, &[b"record", &self.epoch.to_le_bytes(), digest, &row.to_le_bytes()]);
        let mut short = [0; 16];
        short.copy_from_slice(&key[..16]);
        short
    }
}

impl std::fmt::Debug for RootKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RootKey(epoch {}, ..)", self.epoch)
    }
}

/// BLAKE3 keyed by `key` over the parts, each preceded by its length so that no two lists of parts
/// collide.
fn derive(key: &[u8; 32], parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_keyed(key);
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    *hasher.finalize().as_bytes()
}

/// What a stream is for. The six-byte label is the tag, then two little-endian numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Purpose {
    /// Z'_j of an output.
    Pad {
        /// Which symbol of the row.
        output: u16,
        /// Which coefficient, from 1.
        j: u16,
    },
    /// ρ.
    Rho,
    /// σ.
    Sigma,
    /// μ.
    Mu,
    /// The order of the rows; `part` is 0 for the split into buckets and b+1 inside bucket b.
    Order {
        /// Which part of the derivation.
        part: u16,
    },
    /// The pad of coefficient j of a record's answer.
    RecordPad {
        /// Which coefficient, from 0.
        j: u16,
    },
    /// The value by which a client sees that servers agree.
    KeyCheck,
    /// The zero-sharings of servers that compute together, under a key of two of them.
    ZeroSharing,
    /// The masks under which such a server enters its values.
    InputMask,
}

impl Purpose {
    /// The label; injective because the tags differ and the numbers have fixed places.
    pub fn label(self) -> [u8; 6] {
        let (tag, a, b) = match self {
            Purpose::Pad { output, j } => (1u16, output, j),
            Purpose::Rho => (2, 0, 0),
            Purpose::Sigma => (3, 0, 0),
            Purpose::Mu => (4, 0, 0),
            Purpose::Order { part } => (5, part, 0),
            Purpose::RecordPad { j } => (6, j, 0),
            Purpose::KeyCheck => (7, 0, 0),
            Purpose::ZeroSharing => (64, 0, 0),
            Purpose::InputMask => (65, 0, 0),
        };
        let mut label = [0; 6];
        label[..2].copy_from_slice(&tag.to_le_bytes());
        label[2..4].copy_from_slice(&a.to_le_bytes());
        label[4..].copy_from_slice(&b.to_le_bytes());
        label
    }
}

/// All keyed randomness of one transcript.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct TranscriptKeys {
    key: [u8; 32],
}

impl std::fmt::Debug for TranscriptKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TranscriptKeys(..)")
    }
}

impl TranscriptKeys {
    /// Equal at two servers exactly when root key, epoch and transcript are.
    pub fn check_value(&self) -> [u8; CHECK_LENGTH] {
        let mut value = [0; CHECK_LENGTH];
        self.stream(Purpose::KeyCheck).fill(0, &mut value);
        value
    }

    /// The key stream of one purpose.
    pub fn stream(&self, purpose: Purpose) -> KeyStream {
        KeyStream::new(&self.stream_key(purpose))
    }

    /// The key of that stream, for whoever is to have this stream and no other.
    pub(crate) fn stream_key(&self, purpose: Purpose) -> Zeroizing<[u8; 16]> {
        let mut key = derive(&self.key, &[b"stream", &purpose.label()]);
        let mut short = Zeroizing::new([0; 16]);
        short.copy_from_slice(&key[..16]);
        key.zeroize();
        short
    }

    /// The streams that `outputs` outputs with `kappa` pads each draw from.
    pub fn rows(&self, field: &Field, outputs: usize, kappa: usize, d_min: u64) -> KeyedRowRandomness {
        let uniform = |purpose, limit, shift| FieldElementStream::new(self.stream(purpose), field, limit, shift);
        let pads = (0..outputs)
            .flat_map(|output| (1..=kappa).map(move |j| Purpose::Pad { output: output as u16, j: j as u16 }))
            .map(|purpose| uniform(purpose, field.q(), 0))
            .collect();
        KeyedRowRandomness {
            kappa,
            pads,
            rho: uniform(Purpose::Rho, field.q() - 1, 1),
            sigma: uniform(Purpose::Sigma, field.q(), 0),
            mu: uniform(Purpose::Mu, d_min.max(1), 0),
        }
    }
}

/// AES-128 in counter mode with random access: block c is the cipher of c as 16 little-endian
/// bytes.
#[derive(Clone)]
pub struct KeyStream {
    // Wipes its round keys on drop.
    cipher: Aes128,
}

impl std::fmt::Debug for KeyStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyStream(..)")
    }
}

impl KeyStream {
    /// The stream of a key that [`TranscriptKeys`] derived.
    pub fn new(key: &[u8; 16]) -> KeyStream {
        KeyStream { cipher: Aes128::new(key.into()) }
    }

    /// Blocks `first..first + blocks.len()`.
    pub fn blocks(&self, first: u128, blocks: &mut [[u8; 16]]) {
        KeyStream::count(first, blocks);
        self.cipher.encrypt_blocks(aes::Block::cast_slice_from_core_mut(blocks));
    }

    /// The counters of these blocks, which are the same for all streams, for
    /// [`KeyStream::blocks_of`].
    pub fn count(first: u128, blocks: &mut [[u8; 16]]) {
        for (counter, block) in (first..).zip(blocks) {
            *block = counter.to_le_bytes();
        }
    }

    /// The blocks of these counters.
    ///
    /// # Panics
    /// If there are more or fewer counters than blocks.
    pub fn blocks_of(&self, counters: &[[u8; 16]], blocks: &mut [[u8; 16]]) {
        let blocks = aes::Block::cast_slice_from_core_mut(blocks);
        let result = self.cipher.encrypt_blocks_b2b(aes::Block::cast_slice_from_core(counters), blocks);
        result.expect("as many blocks as counters");
    }

    /// Bytes `offset..offset + bytes.len()`.
    pub fn fill(&self, offset: u64, bytes: &mut [u8]) {
        let part = |counter: u64| {
            let mut block = [[0; 16]];
            self.blocks(u128::from(counter), &mut block);
            block[0]
        };
        let mut counter = offset / 16;
        let inside = (offset % 16) as usize;
        let mut rest = bytes;
        if inside > 0 {
            let (head, tail) = rest.split_at_mut(rest.len().min(16 - inside));
            head.copy_from_slice(&part(counter)[inside..inside + head.len()]);
            rest = tail;
            counter += 1;
        }
        let (blocks, tail) = rest.as_chunks_mut();
        self.blocks(u128::from(counter), blocks);
        if !tail.is_empty() {
            let last = part(counter + blocks.len() as u64);
            tail.copy_from_slice(&last[..tail.len()]);
        }
    }

    /// The 64-bit word of a redraw, in the counters that no position reaches.
    fn redraw(&self, position: u64, attempt: u32) -> u64 {
        let mut block = [[0; 16]];
        self.blocks((1 << 127) + (u128::from(position) << 32) + u128::from(attempt), &mut block);
        let [block] = block;
        let mut word = [0; 8];
        word.copy_from_slice(&block[..8]);
        u64::from_le_bytes(word)
    }
}

/// A stream of numbers `shift + 0..limit`, one per position, each exactly uniform.
#[derive(Clone, Debug)]
pub struct FieldElementStream {
    /// The bytes that the numbers are read from.
    pub stream: KeyStream,
    /// The field of the numbers.
    pub field: Field,
    /// Bytes of key stream per position.
    pub width: usize,
    /// Numbers are below this before the shift.
    pub limit: u64,
    /// Added to each number: 1 for a non-zero stream.
    pub shift: u64,
}

impl FieldElementStream {
    fn new(stream: KeyStream, field: &Field, limit: u64, shift: u64) -> FieldElementStream {
        let width = match (u64::BITS - mask_for(limit).leading_zeros()).div_ceil(8) {
            bytes @ 0..=4 => bytes.max(1) as usize,
            _ => 8,
        };
        FieldElementStream { stream, field: field.clone(), width, limit, shift }
    }

    /// What is left of a word before it is compared with the limit: the smallest 2^b − 1 that
    /// covers it.
    pub fn mask(&self) -> u64 {
        mask_for(self.limit)
    }

    /// The number of a position whose first word (already read from the stream) is `word`.
    pub fn element_from_word(&self, position: u64, word: u64) -> FieldElement {
        let mask = self.mask();
        let mut draw = word & mask;
        let mut attempt = 0;
        while draw >= self.limit {
            draw = self.stream.redraw(position, attempt) & mask;
            attempt += 1;
        }
        self.field.reduce(draw + self.shift)
    }

    /// The number of one position.
    pub fn element(&self, position: usize) -> FieldElement {
        let mut word = [0; 8];
        self.stream.fill((position * self.width) as u64, &mut word[..self.width]);
        self.element_from_word(position as u64, u64::from_le_bytes(word))
    }
}

/// The keyed [`RowRandomness`] of one answer.
#[derive(Clone, Debug)]
pub struct KeyedRowRandomness {
    /// The number of pad coefficients per output.
    pub kappa: usize,
    pads: Vec<FieldElementStream>,
    /// Behind [`RowRandomness::rho`].
    pub rho: FieldElementStream,
    /// Behind [`RowRandomness::sigma`].
    pub sigma: FieldElementStream,
    /// Behind [`RowRandomness::mu`].
    pub mu: FieldElementStream,
}

impl KeyedRowRandomness {
    /// The number of outputs that have pads; unknown (`None`) without pad coefficients.
    pub fn outputs(&self) -> Option<usize> {
        self.pads.len().checked_div(self.kappa)
    }

    /// The stream behind [`RowRandomness::pad`].
    pub fn pad_stream(&self, output: usize, j: usize) -> &FieldElementStream {
        &self.pads[output * self.kappa + j - 1]
    }
}

impl RowRandomness for KeyedRowRandomness {
    fn pad(&self, output: usize, j: usize, position: usize) -> FieldElement {
        self.pad_stream(output, j).element(position)
    }

    fn rho(&self, position: usize) -> FieldElement {
        self.rho.element(position)
    }

    fn sigma(&self, position: usize) -> FieldElement {
        self.sigma.element(position)
    }

    fn mu(&self, position: usize) -> FieldElement {
        self.mu.element(position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_record_of_every_key_epoch_and_database_has_a_key_of_its_own() {
        let record = |key, epoch, digest, row| RootKey::new(epoch, [key; 32]).record(&[digest; 32], row);
        let mut keys: BTreeSet<[u8; 16]> = (0..1000).map(|row| record(1, 1, 1, row)).collect();
        keys.extend([record(2, 1, 1, 0), record(1, 2, 1, 0), record(1, 1, 2, 0), record(1, 1, 1, 1 << 32)]);
        assert_eq!(keys.len(), 1004);
    }

    #[test]
    fn a_root_key_is_written_as_the_bytes_that_it_was_made_of() {
        for bytes in [[3; 32], std::array::from_fn(|place| place as u8)] {
            assert_eq!(RootKey::new(1, bytes).expose(), &bytes);
        }
    }

    #[test]
    fn a_stream_is_the_same_from_every_place_and_for_counters_made_before() {
        let stream = RootKey::new(0, [7; 32]).transcript(&[9; 32]).stream(Purpose::Sigma);
        let mut whole = [[0; 16]; 6];
        stream.blocks(0, &mut whole);
        assert_eq!(whole.iter().collect::<BTreeSet<_>>().len(), 6);
        let whole_bytes = whole.as_flattened();
        for first in 0..40 {
            for last in first..whole_bytes.len() {
                let mut part = vec![0; last - first];
                stream.fill(first as u64, &mut part);
                assert_eq!(part, whole_bytes[first..last], "{first}..{last}");
            }
        }
        let (mut counters, mut blocks) = ([[0; 16]; 4], [[0; 16]; 4]);
        KeyStream::count(2, &mut counters);
        stream.blocks_of(&counters, &mut blocks);
        assert_eq!(blocks, whole[2..]);
    }
}
