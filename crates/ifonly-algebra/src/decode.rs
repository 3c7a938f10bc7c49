//! Decodes the answers of all servers to the values at 0. Tolerates silent servers and corrects
//! lying servers.
//!
//! The answers to one row are a codeword: a polynomial of degree ≤ κ, evaluated at the points of
//! the servers. κ + 1 answers determine the polynomial, and fixed weights interpolate it at 0.
//!
//! With more than κ + 1 answers, wrong ones can be found. A lying server may be wrong in any row,
//! so all rows are combined first:
//!
//! 1. One random linear combination of all rows is error-corrected (Berlekamp–Welch). This gives
//!    the lying servers.
//! 2. Their answers are dropped.
//! 3. *All* rows are checked. If they are inconsistent, errors cancelled in the combination by
//!    chance, and another combination is drawn.
//!
//! The combination is drawn locally and no server sees it. The same code decodes F_q (costs) and
//! GF(2^8) (records).

use crate::field::{Field, FieldElement};
use crate::random::RandomSource;

/// The field operations that decoding needs.
pub trait FieldArithmetic {
    /// A field element; the default is zero.
    type Element: Copy + Default + PartialEq;
    /// One.
    fn one(&self) -> Self::Element;
    /// a + b.
    fn add(&self, a: Self::Element, b: Self::Element) -> Self::Element;
    /// a − b.
    fn sub(&self, a: Self::Element, b: Self::Element) -> Self::Element;
    /// a · b.
    fn mul(&self, a: Self::Element, b: Self::Element) -> Self::Element;
    /// 1/a, or `None` for zero.
    fn inverse(&self, a: Self::Element) -> Option<Self::Element>;
    /// A uniform element.
    fn sample(&self, random: &mut dyn RandomSource) -> Self::Element;
}

impl FieldArithmetic for Field {
    type Element = FieldElement;
    fn one(&self) -> FieldElement {
        FieldElement::ONE
    }
    fn add(&self, a: FieldElement, b: FieldElement) -> FieldElement {
        Field::add(self, a, b)
    }
    fn sub(&self, a: FieldElement, b: FieldElement) -> FieldElement {
        Field::sub(self, a, b)
    }
    fn mul(&self, a: FieldElement, b: FieldElement) -> FieldElement {
        Field::mul(self, a, b)
    }
    fn inverse(&self, a: FieldElement) -> Option<FieldElement> {
        Field::inverse(self, a)
    }
    fn sample(&self, random: &mut dyn RandomSource) -> FieldElement {
        Field::sample(self, random)
    }
}

/// Why answers cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// Not enough servers answered.
    #[error("too few servers answered: {have} of the {need} that decoding needs; silent servers: {silent:?}")]
    TooFewAnswers {
        /// Number of answers received.
        have: usize,
        /// Number of answers needed.
        need: usize,
        /// Indices of the silent servers, counted from 1.
        silent: Vec<usize>,
    },
    /// An answer has the wrong length.
    #[error("the answer of server {server} has the wrong length: {have} field elements instead of {need}")]
    Length {
        /// Server index, counted from 1.
        server: usize,
        /// Number of field elements received.
        have: usize,
        /// Number of field elements expected.
        need: usize,
    },
    /// The lying servers are known, but there are more than the deployment corrects.
    #[error("too many servers returned wrong answers: {lying_servers:?}; this deployment corrects at most {allowed}")]
    LyingServers {
        /// Server indices, counted from 1.
        lying_servers: Vec<usize>,
        /// B.
        allowed: usize,
    },
    /// So many servers lied that they cannot be identified.
    #[error(
        "the answers of the servers disagree, and too many are wrong to identify the lying servers; nothing was decoded"
    )]
    TooManyLies,
}

/// Maximum number of random combinations. Errors cancel in one combination with probability 1/q, so
/// even at q = 3 all of them fail with probability 3^-64 only.
const MAX_COMBINATIONS: usize = 64;

/// Answers that are consistent in every row.
#[derive(Clone, Debug)]
pub struct ConsistentAnswers<'a, E> {
    /// The evaluation point and the answer of `degree + 1` servers.
    columns: Vec<(E, &'a [E])>,
    /// Indices of the servers whose wrong answers were dropped, counted from 1.
    pub lying_servers: Vec<usize>,
}

/// Selects `degree + 1` answers that lie on polynomials of degree ≤ `degree` in every row. A silent
/// server's answer is `None`. At most `lying` servers may have wrong answers.
pub fn select_consistent<'a, F: FieldArithmetic>(
    field: &F,
    points: &[F::Element],
    degree: usize,
    lying: usize,
    answers: &'a [Option<Vec<F::Element>>],
    random: &mut dyn RandomSource,
) -> Result<ConsistentAnswers<'a, F::Element>, DecodeError> {
    let responding: Vec<usize> = (0..answers.len().min(points.len())).filter(|&n| answers[n].is_some()).collect();
    if responding.len() <= degree {
        let silent = (0..points.len()).filter(|n| !responding.contains(n)).map(|n| n + 1).collect();
        return Err(DecodeError::TooFewAnswers { have: responding.len(), need: degree + 1, silent });
    }
    let columns: Vec<(F::Element, &[F::Element])> =
        responding.iter().filter_map(|&n| Some((points[n], answers[n].as_deref()?))).collect();
    let need = columns[0].1.len();
    if let Some(wrong) = columns.iter().position(|(_, column)| column.len() != need) {
        return Err(DecodeError::Length { server: responding[wrong] + 1, have: columns[wrong].1.len(), need });
    }
    for _ in 0..MAX_COMBINATIONS {
        let wrong = find_wrong_columns(field, &columns, degree, random).ok_or(DecodeError::TooManyLies)?;
        let mut honest: Vec<(F::Element, &[F::Element])> =
            (0..columns.len()).filter(|n| !wrong.contains(n)).map(|n| columns[n]).collect();
        if !is_consistent(field, &honest, degree) {
            continue;
        }
        let lying_servers: Vec<usize> = wrong.iter().map(|&n| responding[n] + 1).collect();
        if lying_servers.len() > lying {
            return Err(DecodeError::LyingServers { lying_servers, allowed: lying });
        }
        honest.truncate(degree + 1);
        return Ok(ConsistentAnswers { columns: honest, lying_servers });
    }
    Err(DecodeError::TooManyLies)
}

impl<E: Copy + Default + PartialEq> ConsistentAnswers<'_, E> {
    /// Coefficient `number` of the polynomial of every row. Coefficient 0 is the value at 0.
    pub fn coefficient<F: FieldArithmetic<Element = E>>(&self, field: &F, number: usize) -> Vec<E> {
        let points: Vec<E> = self.columns.iter().map(|column| column.0).collect();
        combine(field, &self.columns, &coefficient_weights(field, &points, number))
    }
}

/// The weights w_n with `coefficient = Σ w_n·f(α_n)` for every polynomial f that has as many
/// coefficients as there are points.
pub fn coefficient_weights<F: FieldArithmetic>(field: &F, points: &[F::Element], number: usize) -> Vec<F::Element> {
    // Σ_n w_n·α_n^i = 1[i = number], a Vandermonde system.
    let equation = |i: usize| {
        let mut row: Vec<F::Element> = points.iter().map(|&point| power(field, point, i)).collect();
        row.push(if i == number { field.one() } else { F::Element::default() });
        row
    };
    let system = (0..points.len()).map(equation).collect();
    // Unwrap safety: the points are distinct, so the system has exactly one solution.
    solve(field, system, points.len()).expect("evaluation points are distinct")
}

/// The weights w_n with `f(at) = Σ w_n·f(α_n)` (Lagrange interpolation).
fn value_weights<F: FieldArithmetic>(field: &F, points: &[F::Element], at: F::Element) -> Vec<F::Element> {
    let weight = |n: usize| {
        points.iter().enumerate().filter(|&(m, _)| m != n).fold(field.one(), |weight, (_, &other)| {
            // Unwrap safety: the points are distinct, so no difference is zero.
            let inverse = field.inverse(field.sub(points[n], other)).expect("evaluation points are distinct");
            field.mul(weight, field.mul(inverse, field.sub(at, other)))
        })
    };
    (0..points.len()).map(weight).collect()
}

fn combine<F: FieldArithmetic>(
    field: &F,
    columns: &[(F::Element, &[F::Element])],
    weights: &[F::Element],
) -> Vec<F::Element> {
    let row = |row: usize| {
        let terms = columns.iter().zip(weights).map(|(column, &weight)| field.mul(weight, column.1[row]));
        terms.fold(F::Element::default(), |sum, term| field.add(sum, term))
    };
    (0..columns.first().map_or(0, |column| column.1.len())).map(row).collect()
}

/// Whether the values of every row lie on a polynomial of degree ≤ `degree`.
fn is_consistent<F: FieldArithmetic>(field: &F, columns: &[(F::Element, &[F::Element])], degree: usize) -> bool {
    if columns.len() <= degree {
        return false;
    }
    let (base, extra) = columns.split_at(degree + 1);
    let points: Vec<F::Element> = base.iter().map(|column| column.0).collect();
    extra.iter().all(|&(point, column)| combine(field, base, &value_weights(field, &points, point)) == column)
}

/// The columns that are wrong in one random combination of all rows. `None` if more columns are
/// wrong than can be identified.
fn find_wrong_columns<F: FieldArithmetic>(
    field: &F,
    columns: &[(F::Element, &[F::Element])],
    degree: usize,
    random: &mut dyn RandomSource,
) -> Option<Vec<usize>> {
    if columns.len() == degree + 1 {
        return Some(vec![]);
    }
    let mut combined = vec![F::Element::default(); columns.len()];
    for row in 0..columns[0].1.len() {
        let factor = field.sample(random);
        for (sum, (_, column)) in combined.iter_mut().zip(columns) {
            *sum = field.add(*sum, field.mul(factor, column[row]));
        }
    }
    let points: Vec<F::Element> = columns.iter().map(|column| column.0).collect();
    (0..=(columns.len() - degree - 1) / 2).find_map(|errors| correct(field, &points, &combined, degree, errors))
}

/// Berlekamp–Welch: `Q(α) = y·E(α)` with E monic of degree `errors` and deg Q ≤ degree + errors.
/// The wrong values are at the roots of E. The other values must lie on a polynomial of degree
/// ≤ `degree`; otherwise the result is `None`.
fn correct<F: FieldArithmetic>(
    field: &F,
    points: &[F::Element],
    values: &[F::Element],
    degree: usize,
    errors: usize,
) -> Option<Vec<usize>> {
    let q_terms = degree + errors + 1;
    let equation = |(&point, &value): (&F::Element, &F::Element)| {
        let mut row: Vec<F::Element> = (0..q_terms).map(|i| power(field, point, i)).collect();
        let product = |i: usize| field.mul(value, power(field, point, i));
        row.extend((0..errors).map(|i| field.sub(F::Element::default(), product(i))));
        row.push(product(errors));
        row
    };
    let system = points.iter().zip(values).map(equation).collect();
    let solution = solve(field, system, q_terms + errors)?;
    let locator =
        |at| solution[q_terms..].iter().rev().fold(field.one(), |sum, &term| field.add(field.mul(sum, at), term));
    let is_root: Vec<bool> = points.iter().map(|&point| locator(point) == F::Element::default()).collect();
    let rest: Vec<(F::Element, &[F::Element])> =
        (0..points.len()).filter(|&n| !is_root[n]).map(|n| (points[n], std::slice::from_ref(&values[n]))).collect();
    is_consistent(field, &rest, degree).then(|| (0..points.len()).filter(|&n| is_root[n]).collect())
}

fn power<F: FieldArithmetic>(field: &F, base: F::Element, exponent: usize) -> F::Element {
    (0..exponent).fold(field.one(), |product, _| field.mul(product, base))
}

/// Solves a linear system by Gauss–Jordan elimination. Each row ends with its right-hand side. Free
/// unknowns are 0. `None` if there is no solution.
fn solve<F: FieldArithmetic>(field: &F, mut rows: Vec<Vec<F::Element>>, unknowns: usize) -> Option<Vec<F::Element>> {
    let zero = F::Element::default();
    let mut pivots = vec![];
    for column in 0..unknowns {
        let pivot_row = pivots.len();
        let Some(found) = (pivot_row..rows.len()).find(|&row| rows[row][column] != zero) else { continue };
        rows.swap(pivot_row, found);
        let inverse = field.inverse(rows[pivot_row][column])?;
        for entry in &mut rows[pivot_row] {
            *entry = field.mul(*entry, inverse);
        }
        let pivot = rows[pivot_row].clone();
        for (number, row) in rows.iter_mut().enumerate() {
            let factor = row[column];
            if number != pivot_row && factor != zero {
                for (entry, &pivot_entry) in row.iter_mut().zip(&pivot) {
                    *entry = field.sub(*entry, field.mul(factor, pivot_entry));
                }
            }
        }
        pivots.push(column);
    }
    if rows[pivots.len()..].iter().any(|row| row[unknowns] != zero) {
        return None;
    }
    let mut solution = vec![zero; unknowns];
    for (row, column) in rows.iter().zip(pivots) {
        solution[column] = row[unknowns];
    }
    Some(solution)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{ExhaustiveRandom, SeededRandom};
    use crate::share::EvaluationPoints;

    struct Case {
        field: Field,
        points: EvaluationPoints,
        expected: Vec<FieldElement>,
        answers: Vec<Option<Vec<FieldElement>>>,
    }

    impl Case {
        fn decode(
            &self,
            kappa: usize,
            lying: usize,
            random: &mut SeededRandom,
        ) -> Result<(Vec<FieldElement>, Vec<usize>), DecodeError> {
            let selected = select_consistent(&self.field, self.points.as_slice(), kappa, lying, &self.answers, random)?;
            Ok((selected.coefficient(&self.field, 0), selected.lying_servers))
        }
    }

    fn case(q: u64, servers: usize, kappa: usize, rows: usize, random: &mut SeededRandom) -> Case {
        let field = Field::new(q).unwrap();
        let points = EvaluationPoints::usual(&field, servers).unwrap();
        let polynomials: Vec<Vec<FieldElement>> =
            (0..rows).map(|_| (0..=kappa).map(|_| field.sample(random)).collect()).collect();
        let at = |p: &[FieldElement], x| p.iter().rev().fold(FieldElement::ZERO, |sum, &c| field.mul_add(sum, x, c));
        let answers = points.as_slice().iter().map(|&x| Some(polynomials.iter().map(|p| at(p, x)).collect())).collect();
        Case { expected: polynomials.iter().map(|p| p[0]).collect(), field, points, answers }
    }

    fn corrupt(field: &Field, answer: &mut Option<Vec<FieldElement>>, random: &mut SeededRandom) {
        for element in answer.iter_mut().flatten() {
            *element = field.add(*element, field.sample_nonzero(random));
        }
    }

    #[test]
    fn lying_servers_are_named_and_silent_servers_are_tolerated() {
        let mut random = SeededRandom::new(2);
        for q in [11, 809, (1 << 61) - 1] {
            for (kappa, silent, lying) in [(1, 0, 0), (1, 1, 0), (1, 0, 1), (2, 1, 1), (3, 0, 2), (2, 2, 2)] {
                let servers = kappa + 1 + silent + 2 * lying;
                for _ in 0..20 {
                    let mut case = case(q, servers, kappa, 12, &mut random);
                    for n in 0..silent {
                        case.answers[n] = None;
                    }
                    for n in silent..silent + lying {
                        corrupt(&case.field, &mut case.answers[n], &mut random);
                    }
                    let (values, lying_servers) = case.decode(kappa, lying, &mut random).unwrap();
                    assert_eq!(values, case.expected);
                    assert_eq!(lying_servers, (silent + 1..=silent + lying).collect::<Vec<_>>());
                }
            }
        }
    }

    #[test]
    fn one_lying_server_too_many_is_an_error() {
        let mut random = SeededRandom::new(3);
        for (kappa, silent, lying) in [(1, 1, 0), (1, 0, 1), (2, 1, 1), (3, 0, 2)] {
            let servers = kappa + 1 + silent + 2 * lying;
            for _ in 0..50 {
                let mut case = case(809, servers, kappa, 12, &mut random);
                for n in 0..=lying {
                    corrupt(&case.field, &mut case.answers[n], &mut random);
                }
                let error = case.decode(kappa, lying, &mut random).unwrap_err();
                assert!(matches!(error, DecodeError::TooManyLies | DecodeError::LyingServers { .. }), "{error}");
            }
        }
    }

    /// Calls `test` with every choice of `count` servers and every non-zero error of each server,
    /// for one row in the field of 7 elements.
    fn for_every_lie(servers: usize, count: usize, mut test: impl FnMut(&[(usize, u64)])) {
        let mut all = ExhaustiveRandom::default();
        while all.next_run() {
            let lies: Vec<(usize, u64)> =
                (0..count).map(|_| (all.below(servers as u64) as usize, 1 + all.below(6))).collect();
            if lies.windows(2).all(|pair| pair[0].0 < pair[1].0) {
                test(&lies);
            }
        }
    }

    #[test]
    fn no_lie_makes_an_honest_server_look_like_a_lying_one() {
        // With n servers and degree κ, n − κ − 1 answers are redundant. Up to half as many lying
        // servers can be named. If more servers lie, but lying and named servers together are at
        // most the redundant ones, no server is named. The test tries every lie.
        let mut random = SeededRandom::new(6);
        for (kappa, servers) in [(1, 2), (1, 3), (1, 4), (1, 5), (1, 6), (2, 4), (2, 5), (2, 6), (3, 6)] {
            let redundant = servers - kappa - 1;
            let named = redundant / 2;
            for lying in 0..=redundant - named {
                for_every_lie(servers, lying, |lies| {
                    let mut case = case(7, servers, kappa, 1, &mut random);
                    for &(server, lie) in lies {
                        let answer = case.answers[server].as_mut().unwrap();
                        answer[0] = case.field.add(answer[0], case.field.reduce(lie));
                    }
                    let lying_servers: Vec<usize> = lies.iter().map(|(server, _)| server + 1).collect();
                    let expected = if lying > named {
                        Err(DecodeError::TooManyLies)
                    } else {
                        Ok((case.expected.clone(), lying_servers.clone()))
                    };
                    assert_eq!(case.decode(kappa, named, &mut random), expected, "κ = {kappa}, {lies:?}");
                    if (1..=named).contains(&lying) {
                        // With a smaller B, the same servers are named and nothing is decoded.
                        let error = DecodeError::LyingServers { lying_servers, allowed: lying - 1 };
                        assert_eq!(case.decode(kappa, lying - 1, &mut random), Err(error));
                    }
                });
            }
        }
    }

    #[test]
    fn a_lie_in_a_single_row_is_found() {
        let mut random = SeededRandom::new(4);
        for row in 0..40 {
            let mut case = case(5, 4, 1, 40, &mut random);
            let answer = case.answers[2].as_mut().unwrap();
            answer[row] = case.field.add(answer[row], FieldElement::ONE);
            assert_eq!(case.decode(1, 1, &mut random), Ok((case.expected.clone(), vec![3])));
        }
    }

    #[test]
    fn lies_that_cancel_between_rows_are_found_in_bytes_too() {
        // The constant polynomial 0 at four servers. The third server lies in two rows, and its
        // lies sum to 0.
        let mut random = SeededRandom::new(7);
        for lie in 1..=255 {
            let answer = |server| Some(if server == 2 { vec![lie, 0, lie] } else { vec![0; 3] });
            let answers: Vec<Option<Vec<u8>>> = (0..4).map(answer).collect();
            let selected = select_consistent(&crate::gf256::Gf256, &[1, 2, 3, 4], 1, 1, &answers, &mut random).unwrap();
            assert_eq!(selected.lying_servers, [3]);
        }
    }

    #[test]
    fn too_few_answers_and_wrong_lengths_are_named() {
        let mut random = SeededRandom::new(5);
        let mut case = case(809, 3, 2, 4, &mut random);
        case.answers[1].as_mut().unwrap().pop();
        let error = case.decode(2, 0, &mut random).unwrap_err();
        assert_eq!(error, DecodeError::Length { server: 2, have: 3, need: 4 });
        case.answers[1] = None;
        let error = case.decode(2, 0, &mut random).unwrap_err();
        assert_eq!(error, DecodeError::TooFewAnswers { have: 2, need: 3, silent: vec![2] });
    }
}
