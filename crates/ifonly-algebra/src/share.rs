//! Shamir sharing with threshold T at N points: `s + α·Z_1 + … + α^T·Z_T`, the Z fresh and uniform.

use crate::field::{Field, Symbol};
use crate::random::Random;
use zeroize::Zeroize;

/// Distinct, non-zero evaluation points, one per server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Points(Vec<Symbol>);

/// Why some numbers are not evaluation points.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PointsError {
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

impl Points {
    /// Points from signed integers, as manifests write them.
    pub fn new(field: &Field, alphas: &[i64]) -> Result<Points, PointsError> {
        let points: Vec<Symbol> = alphas.iter().map(|&alpha| field.reduce_signed(alpha)).collect();
        for (place, point) in points.iter().enumerate() {
            if point.is_zero() {
                return Err(PointsError::Zero { server: place + 1 });
            }
            if let Some(earlier) = points[..place].iter().position(|other| other == point) {
                return Err(PointsError::Repeated { first: earlier + 1, second: place + 1 });
            }
        }
        Ok(Points(points))
    }

    /// 1, −1, 2, −2, …: with two servers, decoding is then a sum.
    pub fn usual(field: &Field, servers: usize) -> Result<Points, PointsError> {
        if (servers as u64) >= field.q() {
            return Err(PointsError::TooFew { servers, q: field.q() });
        }
        let alphas: Vec<i64> = (0..servers as i64).map(|n| (n / 2 + 1) * if n % 2 == 0 { 1 } else { -1 }).collect();
        Points::new(field, &alphas)
    }

    /// The points in order of the servers.
    pub fn as_slice(&self) -> &[Symbol] {
        &self.0
    }
}

/// One vector per slot: secrets, or the share of one server. Wiped on drop, never printed.
#[derive(Clone, PartialEq, Eq, Hash, Zeroize)]
#[zeroize(drop)]
pub struct Vectors(Vec<Vec<Symbol>>);

impl Vectors {
    /// These vectors.
    pub fn new(vectors: impl Into<Vec<Vec<Symbol>>>) -> Vectors {
        Vectors(vectors.into())
    }

    /// The vector of one slot.
    pub fn slot(&self, slot: usize) -> &[Symbol] {
        &self.0[slot]
    }

    /// Vector by vector.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[Symbol]> {
        self.0.iter().map(Vec::as_slice)
    }

    /// One more vector.
    pub fn push(&mut self, vector: Vec<Symbol>) {
        self.0.push(vector);
    }
}

impl std::fmt::Debug for Vectors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Vectors(..)")
    }
}

/// The share of one vector for each point.
pub fn share(
    field: &Field,
    points: &[Symbol],
    threshold: usize,
    secret: &[Symbol],
    random: &mut (impl Random + ?Sized),
) -> Vec<Vec<Symbol>> {
    let mut shares: Vec<Vec<Symbol>> = points.iter().map(|_| Vec::with_capacity(secret.len())).collect();
    let mut noise = vec![Symbol::ZERO; threshold];
    for &symbol in secret {
        for z in &mut noise {
            *z = field.sample(random);
        }
        for (share, &alpha) in shares.iter_mut().zip(points) {
            let masked = noise.iter().rev().fold(Symbol::ZERO, |sum, &z| field.mul(alpha, field.add(sum, z)));
            share.push(field.add(symbol, masked));
        }
    }
    noise.zeroize();
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Exhaustive;
    use std::collections::BTreeMap;

    #[test]
    fn any_t_shares_are_uniform_whatever_the_secret() {
        let field = Field::new(5).unwrap();
        let points = Points::usual(&field, 3).unwrap();
        for threshold in [1, 2] {
            for secret in 0..5 {
                let mut counts = vec![BTreeMap::new(); 9];
                let mut all = Exhaustive::default();
                while all.turn() {
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
        assert_eq!(Points::new(&field, &[1, 0]), Err(PointsError::Zero { server: 2 }));
        assert_eq!(Points::new(&field, &[1, 5]), Err(PointsError::Zero { server: 2 }));
        assert_eq!(Points::new(&field, &[1, -1, 4]), Err(PointsError::Repeated { first: 2, second: 3 }));
        assert_eq!(Points::usual(&field, 5), Err(PointsError::TooFew { servers: 5, q: 5 }));
        let usual: Vec<u64> = Points::usual(&field, 4).unwrap().as_slice().iter().map(|p| p.value()).collect();
        assert_eq!(usual, [1, 4, 2, 3]);
    }
}
