//! A signed record: the signed message and its signature.

use super::{compare, hex};
use crate::signature::{BundleId, RecordVerifier, SignatureContext, SigningKey};
use serde_json::json;

#[test]
fn a_signed_record() {
    let (name, version) = ("loans", "2026-11");
    let schema = r#"{"features":[{"name":"größe","kind":{"type":"ordinal","ranks":["klein","groß"]}}]}"#;
    let id = BundleId(std::array::from_fn(|index| 0xf0 - index as u8));
    let text = b"\x05\0gro\xc3\x9f\0\0\0\0\0\0\0\0".to_vec();
    let key = SigningKey::new(&std::array::from_fn(|index| 3 * index as u8));
    let subject = SignatureContext::new(name, version, id, schema);
    let signature = key.sign(&subject, &text);
    assert!(RecordVerifier { key: key.public(), subject }.signed(&text, &signature));
    let message = subject.message(&text);
    compare(
        "signature",
        &json!({
            "signing_key": hex(key.expose()),
            "public_key": key.public().to_string(),
            "name": name,
            "version": version,
            "bundle_id": id.to_string(),
            "schema": schema,
            "text": hex(&text),
            "subject": hex(&message[16..48]),
            "message": hex(&message),
            "signature": hex(&signature),
        }),
    );
}
