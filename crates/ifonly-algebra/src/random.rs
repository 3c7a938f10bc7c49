//! Sources of uniform numbers.
//!
//! The shares of a client use only the random number generator of the operating system. If a seed
//! were expanded instead, the user's privacy would be computational, not information-theoretic. The
//! trait [`RandomSource`] lets tests enumerate every possible draw.

use zeroize::Zeroize;

/// A source of uniform numbers.
pub trait RandomSource {
    /// Fills `bytes` with uniform bytes.
    fn fill(&mut self, bytes: &mut [u8]);

    /// A uniform number in `0..n`, n ≥ 1, by masked rejection. `% n` would be biased.
    fn below(&mut self, n: u64) -> u64 {
        let mask = mask_for(n);
        loop {
            let mut bytes = [0; 8];
            self.fill(&mut bytes);
            let draw = u64::from_le_bytes(bytes) & mask;
            bytes.zeroize();
            if draw < n {
                return draw;
            }
        }
    }
}

/// The smallest 2^b − 1 that covers `0..n`.
pub fn mask_for(n: u64) -> u64 {
    debug_assert!(n > 0, "a uniform number below 0 does not exist");
    u64::MAX.checked_shr((n - 1).leading_zeros()).unwrap_or(0)
}

/// The random number generator of the operating system.
#[derive(Debug, Default)]
pub struct OsRandom {
    buffer: Buffer,
}

// One system call per 512 bytes: a query may draw a million field elements.
struct Buffer {
    bytes: zeroize::Zeroizing<[u8; 512]>,
    used: usize,
}

impl Default for Buffer {
    fn default() -> Self {
        Buffer { bytes: zeroize::Zeroizing::new([0; 512]), used: 512 }
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Buffer(..)")
    }
}

impl RandomSource for OsRandom {
    /// # Panics
    /// If the operating system provides no randomness. Without it there is no privacy.
    fn fill(&mut self, bytes: &mut [u8]) {
        let buffer = &mut self.buffer;
        if bytes.len() >= buffer.bytes.len() {
            return getrandom::fill(bytes).expect("the operating system must provide randomness");
        }
        for byte in bytes {
            if buffer.used == buffer.bytes.len() {
                getrandom::fill(&mut buffer.bytes[..]).expect("the operating system must provide randomness");
                buffer.used = 0;
            }
            *byte = std::mem::take(&mut buffer.bytes[buffer.used]);
            buffer.used += 1;
        }
    }
}

/// A reproducible source for test vectors, demonstrations and experiments. **Never use it for the
/// query of a user.**
pub struct SeededRandom(blake3::OutputReader);

impl SeededRandom {
    /// The source with this seed.
    pub fn new(seed: u64) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("ifonly seeded randomness v1");
        hasher.update(&seed.to_le_bytes());
        SeededRandom(hasher.finalize_xof())
    }
}

impl RandomSource for SeededRandom {
    fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill(bytes);
    }
}

/// Enumerates every sequence of draws once, like an odometer whose digits are the draws. Each digit
/// has its own base.
///
/// Run the code under test once per [`ExhaustiveRandom::next_run`]. The runs together cover the
/// sample space with equal weight if all runs draw from the same ranges. A prefix of draws must
/// always lead to the same next range.
///
/// ```
/// use ifonly_algebra::random::{ExhaustiveRandom, RandomSource};
/// let mut draws = vec![];
/// let mut all = ExhaustiveRandom::default();
/// while all.next_run() {
///     draws.push((all.below(2), all.below(3)));
/// }
/// assert_eq!(draws, [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]);
/// ```
#[derive(Debug, Default)]
pub struct ExhaustiveRandom {
    digits: Vec<(u64, u64)>,
    next: usize,
    started: bool,
}

impl ExhaustiveRandom {
    /// Moves to the next sequence. Returns false after the last one.
    pub fn next_run(&mut self) -> bool {
        self.next = 0;
        if !std::mem::replace(&mut self.started, true) {
            return true;
        }
        while let Some((digit, base)) = self.digits.pop() {
            if digit + 1 < base {
                self.digits.push((digit + 1, base));
                return true;
            }
        }
        false
    }
}

impl RandomSource for ExhaustiveRandom {
    fn fill(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            *byte = self.below(256) as u8;
        }
    }

    fn below(&mut self, n: u64) -> u64 {
        if self.next == self.digits.len() {
            self.digits.push((0, n));
        }
        let (digit, base) = self.digits[self.next];
        assert_eq!(base, n, "the same prefix of draws must lead to the same next range");
        self.next += 1;
        digit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_the_smallest_that_cover_the_range() {
        assert_eq!(mask_for(1), 0);
        assert_eq!(mask_for(2), 1);
        assert_eq!(mask_for(3), 3);
        assert_eq!(mask_for(4), 3);
        assert_eq!(mask_for(5), 7);
        assert_eq!(mask_for(u64::MAX), u64::MAX);
    }

    #[test]
    fn masked_rejection_is_uniform_over_all_bytes() {
        // Every first byte once: 5 of 8 masked values are accepted, each for the same number of
        // bytes.
        struct OneByte(u8);
        impl RandomSource for OneByte {
            fn fill(&mut self, bytes: &mut [u8]) {
                bytes.fill(0);
                bytes[0] = self.0;
                self.0 = 0; // after a rejection the next draw is 0: the 96 below
            }
        }
        let mut counts = [0; 5];
        for byte in 0..=255u8 {
            counts[OneByte(byte).below(5) as usize] += 1;
        }
        assert_eq!(counts, [32 + 96, 32, 32, 32, 32]);
    }

    #[test]
    fn the_operating_system_fills_all_bytes() {
        // In pieces that cross the end of the buffer in different ways: no 32 bytes stay zero or
        // are repeated.
        for piece in [4096, 512, 511, 33, 32, 8, 1] {
            let mut random = OsRandom::default();
            let mut bytes = vec![0; 4096];
            bytes.chunks_mut(piece).for_each(|piece| random.fill(piece));
            let parts: std::collections::BTreeSet<&[u8]> = bytes.chunks(32).collect();
            assert_eq!(parts.len(), 128, "in pieces of {piece}");
            assert!(!parts.contains([0; 32].as_slice()), "in pieces of {piece}");
        }
    }
}
