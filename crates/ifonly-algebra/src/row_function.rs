//! Row functions, row programs, and the reference evaluator that every faster scan must equal.
//!
//! A row function is `v_i = constant + Σ_k f_k(y_ik)`, where y_ik is the level of feature k in row
//! i and the query defines f_k. Three kinds cover all schemes: linear, polynomial and table.
//!
//! A scheme turns the shares that a server received into a [`RowProgram`]: row functions, and an
//! [`OutputExpr`] for each field element of a row's answer. Schemes never loop over features. Scans
//! do, either [`answer`] or the kernels of `ifonly-scan`.

use crate::field::{Field, FieldElement};
use zeroize::Zeroize;

/// One row function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowFunction {
    /// The functions f_k.
    pub kind: RowFunctionKind,
    /// The term that does not depend on y.
    pub constant: FieldElement,
}

/// The functions f_k of a row function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowFunctionKind {
    /// `norm·‖y‖² + Σ_k slope_k·y_k`.
    Linear {
        /// The coefficient of the squared norm.
        norm: FieldElement,
        /// One coefficient per feature.
        slope: Vec<FieldElement>,
    },
    /// `Σ_j Σ_k coefficients[j-1][k]·y_k^j`, j from 1.
    Polynomial(Vec<Vec<FieldElement>>),
    /// `Σ_k tables[k][y_k]`, with one entry per level.
    Table(Vec<Vec<FieldElement>>),
}

impl RowFunction {
    /// The value for one row. Levels beyond the end of a table count as 0; rows are checked against
    /// their max levels when they are loaded.
    pub fn evaluate(&self, field: &Field, row: &[u16]) -> FieldElement {
        row.iter().enumerate().fold(self.constant, |sum, (k, &y)| field.add(sum, self.kind.at(field, k, y)))
    }

    /// f_k at every level of every feature, feature after feature, without the constant.
    pub fn level_values(&self, field: &Field, max_levels: &[u32]) -> Vec<FieldElement> {
        let mut values = Vec::with_capacity(max_levels.iter().map(|&most| most as usize + 1).sum());
        for (k, &most) in max_levels.iter().enumerate() {
            values.extend((0..=most).map(|level| self.kind.at(field, k, level as u16)));
        }
        values
    }
}

impl RowFunctionKind {
    /// f_k at one level. Levels beyond the end of a table count as 0.
    fn at(&self, field: &Field, k: usize, level: u16) -> FieldElement {
        let y = field.reduce(level.into());
        match self {
            RowFunctionKind::Linear { norm, slope } => field.mul(y, field.mul_add(*norm, y, slope[k])),
            RowFunctionKind::Polynomial(coefficients) => {
                coefficients.iter().rev().fold(FieldElement::ZERO, |value, c| field.mul(field.add(value, c[k]), y))
            }
            RowFunctionKind::Table(tables) => tables[k].get(usize::from(level)).copied().unwrap_or_default(),
        }
    }
}

/// How one field element of a row's answer is computed, before its pads. Numbers are indices into
/// [`RowProgram::functions`]; v is the value of that row function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputExpr {
    /// `v`.
    Plain(usize),
    /// `v + μ_i·unit`.
    Masked {
        /// The masked row function.
        function: usize,
        /// 1, or a share of 1.
        unit: FieldElement,
    },
    /// `v_i − v_{i+1}`. The answer has one row less than the database.
    Difference(usize),
    /// `ρ_i·v`, with ρ_i uniform and non-zero.
    Blinded(usize),
    /// `cost + σ_i·gate`, with σ_i uniform.
    Hidden {
        /// The row function that the client decodes if the gate is 0.
        cost: usize,
        /// The row function that hides the cost if it is not 0.
        gate: usize,
    },
    /// `s_i²·square + s_i·linear + constant`, where s_i is the row share at position i.
    Selected {
        /// The row function that is multiplied by s².
        square: usize,
        /// The row function that is multiplied by s.
        linear: usize,
        /// The value at s = 0.
        constant: FieldElement,
    },
}

/// The computation of one server for every row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowProgram {
    /// The row functions.
    pub functions: Vec<RowFunction>,
    /// The field elements of one row's answer, in order.
    pub outputs: Vec<OutputExpr>,
    /// One share per position for [`OutputExpr::Selected`]; otherwise empty.
    pub row_shares: Vec<FieldElement>,
}

impl Zeroize for RowProgram {
    fn zeroize(&mut self) {
        for function in &mut self.functions {
            function.constant.zeroize();
            match &mut function.kind {
                RowFunctionKind::Linear { norm, slope } => {
                    norm.zeroize();
                    slope.zeroize();
                }
                RowFunctionKind::Polynomial(vectors) | RowFunctionKind::Table(vectors) => vectors.zeroize(),
            }
        }
        self.row_shares.zeroize();
    }
}

impl RowProgram {
    /// A program without row shares.
    pub fn new(functions: impl Into<Vec<RowFunction>>, outputs: impl Into<Vec<OutputExpr>>) -> RowProgram {
        RowProgram { functions: functions.into(), outputs: outputs.into(), row_shares: vec![] }
    }

    /// Number of rows in the answer for a database of `rows` rows.
    pub fn answered_rows(&self, rows: usize) -> usize {
        let differs = self.outputs.iter().any(|output| matches!(output, OutputExpr::Difference(_)));
        if differs { rows.saturating_sub(1) } else { rows }
    }

    /// The part of an output that depends neither on y nor on server randomness. The client, which
    /// created the shares, can compute it.
    pub fn known_part(&self, output: usize) -> FieldElement {
        match self.outputs[output] {
            OutputExpr::Plain(function)
            | OutputExpr::Masked { function, .. }
            | OutputExpr::Hidden { cost: function, .. } => self.functions[function].constant,
            OutputExpr::Difference(_) | OutputExpr::Blinded(_) => FieldElement::ZERO,
            OutputExpr::Selected { constant, .. } => constant,
        }
    }

    /// This program followed by another one, whose row functions are renumbered.
    pub fn followed_by(mut self, other: RowProgram) -> RowProgram {
        let shift = self.functions.len();
        self.functions.extend(other.functions);
        self.outputs.extend(other.outputs.into_iter().map(|output| match output {
            OutputExpr::Plain(function) => OutputExpr::Plain(function + shift),
            OutputExpr::Masked { function, unit } => OutputExpr::Masked { function: function + shift, unit },
            OutputExpr::Difference(function) => OutputExpr::Difference(function + shift),
            OutputExpr::Blinded(function) => OutputExpr::Blinded(function + shift),
            OutputExpr::Hidden { cost, gate } => OutputExpr::Hidden { cost: cost + shift, gate: gate + shift },
            OutputExpr::Selected { square, linear, constant } => {
                OutputExpr::Selected { square: square + shift, linear: linear + shift, constant }
            }
        }));
        self
    }
}

/// The rows of a database, as levels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows {
    width: usize,
    values: Vec<u16>,
}

/// Why a row was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RowsError {
    /// A row has the wrong number of features.
    #[error("row {row}: the number of features is {have} instead of {need}")]
    Width {
        /// Row index, counted from 0.
        row: usize,
        /// Number of features in the row.
        have: usize,
        /// Number of features expected.
        need: usize,
    },
    /// A level is above the max level of its feature.
    #[error("row {row}, feature {feature}: level {level} is above the max level {max_level}")]
    Level {
        /// Row index, counted from 0.
        row: usize,
        /// Feature index, counted from 0.
        feature: usize,
        /// The level in the row.
        level: u16,
        /// The max level of the feature.
        max_level: u32,
    },
}

impl Rows {
    /// Checks rows against `max_levels`: feature k has the levels `0..=max_levels[k]`.
    pub fn new<R: AsRef<[u16]>>(max_levels: &[u32], rows: impl IntoIterator<Item = R>) -> Result<Rows, RowsError> {
        let mut values = vec![];
        for (number, row) in rows.into_iter().enumerate() {
            let row = row.as_ref();
            check_row(max_levels, number, row)?;
            values.extend_from_slice(row);
        }
        Ok(Rows { width: max_levels.len(), values })
    }

    fn len(&self) -> usize {
        self.values.len().checked_div(self.width).unwrap_or(0)
    }

    /// Row i, counted from 0.
    pub fn row(&self, i: usize) -> &[u16] {
        &self.values[i * self.width..(i + 1) * self.width]
    }

    /// All rows in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u16]> {
        (0..self.len()).map(|i| self.row(i))
    }
}

/// Checks that row `row` has one level per feature and none above its max level.
pub fn check_row(max_levels: &[u32], row: usize, levels: &[u16]) -> Result<(), RowsError> {
    if levels.len() != max_levels.len() {
        return Err(RowsError::Width { row, have: levels.len(), need: max_levels.len() });
    }
    match levels.iter().zip(max_levels).position(|(&level, &max_level)| u32::from(level) > max_level) {
        Some(feature) => Err(RowsError::Level { row, feature, level: levels[feature], max_level: max_levels[feature] }),
        None => Ok(()),
    }
}

/// The randomness that all servers share and no client knows, by position in the answer.
pub trait RowRandomness {
    /// The pad Z'_j of one output, j from 1 to κ; uniform.
    fn pad(&self, output: usize, j: usize, position: usize) -> FieldElement;
    /// The blinding factor ρ_i; uniform and non-zero.
    fn rho(&self, position: usize) -> FieldElement;
    /// The gate factor σ_i; uniform.
    fn sigma(&self, position: usize) -> FieldElement;
    /// The mask μ_i; uniform on `0..d_min`.
    fn mu(&self, position: usize) -> FieldElement;
}

/// The input of a scan besides rows and randomness.
#[derive(Clone, Debug)]
pub struct ScanJob<'a> {
    /// The field.
    pub field: &'a Field,
    /// The server's evaluation point.
    pub alpha: FieldElement,
    /// The number of pad coefficients per output.
    pub kappa: usize,
    /// The row program.
    pub program: &'a RowProgram,
}

/// The answer of one server: for each position, the outputs of its row. `order[p]` is the stored
/// row at position p; `None` for the stored order. This slow evaluator is the definition; every
/// other scan must return the same values.
pub fn answer(
    job: &ScanJob<'_>,
    rows: &Rows,
    randomness: &impl RowRandomness,
    order: Option<&[u32]>,
) -> Vec<FieldElement> {
    let ScanJob { field, program, .. } = job;
    let row_at = |position: usize| rows.row(order.map_or(position, |order| order[position] as usize));
    let value = |function: usize, position| program.functions[function].evaluate(field, row_at(position));
    let mut elements = Vec::with_capacity(program.answered_rows(rows.len()) * program.outputs.len());
    for i in 0..program.answered_rows(rows.len()) {
        for (number, output) in program.outputs.iter().enumerate() {
            let unpadded = match *output {
                OutputExpr::Plain(function) => value(function, i),
                OutputExpr::Masked { function, unit } => field.mul_add(randomness.mu(i), unit, value(function, i)),
                OutputExpr::Difference(function) => field.sub(value(function, i), value(function, i + 1)),
                OutputExpr::Blinded(function) => field.mul(randomness.rho(i), value(function, i)),
                OutputExpr::Hidden { cost, gate } => field.mul_add(randomness.sigma(i), value(gate, i), value(cost, i)),
                OutputExpr::Selected { square, linear, constant } => {
                    let s = program.row_shares[i];
                    let inner = field.mul_add(s, value(square, i), value(linear, i));
                    field.mul_add(s, inner, constant)
                }
            };
            // Σ_j α^j·Z'_j by Horner's rule.
            let pads = (1..=job.kappa)
                .rev()
                .fold(FieldElement::ZERO, |sum, j| field.mul(job.alpha, field.add(sum, randomness.pad(number, j, i))));
            elements.push(field.add(unpadded, pads));
        }
    }
    elements
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field() -> Field {
        Field::new(10_007).unwrap()
    }

    fn elements(values: &[u64]) -> Vec<FieldElement> {
        values.iter().map(|&v| field().element(v).unwrap()).collect()
    }

    #[test]
    fn the_three_kinds_equal_their_formulas() {
        let constant = FieldElement::ONE;
        let row = [3, 5];
        let linear = RowFunctionKind::Linear { norm: elements(&[2])[0], slope: elements(&[10, 100]) };
        assert_eq!(RowFunction { kind: linear, constant }.evaluate(&field(), &row).value(), 1 + 2 * 34 + 30 + 500);
        let cubic = RowFunctionKind::Polynomial(vec![elements(&[1, 2]), elements(&[0, 3]), elements(&[4, 0])]);
        assert_eq!(RowFunction { kind: cubic, constant }.evaluate(&field(), &row).value(), 1 + 3 + 10 + 75 + 4 * 27);
        let table = RowFunctionKind::Table(vec![elements(&[0, 0, 0, 7]), elements(&[0, 0, 0, 0, 0, 11])]);
        assert_eq!(RowFunction { kind: table, constant }.evaluate(&field(), &row).value(), 19);
    }

    #[test]
    fn refused_rows_name_row_and_feature() {
        assert_eq!(
            Rows::new(&[2, 2], [[1, 2], [3, 0]]).unwrap_err().to_string(),
            "row 1, feature 0: level 3 is above the max level 2"
        );
        assert_eq!(Rows::new(&[2], [[1, 2]]).unwrap_err(), RowsError::Width { row: 0, have: 2, need: 1 });
    }
}
