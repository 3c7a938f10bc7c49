//! Search oracles: an attacker chooses a query, and the oracle returns the values that an
//! unmodified client decodes, with the record.
//!
//! [`EngineOracle`] runs the real protocol. [`ModelOracle`] computes the decoded values directly,
//! for attacks on larger databases; tests compare the two. The attacks accept any [`SearchOracle`].

use ifonly_algebra::random::SeededRandom;
use ifonly_core::params::Params;
use ifonly_core::secret_query::SecretQuery;

use crate::LabError;
use crate::engine::Engine;
use crate::leakage::{Decoded, LeakageScheme, RowOrder};
use crate::random::Stream;

/// A database of uniform rows.
#[derive(Debug, Clone)]
pub struct UniformDatabase {
    /// The largest level of every feature.
    pub r: u32,
    /// The rows.
    pub rows: Vec<Vec<u32>>,
}

impl UniformDatabase {
    /// M uniform rows of d features.
    pub fn uniform(r: u32, d: usize, m: usize, seed: u64) -> UniformDatabase {
        let mut stream = Stream::new(seed, 0x0770_71d5);
        let rows = (0..m).map(|_| (0..d).map(|_| stream.below(u64::from(r) + 1) as u32).collect()).collect();
        UniformDatabase { r, rows }
    }

    /// The number of features.
    pub fn d(&self) -> usize {
        self.rows.first().map_or(0, Vec::len)
    }

    /// The factor L = R²(d − |I|) + 1 of Single-Phase.
    pub fn scale(&self, immutable: &[bool]) -> i64 {
        let mutable = immutable.iter().filter(|&&fixed| !fixed).count();
        i64::from(self.r).pow(2) * mutable as i64 + 1
    }
}

/// What the user has after one search.
#[derive(Debug, Clone)]
pub struct AttackSearch {
    /// The decoded value of every row (with Diff: of every two consecutive rows), in the row order
    /// of the search.
    pub values: Vec<i64>,
    /// The position of the fetched record in that order.
    pub position: usize,
    /// The levels of the record.
    pub record: Vec<u32>,
}

/// Answers the searches of an attacker.
pub trait SearchOracle {
    /// One search with profile x; feature k is immutable if `immutable[k]`.
    fn search(&mut self, x: &[u32], immutable: &[bool]) -> Result<AttackSearch, LabError>;
}

/// Computes the decoded values from the rows.
#[derive(Debug)]
pub struct ModelOracle<'a> {
    database: &'a UniformDatabase,
    decoded: Decoded,
    d_min: u32,
    order: RowOrder,
    stream: Stream,
}

impl<'a> ModelOracle<'a> {
    /// An oracle for a scheme that decodes `decoded`.
    pub fn new(database: &'a UniformDatabase, decoded: Decoded, d_min: u32, order: RowOrder, seed: u64) -> Self {
        ModelOracle { database, decoded, d_min, order, stream: Stream::new(seed, 0x5e55_1015) }
    }
}

impl SearchOracle for ModelOracle<'_> {
    fn search(&mut self, x: &[u32], immutable: &[bool]) -> Result<AttackSearch, LabError> {
        let mut order: Vec<usize> = (0..self.database.rows.len()).collect();
        if self.order == RowOrder::Shuffled {
            self.stream.shuffle(&mut order);
        }
        let scale = self.database.scale(immutable);
        let costs: Vec<i64> = order
            .iter()
            .map(|&row| {
                let parts = self.database.rows[row].iter().zip(x).zip(immutable);
                let cost = parts.map(|((&y, &x), &immutable)| {
                    let square = i64::from(y.abs_diff(x)).pow(2);
                    if immutable && self.decoded == Decoded::Partials { scale * square } else { square }
                });
                cost.sum()
            })
            .collect();
        let values: Vec<i64> = match self.decoded {
            Decoded::Differences => costs.windows(2).map(|pair| pair[0] - pair[1]).collect(),
            Decoded::Masked => {
                costs.iter().map(|cost| cost + self.stream.below(u64::from(self.d_min)) as i64).collect()
            }
            _ => costs.clone(),
        };
        let position = (0..costs.len()).min_by_key(|&i| costs[i]).unwrap_or(0);
        let record = order.get(position).map(|&row| self.database.rows[row].clone()).unwrap_or_default();
        Ok(AttackSearch { values, position, record })
    }
}

/// Runs the real protocol.
pub struct EngineOracle {
    engine: Engine,
    random: SeededRandom,
    decoded: Decoded,
}

impl EngineOracle {
    /// An oracle for a one-phase scheme.
    pub fn new(
        database: &UniformDatabase,
        scheme: LeakageScheme,
        d_min: u32,
        order: RowOrder,
        seed: u64,
    ) -> Result<Self, LabError> {
        let rows: Vec<Vec<u16>> =
            database.rows.iter().map(|row| row.iter().map(|&level| level as u16).collect()).collect();
        let params = Params {
            d_min: d_min.into(),
            shuffle: order == RowOrder::Shuffled,
            ..Params::new(vec![database.r; database.d()], rows.len())
        };
        let engine = Engine::new(scheme.definition, params, &rows, seed)?;
        Ok(EngineOracle { engine, random: SeededRandom::new(seed), decoded: scheme.decoded })
    }
}

impl SearchOracle for EngineOracle {
    fn search(&mut self, x: &[u32], immutable: &[bool]) -> Result<AttackSearch, LabError> {
        let secret = SecretQuery::new(x.to_vec());
        let has_constraints = self.decoded == Decoded::Partials;
        let secret = if has_constraints { secret.immutable(immutable.to_vec()) } else { secret };
        self.engine.attack_search(&secret, &mut self.random)
    }
}

/// The costs of all rows after a search of Diff. The fetched record fixes the common offset.
pub(crate) fn costs_from_differences(search: &AttackSearch, x: &[u32]) -> Vec<i64> {
    let mut costs = vec![0i64];
    for difference in &search.values {
        costs.push(costs[costs.len() - 1] - difference);
    }
    let record_cost: i64 = search.record.iter().zip(x).map(|(&y, &x)| i64::from(y.abs_diff(x)).pow(2)).sum();
    let shift = record_cost - costs[search.position];
    costs.into_iter().map(|cost| cost + shift).collect()
}
