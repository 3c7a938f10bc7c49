//! The field F_q for any prime q < 2^62, and its elements.
//!
//! Products use Barrett reduction. For q < 2^32 it takes `m = ⌊2^64/q⌋` and one high product, above
//! that a 128-bit product. The module does not promise constant time; most operations are
//! straight-line code.

use crate::prime::{self, MAX_BITS};
use crate::random::RandomSource;
use zeroize::DefaultIsZeroes;

/// An element of F_q, always reduced: `0 ≤ value < q`. Only a [`Field`] creates elements.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct FieldElement(u64);

impl FieldElement {
    /// Zero.
    pub const ZERO: FieldElement = FieldElement(0);
    /// One.
    pub const ONE: FieldElement = FieldElement(1);

    /// The representative in `0..q`.
    pub fn value(self) -> u64 {
        self.0
    }

    /// Whether this is zero.
    pub fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl DefaultIsZeroes for FieldElement {}

// Most field elements are shares or secrets, so `Debug` does not print the value.
impl std::fmt::Debug for FieldElement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FieldElement(..)")
    }
}

/// How q follows from the bound of a scheme. q always exceeds the bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModulusRule {
    /// The largest prime below 2^b, with the smallest b for which it exceeds the bound.
    Deployment,
    /// The smallest prime above the bound.
    Paper,
}

/// Why a number cannot be the modulus q.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FieldError {
    /// q is not prime.
    #[error("q = {0} is not prime")]
    NotPrime(u64),
    /// q is too large for this implementation.
    #[error("q = {0} is too large; it must be below 2^62")]
    TooLarge(u64),
    /// No q below 2^62 exceeds the bound.
    #[error("no prime below 2^62 exceeds the bound {0}; use fewer levels, fewer features or smaller limits")]
    BoundTooLarge(u128),
}

/// F_q with its constants for the reduction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    q: u64,
    bits: u32,
    /// ⌊2^64/q⌋ for q < 2^32, ⌊2^(2·bits)/q⌋ above.
    barrett: u64,
}

impl Field {
    /// The field with q elements.
    pub fn new(q: u64) -> Result<Field, FieldError> {
        if q >> MAX_BITS != 0 {
            return Err(FieldError::TooLarge(q));
        }
        if !prime::is_prime(q) {
            return Err(FieldError::NotPrime(q));
        }
        let bits = u64::BITS - (q - 1).leading_zeros();
        let barrett = if q < 1 << 32 {
            ((1u128 << 64) / u128::from(q)) as u64
        } else {
            ((1u128 << (2 * bits)) / u128::from(q)) as u64
        };
        Ok(Field { q, bits, barrett })
    }

    /// The field that `rule` gives for a scheme whose values are at most `bound`.
    pub fn above(bound: u128, rule: ModulusRule) -> Result<Field, FieldError> {
        let q = prime::choose(bound, rule).ok_or(FieldError::BoundTooLarge(bound))?;
        Field::new(q)
    }

    /// The number of elements.
    pub fn q(&self) -> u64 {
        self.q
    }

    /// Bits per field element on the wire, ⌈log2 q⌉.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// `value` as a field element, or `None` if it is not reduced.
    pub fn element(&self, value: u64) -> Option<FieldElement> {
        (value < self.q).then_some(FieldElement(value))
    }

    /// `value` modulo q.
    pub fn reduce(&self, value: u64) -> FieldElement {
        FieldElement(value % self.q)
    }

    /// `value` modulo q, for signed numbers.
    pub fn reduce_signed(&self, value: i64) -> FieldElement {
        FieldElement((i128::from(value)).rem_euclid(i128::from(self.q)) as u64)
    }

    /// The representative in `-(q-1)/2 ..= (q-1)/2`.
    pub fn signed(&self, a: FieldElement) -> i64 {
        if a.0 > self.q / 2 { a.0 as i64 - self.q as i64 } else { a.0 as i64 }
    }

    /// a + b.
    #[inline]
    pub fn add(&self, a: FieldElement, b: FieldElement) -> FieldElement {
        let sum = a.0 + b.0;
        FieldElement(if sum >= self.q { sum - self.q } else { sum })
    }

    /// a − b.
    #[inline]
    pub fn sub(&self, a: FieldElement, b: FieldElement) -> FieldElement {
        FieldElement(if a.0 >= b.0 { a.0 - b.0 } else { a.0 + self.q - b.0 })
    }

    /// −a.
    #[inline]
    pub fn neg(&self, a: FieldElement) -> FieldElement {
        self.sub(FieldElement::ZERO, a)
    }

    /// a · b.
    #[inline]
    pub fn mul(&self, a: FieldElement, b: FieldElement) -> FieldElement {
        if self.q < 1 << 32 { self.reduce_64(a.0 * b.0) } else { self.reduce_128(u128::from(a.0) * u128::from(b.0)) }
    }

    /// a · b + c.
    #[inline]
    pub fn mul_add(&self, a: FieldElement, b: FieldElement, c: FieldElement) -> FieldElement {
        self.add(self.mul(a, b), c)
    }

    /// a^exponent.
    pub fn pow(&self, a: FieldElement, mut exponent: u64) -> FieldElement {
        let (mut base, mut power) = (a, self.reduce(1));
        while exponent > 0 {
            if exponent & 1 == 1 {
                power = self.mul(power, base);
            }
            base = self.mul(base, base);
            exponent >>= 1;
        }
        power
    }

    /// 1/a, or `None` for zero.
    pub fn inverse(&self, a: FieldElement) -> Option<FieldElement> {
        (!a.is_zero()).then(|| self.pow(a, self.q - 2))
    }

    /// Σ a_k·b_k.
    pub fn dot(&self, a: &[FieldElement], b: &[FieldElement]) -> FieldElement {
        a.iter().zip(b).fold(FieldElement::ZERO, |sum, (&a, &b)| self.mul_add(a, b, sum))
    }

    /// A uniform field element, by masked rejection.
    pub fn sample(&self, random: &mut (impl RandomSource + ?Sized)) -> FieldElement {
        FieldElement(random.below(self.q))
    }

    /// A uniform non-zero field element.
    pub fn sample_nonzero(&self, random: &mut (impl RandomSource + ?Sized)) -> FieldElement {
        FieldElement(1 + random.below(self.q - 1))
    }

    /// Barrett reduction for x < 2^64 and q < 2^32: `⌊x·m/2^64⌋` is the quotient or one less.
    #[inline]
    fn reduce_64(&self, x: u64) -> FieldElement {
        let quotient = ((u128::from(x) * u128::from(self.barrett)) >> 64) as u64;
        let remainder = x - quotient * self.q;
        FieldElement(if remainder >= self.q { remainder - self.q } else { remainder })
    }

    /// Barrett reduction for x < q²: the estimated quotient is too small by at most 2.
    #[inline]
    fn reduce_128(&self, x: u128) -> FieldElement {
        let high = (x >> (self.bits - 1)) as u64;
        let quotient = (u128::from(high) * u128::from(self.barrett)) >> (self.bits + 1);
        let mut remainder = (x - quotient * u128::from(self.q)) as u64;
        while remainder >= self.q {
            remainder -= self.q;
        }
        FieldElement(remainder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SeededRandom;

    #[test]
    fn products_equal_128_bit_division_for_every_size_of_q() {
        let mut random = SeededRandom::new(1);
        for bits in 2..=62 {
            let q = prime::choose(1 << (bits - 1), ModulusRule::Paper).filter(|&q| q >> 62 == 0).unwrap();
            for q in [q, prime::choose(u128::from(q - 1), ModulusRule::Deployment).unwrap()] {
                let field = Field::new(q).unwrap();
                for _ in 0..500 {
                    let a = field.sample(&mut random);
                    let b = field.element(q - 1 - random.below(q.min(4))).unwrap();
                    for (a, b) in [(a, b), (b, b), (a, a)] {
                        let (x, y) = (u128::from(a.value()), u128::from(b.value()));
                        let modulus = u128::from(q);
                        assert_eq!(u128::from(field.mul(a, b).value()), x * y % modulus, "q={q}");
                        assert_eq!(u128::from(field.add(a, b).value()), (x + y) % modulus, "q={q}");
                        assert_eq!(u128::from(field.sub(a, b).value()), (x + modulus - y) % modulus, "q={q}");
                    }
                    if let Some(inverse) = field.inverse(a) {
                        assert_eq!(field.mul(a, inverse), FieldElement::ONE);
                    }
                }
            }
        }
    }

    #[test]
    fn tiny_fields_satisfy_the_axioms_exhaustively() {
        for q in [2, 3, 5, 7, 11, 13] {
            let field = Field::new(q).unwrap();
            let all: Vec<FieldElement> = (0..q).map(|v| field.element(v).unwrap()).collect();
            for &a in &all {
                assert_eq!(field.add(a, field.neg(a)), FieldElement::ZERO);
                assert_eq!(field.inverse(a).is_none(), a.is_zero());
                for &b in &all {
                    assert_eq!(field.mul(a, b).value(), a.value() * b.value() % q);
                    assert_eq!(field.sub(field.add(a, b), b), a);
                }
            }
        }
    }

    #[test]
    fn signed_residues_round_trip() {
        let field = Field::new(809).unwrap();
        for v in -404..=404 {
            assert_eq!(field.signed(field.reduce_signed(v)), v);
        }
        assert_eq!(field.reduce_signed(i64::MIN).value(), i128::from(i64::MIN).rem_euclid(809) as u64);
    }

    #[test]
    fn composite_and_too_large_moduli_are_refused() {
        assert_eq!(Field::new(1), Err(FieldError::NotPrime(1)));
        assert_eq!(Field::new(0), Err(FieldError::NotPrime(0)));
        assert_eq!(Field::new(9), Err(FieldError::NotPrime(9)));
        assert_eq!(Field::new(1 << 62), Err(FieldError::TooLarge(1 << 62)));
        assert_eq!(Field::new(2).unwrap().bits(), 1);
        assert_eq!(Field::new(3).unwrap().bits(), 2);
        assert_eq!(Field::new(257).unwrap().bits(), 9);
    }
}
