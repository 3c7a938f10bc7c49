//! From wishes to the secret of a query: a table of permitted levels and a table of whole costs for
//! every feature.
//!
//! Costs are fractions; servers add whole numbers below the manifest's limit. The client multiplies
//! its own costs by a factor of its own, as large as the limit allows, and rounds: the factor is as
//! secret as the costs, and the limit is the same for everybody. Each feature's cost is off by half
//! a unit at most, so a row's by half as many units as there are features.

use super::{WishError, WishNote, Wishes};
use crate::schema::{EncodedValue, Feature};
use crate::wishes::metric::counted_elsewhere;
use ifonly_core::params::Params;
use ifonly_core::scheme::{ConstraintKind, CostModel, Scheme};
use ifonly_core::secret_query::{SecretQuery, SecretQueryError};
use zeroize::{Zeroize, Zeroizing};

/// A secret, and how to read its costs.
pub struct CompiledWishes {
    /// What the search carries.
    pub secret: SecretQuery,
    /// What the person should know about it.
    pub notes: Vec<WishNote>,
    /// What one unit of a decoded cost is worth.
    unit: Zeroizing<f64>,
    /// What one changed feature adds to the decoded cost under [`Wishes::few_changes`]; 0 without
    /// it.
    change_unit: Zeroizing<u64>,
    at_most: Option<u64>,
}

impl std::fmt::Debug for CompiledWishes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Compiled(..)")
    }
}

impl CompiledWishes {
    /// How many features a row of this decoded cost changes, where the wishes count changes.
    pub fn changes(&self, decoded: u64) -> Option<u64> {
        decoded.checked_div(*self.change_unit)
    }

    /// The cost behind a decoded one, without the price of counting changes.
    pub fn distance(&self, decoded: u64) -> f64 {
        decoded.checked_rem(*self.change_unit).unwrap_or(decoded) as f64 * *self.unit
    }

    /// Whether a row of this decoded cost keeps to "at most k changes". A preference: servers
    /// cannot filter by it, the client does.
    pub fn accepts(&self, decoded: u64) -> bool {
        self.changes(decoded).zip(self.at_most).is_none_or(|(changes, most)| changes <= most)
    }
}

impl Wishes {
    /// The secret of somebody with these values, for a scheme under a deployment's limits.
    pub fn compile(
        &self,
        own: &[EncodedValue],
        scheme: &'static Scheme,
        params: &Params,
    ) -> Result<CompiledWishes, WishError> {
        self.check_carried(scheme)?;
        if own.len() != self.features.len() {
            return Err(SecretQueryError::Length { what: "x", have: own.len(), need: self.features.len() }.into());
        }
        let gates = self.gates(own)?;
        let x: Vec<u32> = own.iter().map(|own| own.level).collect();
        let mut secret = SecretQuery::new(x).immutable(self.features.iter().map(|wish| wish.immutable).collect());
        let (mut unit, mut change_unit) = (1.0, 0);
        if scheme.cost_model == CostModel::Table {
            let mut costs = self.costs_of_levels(own, &gates)?;
            let whole = self.whole_costs(own, &costs, params.cost_limit);
            costs.iter_mut().for_each(Zeroize::zeroize);
            (unit, change_unit) = (whole.unit, whole.change_unit);
            secret = secret.cost_tables(whole.tables);
        } else {
            secret = secret.weights(self.whole_weights(params.weight_limit)?);
        }
        if scheme.constraint == ConstraintKind::Table {
            secret = secret.gate_tables(gates);
        }
        Ok(CompiledWishes {
            secret,
            notes: self.notes(own),
            unit: unit.into(),
            change_unit: change_unit.into(),
            at_most: self.max_changes,
        })
    }

    /// What the change of every feature costs, in values: the person's own beside somebody else's,
    /// both as they are.
    pub fn contributions(&self, own: &[EncodedValue], other: &[EncodedValue]) -> Result<Vec<f64>, WishError> {
        let features = self.features.iter().zip(self.schema.features());
        features
            .zip(own.iter().zip(other))
            .map(|((wish, feature), (own, other))| wish.cost(feature, own, other))
            .collect()
    }

    /// The forbidden levels of every feature.
    fn gates(&self, own: &[EncodedValue]) -> Result<Vec<Vec<bool>>, WishError> {
        let features = self.features.iter().zip(self.schema.features()).zip(own);
        features
            .map(|((wish, feature), own)| {
                let gate: Vec<bool> =
                    (0..=feature.max_level()).map(|level| !wish.permits(feature, own, level)).collect();
                match gate.iter().all(|&forbidden| forbidden) {
                    true => Err(WishError::Impossible { feature: feature.name.clone() }),
                    false => Ok(gate),
                }
            })
            .collect()
    }

    fn costs_of_levels(&self, own: &[EncodedValue], gates: &[Vec<bool>]) -> Result<Vec<Vec<f64>>, WishError> {
        let features = self.features.iter().zip(self.schema.features()).zip(own.iter().zip(gates));
        features
            .map(|((wish, feature), (own, gate))| {
                // What no row may have costs nothing, so that it needs no price either.
                let cost = |(level, &forbidden): (u32, &bool)| match forbidden {
                    true => Ok(0.0),
                    false => wish.cost(feature, own, &feature.at_level(level)),
                };
                (0..).zip(gate).map(cost).collect()
            })
            .collect()
    }

    /// Costs as whole numbers of at most `limit`; with [`Wishes::few_changes`] every changed
    /// feature adds more than all distances together.
    fn whole_costs(&self, own: &[EncodedValue], costs: &[Vec<f64>], limit: u64) -> Whole {
        let dearest = |table: &Vec<f64>| table.iter().copied().fold(0.0, f64::max);
        let (largest, all) = costs.iter().map(dearest).fold((0.0, 0.0), |(l, a): (f64, f64), d| (l.max(d), a + d));
        // With changes counted, an entry is at most one count (all distances, rounded up, and 1)
        // and one distance.
        let (need, room) = match self.max_changes {
            None => (largest, limit),
            Some(_) => (largest + all, limit.saturating_sub(costs.len() as u64 + 2)),
        };
        let factor = if need > 0.0 { room as f64 * (1.0 - f64::EPSILON) / need } else { 1.0 };
        // A cast from f64 saturates; the factor keeps products below the limit.
        let mut tables: Vec<Vec<u64>> = costs
            .iter()
            .map(|table| table.iter().map(|cost| ((cost * factor).round() as u64).min(limit)).collect())
            .collect();
        let mut change_unit = 0;
        if self.max_changes.is_some() {
            let dearest = |table: &Vec<u64>| table.iter().copied().max().unwrap_or(0);
            change_unit = tables.iter().map(dearest).fold(1u64, u64::saturating_add);
            for ((table, own), feature) in tables.iter_mut().zip(own).zip(self.schema.features()) {
                for (level, cost) in (0..).zip(table) {
                    if level != own.level && !counted_elsewhere(feature, own.level) {
                        *cost = cost.saturating_add(change_unit);
                    }
                }
            }
        }
        Whole { tables, unit: 1.0 / factor, change_unit }
    }

    /// Weights for the schemes that multiply squared numbers of levels by them.
    fn whole_weights(&self, limit: u64) -> Result<Vec<u64>, WishError> {
        let features = self.features.iter().zip(self.schema.features());
        features
            .map(|(wish, Feature { name, .. })| {
                // What is not whole has been refused as not carried.
                let weight = wish.weight.whole().unwrap_or(0);
                match (1..=limit).contains(&weight) {
                    true => Ok(weight),
                    false => Err(WishError::Weight {
                        feature: name.clone(),
                        weight: weight.to_string(),
                        least: "1".into(),
                        most: limit.to_string(),
                        whole: true,
                    }),
                }
            })
            .collect()
    }

    fn notes(&self, own: &[EncodedValue]) -> Vec<WishNote> {
        let mut notes = vec![];
        for ((wish, feature), own) in self.features.iter().zip(self.schema.features()).zip(own) {
            let name = || feature.name.clone();
            let shown = |levels: &[u32]| levels.iter().filter_map(|&level| feature.show_level(level)).collect();
            let interval = feature.interval(own.level);
            let cut = interval.is_some_and(|i| own.number.is_some_and(|number| i.low < number && number < i.high));
            if own.clamped {
                notes.extend(feature.show_level(own.level).map(|taken| WishNote::Clamped { feature: name(), taken }));
            }
            for (wished, levels) in wish.across.iter().filter(|(_, levels)| !levels.is_empty()) {
                notes.push(WishNote::Across { feature: name(), wish: wished.clone(), levels: shown(levels) });
            }
            for (wished, words) in [(wish.only_up, "only up"), (wish.only_down, "only down")] {
                if wished && cut {
                    notes.push(WishNote::Across { feature: name(), wish: words.into(), levels: shown(&[own.level]) });
                }
            }
            if wish.immutable && interval.is_some_and(|interval| !interval.is_point()) {
                notes.extend(feature.show_level(own.level).map(|within| WishNote::Stays { feature: name(), within }));
            }
        }
        notes
    }
}

struct Whole {
    tables: Vec<Vec<u64>>,
    unit: f64,
    change_unit: u64,
}
