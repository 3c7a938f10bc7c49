//! What stopping early would tell a server.
//!
//! The paper lets a user stop when `|Θ| ≤ 1` after the first phase. A server knows the database, so
//! whether the user goes on is a function of (x, I) that it sees: `I(x, I; stop | D) = E_D H(stop |
//! D)`. Here it is computed exactly, over all databases of M distinct rows, all x outside the
//! database and all I of one size. ifonly's clients run every phase and the record fetch, always.

use rayon::prelude::*;

use crate::LabError;
use crate::plot::{AxisScale, Curve, Plot};
use crate::report::{ReportItem, cells};

const LIMIT: f64 = 1e10;

/// Bits about (x, I) that a server gets from one habit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LeakedBits {
    /// Skipping the second phase when at most one row matches.
    pub no_second_phase: f64,
    /// Skipping the record when no row matches.
    pub no_record: f64,
    /// Both.
    pub both: f64,
}

/// The exact numbers for one size of I.
pub fn leaked_bits(r: u32, d: u32, m: u32, immutable: u32) -> Result<LeakedBits, LabError> {
    let points: Vec<Vec<u32>> =
        (0..(r + 1).pow(d)).map(|i| (0..d).map(|k| i / (r + 1).pow(k) % (r + 1)).collect()).collect();
    let sets: Vec<u32> = (0..1u32 << d).filter(|set| set.count_ones() == immutable).collect();
    let databases: f64 = (0..m).map(|j| (points.len() as f64 - f64::from(j)) / f64::from(j + 1)).product();
    let steps = databases * points.len() as f64 * sets.len() as f64;
    if steps > LIMIT {
        return Err(LabError::TooLarge { what: "visiting every database", steps, limit: LIMIT });
    }
    // matches[x][i] is the set of features, as bits, in which points x and i agree.
    let agree = |x: &[u32], y: &[u32]| (0..d as usize).filter(|&k| x[k] == y[k]).fold(0u32, |set, k| set | 1 << k);
    let matches: Vec<Vec<u32>> = points.iter().map(|x| points.iter().map(|y| agree(x, y)).collect()).collect();
    let first: Vec<usize> = (0..points.len()).collect();
    let sums: Vec<[f64; 3]> = first
        .par_iter()
        .map(|&start| {
            let mut sum = [0.0; 3];
            visit(points.len(), m, &mut vec![start], &mut |rows| {
                let bits = of_database(&matches, &sets, rows);
                sum.iter_mut().zip(bits).for_each(|(sum, bits)| *sum += bits);
            });
            sum
        })
        .collect();
    let mean = |i: usize| sums.iter().map(|sum| sum[i]).sum::<f64>() / databases;
    Ok(LeakedBits { no_second_phase: mean(0), no_record: mean(1), both: mean(2) })
}

/// Visits the sets of m ascending indices that begin with the given one.
fn visit(points: usize, m: u32, rows: &mut Vec<usize>, f: &mut impl FnMut(&[usize])) {
    if rows.len() == m as usize {
        return f(rows);
    }
    for next in rows.last().map_or(0, |last| last + 1)..points {
        rows.push(next);
        visit(points, m, rows, f);
        rows.pop();
    }
}

fn of_database(matches: &[Vec<u32>], sets: &[u32], rows: &[usize]) -> [f64; 3] {
    // How often no row, one row and more rows match.
    let mut counts = [0.0; 3];
    for (x, agree) in matches.iter().enumerate() {
        if rows.contains(&x) {
            continue;
        }
        for &set in sets {
            let matching = rows.iter().filter(|&&row| agree[row] & set == set).count();
            counts[matching.min(2)] += 1.0;
        }
    }
    let [none, one, more] = counts;
    [entropy(&[none + one, more]), entropy(&[none, one + more]), entropy(&[none, one, more])]
}

fn entropy(counts: &[f64]) -> f64 {
    let total: f64 = counts.iter().sum();
    counts.iter().filter(|&&count| count > 0.0).map(|count| -(count / total) * (count / total).log2()).sum()
}

/// The table over the sizes of I.
pub fn run(r: u32, d: u32, m: u32) -> Result<ReportItem, LabError> {
    let told: Vec<LeakedBits> = (0..=d).map(|immutable| leaked_bits(r, d, m, immutable)).collect::<Result<_, _>>()?;
    let row = |(immutable, told): (usize, &LeakedBits)| {
        let bits = [told.no_second_phase, told.no_record, told.both].map(|bits| format!("{bits:.6}"));
        [immutable.to_string()].into_iter().chain(bits).collect()
    };
    let curve = |name: &str, bits: fn(&LeakedBits) -> f64| Curve {
        name: name.into(),
        points: told.iter().enumerate().map(|(immutable, told)| (immutable as f64, bits(told))).collect(),
        errors: Vec::new(),
    };
    Ok(ReportItem {
        name: "stopping",
        title: format!("What stopping early tells each server, R={r}, d={d}, M={m}"),
        text: "Bits about the user's secrets (x, I) per query, exact. A client that skips the second phase when at \
             most one row matches, or skips the record when none does, tells every server whether it did. ifonly's \
             clients never skip: these bits are 0."
            .into(),
        columns: cells(["immutable features", "no second phase", "no record", "both"]),
        rows: told.iter().enumerate().map(row).collect(),
        plot: Some(Plot {
            title: format!("Stopping early tells each server (R={r}, d={d}, M={m})"),
            x: "number of immutable features".into(),
            y: "bits about (x, I) per query".into(),
            x_scale: AxisScale::Linear,
            y_range: None,
            curves: vec![
                curve("skips the second phase", |told| told.no_second_phase),
                curve("skips the record", |told| told.no_record),
                curve("skips both", |told| told.both),
            ],
        }),
    })
}
