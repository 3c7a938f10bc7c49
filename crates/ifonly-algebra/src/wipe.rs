//! Clearing large secrets: decoded values, and the answers that determine them.
//!
//! The crate `zeroize` clears a slice with one volatile store per element. For an answer of some
//! megabytes that takes milliseconds, between an answer and the next request. Here the compiler may
//! use wide stores; a barrier keeps it from removing them.

use std::ops::{Deref, DerefMut};
use zeroize::optimization_barrier;

/// Overwrites numbers with zeros.
pub fn wipe<T: Copy + Default>(secrets: &mut [T]) {
    secrets.fill(T::default());
    optimization_barrier(secrets);
}

/// Bytes that are wiped on drop, together with the unused part of their memory.
#[derive(Default)]
pub struct WipedBytes(Vec<u8>);

impl From<Vec<u8>> for WipedBytes {
    fn from(bytes: Vec<u8>) -> WipedBytes {
        WipedBytes(bytes)
    }
}

impl std::fmt::Debug for WipedBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WipedBytes(..)")
    }
}

impl Deref for WipedBytes {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.0
    }
}

impl DerefMut for WipedBytes {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }
}

impl Drop for WipedBytes {
    fn drop(&mut self) {
        let capacity = self.0.capacity();
        self.0.clear();
        // Does not allocate.
        self.0.resize(capacity, 0);
        wipe(&mut self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wiped_numbers_are_zero_and_bytes_stay_usable_until_then() {
        let mut numbers = [7u32; 100];
        wipe(&mut numbers);
        assert_eq!(numbers, [0; 100]);
        let mut bytes = WipedBytes::from(vec![1, 2, 3]);
        bytes.push(4);
        assert_eq!(bytes[..], [1, 2, 3, 4]);
        assert_eq!(format!("{bytes:?}"), "WipedBytes(..)");
    }
}
