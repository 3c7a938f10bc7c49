//! Shamir secret sharing with threshold T at N evaluation points.
//!
//! The share of a secret s at point α is `s + α·Z_1 + … + α^T·Z_T`, with Z_1, …, Z_T fresh and
//! uniform. Any T shares are uniform and independent of s.

use crate::field::{Field, FieldElement};
use crate::random::RandomSource;
use zeroize::Zeroize;

/// Distinct, non-zero evaluation points, one per server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvaluationPoints(Vec<FieldElement>);

/// Why evaluation points were refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EvaluationPointsError {
    /// A point is 0, where the share is the secret itself.
    #[error("server {server}: α = 0 would reveal the secret to this server; α must not be 0 modulo q")]
    Zero {
        /// Server index, counted from 1.
        server: usize,
    },
    /// Two servers have the same point, hence the same share.
    #[error("servers {first} and {second} have the same α; the points must differ modulo q")]
    Repeated {
        /// Server index, counted from 1.
        first: usize,
        /// Server index, counted from 1.
        second: usize,
    },
    /// The field has too few non-zero elements for N servers.
    #[error("{servers} servers need {servers} distinct non-zero points, but q is only {q}")]
    TooFew {
        /// N, the number of servers.
        servers: usize,
        /// q, the size of the field.
        q: u64,
    },
}

impl EvaluationPoints {
    /// Points from signed integers, as manifests write them.
    pub fn new(field: &Field, alphas: &[i64]) -> Result<EvaluationPoints, EvaluationPointsError> {
        let points: Vec<FieldElement> = alphas.iter().map(|&alpha| field.reduce_signed(alpha)).collect();
        for (index, point) in points.iter().enumerate() {
            if point.is_zero() {
                return Err(EvaluationPointsError::Zero { server: index + 1 });
            }
            if let Some(earlier) = points[..index].iter().position(|other| other == point) {
                return Err(EvaluationPointsError::Repeated { first: earlier + 1, second: index + 1 });
            }
        }
        Ok(EvaluationPoints(points))
    }

    /// The default points 1, −1, 2, −2, …. With two servers, decoding is then a sum.
    pub fn usual(field: &Field, servers: usize) -> Result<EvaluationPoints, EvaluationPointsError> {
        if (servers as u64) >= field.q() {
            return Err(EvaluationPointsError::TooFew { servers, q: field.q() });
        }
        let alphas: Vec<i64> = (0..servers as i64).map(|n| (n / 2 + 1) * if n % 2 == 0 { 1 } else { -1 }).collect();
        EvaluationPoints::new(field, &alphas)
    }

    /// The points in order of the servers.
    pub fn as_slice(&self) -> &[FieldElement] {
        &self.0
    }
}

/// One vector per slot: the secret, or the share of one server. Wiped on drop and never printed.
#[derive(Clone, PartialEq, Eq, Hash, Zeroize)]
#[zeroize(drop)]
pub struct SlotVectors(Vec<Vec<FieldElement>>);

impl SlotVectors {
    /// Takes one vector per slot.
    pub fn new(vectors: impl Into<Vec<Vec<FieldElement>>>) -> SlotVectors {
        SlotVectors(vectors.into())
    }

    /// The vector of one slot.
    pub fn slot(&self, slot: usize) -> &[FieldElement] {
        &self.0[slot]
    }

    /// All vectors, in the order of the slots.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[FieldElement]> {
        self.0.iter().map(Vec::as_slice)
    }

    /// Appends the vector of another slot.
    pub fn push(&mut self, vector: Vec<FieldElement>) {
        self.0.push(vector);
    }
}

impl std::fmt::Debug for SlotVectors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SlotVectors(..)")
    }
}

/// Shares one vector: returns one share per point.
pub fn share(
    field: &Field,
    points: &[FieldElement],
    threshold: usize,
    secret: &[FieldElement],
    random: &mut (impl RandomSource + ?Sized),
) -> Vec<Vec<FieldElement>> {
    let mut shares: Vec<Vec<FieldElement>> = points.iter().map(|_| Vec::with_capacity(secret.len())).collect();
    let mut noise = vec![FieldElement::ZERO; threshold];
    for &element in secret {
        for z in &mut noise {
            *z = field.sample(random);
        }
        for (share, &alpha) in shares.iter_mut().zip(points) {
            let masked = noise.iter().rev().fold(FieldElement::ZERO, |sum, &z| field.mul(alpha, field.add(sum, z)));
            share.push(field.add(element, masked));
        }
    }
    noise.zeroize();
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::ExhaustiveRandom;
    use std::collections::BTreeMap;

    #[test]
    fn any_t_shares_are_uniform_whatever_the_secret() {
        let field = Field::new(5).unwrap();
        let points = EvaluationPoints::usual(&field, 3).unwrap();
        for threshold in [1, 2] {
            for secret in 0..5 {
                let mut counts = vec![BTreeMap::new(); 9];
                let mut all = ExhaustiveRandom::default();
                while all.next_run() {
                    let secret = [field.reduce(secret)];
                    let shares = share(&field, points.as_slice(), threshold, &secret, &mut all);
                    for (pair_index, counts) in counts.iter_mut().enumerate() {
                        let pair = (shares[pair_index / 3][0], shares[pair_index % 3][0]);
                        *counts.entry(pair).or_insert(0) += 1;
                    }
                }
                for (pair_index, counts) in counts.iter().enumerate() {
                    let distinct = if pair_index / 3 == pair_index % 3 || threshold == 1 { 5 } else { 25 };
                    assert_eq!(counts.len(), distinct);
                    assert!(counts.values().all(|&count| count == 5usize.pow(threshold as u32) / distinct));
                }
            }
        }
    }

    #[test]
    fn zero_and_repeated_points_are_refused() {
        let field = Field::new(5).unwrap();
        assert_eq!(EvaluationPoints::new(&field, &[1, 0]), Err(EvaluationPointsError::Zero { server: 2 }));
        assert_eq!(EvaluationPoints::new(&field, &[1, 5]), Err(EvaluationPointsError::Zero { server: 2 }));
        assert_eq!(
            EvaluationPoints::new(&field, &[1, -1, 4]),
            Err(EvaluationPointsError::Repeated { first: 2, second: 3 })
        );
        assert_eq!(EvaluationPoints::usual(&field, 5), Err(EvaluationPointsError::TooFew { servers: 5, q: 5 }));
        let usual: Vec<u64> =
            EvaluationPoints::usual(&field, 4).unwrap().as_slice().iter().map(|p| p.value()).collect();
        assert_eq!(usual, [1, 4, 2, 3]);
    }
}
