//! The all-or-nothing encoding of records, so that a sum of several records (a cheating client) is
//! noise.
//!
//! Rivest's package transform: `body = (record ‖ 0^8) ⊕ XOF(k)`, `tail = k ⊕ H(body)`. Whoever has
//! the whole encoding finds k and the record; whoever has the sum of two finds neither k. The zeros
//! show whether decoding met one whole record. k comes from the servers' root key, so equal records
//! have unrelated encodings and nobody can guess one.

const ZEROS: usize = 8;
const KEY: usize = 16;

/// Records end here, in bytes.
pub const MAX_RECORD: usize = 1 << 20;
/// Bytes that the encoding adds.
pub const OVERHEAD: usize = ZEROS + KEY;

/// The encoding under the 16-byte key k.
pub(crate) fn encode(record: &[u8], key: &[u8; KEY]) -> Vec<u8> {
    let mut sealed = vec![0; record.len() + OVERHEAD];
    seal_into(record, key, &mut sealed);
    sealed
}

/// The encoding to where it is stored, [`OVERHEAD`] bytes longer than the record.
///
/// # Panics
/// If the place has another length.
pub(crate) fn seal_into(record: &[u8], key: &[u8; KEY], sealed: &mut [u8]) {
    assert_eq!(sealed.len(), record.len() + OVERHEAD, "a sealed record has its own length");
    let (body, tail) = sealed.split_at_mut(record.len() + ZEROS);
    body[..record.len()].copy_from_slice(record);
    body[record.len()..].fill(0);
    mask(body, key);
    tail.copy_from_slice(&add(&digest(body), key));
}

/// The record, if the bytes are one whole encoding.
pub fn decode(sealed: &[u8]) -> Option<Vec<u8>> {
    unmask(sealed).filter(|(_, whole)| *whole).map(|(record, _)| record)
}

/// What the bytes decode to, and whether they are one whole encoding; `None` if they are too short
/// for any.
pub(crate) fn unmask(sealed: &[u8]) -> Option<(Vec<u8>, bool)> {
    let (body, tail) = sealed.split_at_checked(sealed.len().checked_sub(KEY)?)?;
    let mut key = [0; KEY];
    key.copy_from_slice(tail);
    let key = add(&digest(body), &key);
    let mut record = body.to_vec();
    mask(&mut record, &key);
    let zeros = record.split_off(record.len().checked_sub(ZEROS)?);
    Some((record, zeros == [0; ZEROS]))
}

fn mask(bytes: &mut [u8], key: &[u8; KEY]) {
    let mut stream = blake3::Hasher::new_derive_key("ifonly record mask v1").update(key).finalize_xof();
    let mut masks = [0; 64];
    for bytes in bytes.chunks_mut(masks.len()) {
        stream.fill(&mut masks);
        bytes.iter_mut().zip(masks).for_each(|(byte, mask)| *byte ^= mask);
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
    fn a_whole_record_opens_and_sums_or_parts_do_not() {
        for length in [0, 1, 31, 64, 1000] {
            let (a, b) = (vec![7; length], vec![9; length]);
            let (seal_a, seal_b) = (encode(&a, &[1; 16]), encode(&b, &[2; 16]));
            assert_eq!(seal_a.len(), length + OVERHEAD);
            assert_eq!(decode(&seal_a), Some(a));
            let sum: Vec<u8> = seal_a.iter().zip(&seal_b).map(|(a, b)| a ^ b).collect();
            assert_eq!(decode(&sum), None);
            for place in [0, length / 2, seal_a.len() - 1] {
                let mut bent = seal_a.clone();
                bent[place] ^= 1;
                assert_eq!(decode(&bent), None);
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
