//! Repeatable randomness for experiments.
//!
//! A stream is identified by a seed and a number. A computation therefore draws the same values on
//! any number of threads. The stream is the extendable output of BLAKE3. Integers below n come from
//! masked rejection sampling, so they are exactly uniform.
//!
//! [`NumpyShuffle`] is the generator of `numpy.random.RandomState` (MT19937). The paper used it to
//! split COMPAS.
//!
//! The protocol does not use this module; its randomness is in `ifonly-algebra`.

use ifonly_algebra::random::mask_for;

/// A repeatable stream of uniform integers.
#[derive(Debug)]
pub struct Stream {
    reader: blake3::OutputReader,
    block: [u8; Self::BLOCK],
    used: usize,
}

impl Stream {
    const BLOCK: usize = 512;

    /// The stream of this seed and number.
    pub fn new(seed: u64, number: u64) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("ifonly-lab 2026 experiment stream");
        hasher.update(&seed.to_le_bytes());
        hasher.update(&number.to_le_bytes());
        Stream { reader: hasher.finalize_xof(), block: [0; Self::BLOCK], used: Self::BLOCK }
    }

    /// A uniform 64-bit integer.
    pub fn word(&mut self) -> u64 {
        if self.used == Self::BLOCK {
            self.reader.fill(&mut self.block);
            self.used = 0;
        }
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.block[self.used..self.used + 8]);
        self.used += 8;
        u64::from_le_bytes(bytes)
    }

    /// A uniform integer in `0..n`; 0 when n is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        if n <= 1 {
            return 0;
        }
        let mask = mask_for(n);
        loop {
            let value = self.word() & mask;
            if value < n {
                return value;
            }
        }
    }

    /// A uniform number in `[0, 1)` with 53 bits.
    pub fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Shuffles the items uniformly.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64 + 1) as usize);
        }
    }

    /// `m` distinct indices below `n` in random order (all of them when m ≥ n).
    pub fn choose(&mut self, n: usize, m: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (0..n).collect();
        let m = m.min(n);
        for i in 0..m {
            all.swap(i, i + self.below((n - i) as u64) as usize);
        }
        all.truncate(m);
        all
    }
}

/// MT19937 as `numpy.random.RandomState(seed)` seeds and uses it for `permutation`.
#[derive(Debug)]
pub struct NumpyShuffle {
    state: [u32; 624],
    index: usize,
}

impl NumpyShuffle {
    /// `RandomState(seed)`.
    pub fn new(seed: u32) -> Self {
        let mut state = [0u32; 624];
        state[0] = seed;
        for i in 1..624 {
            let previous = state[i - 1];
            state[i] = 1_812_433_253u32.wrapping_mul(previous ^ (previous >> 30)).wrapping_add(i as u32);
        }
        NumpyShuffle { state, index: 624 }
    }

    /// `permutation(n)`.
    pub fn permutation(&mut self, n: u32) -> Vec<u32> {
        let mut items: Vec<u32> = (0..n).collect();
        for i in (1..n).rev() {
            let mask = u32::MAX >> i.leading_zeros();
            let j = loop {
                let value = self.next() & mask;
                if value <= i {
                    break value;
                }
            };
            items.swap(i as usize, j as usize);
        }
        items
    }

    fn next(&mut self) -> u32 {
        if self.index == 624 {
            self.refill();
        }
        let mut y = self.state[self.index];
        self.index += 1;
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c_5680;
        y ^= (y << 15) & 0xefc6_0000;
        y ^ (y >> 18)
    }

    fn refill(&mut self) {
        for i in 0..624 {
            let y = (self.state[i] & 0x8000_0000) | (self.state[(i + 1) % 624] & 0x7fff_ffff);
            let twist = if y & 1 == 1 { 0x9908_b0df } else { 0 };
            self.state[i] = self.state[(i + 397) % 624] ^ (y >> 1) ^ twist;
        }
        self.index = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_and_a_number_determine_the_stream() {
        let draw = |seed, number| {
            let mut stream = Stream::new(seed, number);
            (0..100).map(|_| stream.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(draw(1, 2), draw(1, 2));
        assert_ne!(draw(1, 2), draw(1, 3));
        assert_ne!(draw(1, 2), draw(2, 2));
    }

    #[test]
    fn chosen_indices_are_distinct_and_below_n() {
        let mut chosen = Stream::new(7, 0).choose(50, 20);
        chosen.sort_unstable();
        chosen.dedup();
        assert_eq!(chosen.len(), 20);
        assert!(chosen.iter().all(|&i| i < 50));
    }

    /// Outputs 1 and 10,000 of MT19937 with seed 5489, from the publication of the generator.
    #[test]
    fn mt19937_gives_the_published_outputs() {
        let mut generator = NumpyShuffle::new(5489);
        assert_eq!(generator.next(), 3_499_211_612);
        for _ in 1..9999 {
            generator.next();
        }
        assert_eq!(generator.next(), 4_123_659_995);
    }

    /// `numpy.random.RandomState(42).permutation(10)` as numpy prints it.
    #[test]
    fn the_permutation_equals_that_of_numpy() {
        assert_eq!(NumpyShuffle::new(42).permutation(10), [8, 1, 5, 0, 7, 2, 9, 4, 3, 6]);
    }
}
