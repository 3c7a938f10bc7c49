//! Sessions of one user: each asks with a query of their choice and keeps what an honest client
//! decodes, plus the record that the session ends with.
//!
//! [`EngineSessions`] runs the real protocol; [`ModelSessions`] computes the decoded values
//! directly, which is what the protocol is proved to give, for attacks on larger databases. The
//! attacks take any [`Sessions`].

use ifonly_algebra::random::SeededRandom;
use ifonly_core::params::Params;
use ifonly_core::secret_query::SecretQuery;

use crate::LabError;
use crate::engine::{Engine, record_of};
use crate::leakage::{Decoded, LeakageScheme, RowOrder};
use crate::random::Stream;

/// A database of uniform rows.
#[derive(Debug, Clone)]
pub struct UniformDatabase {
    /// The highest level of every feature.
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

    /// Single-Phase's factor L = Δ + 1.
    pub fn scale(&self) -> i64 {
        i64::from(self.r).pow(2) * self.d() as i64 + 1
    }
}

/// What one session leaves the user with.
#[derive(Debug, Clone)]
pub struct AttackSearch {
    /// The decoded value of every row (of every pair of neighbours, for Diff), in the order that
    /// was served.
    pub values: Vec<i64>,
    /// The place of the fetched record in that order.
    pub place: usize,
    /// The record.
    pub record: Vec<u32>,
}

/// Someone who answers sessions.
pub trait SearchOracle {
    /// One session with query x; `immutable[k]` says that feature k is held.
    fn ask(&mut self, x: &[u32], immutable: &[bool]) -> Result<AttackSearch, LabError>;
}

/// Sessions computed from the rows.
#[derive(Debug)]
pub struct ModelOracle<'a> {
    world: &'a UniformDatabase,
    decoded: Decoded,
    d_min: u32,
    order: RowOrder,
    stream: Stream,
}

impl<'a> ModelOracle<'a> {
    /// Sessions against a scheme that decodes this.
    pub fn new(world: &'a UniformDatabase, decoded: Decoded, d_min: u32, order: RowOrder, seed: u64) -> Self {
        ModelOracle { world, decoded, d_min, order, stream: Stream::new(seed, 0x5e55_1015) }
    }
}

impl SearchOracle for ModelOracle<'_> {
    fn ask(&mut self, x: &[u32], immutable: &[bool]) -> Result<AttackSearch, LabError> {
        let mut order: Vec<usize> = (0..self.world.rows.len()).collect();
        if self.order == RowOrder::Shuffled {
            self.stream.shuffle(&mut order);
        }
        let scale = self.world.scale();
        let costs: Vec<i64> = order
            .iter()
            .map(|&row| {
                let parts = self.world.rows[row].iter().zip(x).zip(immutable);
                let cost = parts.map(|((&y, &x), &held)| {
                    let square = i64::from(y.abs_diff(x)).pow(2);
                    if held && self.decoded == Decoded::Partials { scale * square } else { square }
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
        let place = (0..costs.len()).min_by_key(|&i| costs[i]).unwrap_or(0);
        let record = order.get(place).map(|&row| self.world.rows[row].clone()).unwrap_or_default();
        Ok(AttackSearch { values, place, record })
    }
}

/// Sessions with the real engine.
pub struct EngineOracle {
    engine: Engine,
    random: SeededRandom,
    decoded: Decoded,
}

impl EngineOracle {
    /// Sessions of a one-phase scheme.
    pub fn new(
        world: &UniformDatabase,
        scheme: LeakageScheme,
        d_min: u32,
        order: RowOrder,
        seed: u64,
    ) -> Result<Self, LabError> {
        let rows: Vec<Vec<u16>> =
            world.rows.iter().map(|row| row.iter().map(|&level| level as u16).collect()).collect();
        let records: Vec<Vec<u8>> = rows.iter().map(|row| record_of(row)).collect();
        let params = Params {
            d_min: d_min.into(),
            shuffle: order == RowOrder::Shuffled,
            ..Params::new(vec![world.r; world.d()], rows.len())
        };
        let engine = Engine::new(scheme.described, params, &rows, &records, seed)?;
        Ok(EngineOracle { engine, random: SeededRandom::new(seed), decoded: scheme.decoded })
    }
}

impl SearchOracle for EngineOracle {
    fn ask(&mut self, x: &[u32], immutable: &[bool]) -> Result<AttackSearch, LabError> {
        let secret = SecretQuery::new(x.to_vec());
        let held = self.decoded == Decoded::Partials;
        let secret = if held { secret.immutable(immutable.to_vec()) } else { secret };
        self.engine.session(&secret, &mut self.random)
    }
}

/// The costs that a session of Diff stands for: the fetched record anchors the differences.
pub(crate) fn costs_from_differences(session: &AttackSearch, x: &[u32]) -> Vec<i64> {
    let mut costs = vec![0i64];
    for difference in &session.values {
        costs.push(costs[costs.len() - 1] - difference);
    }
    let anchor: i64 = session.record.iter().zip(x).map(|(&y, &x)| i64::from(y.abs_diff(x)).pow(2)).sum();
    let shift = anchor - costs[session.place];
    costs.into_iter().map(|cost| cost + shift).collect()
}
