//! Class of a client: a short keyed hash of its address, for limits at the next server.
//!
//! The next server must know which streams belong to the same client, or one client could fill the
//! places of all. It need not know the address. The key is drawn when the process starts and never
//! leaves it, so a class means nothing elsewhere and after a restart.

use ifonly_algebra::random::{OsRandom, RandomSource};
use std::net::IpAddr;
use zeroize::Zeroizing;

/// Length of a class in bytes.
pub(crate) const CLASS_BYTES: usize = 8;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct ClientClass(pub(crate) [u8; CLASS_BYTES]);

/// The key of this process.
pub(crate) struct ClassKey(Zeroizing<[u8; 32]>);

impl ClassKey {
    pub(crate) fn draw() -> ClassKey {
        let mut key = Zeroizing::new([0; 32]);
        OsRandom::default().fill(&mut key[..]);
        ClassKey(key)
    }

    /// The class of a client address.
    pub(crate) fn class(&self, address: IpAddr) -> ClientClass {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        match address {
            IpAddr::V4(address) => hasher.update(&address.octets()),
            IpAddr::V6(address) => hasher.update(&address.octets()),
        };
        let mut class = [0; CLASS_BYTES];
        hasher.finalize_xof().fill(&mut class);
        ClientClass(class)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_constant_in_one_process_and_differs_elsewhere() {
        let [one, other] = [ClassKey::draw(), ClassKey::draw()];
        let [a, b] = ["192.0.2.1", "192.0.2.2"].map(|text| text.parse::<IpAddr>().unwrap());
        assert_eq!(one.class(a), one.class(a));
        assert!(one.class(a) != one.class(b) && one.class(a) != other.class(a));
    }
}
