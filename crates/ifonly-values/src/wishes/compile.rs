//! Compiles wishes to a secret query: for every feature a table of permitted levels and a table of
//! integer costs.
//!
//! Costs are fractions, but servers add integers up to the manifest's cost limit. The client
//! multiplies its costs by a factor, as large as the limit permits, and rounds. The factor is as
//! secret as the costs; the limit is public and equal for all users. Rounding changes the cost of a
//! feature by at most 1/2, so the cost of a row by at most half the number of features.

use super::{WishError, WishNote, Wishes};
use crate::schema::{EncodedValue, Feature};
use crate::wishes::metric::counted_elsewhere;
use ifonly_core::params::Params;
use ifonly_core::scheme::{ConstraintKind, CostModel, Scheme};
use ifonly_core::secret_query::{SecretQuery, SecretQueryError};
use zeroize::{Zeroize, Zeroizing};

/// A secret query, and how to interpret its decoded costs.
pub struct CompiledWishes {
    /// The secret query of the search.
    pub secret: SecretQuery,
    /// Notes for the user.
    pub notes: Vec<WishNote>,
    /// The cost that one unit of a decoded cost stands for.
    unit: Zeroizing<f64>,
    /// What each changed feature adds to the decoded cost with [`Wishes::max_changes()`]; otherwise
    /// 0.
    change_unit: Zeroizing<u64>,
    max_changes: Option<u64>,
}

impl std::fmt::Debug for CompiledWishes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CompiledWishes(..)")
    }
}

impl CompiledWishes {
    /// Number of features that a row with this decoded cost changes, if the wishes limit changes.
    pub fn changes(&self, decoded: u64) -> Option<u64> {
        decoded.checked_div(*self.change_unit)
    }

    /// The cost in values of a decoded cost, without the part that counts changes.
    pub fn distance(&self, decoded: u64) -> f64 {
        decoded.checked_rem(*self.change_unit).unwrap_or(decoded) as f64 * *self.unit
    }

    /// Whether a row with this decoded cost has at most the permitted number of changes. The client
    /// filters by it; servers cannot.
    pub fn accepts(&self, decoded: u64) -> bool {
        self.changes(decoded).zip(self.max_changes).is_none_or(|(changes, most)| changes <= most)
    }
}

impl Wishes {
    /// Compiles the wishes of a user with these values, for one scheme and the limits of a
    /// deployment.
    pub fn compile(
        &self,
        own: &[EncodedValue],
        scheme: &'static Scheme,
        params: &Params,
    ) -> Result<CompiledWishes, WishError> {
        self.check_supported(scheme)?;
        if own.len() != self.features.len() {
            return Err(SecretQueryError::Length { what: "x", have: own.len(), need: self.features.len() }.into());
        }
        let gates = self.gates(own)?;
        let x: Vec<u32> = own.iter().map(|own| own.level).collect();
        let mut secret = SecretQuery::new(x).immutable(self.features.iter().map(|wish| wish.immutable).collect());
        let (mut unit, mut change_unit) = (1.0, 0);
        if scheme.cost_model == CostModel::Table {
            let mut costs = self.costs_of_levels(own, &gates)?;
            let scaled = self.integer_costs(own, &costs, params.cost_limit);
            costs.iter_mut().for_each(Zeroize::zeroize);
            (unit, change_unit) = (scaled.unit, scaled.change_unit);
            secret = secret.cost_tables(scaled.tables);
        } else {
            secret = secret.weights(self.integer_weights(params.weight_limit)?);
        }
        if scheme.constraint == ConstraintKind::Table {
            secret = secret.gate_tables(gates);
        }
        Ok(CompiledWishes {
            secret,
            notes: self.notes(own),
            unit: unit.into(),
            change_unit: change_unit.into(),
            max_changes: self.max_changes,
        })
    }

    /// The cost of each feature's change from the user's values to those of a row. Both are exact
    /// values, not levels.
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
                // Forbidden levels cost 0, so that no metric has to be defined for them.
                let cost = |(level, &forbidden): (u32, &bool)| match forbidden {
                    true => Ok(0.0),
                    false => wish.cost(feature, own, &feature.at_level(level)),
                };
                (0..).zip(gate).map(cost).collect()
            })
            .collect()
    }

    /// Costs as integers of at most `limit`. With [`Wishes::max_changes()`], every changed feature
    /// adds more than all distances together.
    fn integer_costs(&self, own: &[EncodedValue], costs: &[Vec<f64>], limit: u64) -> IntegerCosts {
        let largest_entry = |table: &Vec<f64>| table.iter().copied().fold(0.0, f64::max);
        let (largest, all) =
            costs.iter().map(largest_entry).fold((0.0, 0.0), |(l, a): (f64, f64), d| (l.max(d), a + d));
        // If changes are counted, an entry is at most one change unit (all distances, rounded up,
        // and 1) plus one distance.
        let (need, available) = match self.max_changes {
            None => (largest, limit),
            Some(_) => (largest + all, limit.saturating_sub(costs.len() as u64 + 2)),
        };
        let factor = if need > 0.0 { available as f64 * (1.0 - f64::EPSILON) / need } else { 1.0 };
        // The cast from f64 saturates, and the factor keeps products within the limit.
        let mut tables: Vec<Vec<u64>> = costs
            .iter()
            .map(|table| table.iter().map(|cost| ((cost * factor).round() as u64).min(limit)).collect())
            .collect();
        let mut change_unit = 0;
        if self.max_changes.is_some() {
            let largest_entry = |table: &Vec<u64>| table.iter().copied().max().unwrap_or(0);
            change_unit = tables.iter().map(largest_entry).fold(1u64, u64::saturating_add);
            for ((table, own), feature) in tables.iter_mut().zip(own).zip(self.schema.features()) {
                for (level, cost) in (0..).zip(table) {
                    if level != own.level && !counted_elsewhere(feature, own.level) {
                        *cost = cost.saturating_add(change_unit);
                    }
                }
            }
        }
        IntegerCosts { tables, unit: 1.0 / factor, change_unit }
    }

    /// Integer weights, for schemes without cost tables.
    fn integer_weights(&self, limit: u64) -> Result<Vec<u64>, WishError> {
        let features = self.features.iter().zip(self.schema.features());
        features
            .map(|(wish, Feature { name, .. })| {
                // `check_supported` has refused other weights.
                let weight = wish.weight.integer().unwrap_or(0);
                match (1..=limit).contains(&weight) {
                    true => Ok(weight),
                    false => Err(WishError::Weight {
                        feature: name.clone(),
                        weight: weight.to_string(),
                        least: "1".into(),
                        most: limit.to_string(),
                        integer: true,
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
            let splits_level =
                interval.is_some_and(|i| own.number.is_some_and(|number| i.low < number && number < i.high));
            if own.clamped {
                notes.extend(feature.show_level(own.level).map(|taken| WishNote::Clamped { feature: name(), taken }));
            }
            for (wish, levels) in wish.across.iter().filter(|(_, levels)| !levels.is_empty()) {
                notes.push(WishNote::Across { feature: name(), wish: wish.clone(), levels: shown(levels) });
            }
            for (wished, words) in [(wish.only_up, "only up"), (wish.only_down, "only down")] {
                if wished && splits_level {
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

/// Cost tables of integers, and the meaning of their units as in [`CompiledWishes`].
struct IntegerCosts {
    tables: Vec<Vec<u64>>,
    unit: f64,
    change_unit: u64,
}
