//! Trilateration against Single-Phase. Its decoded value contains *two* partial distances: `A` over
//! the immutable features and `B` over the others.
//!
//! Fixed row order: with half of the features immutable, every search gives two distances, and
//! `1 + ⌈d/4⌉` searches are enough.
//!
//! Shuffled rows: if x changes only in one half, the partial distance of the other half does not
//! change, and it identifies the row. The attack then needs one search less than twice as many. It
//! recovers all rows whose partial norms are unique.

use std::collections::HashMap;

use super::RecoveredFraction;
use super::oracle::{SearchOracle, UniformDatabase};
use super::pairs::{self, FeaturePair};
use crate::LabError;
use crate::leakage::RowOrder;

/// The candidates of every row, by pair.
type RowCandidates = Vec<Vec<pairs::PairCandidates>>;

/// The recovered fraction after 1, 2, … searches.
pub fn attack(
    database: &UniformDatabase,
    order: RowOrder,
    oracle: &mut dyn SearchOracle,
) -> Result<Vec<RecoveredFraction>, LabError> {
    let d = database.d();
    let half = d.div_ceil(2);
    let immutable: Vec<bool> = (0..d).map(|k| k < half).collect();
    let mut partial_distances = |x: &[u32]| -> Result<Vec<[i64; 2]>, LabError> {
        let values = oracle.search(x, &immutable)?.values;
        let scale = database.scale(&immutable);
        Ok(values.into_iter().map(|value| [value.div_euclid(scale), value.rem_euclid(scale)]).collect())
    };
    let norms = partial_distances(&vec![0; d])?;
    let plans = [pairs::pair_up(0..half), pairs::pair_up(half..d)];
    let steps: Vec<[Option<FeaturePair>; 2]> = match order {
        RowOrder::Fixed => (0..plans[0].len()).map(|i| [plans[0].get(i).copied(), plans[1].get(i).copied()]).collect(),
        RowOrder::Shuffled => {
            let first = plans[0].iter().map(|&pair| [Some(pair), None]);
            first.chain(plans[1].iter().map(|&pair| [None, Some(pair)])).collect()
        }
    };
    let mut candidates: [RowCandidates; 2] = [vec![Vec::new(); norms.len()], vec![Vec::new(); norms.len()]];
    let mut fractions = vec![RecoveredFraction { rows: 0.0, values: 0.0 }];
    for step in &steps {
        let mut x = vec![0; d];
        for pair in step.iter().flatten() {
            let part = pairs::query(d, database.r, pair.0, pair.1);
            x.iter_mut().zip(part).for_each(|(x, part)| *x += part);
        }
        let answer = partial_distances(&x)?;
        for (part, pair) in step.iter().enumerate() {
            let Some(pair) = *pair else { continue };
            let length: i64 = pairs::query(d, database.r, pair.0, pair.1).iter().map(|&v| i64::from(v).pow(2)).sum();
            let positions = linked_positions(order, part, &norms, &answer);
            for (row, positions) in positions.iter().enumerate() {
                let doubles = positions.iter().map(|&position| norms[row][part] - answer[position][part] + length);
                let even = doubles.filter(|double| double % 2 == 0);
                let mut found: Vec<(i64, i64)> =
                    even.flat_map(|double| pairs::candidates(database.r, double / 2, pair)).collect();
                found.sort_unstable();
                found.dedup();
                candidates[part][row].push((pair, found));
            }
        }
        fractions.push(recovered(database, order, &norms, &candidates, half));
    }
    Ok(fractions)
}

/// The possible positions in the answer of each row of the first search.
fn linked_positions(order: RowOrder, part: usize, norms: &[[i64; 2]], answer: &[[i64; 2]]) -> Vec<Vec<usize>> {
    if order == RowOrder::Fixed {
        return (0..norms.len()).map(|row| vec![row]).collect();
    }
    let mut positions: HashMap<i64, Vec<usize>> = HashMap::new();
    for (position, value) in answer.iter().enumerate() {
        positions.entry(value[1 - part]).or_default().push(position);
    }
    norms.iter().map(|norm| positions.get(&norm[1 - part]).cloned().unwrap_or_default()).collect()
}

/// The recovered fraction. The candidates are in the row order of the first search.
fn recovered(
    database: &UniformDatabase,
    order: RowOrder,
    norms: &[[i64; 2]],
    candidates: &[RowCandidates; 2],
    half: usize,
) -> RecoveredFraction {
    let d = database.d();
    let mut concluded = vec![vec![None; d]; norms.len()];
    for (row, values) in concluded.iter_mut().enumerate() {
        for (part, features) in [half, d - half].into_iter().enumerate() {
            let known: usize = candidates[part][row].iter().map(|((_, b), _)| 1 + usize::from(b.is_some())).sum();
            if known == features {
                if let [only] = pairs::solve(database.r, &candidates[part][row], None, norms[row][part]).as_slice() {
                    only.iter().for_each(|&(feature, value)| values[feature] = Some(value));
                }
                continue;
            }
            for ((a, b), pair_values) in &candidates[part][row] {
                if let [(value_a, value_b)] = pair_values.as_slice() {
                    values[*a] = Some(*value_a as u32);
                    if let Some(b) = b {
                        values[*b] = Some(*value_b as u32);
                    }
                }
            }
        }
    }
    if order == RowOrder::Fixed {
        return RecoveredFraction::of(&concluded, &database.rows);
    }
    // The first search was shuffled too. For the comparison with the truth, each of its rows is
    // matched with the row of the database that has the same partial norms.
    let mut by_norms: HashMap<[i64; 2], Vec<&Vec<u32>>> = HashMap::new();
    for row in &database.rows {
        let norm = |part: &[u32]| part.iter().map(|&v| i64::from(v).pow(2)).sum::<i64>();
        by_norms.entry([norm(&row[..half]), norm(&row[half..])]).or_default().push(row);
    }
    let truth: Vec<Vec<u32>> =
        norms.iter().map(|norm| by_norms.get_mut(norm).and_then(Vec::pop).cloned().unwrap_or_default()).collect();
    RecoveredFraction::of(&concluded, &truth)
}
