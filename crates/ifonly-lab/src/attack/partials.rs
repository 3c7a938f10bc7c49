//! Trilateration against Single-Phase, whose value gives *two* partial distances: `A` over the held
//! features, `B` over the others.
//!
//! Rows in order: with half of the features held, every session is two sessions at once, `1 +
//! ⌈d/4⌉` in all. Shuffled: moving x only on one half leaves the other half's partial distance
//! unchanged, and that number recognises the row; twice the sessions, one less, and the shuffle is
//! undone for all rows whose partial norms are unique.

use std::collections::HashMap;

use super::RecoveredFraction;
use super::pairs::{self, FeaturePair};
use super::sessions::{SearchOracle, UniformDatabase};
use crate::LabError;
use crate::leakage::RowOrder;

type Seen = Vec<Vec<pairs::PairCandidates>>;

/// What is recovered after 1, 2, … sessions.
pub fn run_sessions(
    world: &UniformDatabase,
    order: RowOrder,
    sessions: &mut dyn SearchOracle,
) -> Result<Vec<RecoveredFraction>, LabError> {
    let d = world.d();
    let half = d.div_ceil(2);
    let held: Vec<bool> = (0..d).map(|k| k < half).collect();
    let mut ask = |x: &[u32]| -> Result<Vec<[i64; 2]>, LabError> {
        let values = sessions.ask(x, &held)?.values;
        let scale = world.scale();
        Ok(values.into_iter().map(|value| [value.div_euclid(scale), value.rem_euclid(scale)]).collect())
    };
    let norms = ask(&vec![0; d])?;
    let plans = [pairs::pair_up(0..half), pairs::pair_up(half..d)];
    let steps: Vec<[Option<FeaturePair>; 2]> = match order {
        RowOrder::Fixed => (0..plans[0].len()).map(|i| [plans[0].get(i).copied(), plans[1].get(i).copied()]).collect(),
        RowOrder::Shuffled => {
            let first = plans[0].iter().map(|&pair| [Some(pair), None]);
            first.chain(plans[1].iter().map(|&pair| [None, Some(pair)])).collect()
        }
    };
    let mut seen: [Seen; 2] = [vec![Vec::new(); norms.len()], vec![Vec::new(); norms.len()]];
    let mut shares = vec![RecoveredFraction { rows: 0.0, values: 0.0 }];
    for step in &steps {
        let mut x = vec![0; d];
        for pair in step.iter().flatten() {
            let part = pairs::query(d, world.r, pair.0, pair.1);
            x.iter_mut().zip(part).for_each(|(x, part)| *x += part);
        }
        let answer = ask(&x)?;
        for (part, pair) in step.iter().enumerate() {
            let Some(pair) = *pair else { continue };
            let length: i64 = pairs::query(d, world.r, pair.0, pair.1).iter().map(|&v| i64::from(v).pow(2)).sum();
            let served = linked(order, part, &norms, &answer);
            for (row, places) in served.iter().enumerate() {
                let doubles = places.iter().map(|&place| norms[row][part] - answer[place][part] + length);
                let even = doubles.filter(|double| double % 2 == 0);
                let mut found: Vec<(i64, i64)> =
                    even.flat_map(|double| pairs::candidates(world.r, double / 2, pair)).collect();
                found.sort_unstable();
                found.dedup();
                seen[part][row].push((pair, found));
            }
        }
        shares.push(share(world, order, &norms, &seen, half));
    }
    Ok(shares)
}

/// The places in the answer that each row of the first session may have.
fn linked(order: RowOrder, part: usize, norms: &[[i64; 2]], answer: &[[i64; 2]]) -> Vec<Vec<usize>> {
    if order == RowOrder::Fixed {
        return (0..norms.len()).map(|row| vec![row]).collect();
    }
    let mut places: HashMap<i64, Vec<usize>> = HashMap::new();
    for (place, value) in answer.iter().enumerate() {
        places.entry(value[1 - part]).or_default().push(place);
    }
    norms.iter().map(|norm| places.get(&norm[1 - part]).cloned().unwrap_or_default()).collect()
}

/// Rows in the order of the first session; a shuffled one is compared with the database as a set.
fn share(
    world: &UniformDatabase,
    order: RowOrder,
    norms: &[[i64; 2]],
    seen: &[Seen; 2],
    half: usize,
) -> RecoveredFraction {
    let d = world.d();
    let mut concluded = vec![vec![None; d]; norms.len()];
    for (row, values) in concluded.iter_mut().enumerate() {
        for (part, features) in [half, d - half].into_iter().enumerate() {
            let asked: usize = seen[part][row].iter().map(|((_, b), _)| 1 + usize::from(b.is_some())).sum();
            if asked == features {
                if let [only] = pairs::solve(world.r, &seen[part][row], None, norms[row][part]).as_slice() {
                    only.iter().for_each(|&(feature, value)| values[feature] = Some(value));
                }
                continue;
            }
            for ((a, b), candidates) in &seen[part][row] {
                if let [(value_a, value_b)] = candidates.as_slice() {
                    values[*a] = Some(*value_a as u32);
                    if let Some(b) = b {
                        values[*b] = Some(*value_b as u32);
                    }
                }
            }
        }
    }
    if order == RowOrder::Fixed {
        return RecoveredFraction::of(&concluded, &world.rows);
    }
    // The attacker does not know the rows' places, and need not: match each first-session row with
    // the true one it stands for.
    let mut by_norms: HashMap<[i64; 2], Vec<&Vec<u32>>> = HashMap::new();
    for row in &world.rows {
        let norm = |part: &[u32]| part.iter().map(|&v| i64::from(v).pow(2)).sum::<i64>();
        by_norms.entry([norm(&row[..half]), norm(&row[half..])]).or_default().push(row);
    }
    let truth: Vec<Vec<u32>> =
        norms.iter().map(|norm| by_norms.get_mut(norm).and_then(Vec::pop).cloned().unwrap_or_default()).collect();
    RecoveredFraction::of(&concluded, &truth)
}
