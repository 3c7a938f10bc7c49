//! The two fields of a lifted gate, its answer words and its joined table entries.

use crate::field::{Field, FieldElement, FieldError, ModulusRule};

/// F_q for costs, F_p for violations, and how both fit into one 32-bit word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiftedFormat {
    cost: Field,
    gate: Field,
    gate_shift: u32,
    /// 1/q in F_p.
    q_inverse: FieldElement,
}

/// Why two numbers cannot be the moduli of a lifted gate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LiftedError {
    /// A modulus is not prime or too large.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// p is even or not below q.
    #[error("p = {p} must be an odd prime below q = {q}")]
    Order {
        /// The modulus of the gate.
        p: u64,
        /// The modulus of the cost.
        q: u64,
    },
    /// Cost and gate do not fit into one word.
    #[error("q = {q} and p = {p} need {bits} bits; the maximum is 32")]
    TooManyBits {
        /// The modulus of the gate.
        p: u64,
        /// The modulus of the cost.
        q: u64,
        /// The bits of both.
        bits: u32,
    },
}

impl LiftedFormat {
    /// The largest p: gates have at most 8 bits.
    pub const MAX_P: u64 = 251;
    /// The fewest bits of a deployment's gate.
    const LEAST_GATE_BITS: u32 = 4;

    /// The format with these moduli.
    pub fn new(q: u64, p: u64) -> Result<LiftedFormat, LiftedError> {
        let (cost, gate) = (Field::new(q)?, Field::new(p)?);
        if p < 3 || p >= q {
            return Err(LiftedError::Order { p, q });
        }
        let bits = cost.bits() + gate.bits();
        if bits > u32::BITS || p > Self::MAX_P {
            return Err(LiftedError::TooManyBits { p, q, bits });
        }
        // Unwrap safety: p and q are distinct primes, so q is not 0 modulo p.
        let q_inverse = gate.inverse(gate.reduce(q)).unwrap_or(FieldElement::ONE);
        let gate_shift = u32::BITS - gate.bits();
        Ok(LiftedFormat { cost, gate, gate_shift, q_inverse })
    }

    /// The format for rows of `features` features and costs of at most `bound`; `None` if they do
    /// not fit into one word. Both moduli follow from the rule: p exceeds the number of features,
    /// and q exceeds the bound and p. A deployment has gates of at least 4 bits.
    pub fn for_database(features: usize, bound: u128, rule: ModulusRule) -> Option<LiftedFormat> {
        let least = match rule {
            ModulusRule::Deployment => 1 << (Self::LEAST_GATE_BITS - 1),
            ModulusRule::Paper => 2,
        };
        let p = Field::above((features as u128).max(least), rule).ok()?.q();
        let q = Field::above(bound.max(u128::from(p)), rule).ok()?.q();
        LiftedFormat::new(q, p).ok()
    }

    /// The largest bound of a deployment with this many features; `None` if they do not fit into
    /// one word with any bound.
    pub fn largest_bound(features: usize) -> Option<u64> {
        let p = LiftedFormat::for_database(features, 1, ModulusRule::Deployment)?.gate;
        let q = Field::above(1 << (u32::BITS - p.bits() - 1), ModulusRule::Deployment).ok()?;
        Some(q.q() - 1)
    }

    /// F_q, the field of costs.
    pub fn cost_field(&self) -> &Field {
        &self.cost
    }

    /// F_p, the field of violations.
    pub fn gate_field(&self) -> &Field {
        &self.gate
    }

    /// The lowest bit of the gate in a word: 32 minus the bits of p.
    pub fn gate_shift(&self) -> u32 {
        self.gate_shift
    }

    /// q·p, the modulus of joined entries; below 2^32.
    pub fn product(&self) -> u32 {
        (self.cost.q() * self.gate.q()) as u32
    }

    /// The answer word of a cost and a gate.
    pub fn word(&self, cost: FieldElement, gate: FieldElement) -> u32 {
        (cost.value() | gate.value() << self.gate_shift) as u32
    }

    /// Cost and gate of an answer word; `None` if one of them is not reduced.
    pub fn split(&self, word: u32) -> Option<(FieldElement, FieldElement)> {
        let cost = word & ((1 << self.gate_shift) - 1);
        Some((self.cost.element(cost.into())?, self.gate.element((word >> self.gate_shift).into())?))
    }

    /// The number below q·p that is `cost` modulo q and `gate` modulo p (Chinese remainders).
    pub fn join(&self, cost: FieldElement, gate: FieldElement) -> u32 {
        let difference = self.gate.sub(gate, self.gate.reduce(cost.value()));
        let multiple = self.gate.mul(difference, self.q_inverse);
        (cost.value() + self.cost.q() * multiple.value()) as u32
    }

    /// The inverse of [`LiftedFormat::join`].
    pub fn separate(&self, joined: u32) -> (FieldElement, FieldElement) {
        (self.cost.reduce(joined.into()), self.gate.reduce(joined.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_moduli_follow_from_the_number_of_features() {
        let table = [(1, 12, 13, 28, 57), (13, 30, 31, 27, 39), (31, 60, 61, 26, 5), (61, 126, 127, 25, 39)];
        for (first, last, p, bits, below) in table.into_iter().chain([(127, 250, 251, 24, 3)]) {
            for features in [first, last] {
                let bound = LiftedFormat::largest_bound(features).unwrap();
                let format = LiftedFormat::for_database(features, bound.into(), ModulusRule::Deployment).unwrap();
                assert_eq!((format.gate_field().q(), format.cost_field().q()), (p, (1 << bits) - below), "{features}");
                assert_eq!((format.gate_shift(), bound), (bits, format.cost_field().q() - 1));
                assert!((p + 1) * format.cost_field().q() < 1 << 32);
                assert_eq!(LiftedFormat::for_database(features, u128::from(bound) + 1, ModulusRule::Deployment), None);
                // A smaller bound needs fewer bits. The gate stays at its place.
                let format = LiftedFormat::for_database(features, 1000, ModulusRule::Deployment).unwrap();
                assert_eq!((format.cost_field().q(), format.gate_shift()), (1021, bits));
            }
        }
        assert_eq!(LiftedFormat::for_database(251, 1, ModulusRule::Deployment), None);
        assert_eq!(LiftedFormat::largest_bound(251), None);
        let small = LiftedFormat::for_database(2, 3, ModulusRule::Paper).unwrap();
        assert_eq!((small.gate_field().q(), small.cost_field().q()), (3, 5));
    }

    #[test]
    fn joined_entries_and_words_are_inverted() {
        for (q, p) in [(5, 3), (7, 5), (268_435_399, 13), (16_777_213, 251)] {
            let format = LiftedFormat::new(q, p).unwrap();
            for cost in [0, 1, 2, q / 2, q - 2, q - 1] {
                for gate in 0..p {
                    let pair = (format.cost_field().reduce(cost), format.gate_field().reduce(gate));
                    let joined = format.join(pair.0, pair.1);
                    assert!(joined < format.product());
                    assert_eq!(format.separate(joined), pair);
                    assert_eq!(format.split(format.word(pair.0, pair.1)), Some(pair));
                }
            }
            assert_eq!(format.split(q as u32), None);
            assert_eq!(format.split((p as u32) << format.gate_shift()), None);
        }
    }

    #[test]
    fn unsuitable_moduli_are_refused() {
        assert_eq!(LiftedFormat::new(5, 7), Err(LiftedError::Order { p: 7, q: 5 }));
        assert_eq!(LiftedFormat::new(5, 5), Err(LiftedError::Order { p: 5, q: 5 }));
        assert_eq!(LiftedFormat::new(5, 2), Err(LiftedError::Order { p: 2, q: 5 }));
        assert_eq!(LiftedFormat::new(9, 3), Err(LiftedError::Field(FieldError::NotPrime(9))));
        let (q, p) = ((1 << 31) - 1, 13);
        assert_eq!(LiftedFormat::new(q, p), Err(LiftedError::TooManyBits { p, q, bits: 35 }));
    }
}
