//! Signing of records, in parallel on all processors.

use ifonly_core::signature::{SIGNATURE_LENGTH, SignatureContext, SigningKey};
use rayon::prelude::*;

/// The records for these texts: each text followed by its signature.
pub(crate) fn signed(key: &SigningKey, context: &SignatureContext, texts: &[u8], text_length: usize) -> Vec<u8> {
    let length = text_length + SIGNATURE_LENGTH;
    let mut records = vec![0; texts.len() / text_length * length];
    records.par_chunks_exact_mut(length).zip(texts.par_chunks_exact(text_length)).for_each(|(record, text)| {
        record[..text_length].copy_from_slice(text);
        record[text_length..].copy_from_slice(&key.sign(context, text));
    });
    records
}
