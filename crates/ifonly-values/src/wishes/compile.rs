//! Compiles wishes to a secret query: for every feature a table of permitted levels and a table of
//! integer costs.
//!
//! Costs are fractions, but servers add integers up to the manifest's cost limit. The client
//! multiplies its costs by a factor, as large as the limit permits, and rounds. The factor is as
//! secret as the costs; the limit is public and equal for all users. Rounding changes the cost of a
//! feature by at most 1/2, so the cost of a row by at most half the number of features.

use super::{CrossedLimit, Wish, WishError, WishNote, Wishes};
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
    /// deployment. If the scheme supports the wishes, every level is evaluated, even after an
    /// error: servers must not see from the time of the first message that wishes are invalid.
    pub fn compile(
        &self,
        own: &[EncodedValue],
        scheme: &'static Scheme,
        params: &Params,
    ) -> Result<CompiledWishes, WishError> {
        // A caller that knows the offered schemes checks before, for a better recommendation.
        self.check_supported(scheme, std::iter::empty())?;
        if own.len() != self.features.len() {
            return Err(SecretQueryError::Length { what: "x", have: own.len(), need: self.features.len() }.into());
        }
        let mut fault = None;
        let gates = self.gates(own, &mut fault);
        let x: Vec<u32> = own.iter().map(|own| own.level).collect();
        // Gate tables express all constraints, and tolerances loosen them.
        let has_tables = scheme.constraint == ConstraintKind::Table;
        let stays = |wish: &Wish| {
            if has_tables { wish.immutable && wish.named_tolerance() == 0.0 } else { wish.immutable || wish.held }
        };
        let mut secret = SecretQuery::new(x).immutable(self.features.iter().map(stays).collect());
        let mut notes = self.notes(own);
        let (mut unit, mut change_unit) = (1.0, 0);
        if scheme.cost_model == CostModel::Table {
            let mut costs = self.costs_of_levels(own, &gates, &mut fault);
            let scaled = self.integer_costs(own, &costs, params.cost_limit);
            notes.extend(self.rounding(&costs, scaled.unit));
            costs.iter_mut().for_each(Zeroize::zeroize);
            (unit, change_unit) = (scaled.unit, scaled.change_unit);
            secret = secret.cost_tables(scaled.tables);
        } else {
            match self.integer_weights(params.weight_limit) {
                Ok(weights) => secret = secret.weights(weights),
                Err(error) => fault = fault.or(Some(error)),
            }
        }
        if scheme.constraint == ConstraintKind::Table {
            secret = secret.gate_tables(gates);
        }
        if let Some(fault) = fault {
            return Err(fault);
        }
        Ok(CompiledWishes {
            secret,
            notes,
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

    /// The forbidden levels of every feature. The first error goes to `fault`.
    fn gates(&self, own: &[EncodedValue], fault: &mut Option<WishError>) -> Vec<Vec<bool>> {
        let features = self.features.iter().zip(self.schema.features()).zip(own);
        let mut gates = Vec::with_capacity(own.len());
        for ((wish, feature), own) in features {
            let gate: Vec<bool> = (0..=feature.max_level()).map(|level| !wish.permits(feature, own, level)).collect();
            if gate.iter().all(|&forbidden| forbidden) {
                fault.get_or_insert_with(|| WishError::Impossible { feature: feature.name.clone() });
            }
            gates.push(gate);
        }
        gates
    }

    /// The cost of every level. The first error goes to `fault`.
    fn costs_of_levels(
        &self,
        own: &[EncodedValue],
        gates: &[Vec<bool>],
        fault: &mut Option<WishError>,
    ) -> Vec<Vec<f64>> {
        let features = self.features.iter().zip(self.schema.features()).zip(own.iter().zip(gates));
        let mut tables = Vec::with_capacity(gates.len());
        for ((wish, feature), (own, gate)) in features {
            let mut cost = |(level, &forbidden): (u32, &bool)| {
                #[cfg(test)]
                tests::EVALUATED.set(tests::EVALUATED.get() + 1);
                match (forbidden, wish.cost_of_level(feature, own, level)) {
                    // Forbidden levels cost 0, so that no metric has to be defined for them.
                    (true, _) => 0.0,
                    (false, Ok(cost)) => cost,
                    (false, Err(error)) => {
                        fault.get_or_insert(error);
                        0.0
                    }
                }
            };
            tables.push((0..).zip(gate).map(&mut cost).collect());
        }
        tables
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
            let features = self.features.iter().zip(self.schema.features());
            for ((table, own), (wish, feature)) in tables.iter_mut().zip(own).zip(features) {
                for (level, cost) in (0..).zip(table) {
                    let is_unchanged = wish.is_unchanged(feature, own, level);
                    if !is_unchanged && !counted_elsewhere(feature, own.level) {
                        *cost = cost.saturating_add(change_unit);
                    }
                }
            }
        }
        IntegerCosts { tables, unit: 1.0 / factor, change_unit }
    }

    /// A note about features whose levels differ by less than the usual rounding error of a row, in
    /// units: each feature is rounded by at most half a unit, so the error is about √d.
    fn rounding(&self, costs: &[Vec<f64>], unit: f64) -> Option<WishNote> {
        let error = unit * (costs.len() as f64).sqrt();
        let is_lost = |table: &Vec<f64>| {
            let largest = table.iter().copied().fold(0.0, f64::max);
            let steps = table.len().saturating_sub(1).max(1) as f64;
            largest > 0.0 && largest / steps < error
        };
        let features = self.schema.features().iter().zip(costs).filter(|(_, table)| is_lost(table));
        let features: Vec<String> = features.map(|(feature, _)| feature.name.clone()).collect();
        (!features.is_empty()).then_some(WishNote::Rounded { features })
    }

    /// Integer weights, for schemes without cost tables.
    fn integer_weights(&self, limit: u64) -> Result<Vec<u64>, WishError> {
        let features = self.features.iter().zip(self.schema.features());
        features
            .map(|(wish, Feature { name, .. })| {
                let weight = wish.weight.integer().expect("`check_supported` has refused other weights");
                if (1..=limit).contains(&weight) {
                    Ok(weight)
                } else {
                    Err(WishError::Weight {
                        feature: name.clone(),
                        weight: weight.to_string(),
                        least: "1".into(),
                        most: limit.to_string(),
                        integer: true,
                    })
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
            for (wished, limit) in [(wish.only_up, CrossedLimit::OnlyUp), (wish.only_down, CrossedLimit::OnlyDown)] {
                if wished && splits_level {
                    notes.push(WishNote::Across { feature: name(), wish: limit, levels: shown(&[own.level]) });
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{FeatureKind, Quantiser, Scale, Schema};
    use crate::wishes::Metric;
    use ifonly_core::scheme;
    use std::cell::Cell;

    thread_local! {
        /// The number of levels whose costs were computed on this thread.
        pub(super) static EVALUATED: Cell<usize> = const { Cell::new(0) };
    }

    #[test]
    fn invalid_wishes_take_as_many_evaluations_as_valid_ones() {
        let kind = || FeatureKind::from(Scale::levels(0.0, 1.0, 4, Quantiser::Round).unwrap());
        let schema = Schema::new((0..300).map(|k| Feature::new(format!("f{k}"), kind())).collect()).unwrap();
        let params = Params::new(schema.max_levels(), 9);
        let own = schema.lowest_levels();
        let evaluated = |change: &dyn Fn(&mut Wishes)| {
            let mut wishes = Wishes::new(&schema);
            change(&mut wishes);
            EVALUATED.set(0);
            let result = wishes.compile(&own, scheme::DEFAULT, &params);
            (EVALUATED.get(), result.err())
        };
        let (usual, error) = evaluated(&|_| {});
        assert_eq!((usual, error), (300 * 5, None));
        // The first feature is impossible, and the metric needs deviations that no feature has.
        let (count, error) = evaluated(&|wishes| {
            wishes.immutable("f0").unwrap().permitted_range("f0", Some(&0.5.into()), None).unwrap();
        });
        assert_eq!(count, usual);
        assert!(matches!(error, Some(WishError::Impossible { .. })), "{error:?}");
        let (count, error) = evaluated(&|wishes| {
            wishes.set_metric_of_all(Metric::Mad);
        });
        assert_eq!(count, usual);
        assert!(matches!(error, Some(WishError::NoDeviation { .. })), "{error:?}");
        // Forbidden levels are evaluated too.
        let (count, error) = evaluated(&|wishes| {
            wishes.immutable("f7").unwrap();
        });
        assert_eq!((count, error), (usual, None));
    }
}
