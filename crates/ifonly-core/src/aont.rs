//! All-or-nothing transform (AONT) of records. A cheating client can fetch the sum of several
//! encoded records; the transform makes such a sum useless.
//!
//! Rivest's package transform: `body = (record ‖ 0^8) ⊕ XOF(k)`, `tail = k ⊕ H(body)`. From the
//! complete encoding a client computes k and the record. From the sum of two encodings it can
//! compute neither key. The zeros show whether the decoded bytes are one complete record. k is
//! derived from the servers' root key, so equal records have unrelated encodings, and a client
//! cannot compute the encoding of a guessed record.

const ZEROS: usize = 8;
const KEY: usize = 16;

/// The largest length of a record, in bytes.
pub const MAX_RECORD: usize = 1 << 20;
/// Bytes that the encoding adds.
pub const OVERHEAD: usize = ZEROS + KEY;

/// The encoding under the key k.
pub(crate) fn encode(record: &[u8], key: &[u8; KEY]) -> Vec<u8> {
    let mut encoded = vec![0; record.len() + OVERHEAD];
    encode_into(record, key, &mut encoded);
    encoded
}

/// Writes the encoding to `encoded`, which is [`OVERHEAD`] bytes longer than the record.
///
/// # Panics
/// If `encoded` has another length.
pub(crate) fn encode_into(record: &[u8], key: &[u8; KEY], encoded: &mut [u8]) {
    assert_eq!(encoded.len(), record.len() + OVERHEAD, "an encoded record is OVERHEAD bytes longer than the record");
    let (body, tail) = encoded.split_at_mut(record.len() + ZEROS);
    body[..record.len()].copy_from_slice(record);
    body[record.len()..].fill(0);
    xor_keystream(body, key);
    tail.copy_from_slice(&add(&digest(body), key));
}

/// The record, if the bytes are one complete encoding.
pub fn decode(encoded: &[u8]) -> Option<Vec<u8>> {
    decode_unchecked(encoded).filter(|(_, complete)| *complete).map(|(record, _)| record)
}

/// The decoded bytes, and whether they are one complete record; `None` if the input is too short
/// for any encoding. The work does not depend on whether they are.
pub(crate) fn decode_unchecked(encoded: &[u8]) -> Option<(Vec<u8>, bool)> {
    let (body, tail) = encoded.split_at_checked(encoded.len().checked_sub(KEY)?)?;
    let mut key = [0; KEY];
    key.copy_from_slice(tail);
    let key = add(&digest(body), &key);
    let mut record = body.to_vec();
    xor_keystream(&mut record, &key);
    let zeros = record.split_off(record.len().checked_sub(ZEROS)?);
    Some((record, zeros == [0; ZEROS]))
}

fn xor_keystream(bytes: &mut [u8], key: &[u8; KEY]) {
    let mut stream = blake3::Hasher::new_derive_key("ifonly record mask v1").update(key).finalize_xof();
    let mut block = [0; 64];
    for bytes in bytes.chunks_mut(block.len()) {
        stream.fill(&mut block);
        bytes.iter_mut().zip(block).for_each(|(byte, key)| *byte ^= key);
    }
}

fn digest(body: &[u8]) -> [u8; KEY] {
    let mut digest = [0; KEY];
    blake3::Hasher::new_derive_key("ifonly record digest v1").update(body).finalize_xof().fill(&mut digest);
    digest
}

fn add(a: &[u8; KEY], b: &[u8; KEY]) -> [u8; KEY] {
    std::array::from_fn(|i| a[i] ^ b[i])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complete_encoding_decodes_and_sums_or_altered_bytes_do_not() {
        for length in [0, 1, 31, 64, 1000] {
            let (a, b) = (vec![7; length], vec![9; length]);
            let (encoded_a, encoded_b) = (encode(&a, &[1; 16]), encode(&b, &[2; 16]));
            assert_eq!(encoded_a.len(), length + OVERHEAD);
            assert_eq!(decode(&encoded_a), Some(a));
            let sum: Vec<u8> = encoded_a.iter().zip(&encoded_b).map(|(a, b)| a ^ b).collect();
            assert_eq!(decode(&sum), None);
            for index in [0, length / 2, encoded_a.len() - 1] {
                let mut altered = encoded_a.clone();
                altered[index] ^= 1;
                assert_eq!(decode(&altered), None);
            }
        }
        assert_eq!(decode(&[0; 23]), None);
        assert_eq!(decode(&[]), None);
    }

    #[test]
    fn equal_records_under_different_keys_share_nothing_visible() {
        let (a, b) = (encode(&[5; 64], &[1; 16]), encode(&[5; 64], &[2; 16]));
        assert!(a.iter().zip(&b).filter(|(a, b)| a == b).count() < 8);
    }
}
