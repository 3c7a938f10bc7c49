//! The secret query of a user, which no server may learn. It is wiped on drop and never printed.

use crate::field::{Field, FieldElement};
use crate::params::Params;
use crate::scheme::{self, ConstraintKind, CostModel, Needs, Scheme};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// A query in levels: x, I, w, and tables for schemes that support them.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct SecretQuery {
    x: Vec<u32>,
    immutable: Vec<bool>,
    weights: Vec<u64>,
    cost: Option<Vec<Vec<u64>>>,
    gate: Option<Vec<Vec<bool>>>,
}

impl std::fmt::Debug for SecretQuery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SecretQuery(..)")
    }
}

/// Why a secret query is invalid. Features count from 0. The texts contain no secret values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SecretQueryError {
    /// The length of a vector is not the number of features.
    #[error("{what} has {have} entries, but the database has {need} features")]
    Length {
        /// Which vector.
        what: &'static str,
        /// Entries given.
        have: usize,
        /// Entries expected.
        need: usize,
    },
    /// A level of x is above R_k.
    #[error("feature {feature}: the level is above the highest level of the feature")]
    Level {
        /// The feature, from 0.
        feature: usize,
    },
    /// A weight is 0 or above the limit.
    #[error("feature {feature}: the weight must be from 1 to {limit}, the limit of the manifest")]
    Weight {
        /// The feature, from 0.
        feature: usize,
        /// L1.
        limit: u64,
    },
    /// More immutable features than F.
    #[error("the query has more immutable features than {limit}, the limit of the manifest")]
    TooManyImmutable {
        /// F.
        limit: usize,
    },
    /// A table has the wrong size or an entry above the limit.
    #[error("feature {feature}: the {table} table needs {entries} entries of at most {limit}")]
    Table {
        /// The feature, from 0.
        feature: usize,
        /// Cost or gate.
        table: &'static str,
        /// R_k + 1.
        entries: usize,
        /// The manifest's cost limit.
        limit: u64,
    },
    /// The scheme does not support a part of the query.
    #[error("scheme {scheme} does not support {needs}; choose a scheme that does, such as {instead}")]
    Unsupported {
        /// The scheme's name.
        scheme: &'static str,
        /// What the query needs.
        needs: Needs,
        /// A scheme that supports it.
        instead: &'static str,
    },
}

impl SecretQuery {
    /// A query with the levels x, no constraints and all weights 1.
    pub fn new(x: Vec<u32>) -> SecretQuery {
        SecretQuery { immutable: vec![false; x.len()], weights: vec![1; x.len()], x, cost: None, gate: None }
    }

    /// Sets I, the features that must not change.
    pub fn immutable(mut self, immutable: Vec<bool>) -> SecretQuery {
        self.immutable = immutable;
        self
    }

    /// Sets a weight for each feature.
    pub fn weights(mut self, weights: Vec<u64>) -> SecretQuery {
        self.weights = weights;
        self
    }

    /// Sets the cost of every level of every feature, for schemes with table costs.
    pub fn cost_tables(mut self, cost: Vec<Vec<u64>>) -> SecretQuery {
        self.cost = Some(cost);
        self
    }

    /// Sets the forbidden levels (true) of every feature, for schemes with table gates.
    pub fn gate_tables(mut self, gate: Vec<Vec<bool>>) -> SecretQuery {
        self.gate = Some(gate);
        self
    }

    /// Checks whether `scheme` supports this query with these parameters.
    pub(crate) fn check(&self, scheme: &'static Scheme, params: &Params) -> Result<(), SecretQueryError> {
        let need = params.features();
        let lengths = [
            ("x", self.x.len()),
            ("the immutable set", self.immutable.len()),
            ("the weights", self.weights.len()),
            ("the cost tables", self.cost.as_ref().map_or(need, Vec::len)),
            ("the gate tables", self.gate.as_ref().map_or(need, Vec::len)),
        ];
        for (what, have) in lengths {
            if have != need {
                return Err(SecretQueryError::Length { what, have, need });
            }
        }
        if let Some(feature) = (0..need).find(|&k| self.x[k] > params.max_levels[k]) {
            return Err(SecretQueryError::Level { feature });
        }
        let limit = params.weight_limit;
        if let Some(feature) = (0..need).find(|&k| self.weights[k] == 0 || self.weights[k] > limit) {
            return Err(SecretQueryError::Weight { feature, limit });
        }
        let needs = self.needs();
        if !scheme.supports(needs) {
            let instead = scheme::smallest(needs.cost_model, needs.constraint).name;
            return Err(SecretQueryError::Unsupported { scheme: scheme.name, needs, instead });
        }
        if scheme.constraint == ConstraintKind::Scaled
            && self.immutable.iter().filter(|&&fixed| fixed).count() > params.immutable_limit
        {
            return Err(SecretQueryError::TooManyImmutable { limit: params.immutable_limit });
        }
        let limit = params.cost_limit;
        for (feature, &range) in params.max_levels.iter().enumerate() {
            let entries = range as usize + 1;
            if scheme.cost_model == CostModel::Table {
                let table = self.cost_table(feature, range);
                if table.len() != entries || table.iter().any(|&cost| cost > limit) {
                    return Err(SecretQueryError::Table { feature, table: "cost", entries, limit });
                }
            }
            if scheme.constraint == ConstraintKind::Table && self.gate_table(feature, range).len() != entries {
                return Err(SecretQueryError::Table { feature, table: "gate", entries, limit: 1 });
            }
        }
        Ok(())
    }

    fn needs(&self) -> Needs {
        let cost_model = if self.cost.is_some() {
            CostModel::Table
        } else if self.weights.iter().any(|&weight| weight != 1) {
            CostModel::Weighted
        } else {
            CostModel::Squared
        };
        let constraint = if self.gate.is_some() {
            ConstraintKind::Table
        } else if self.immutable.contains(&true) {
            ConstraintKind::Zeros
        } else {
            ConstraintKind::None
        };
        Needs { cost_model, constraint }
    }

    /// x as field elements.
    pub(crate) fn x(&self, field: &Field) -> Zeroizing<Vec<FieldElement>> {
        Zeroizing::new(self.x.iter().map(|&level| field.reduce(level.into())).collect())
    }

    /// w as field elements.
    pub(crate) fn w(&self, field: &Field) -> Vec<FieldElement> {
        self.weights.iter().map(|&weight| field.reduce(weight)).collect()
    }

    /// `inside` on I, and the weight elsewhere.
    pub(crate) fn w_with(&self, field: &Field, inside: u64) -> Vec<FieldElement> {
        let weight = |(&fixed, &weight)| field.reduce(if fixed { inside } else { weight });
        self.immutable.iter().zip(&self.weights).map(weight).collect()
    }

    /// The largest cost over the features outside I, with weights up to `weight_limit`.
    pub(crate) fn mutable_cost(&self, params: &Params, weight_limit: u64) -> u128 {
        let square = |(&fixed, &range): (&bool, &u32)| u128::from(!fixed) * u128::from(range).pow(2);
        let squares: u128 = self.immutable.iter().zip(&params.max_levels).map(square).sum();
        squares.saturating_mul(weight_limit.into())
    }

    /// h1 = 1[k ∈ I].
    pub(crate) fn h(&self, field: &Field) -> Vec<FieldElement> {
        self.immutable.iter().map(|&fixed| field.reduce(fixed.into())).collect()
    }

    /// All cost tables, concatenated.
    pub(crate) fn cost(&self, field: &Field, params: &Params) -> Vec<FieldElement> {
        let mut elements = Vec::with_capacity(params.levels());
        for (k, &range) in params.max_levels.iter().enumerate() {
            elements.extend(Zeroizing::new(self.cost_table(k, range)).iter().map(|&cost| field.reduce(cost)));
        }
        elements
    }

    /// All gate tables, concatenated; 1 is a violation.
    pub(crate) fn gate(&self, field: &Field, params: &Params) -> Vec<FieldElement> {
        let mut elements = Vec::with_capacity(params.levels());
        for (k, &range) in params.max_levels.iter().enumerate() {
            elements.extend(
                Zeroizing::new(self.gate_table(k, range)).iter().map(|&violates| field.reduce(violates.into())),
            );
        }
        elements
    }

    /// The cost of every level of a feature, and whether it is forbidden.
    pub(crate) fn tables(&self, k: usize, range: u32) -> (Zeroizing<Vec<u64>>, Zeroizing<Vec<bool>>) {
        (self.cost_table(k, range).into(), self.gate_table(k, range).into())
    }

    /// The cost table of feature k. Without given tables it is w_k(v − x_k)².
    fn cost_table(&self, k: usize, range: u32) -> Vec<u64> {
        match &self.cost {
            Some(tables) => tables[k].clone(),
            None => (0..=range).map(|v| self.table_cost(k, v)).collect(),
        }
    }

    /// One entry of this table.
    fn table_cost(&self, k: usize, v: u32) -> u64 {
        match &self.cost {
            Some(tables) => tables[k][v as usize],
            None => self.weights[k].saturating_mul(u64::from(v.abs_diff(self.x[k])).pow(2)),
        }
    }

    /// The gate table of feature k. Immutable features forbid every level other than x_k.
    fn gate_table(&self, k: usize, range: u32) -> Vec<bool> {
        let levels = self.gate.as_ref().map_or(range + 1, |tables| tables[k].len() as u32);
        (0..levels).map(|v| self.forbids(k, v)).collect()
    }

    /// One entry of this table.
    fn forbids(&self, k: usize, v: u32) -> bool {
        let listed = self.gate.as_ref().is_some_and(|tables| tables[k][v as usize]);
        listed || self.immutable[k] && v != self.x[k]
    }

    /// The cost that the protocol computes for a row, without secret sharing. The client uses it to
    /// check a fetched record. `None` if the row does not match.
    ///
    /// # Panics
    /// If the row does not fit the ranges, or the query does not pass the check of a search.
    pub fn plain_cost(&self, scheme: &Scheme, params: &Params, row: &[u16]) -> Option<u64> {
        let features = || row.iter().enumerate().map(|(k, &y)| (k, u32::from(y)));
        let matches = match scheme.constraint {
            ConstraintKind::None => true,
            ConstraintKind::Zeros | ConstraintKind::Scaled => {
                features().all(|(k, y)| !self.immutable[k] || y == self.x[k])
            }
            ConstraintKind::Table => features().all(|(k, y)| !self.forbids(k, y)),
        };
        let gap = |k: usize, y: u32| u64::from(y.abs_diff(self.x[k]));
        matches.then(|| {
            features()
                .map(|(k, y)| match scheme.cost_model {
                    CostModel::Squared => gap(k, y).pow(2),
                    CostModel::Weighted => self.weights[k] * gap(k, y).pow(2),
                    CostModel::Power => gap(k, y).pow(params.exponent),
                    CostModel::Product => u64::from(y) * u64::from(self.x[k]),
                    CostModel::Table => self.table_cost(k, y),
                })
                .sum()
        })
    }
}
