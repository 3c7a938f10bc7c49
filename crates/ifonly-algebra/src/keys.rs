//! The randomness that the servers share: root keys, key epochs, and random-access key streams.
//!
//! `K_τ = BLAKE3_keyed(root, "transcript" ‖ epoch ‖ τ)`. Every [`Purpose`] has its own stream under
//! K_τ: AES-128 in counter mode, keyed with `BLAKE3_keyed(K_τ, "stream" ‖ label)`. Each part of a
//! hash input is preceded by its length. The label of a purpose has six bytes, and no two purposes
//! share a label. The purpose also fixes the distribution of its numbers (uniform, non-zero, below
//! d_min), so no word of a stream is used in two ways.
//!
//! The number at position i is the little-endian word at offset `i·width` of the stream, masked to
//! the bits of the limit. The width is the number of bytes that hold these bits, or 8 if that is
//! more than 4. A masked word that is not below the limit is redrawn from block
//! `2^127 + i·2^32 + attempt`, which no position reaches. The result is exactly uniform, and every
//! process can compute every row by itself.

use crate::field::{Field, FieldElement};
use crate::fingerprint::{FINGERPRINT_LENGTH, KeyFingerprint};
use crate::lifted::{LiftedDraws, LiftedFormat};
use crate::random::{RandomSource, mask_for};
use crate::row_function::RowRandomness;
use aes::Aes128;
use aes::cipher::{BlockCipherEncrypt, KeyInit};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// Bytes of the key-check value, which begins every response.
pub const CHECK_LENGTH: usize = 16;
/// Bytes of the ticket, which follows the key-check value in responses to phase 0.
pub const TICKET_LENGTH: usize = 16;

/// The root key: the secret that all servers share during one key epoch.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct RootKey {
    bytes: [u8; 32],
    #[zeroize(skip)]
    epoch: u32,
}

impl RootKey {
    /// The key with these bytes for `epoch`.
    pub fn new(epoch: u32, bytes: [u8; 32]) -> RootKey {
        RootKey { bytes, epoch }
    }

    /// A fresh random key.
    pub fn generate(epoch: u32, random: &mut impl RandomSource) -> RootKey {
        let mut bytes = [0; 32];
        random.fill(&mut bytes);
        let key = RootKey { bytes, epoch };
        bytes.zeroize();
        key
    }

    /// The key epoch. The header of every message names it.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// The 32 secret bytes, for a key file.
    pub fn expose(&self) -> &[u8; 32] {
        &self.bytes
    }

    /// The fingerprint of the key as it is in its file, before it is bound to the data of a bundle.
    pub fn fingerprint(&self) -> KeyFingerprint {
        let hash = derive(&self.bytes, &[b"fingerprint", &self.epoch.to_le_bytes()]);
        let mut bytes = [0; FINGERPRINT_LENGTH];
        bytes.copy_from_slice(&hash[..FINGERPRINT_LENGTH]);
        KeyFingerprint { epoch: self.epoch, bytes }
    }

    /// The keys of one transcript.
    pub fn transcript(&self, tau: &[u8; 32]) -> TranscriptKeys {
        TranscriptKeys { key: derive(&self.bytes, &[b"transcript", &self.epoch.to_le_bytes(), tau]) }
    }

    /// The ticket of a search. It proves that a server with this key answered phase 0 of the search
    /// with this scheme and this τ.
    pub fn ticket(&self, scheme: &str, tau: &[u8; 32]) -> [u8; TICKET_LENGTH] {
        let hash = derive(&self.bytes, &[b"ticket", &self.epoch.to_le_bytes(), scheme.as_bytes(), tau]);
        let mut ticket = [0; TICKET_LENGTH];
        ticket.copy_from_slice(&hash[..TICKET_LENGTH]);
        ticket
    }

    /// The key for the all-or-nothing transform of the stored record `row`. All servers of the
    /// epoch derive the same key.
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

/// BLAKE3 keyed by `key` over the parts. Each part is preceded by its length, so that no two lists
/// of parts collide.
fn derive(key: &[u8; 32], parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_keyed(key);
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    *hasher.finalize().as_bytes()
}

/// The use of a key stream. Its six-byte label is a tag and two numbers, all little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Purpose {
    /// The pad Z'_j of one output.
    Pad {
        /// Index of the output in its row.
        output: u16,
        /// Index of the coefficient, from 1.
        j: u16,
    },
    /// The blinding factors ρ.
    Rho,
    /// The gate factors σ.
    Sigma,
    /// The masks μ.
    Mu,
    /// The row order.
    Order {
        /// 0 for the split into buckets, b + 1 for the order within bucket b.
        part: u16,
    },
    /// The pad of coefficient j of the answer to a record fetch.
    RecordPad {
        /// Index of the coefficient, from 0.
        j: u16,
    },
    /// The key-check value.
    KeyCheck,
    /// The numbers ρ, z, σ and z' of a [lifted gate](crate::lifted).
    Lifted,
    /// The zero sharing of a sealed search, under a key that two servers share.
    ZeroSharing,
    /// The masks of the input sharing of a sealed search.
    InputMask,
}

impl Purpose {
    /// The label. Labels are distinct because tags differ and the numbers have fixed offsets.
    pub fn label(self) -> [u8; 6] {
        let (tag, a, b) = match self {
            Purpose::Pad { output, j } => (1u16, output, j),
            Purpose::Rho => (2, 0, 0),
            Purpose::Sigma => (3, 0, 0),
            Purpose::Mu => (4, 0, 0),
            Purpose::Order { part } => (5, part, 0),
            Purpose::RecordPad { j } => (6, j, 0),
            Purpose::KeyCheck => (7, 0, 0),
            Purpose::Lifted => (8, 0, 0),
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
    /// The key-check value: equal at two servers if root key, epoch and transcript are equal.
    pub fn check_value(&self) -> [u8; CHECK_LENGTH] {
        let mut value = [0; CHECK_LENGTH];
        self.stream(Purpose::KeyCheck).fill(0, &mut value);
        value
    }

    /// The key stream of one purpose.
    pub fn stream(&self, purpose: Purpose) -> KeyStream {
        KeyStream::new(&self.stream_key(purpose))
    }

    /// The key of that stream. Its holder can compute this stream and no other.
    pub(crate) fn stream_key(&self, purpose: Purpose) -> Zeroizing<[u8; 16]> {
        let mut key = derive(&self.key, &[b"stream", &purpose.label()]);
        let mut short = Zeroizing::new([0; 16]);
        short.copy_from_slice(&key[..16]);
        key.zeroize();
        short
    }

    /// The numbers of a lifted gate.
    pub fn lifted(&self, format: &LiftedFormat) -> LiftedDraws {
        LiftedDraws::from_key(format.clone(), *self.stream_key(Purpose::Lifted))
    }

    /// The streams for `outputs` outputs per row with `kappa` pads each.
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

/// AES-128 in counter mode with random access. Block c is the encryption of c as 16 little-endian
/// bytes.
#[derive(Clone)]
pub struct KeyStream {
    // The cipher wipes its round keys on drop.
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

    /// Writes the counters of these blocks, for [`KeyStream::blocks_of`]. They are the same for all
    /// streams.
    pub fn count(first: u128, blocks: &mut [[u8; 16]]) {
        let (low, high) = (first as u64, ((first >> 64) as u64).to_le_bytes());
        if low.checked_add(blocks.len() as u64).is_none() {
            (first..).zip(blocks).for_each(|(counter, block)| *block = counter.to_le_bytes());
            return;
        }
        // Only the lower half changes, which compilers vectorise.
        for (counter, block) in (low..).zip(blocks) {
            let (halves, _) = block.as_chunks_mut();
            halves[0] = counter.to_le_bytes();
            halves[1] = high;
        }
    }

    /// The blocks with these counters.
    ///
    /// # Panics
    /// If the numbers of counters and blocks differ.
    pub fn blocks_of(&self, counters: &[[u8; 16]], blocks: &mut [[u8; 16]]) {
        let blocks = aes::Block::cast_slice_from_core_mut(blocks);
        let result = self.cipher.encrypt_blocks_b2b(aes::Block::cast_slice_from_core(counters), blocks);
        result.expect("counters and blocks must have the same length");
    }

    /// Bytes `offset..offset + bytes.len()`.
    pub fn fill(&self, offset: u64, bytes: &mut [u8]) {
        let block_at = |counter: u64| {
            let mut block = [[0; 16]];
            self.blocks(u128::from(counter), &mut block);
            block[0]
        };
        let mut counter = offset / 16;
        let inside = (offset % 16) as usize;
        let mut rest = bytes;
        if inside > 0 {
            let (head, tail) = rest.split_at_mut(rest.len().min(16 - inside));
            head.copy_from_slice(&block_at(counter)[inside..inside + head.len()]);
            rest = tail;
            counter += 1;
        }
        let (blocks, tail) = rest.as_chunks_mut();
        self.blocks(u128::from(counter), blocks);
        if !tail.is_empty() {
            let last = block_at(counter + blocks.len() as u64);
            tail.copy_from_slice(&last[..tail.len()]);
        }
    }

    /// The 64-bit word of a redraw, from counters that no position reaches.
    fn redraw(&self, position: u64, attempt: u32) -> u64 {
        let mut block = [[0; 16]];
        self.blocks((1 << 127) + (u128::from(position) << 32) + u128::from(attempt), &mut block);
        let [block] = block;
        let mut word = [0; 8];
        word.copy_from_slice(&block[..8]);
        u64::from_le_bytes(word)
    }
}

/// A stream of numbers, one per position, each exactly uniform on `shift..shift + limit`.
#[derive(Clone, Debug)]
pub struct FieldElementStream {
    /// The key stream from which the numbers are drawn.
    pub stream: KeyStream,
    /// The field of the numbers.
    pub field: Field,
    /// Bytes of key stream per position.
    pub width: usize,
    /// Exclusive upper limit of the numbers before the shift.
    pub limit: u64,
    /// Added to each number: 1 for non-zero numbers, otherwise 0.
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

    /// The mask for words before they are compared with the limit: the smallest 2^b − 1 that covers
    /// all numbers below the limit.
    pub fn mask(&self) -> u64 {
        mask_for(self.limit)
    }

    /// The number at a position whose first word, already read from the stream, is `word`.
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

    /// The number at one position.
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
    /// The number of outputs per row; `None` if there are no pads.
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
    fn record_keys_differ_by_record_root_key_epoch_and_database() {
        let record = |key, epoch, digest, row| RootKey::new(epoch, [key; 32]).record(&[digest; 32], row);
        let mut keys: BTreeSet<[u8; 16]> = (0..1000).map(|row| record(1, 1, 1, row)).collect();
        keys.extend([record(2, 1, 1, 0), record(1, 2, 1, 0), record(1, 1, 2, 0), record(1, 1, 1, 1 << 32)]);
        assert_eq!(keys.len(), 1004);
    }

    #[test]
    fn a_root_key_exposes_the_bytes_it_was_created_from() {
        for bytes in [[3; 32], std::array::from_fn(|index| index as u8)] {
            assert_eq!(RootKey::new(1, bytes).expose(), &bytes);
        }
    }

    #[test]
    fn counters_carry_into_the_upper_half() {
        for first in [0, 5, u128::from(u64::MAX) - 2, 1 << 64, (1 << 127) + 7] {
            let mut blocks = [[0; 16]; 6];
            KeyStream::count(first, &mut blocks);
            assert!((first..).zip(blocks).all(|(counter, block)| counter.to_le_bytes() == block), "{first}");
        }
    }

    #[test]
    fn a_stream_is_the_same_from_every_offset_and_for_given_counters() {
        let stream = RootKey::new(0, [7; 32]).transcript(&[9; 32]).stream(Purpose::Sigma);
        let mut expected = [[0; 16]; 6];
        stream.blocks(0, &mut expected);
        assert_eq!(expected.iter().collect::<BTreeSet<_>>().len(), 6);
        let expected_bytes = expected.as_flattened();
        for first in 0..40 {
            for last in first..expected_bytes.len() {
                let mut part = vec![0; last - first];
                stream.fill(first as u64, &mut part);
                assert_eq!(part, expected_bytes[first..last], "{first}..{last}");
            }
        }
        let (mut counters, mut blocks) = ([[0; 16]; 4], [[0; 16]; 4]);
        KeyStream::count(2, &mut counters);
        stream.blocks_of(&counters, &mut blocks);
        assert_eq!(blocks, expected[2..]);
    }
}
