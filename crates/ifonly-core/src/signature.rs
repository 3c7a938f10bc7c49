//! Signed records. The signature prevents a server from returning a record that the institution did
//! not accept.
//!
//! Servers have the root key and the data. A lying server could encode an invented record, and it
//! could increase the costs of all other rows so that the client fetches it. The institution
//! therefore signs every record when it builds the bundle, and the manifest contains its public
//! key:
//!
//! ```text
//! subject   = derive_key("ifonly signed records v2")( u64le(|name|) ‖ name ‖ u64le(|version|) ‖ version ‖ id ‖ schema )
//! signature = Ed25519( "ifonly record v1" ‖ subject ‖ text )
//! ```
//!
//! with name and version of the dataset, the 16 bytes of the bundle id, the schema as JSON exactly
//! as in the manifest, and the padded text of the record. Every build draws a random id, so that a
//! record of an earlier bundle is not valid in a later one, even if both have the same name,
//! version and schema. The signature follows the text and is fetched with it. The secret key
//! never leaves the institution.

use crate::random::RandomSource;
use curve25519_dalek::constants::ED25519_BASEPOINT_COMPRESSED;
use curve25519_dalek::edwards::CompressedEdwardsY;
use curve25519_dalek::scalar::Scalar;
use ed25519_dalek::{Signature, Signer as _, VerifyingKey};
use zeroize::Zeroizing;

/// Bytes of a signature.
pub const SIGNATURE_LENGTH: usize = 64;

const CONTEXT: &[u8] = b"ifonly record v1";
const SUBJECT_CONTEXT: &str = "ifonly signed records v2";

/// The institution's secret key. Its holder can forge records.
pub struct SigningKey(ed25519_dalek::SigningKey);

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SigningKey(of {})", self.public())
    }
}

impl SigningKey {
    /// A fresh key.
    pub fn generate(random: &mut (impl RandomSource + ?Sized)) -> SigningKey {
        let mut bytes = Zeroizing::new([0; 32]);
        random.fill(bytes.as_mut());
        SigningKey::new(&bytes)
    }

    /// The key with these secret bytes.
    pub fn new(bytes: &[u8; 32]) -> SigningKey {
        SigningKey(ed25519_dalek::SigningKey::from_bytes(bytes))
    }

    /// The secret bytes, for the key file.
    pub fn expose(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }

    /// The public key.
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key())
    }

    /// The signature of a record's text.
    pub fn sign(&self, subject: &SignatureContext, text: &[u8]) -> [u8; SIGNATURE_LENGTH] {
        self.0.sign(&subject.message(text)).to_bytes()
    }
}

/// The institution's public key, written as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

impl std::fmt::Display for PublicKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&hex::encode(self.0.as_bytes()))
    }
}

impl std::fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

/// The text is not a public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a valid Ed25519 public key (64 hexadecimal digits)")]
pub struct InvalidPublicKey;

impl std::str::FromStr for PublicKey {
    type Err = InvalidPublicKey;

    fn from_str(text: &str) -> Result<PublicKey, InvalidPublicKey> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes).map_err(|_| InvalidPublicKey)?;
        let key = VerifyingKey::from_bytes(&bytes).map_err(|_| InvalidPublicKey)?;
        // With a weak key one signature can be valid for many texts. A key must also have only one
        // encoding.
        let is_canonical = !key.is_weak() && key.to_edwards().compress().to_bytes() == bytes;
        is_canonical.then_some(PublicKey(key)).ok_or(InvalidPublicKey)
    }
}

impl serde::Serialize for PublicKey {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for PublicKey {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<PublicKey, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The identifier of one build of a bundle, written as 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BundleId(pub [u8; 16]);

impl BundleId {
    /// A random identifier.
    pub fn generate(random: &mut (impl RandomSource + ?Sized)) -> BundleId {
        let mut bytes = [0; 16];
        random.fill(&mut bytes);
        BundleId(bytes)
    }
}

impl std::fmt::Display for BundleId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

/// The text is not a bundle id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a valid bundle id (32 lower-case hexadecimal digits)")]
pub struct InvalidBundleId;

impl std::str::FromStr for BundleId {
    type Err = InvalidBundleId;

    fn from_str(text: &str) -> Result<BundleId, InvalidBundleId> {
        let mut bytes = [0; 16];
        hex::decode_to_slice(text, &mut bytes).map_err(|_| InvalidBundleId)?;
        let id = BundleId(bytes);
        // An id must have only one text, as everything in the manifest.
        (id.to_string() == text).then_some(id).ok_or(InvalidBundleId)
    }
}

impl serde::Serialize for BundleId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for BundleId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<BundleId, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The bundle and schema that a signature is bound to. A signature is valid in one context only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignatureContext([u8; 32]);

impl SignatureContext {
    /// The context of a bundle with this id, of a dataset with this name, version and schema (as
    /// JSON).
    pub fn new(name: &str, version: &str, id: BundleId, schema: &str) -> SignatureContext {
        let mut hasher = blake3::Hasher::new_derive_key(SUBJECT_CONTEXT);
        for text in [name, version] {
            hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
        }
        hasher.update(&id.0).update(schema.as_bytes());
        SignatureContext(*hasher.finalize().as_bytes())
    }

    /// The signed message for a text.
    pub fn message(&self, text: &[u8]) -> Vec<u8> {
        [CONTEXT, &self.0, text].concat()
    }
}

/// Verifies the signatures of fetched records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordVerifier {
    /// The institution's key.
    pub key: PublicKey,
    /// The dataset and schema.
    pub subject: SignatureContext,
}

impl RecordVerifier {
    /// Whether the signature of a text is valid. Malformed signatures take as long as wrong ones: a
    /// dummy query fetches random bytes, and servers may measure the time until the next request.
    pub fn signed(&self, text: &[u8], signature: &[u8; SIGNATURE_LENGTH]) -> bool {
        let (mut r, mut s) = ([0; 32], [0; 32]);
        r.copy_from_slice(&signature[..32]);
        s.copy_from_slice(&signature[32..]);
        let scalar = Scalar::from_bytes_mod_order(s).to_bytes();
        let is_point = CompressedEdwardsY(r).decompress().is_some();
        if !is_point {
            r = ED25519_BASEPOINT_COMPRESSED.to_bytes();
        }
        let canonical = Signature::from_components(r, scalar);
        let valid = self.key.0.verify_strict(&self.subject.message(text), &canonical).is_ok();
        valid & is_point & (scalar == s)
    }

    /// Splits a record into text and signature. Returns the text and whether the signature is
    /// valid; `None` if the record is shorter than a signature.
    pub(crate) fn split(&self, mut record: Vec<u8>) -> Option<(Vec<u8>, bool)> {
        let signature = record.split_off(record.len().checked_sub(SIGNATURE_LENGTH)?);
        let signed = self.signed(&record, signature.as_slice().try_into().ok()?);
        Some((record, signed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_holds_for_its_text_dataset_version_bundle_and_schema_alone() {
        let key = SigningKey::new(&[5; 32]);
        let id = BundleId([1; 16]);
        let here = SignatureContext::new("loans", "1", id, "{}");
        let signature = key.sign(&here, b"text");
        let signer = RecordVerifier { key: key.public(), subject: here };
        assert!(signer.signed(b"text", &signature));
        assert!(!signer.signed(b"texts", &signature) && !signer.signed(b"", &signature));
        for index in 0..SIGNATURE_LENGTH {
            let mut altered = signature;
            altered[index] ^= 0x10;
            assert!(!signer.signed(b"text", &altered), "byte {index}");
        }
        for other in [
            SignatureContext::new("loan", "s1", id, "{}"),
            SignatureContext::new("loans", "2", id, "{}"),
            SignatureContext::new("loans", "1{", id, "}"),
            SignatureContext::new("loans", "1", BundleId([2; 16]), "{}"),
        ] {
            assert!(!RecordVerifier { subject: other, ..signer }.signed(b"text", &signature));
        }
        let other_key = SigningKey::new(&[6; 32]);
        assert!(!RecordVerifier { key: other_key.public(), ..signer }.signed(b"text", &signature));
        assert!(!signer.signed(b"text", &[0; 64]) && !signer.signed(b"text", &[0xff; 64]));
    }

    #[test]
    fn a_non_canonical_signature_is_refused() {
        // s + ℓ is the same scalar. A verifier that accepted it would accept two signatures of one
        // text.
        const ORDER: [u8; 32] = [
            0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, 0, 0, 0, 0,
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
        ];
        let (key, subject) = (SigningKey::new(&[7; 32]), SignatureContext::new("a", "1", BundleId::default(), "{}"));
        let mut signature = key.sign(&subject, b"text");
        let mut carry = 0;
        for (byte, order) in signature[32..].iter_mut().zip(ORDER) {
            carry += u16::from(*byte) + u16::from(order);
            *byte = carry as u8;
            carry >>= 8;
        }
        assert!(!RecordVerifier { key: key.public(), subject }.signed(b"text", &signature));
    }

    #[test]
    fn keys_are_written_in_hexadecimal_and_weak_ones_refused() {
        let public = SigningKey::new(&[9; 32]).public();
        assert_eq!(public.to_string().parse(), Ok(public));
        let json = serde_json::to_string(&public).unwrap();
        assert_eq!(serde_json::from_str::<PublicKey>(&json).unwrap(), public);
        let identity = format!("01{}", "00".repeat(31));
        for text in ["", "12", "zz", &identity, &"02".repeat(31), &"ff".repeat(32)] {
            assert_eq!(text.parse::<PublicKey>(), Err(InvalidPublicKey), "{text}");
        }
        let id = BundleId([0xab; 16]);
        assert_eq!(id.to_string().parse(), Ok(id));
        for text in ["", "ab", &"AB".repeat(16), &"zz".repeat(16), &"ab".repeat(17)] {
            assert_eq!(text.parse::<BundleId>(), Err(InvalidBundleId), "{text}");
        }
    }
}
