//! Signed records: what keeps a server from showing a person somebody who does not exist.
//!
//! Servers hold the root key and the data, so one that lies can re-seal a record of its own making,
//! and by making all other rows look dearer it knows which one is fetched. The institution
//! therefore signs every record when it builds the bundle, and the manifest has its public key:
//!
//! ```text
//! subject   = derive_key("ifonly signed records v1")( u64le(|name|) ‖ name ‖ u64le(|version|) ‖ version ‖ schema )
//! signature = Ed25519( "ifonly record v1" ‖ subject ‖ text )
//! ```
//!
//! with name and version of the dataset, the schema as JSON exactly as the manifest has it, and the
//! record's text with its filling. The signature stands behind the text and is fetched with it. The
//! secret key never goes to the servers.

use crate::random::RandomSource;
use curve25519_dalek::constants::ED25519_BASEPOINT_COMPRESSED;
use curve25519_dalek::edwards::CompressedEdwardsY;
use curve25519_dalek::scalar::Scalar;
use ed25519_dalek::{Signature, Signer as _, VerifyingKey};
use zeroize::Zeroizing;

/// Bytes of a signature.
pub const SIGNATURE_LENGTH: usize = 64;

const CONTEXT: &[u8] = b"ifonly record v1";
const SUBJECT_CONTEXT: &str = "ifonly signed records v1";

/// The institution's secret key. Whoever has it can forge records.
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

    /// The key of these secret bytes.
    pub fn new(bytes: &[u8; 32]) -> SigningKey {
        SigningKey(ed25519_dalek::SigningKey::from_bytes(bytes))
    }

    /// Its secret bytes, for the file that it is kept in.
    pub fn expose(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }

    /// What everybody may know.
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key())
    }

    /// The signature of a record's text.
    pub fn sign(&self, subject: &SignatureContext, text: &[u8]) -> [u8; SIGNATURE_LENGTH] {
        self.0.sign(&subject.message(text)).to_bytes()
    }
}

/// The institution's public key: 64 hexadecimal digits where people and manifests write it.
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

/// A text that is no public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is no public key of a signature: 64 hexadecimal digits that name a point of the curve")]
pub struct InvalidPublicKey;

impl std::str::FromStr for PublicKey {
    type Err = InvalidPublicKey;

    fn from_str(text: &str) -> Result<PublicKey, InvalidPublicKey> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes).map_err(|_| InvalidPublicKey)?;
        let key = VerifyingKey::from_bytes(&bytes).map_err(|_| InvalidPublicKey)?;
        // Under a weak key one signature can fit many texts, and a key must have one text only.
        let is_sound = !key.is_weak() && key.to_edwards().compress().to_bytes() == bytes;
        is_sound.then_some(PublicKey(key)).ok_or(InvalidPublicKey)
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

/// Whose records, and what their texts mean: a signature under one subject says nothing under
/// another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignatureContext([u8; 32]);

impl SignatureContext {
    /// The records of a dataset of this name and version under a schema, whose JSON this is.
    pub fn new(name: &str, version: &str, schema: &str) -> SignatureContext {
        let mut hasher = blake3::Hasher::new_derive_key(SUBJECT_CONTEXT);
        for text in [name, version] {
            hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
        }
        hasher.update(schema.as_bytes());
        SignatureContext(*hasher.finalize().as_bytes())
    }

    /// What is signed.
    pub fn message(&self, text: &[u8]) -> Vec<u8> {
        [CONTEXT, &self.0, text].concat()
    }
}

/// Who must have signed what a search fetches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordVerifier {
    /// The institution's key.
    pub key: PublicKey,
    /// What it signed for.
    pub subject: SignatureContext,
}

impl RecordVerifier {
    /// Whether the signature behind a record's text is right. Bytes that are no signature at all
    /// take as long as a wrong one, since what was fetched without a row in mind is such bytes, and
    /// servers may see how long that took.
    pub fn signed(&self, text: &[u8], signature: &[u8; SIGNATURE_LENGTH]) -> bool {
        let (mut r, mut s) = ([0; 32], [0; 32]);
        r.copy_from_slice(&signature[..32]);
        s.copy_from_slice(&signature[32..]);
        let scalar = Scalar::from_bytes_mod_order(s).to_bytes();
        let is_point = CompressedEdwardsY(r).decompress().is_some();
        if !is_point {
            r = ED25519_BASEPOINT_COMPRESSED.to_bytes();
        }
        let checked = Signature::from_components(r, scalar);
        let right = self.key.0.verify_strict(&self.subject.message(text), &checked).is_ok();
        right & is_point & (scalar == s)
    }

    /// The text of a record with its signature behind it, and whether that is right; `None` if it
    /// is too short for one.
    pub(crate) fn open(&self, mut record: Vec<u8>) -> Option<(Vec<u8>, bool)> {
        let signature = record.split_off(record.len().checked_sub(SIGNATURE_LENGTH)?);
        let signed = self.signed(&record, signature.as_slice().try_into().ok()?);
        Some((record, signed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_holds_for_its_text_dataset_version_and_schema_alone() {
        let key = SigningKey::new(&[5; 32]);
        let here = SignatureContext::new("loans", "1", "{}");
        let signature = key.sign(&here, b"text");
        let signer = RecordVerifier { key: key.public(), subject: here };
        assert!(signer.signed(b"text", &signature));
        assert!(!signer.signed(b"texts", &signature) && !signer.signed(b"", &signature));
        for place in 0..SIGNATURE_LENGTH {
            let mut bent = signature;
            bent[place] ^= 0x10;
            assert!(!signer.signed(b"text", &bent), "byte {place}");
        }
        for other in [
            SignatureContext::new("loan", "s1", "{}"),
            SignatureContext::new("loans", "2", "{}"),
            SignatureContext::new("loans", "1{", "}"),
        ] {
            assert!(!RecordVerifier { subject: other, ..signer }.signed(b"text", &signature));
        }
        let stranger = SigningKey::new(&[6; 32]);
        assert!(!RecordVerifier { key: stranger.public(), ..signer }.signed(b"text", &signature));
        assert!(!signer.signed(b"text", &[0; 64]) && !signer.signed(b"text", &[0xff; 64]));
    }

    #[test]
    fn a_second_form_of_the_same_signature_is_none() {
        // s + ℓ is the same scalar; whoever took it would take two signatures for one.
        const ORDER: [u8; 32] = [
            0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, 0, 0, 0, 0,
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
        ];
        let (key, subject) = (SigningKey::new(&[7; 32]), SignatureContext::new("a", "1", "{}"));
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
    }
}
