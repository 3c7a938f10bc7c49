//! Shamir sharing with threshold T at N points: `s + α·Z_1 + … + α^T·Z_T`, the Z fresh and uniform.

use crate::field::{Field, FieldElement};
use crate::random::RandomSource;
use zeroize::Zeroize;

/// Distinct, non-zero evaluation points, one per server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvaluationPoints(Vec<FieldElement>);

/// Why some numbers are not evaluation points.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EvaluationPointsError {
    /// The server at α = 0 would see the secret itself.
    #[error("server {server}: α = 0 would hand the secret itself to the server")]
    Zero {
        /// Counted from 1.
        server: usize,
    },
    /// Two servers at one point hold the same share.
    #[error("servers {first} and {second} have the same α")]
    Repeated {
        /// Counted from 1.
        first: usize,
        /// Counted from 1.
        second: usize,
    },
    /// q is too small for so many servers.
    #[error("{servers} servers need as many non-zero points, but q = {q}")]
    TooFew {
        /// N.
        servers: usize,
        /// The field.
        q: u64,
    },
}

impl EvaluationPoints {
    /// Points from signed integers, as manifests write them.
    pub fn new(field: &Field, alphas: &[i64]) -> Result<EvaluationPoints, EvaluationPointsError> {
        let points: Vec<FieldElement> = alphas.iter().map(|&alpha| field.reduce_signed(alpha)).collect();
        for (place, point) in points.iter().enumerate() {
            if point.is_zero() {
                return Err(EvaluationPointsError::Zero { server: place + 1 });
            }
            if let Some(earlier) = points[..place].iter().position(|other| other == point) {
                return Err(EvaluationPointsError::Repeated { first: earlier + 1, second: place + 1 });
            }
        }
        Ok(EvaluationPoints(points))
    }

    /// 1, −1, 2, −2, …: with two servers, decoding is then a sum.
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

/// One vector per slot: secrets, or the share of one server. Wiped on drop, never printed.
#[derive(Clone, PartialEq, Eq, Hash, Zeroize)]
#[zeroize(drop)]
pub struct SlotVectors(Vec<Vec<FieldElement>>);

impl SlotVectors {
    /// These vectors.
    pub fn new(vectors: impl Into<Vec<Vec<FieldElement>>>) -> SlotVectors {
        SlotVectors(vectors.into())
    }

    /// The vector of one slot.
    pub fn slot(&self, slot: usize) -> &[FieldElement] {
        &self.0[slot]
    }

    /// Vector by vector.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[FieldElement]> {
        self.0.iter().map(Vec::as_slice)
    }

    /// One more vector.
    pub fn push(&mut self, vector: Vec<FieldElement>) {
        self.0.push(vector);
    }
}

impl std::fmt::Debug for SlotVectors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Vectors(..)")
    }
}

/// The share of one vector for each point.
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
                    for (place, counts) in counts.iter_mut().enumerate() {
                        let pair = (shares[place / 3][0], shares[place % 3][0]);
                        *counts.entry(pair).or_insert(0) += 1;
                    }
                }
                for (place, counts) in counts.iter().enumerate() {
                    let distinct = if place / 3 == place % 3 || threshold == 1 { 5 } else { 25 };
                    assert_eq!(counts.len(), distinct);
                    assert!(counts.values().all(|&count| count == 5usize.pow(threshold as u32) / distinct));
                }
            }
        }
    }

    #[test]
    fn points_refuse_zero_and_repetition() {
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
