//! Schemes as data: which vectors are shared, what each server computes from its shares, and how
//! decoded values become costs.
//!
//! A [`Scheme`] determines the number of servers, the sizes of all messages, the field, the
//! communication cost and the generated documentation (see
//! [`SchemeInstance`](crate::scheme::instance::SchemeInstance)). Threshold, silent and lying
//! servers, verification and shuffle are implemented once for all schemes and appear in no
//! description. To add a scheme, write a short file in `own/` and list it in [`ALL`].

use crate::field::{Field, FieldElement};
use crate::params::Params;
use crate::row_function::{RowFunction, RowFunctionKind, RowProgram};
use crate::secret_query::SecretQuery;
use crate::share::SlotVectors;

mod encoding;
pub mod instance;
pub mod kind;
mod lengths;
mod own;
mod paper;
pub mod sealed;

/// The complete description of a scheme.
#[derive(Debug)]
pub struct Scheme {
    /// Name on the command line, in manifests and in messages.
    pub name: &'static str,
    /// Where it comes from.
    pub origin: Origin,
    /// What the user learns in addition to the record, for the documentation.
    pub learns: &'static str,
    /// How rows are compared.
    pub cost_model: CostModel,
    /// Which rows match.
    pub constraint: ConstraintKind,
    /// The largest decoded value; q must exceed it.
    pub bound: fn(&Params) -> u128,
    /// The phases, in order.
    pub phases: &'static [Phase],
}

impl Scheme {
    /// Whether the scheme supports queries with these needs.
    pub fn supports(&self, needs: Needs) -> bool {
        self.supports_costs(needs.cost_model) && self.supports_constraint(needs.constraint)
    }

    /// Whether the scheme supports costs of this kind. Tables express every cost; weights also
    /// express the squared distance.
    pub fn supports_costs(&self, wanted: CostModel) -> bool {
        match wanted {
            CostModel::Table => self.cost_model == CostModel::Table,
            CostModel::Weighted => matches!(self.cost_model, CostModel::Weighted | CostModel::Table),
            _ => true,
        }
    }

    /// Whether the servers compute the result together, so that nobody decodes values of rows.
    pub fn is_joint(&self) -> bool {
        self.phases.is_empty()
    }

    /// Whether the scheme belongs to the gated family: one phase, and rows that do not match reveal
    /// nothing.
    pub fn is_gated(&self) -> bool {
        matches!(self.phases, [Phase { decode_rule: DecodeRule::Gated, .. }])
    }

    /// Whether the scheme counts violated features, so that its gate may be lifted
    /// ([`ifonly_algebra::lifted`]).
    pub(crate) fn counts_violations(&self) -> bool {
        self.is_gated() && self.phases.iter().flat_map(|phase| phase.slots).any(|slot| slot.is_gate)
    }

    /// Whether the servers add masks to the distances.
    pub fn is_masked(&self) -> bool {
        self.phases.iter().any(|phase| matches!(phase.decode_rule, DecodeRule::Masked))
    }

    /// Whether the scheme supports constraints of this kind. Tables express every constraint; every
    /// gate expresses immutable features.
    pub fn supports_constraint(&self, wanted: ConstraintKind) -> bool {
        match wanted {
            ConstraintKind::None => true,
            ConstraintKind::Zeros | ConstraintKind::Scaled => self.constraint != ConstraintKind::None,
            ConstraintKind::Table => self.constraint == ConstraintKind::Table,
        }
    }
}

/// Where a scheme comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The paper, with its errata corrected (docs/paper.md).
    Paper,
    /// This project.
    Ours,
}

/// How rows are compared. Later kinds leave the user more choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CostModel {
    /// Σ (y − x)².
    Squared,
    /// Σ w(y − x)².
    Weighted,
    /// Σ (y − x)^p.
    Power,
    /// Σ xy; the largest value wins.
    Product,
    /// `Σ T_k[y_k]`.
    Table,
}

/// Which rows match. Later kinds leave the user more choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConstraintKind {
    /// All rows.
    None,
    /// Rows that equal x on I; other rows reveal nothing.
    Zeros,
    /// Rows that equal x on I; other rows reveal their distance.
    Scaled,
    /// Rows without a forbidden level; other rows reveal nothing.
    Table,
}

/// What a query needs of a scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// How it compares rows.
    pub cost_model: CostModel,
    /// Which rows may match.
    pub constraint: ConstraintKind,
}

impl std::fmt::Display for Needs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let costs = match self.cost_model {
            CostModel::Weighted => Some("weights"),
            CostModel::Table => Some("cost tables"),
            _ => None,
        };
        let constraint = match self.constraint {
            ConstraintKind::Zeros | ConstraintKind::Scaled => Some("immutable features"),
            ConstraintKind::Table => Some("permitted sets"),
            ConstraintKind::None => None,
        };
        let parts: Vec<&str> = costs.into_iter().chain(constraint).collect();
        f.write_str(&parts.join(" and "))
    }
}

/// One phase of a scheme.
#[derive(Debug)]
pub struct Phase {
    /// The vectors that are shared.
    pub slots: &'static [Slot],
    /// The highest degree in the shares that the user cannot cancel; κ = degree·T.
    pub(crate) degree: fn(&Params) -> usize,
    /// What the user shares.
    pub(crate) secrets: fn(&SecretQuery, &PhaseContext<'_>, &[bool]) -> PhaseSecrets,
    /// What a server computes from its shares. The last argument is 1, or the share of r in the
    /// second half of a verified query.
    pub(crate) program: fn(&PhaseContext<'_>, &SlotVectors, FieldElement) -> RowProgram,
    /// How the decoded values are read.
    pub decode_rule: DecodeRule,
}

/// A shared vector.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// Name in the test vectors and the documentation.
    pub name: &'static str,
    /// Number of elements.
    pub length: SlotLength,
    /// Whether this phase repeats the share of the same name of the phase before.
    pub carried: bool,
    /// Whether the phase before commits to the share.
    pub committed: bool,
    /// Whether it is the table of violations, which a lifted gate shares in F_p.
    pub is_gate: bool,
}

impl Slot {
    /// A vector that is shared in this phase.
    pub(crate) const fn fresh(name: &'static str, length: SlotLength) -> Slot {
        Slot { name, length, carried: false, committed: false, is_gate: false }
    }

    /// The table of violations: 1 for every forbidden level.
    pub(crate) const fn gate(name: &'static str) -> Slot {
        Slot { is_gate: true, ..Slot::fresh(name, SlotLength::Levels) }
    }

    /// A vector of phase 1 to whose shares phase 0 commits.
    pub(crate) const fn committed(name: &'static str, length: SlotLength) -> Slot {
        Slot { committed: true, ..Slot::fresh(name, length) }
    }

    /// A vector whose share the servers received in the phase before.
    pub(crate) const fn carried(name: &'static str, length: SlotLength) -> Slot {
        Slot { carried: true, ..Slot::committed(name, length) }
    }
}

/// The length of a shared vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotLength {
    /// 1.
    One,
    /// d.
    Features,
    /// (p − 1)·d.
    Powers,
    /// Σ(R_k + 1).
    Levels,
    /// M.
    Rows,
}

impl SlotLength {
    /// Number of field elements.
    pub(crate) fn elements(self, params: &Params) -> usize {
        match self {
            SlotLength::One => 1,
            SlotLength::Features => params.features(),
            SlotLength::Powers => (params.exponent as usize - 1) * params.features(),
            SlotLength::Levels => params.levels(),
            SlotLength::Rows => params.rows,
        }
    }
}

/// How the decoded values of a phase become costs.
#[derive(Clone, Copy, Debug)]
pub enum DecodeRule {
    /// The value is the cost.
    Cost,
    /// The value is the cost, and the largest wins.
    Gain,
    /// The value is the cost plus a mask.
    Masked,
    /// The value is the signed difference to the next row.
    Difference,
    /// Zero marks the rows of Θ; there is no cost yet.
    Zeros,
    /// The value is the cost in the rows of Θ, and the value of the empty row elsewhere.
    Selected,
    /// The value is the cost if it is at most [`PhaseSecrets::most`]; otherwise an immutable
    /// feature differs.
    Scaled,
    /// Two elements: zero in the first marks a matching row, and the second is its cost.
    Gated,
}

impl DecodeRule {
    /// Field elements per row.
    pub(crate) fn outputs(self) -> usize {
        if matches!(self, DecodeRule::Gated) { 2 } else { 1 }
    }
}

/// Public context of a phase, known to user and servers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PhaseContext<'a> {
    /// F_q.
    pub field: &'a Field,
    /// The deployment's parameters.
    pub params: &'a Params,
}

/// The user's vectors for one phase, and the offset of the decoded cost.
#[derive(Clone, Debug)]
pub struct PhaseSecrets {
    /// One vector per slot.
    pub vectors: SlotVectors,
    /// The part of the cost that only the user knows; it is never shared.
    pub offset: FieldElement,
    /// The largest value of a matching row, with [`DecodeRule::Scaled`].
    pub most: u64,
}

impl PhaseSecrets {
    fn new(vectors: impl Into<Vec<Vec<FieldElement>>>) -> PhaseSecrets {
        PhaseSecrets { vectors: SlotVectors::new(vectors), offset: FieldElement::ZERO, most: 0 }
    }

    fn with_offset(self, offset: FieldElement) -> PhaseSecrets {
        PhaseSecrets { offset, ..self }
    }

    fn with_most(self, most: u64) -> PhaseSecrets {
        PhaseSecrets { most, ..self }
    }
}

// Vector expressions used by the schemes.
impl PhaseContext<'_> {
    fn times(&self, a: &[FieldElement], b: &[FieldElement]) -> Vec<FieldElement> {
        a.iter().zip(b).map(|(&a, &b)| self.field.mul(a, b)).collect()
    }

    fn scaled(&self, factor: i64, a: &[FieldElement]) -> Vec<FieldElement> {
        let factor = self.field.reduce_signed(factor);
        a.iter().map(|&a| self.field.mul(factor, a)).collect()
    }

    /// Σ a_k·b_k².
    fn weighted_norm(&self, a: &[FieldElement], b: &[FieldElement]) -> FieldElement {
        self.field.dot(a, &self.times(b, b))
    }

    /// ‖y‖²·one − 2⟨x, y⟩ + ‖x‖²: the squared distance when `one` is 1.
    fn distance(&self, x: &[FieldElement], one: FieldElement) -> RowFunction {
        RowFunction {
            kind: RowFunctionKind::Linear { norm: one, slope: self.scaled(-2, x) },
            constant: self.field.dot(x, x),
        }
    }

    /// Σ_k square_k·y_k² + linear_k·y_k + constant.
    fn quadratic(&self, square: Vec<FieldElement>, linear: Vec<FieldElement>, constant: FieldElement) -> RowFunction {
        RowFunction { kind: RowFunctionKind::Polynomial(vec![linear, square]), constant }
    }

    /// Σ_k w_k(y_k − x_k)².
    fn weighted_distance(&self, x: &[FieldElement], w: &[FieldElement]) -> RowFunction {
        self.quadratic(w.to_vec(), self.scaled(-2, &self.times(w, x)), self.weighted_norm(w, x))
    }

    /// Σ_k T_k[y_k], the tables one after another in `entries`.
    fn table(&self, mut entries: &[FieldElement]) -> RowFunction {
        let mut tables = Vec::with_capacity(self.params.features());
        for &range in &self.params.max_levels {
            let (table, rest) = entries.split_at(range as usize + 1);
            tables.push(table.to_vec());
            entries = rest;
        }
        RowFunction { kind: RowFunctionKind::Table(tables), constant: FieldElement::ZERO }
    }
}

/// Every scheme; those of the paper come first.
pub const ALL: &[&Scheme] = &[
    &paper::pcr::BASELINE,
    &paper::pcr::DIFF,
    &paper::pcr::MASK,
    &paper::two_phase::TWO_PHASE,
    &paper::two_phase::FOUR_SERVERS,
    &paper::single_phase::SINGLE_PHASE,
    &paper::pcr_plus::BASELINE,
    &paper::pcr_plus::DIFF,
    &paper::pcr_plus::MASK,
    &paper::two_phase::PLUS,
    &paper::single_phase::PLUS,
    &paper::norms::LP,
    &paper::norms::DOT,
    &own::linear::BASELINE,
    &own::linear::DIFF,
    &own::linear::MASK,
    &own::linear::SINGLE_PHASE,
    &own::linear::SINGLE_PHASE_PLUS,
    &own::linear::LP,
    &own::table::TABLE,
    &own::gated::GATED,
    &own::gated::PLUS,
    &own::gated::RANGES,
    &own::gated::RANGES_PLUS,
    &own::gated::COSTS,
    &own::gated::TABLES,
];

/// The scheme that deployments should prefer.
pub const DEFAULT: &Scheme = &own::gated::TABLES;

/// The scheme with scans of that name; [`kind::find`] knows those of every kind.
pub fn named(name: &str) -> Option<&'static Scheme> {
    ALL.iter().copied().find(|scheme| scheme.name == name)
}

/// The single-phase scheme with exactly these costs and constraints that needs the fewest servers;
/// the default if there is none.
pub fn smallest(cost_model: CostModel, constraint: ConstraintKind) -> &'static Scheme {
    // Only the degree of the ℓ_p schemes depends on the parameters.
    let params = Params::new(vec![1], 1);
    let fits = |scheme: &&Scheme| {
        scheme.phases.len() == 1 && (scheme.cost_model, scheme.constraint) == (cost_model, constraint)
    };
    let fitting = ALL.iter().copied().filter(fits);
    fitting.min_by_key(|scheme| (scheme.phases[0].degree)(&params)).unwrap_or(DEFAULT)
}

/// The scheme to prefer among these: a gated one with the widest choice of costs, then of
/// constraints; the first scheme if none is gated.
pub fn preferred(mut schemes: impl Iterator<Item = &'static Scheme> + Clone) -> Option<&'static Scheme> {
    schemes
        .clone()
        .filter(|scheme| scheme.is_gated())
        .max_by_key(|scheme| (scheme.cost_model, scheme.constraint))
        .or_else(|| schemes.next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_scheme_is_preferred() {
        assert_eq!(preferred(ALL.iter().copied()).unwrap().name, DEFAULT.name);
        let paper = ALL.iter().copied().filter(|scheme| scheme.origin == Origin::Paper);
        assert_eq!(preferred(paper).unwrap().name, ALL[0].name);
        assert!(preferred(std::iter::empty()).is_none());
    }

    #[test]
    fn schemes_are_preferred_in_the_order_of_what_they_support() {
        let order = ["gated-tables", "gated-costs", "gated-ranges+", "gated+", "gated-ranges", "gated"];
        for left in 1..=order.len() {
            let rest = ALL.iter().copied().filter(|scheme| !order[..left - 1].contains(&scheme.name));
            assert_eq!(preferred(rest).unwrap().name, order[left - 1]);
        }
    }

    #[test]
    fn the_smallest_scheme_supports_exactly_what_is_requested() {
        for (metric, gate, name) in [
            (CostModel::Squared, ConstraintKind::None, "baseline"),
            (CostModel::Weighted, ConstraintKind::None, "linear-baseline+"),
            (CostModel::Table, ConstraintKind::None, "table"),
            (CostModel::Squared, ConstraintKind::Zeros, "gated"),
            (CostModel::Weighted, ConstraintKind::Zeros, "gated+"),
            (CostModel::Table, ConstraintKind::Zeros, "gated-costs"),
            (CostModel::Squared, ConstraintKind::Table, "gated-ranges"),
            (CostModel::Weighted, ConstraintKind::Table, "gated-ranges+"),
            (CostModel::Table, ConstraintKind::Table, "gated-tables"),
        ] {
            assert_eq!(smallest(metric, gate).name, name);
        }
    }
}
