//! The field GF(2^8) with the polynomial x^8 + x^4 + x^3 + x + 1. Its elements are the bytes of
//! records.
//!
//! Products look up discrete logarithms to the base 3, so their timing depends on the operands.

use crate::decode::FieldArithmetic;
use crate::random::RandomSource;

/// GF(2^8).
#[derive(Clone, Copy, Debug, Default)]
pub struct Gf256;

/// Powers of the generator 3 and logarithms to the base 3. The powers are listed twice, so that a
/// sum of two logarithms needs no reduction.
const TABLES: ([u8; 510], [u8; 256]) = tables();

const fn tables() -> ([u8; 510], [u8; 256]) {
    let (mut powers, mut logarithms) = ([0; 510], [0; 256]);
    let (mut element, mut exponent) = (1u16, 0);
    while exponent < 255 {
        powers[exponent] = element as u8;
        powers[exponent + 255] = element as u8;
        logarithms[element as usize] = exponent as u8;
        element ^= element << 1;
        if element & 0x100 != 0 {
            element ^= 0x11b;
        }
        exponent += 1;
    }
    (powers, logarithms)
}

impl FieldArithmetic for Gf256 {
    type Element = u8;
    fn one(&self) -> u8 {
        1
    }
    fn add(&self, a: u8, b: u8) -> u8 {
        a ^ b
    }
    fn sub(&self, a: u8, b: u8) -> u8 {
        a ^ b
    }
    fn mul(&self, a: u8, b: u8) -> u8 {
        if a == 0 || b == 0 {
            return 0;
        }
        TABLES.0[usize::from(TABLES.1[usize::from(a)]) + usize::from(TABLES.1[usize::from(b)])]
    }
    fn inverse(&self, a: u8) -> Option<u8> {
        (a != 0).then(|| TABLES.0[255 - usize::from(TABLES.1[usize::from(a)])])
    }
    fn sample(&self, random: &mut dyn RandomSource) -> u8 {
        let mut byte = [0];
        random.fill(&mut byte);
        byte[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The product, bit by bit.
    fn schoolbook_product(mut a: u8, b: u8) -> u8 {
        let mut product = 0;
        for bit in 0..8 {
            if b >> bit & 1 == 1 {
                product ^= a;
            }
            a = (a << 1) ^ if a & 0x80 != 0 { 0x1b } else { 0 };
        }
        product
    }

    #[test]
    fn products_and_inverses_are_right_for_all_bytes() {
        for a in 0..=255u8 {
            for b in 0..=255u8 {
                assert_eq!(Gf256.mul(a, b), schoolbook_product(a, b));
            }
            assert_eq!(Gf256.inverse(a).map(|inverse| Gf256.mul(a, inverse)), (a != 0).then_some(1));
        }
    }
}
