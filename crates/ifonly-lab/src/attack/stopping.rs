//! What a server learns if a client stops early.
//!
//! In the paper a client may stop after the first phase if `|Θ| ≤ 1`. A server knows the database
//! D, and it sees whether the client stops, which is a function of (x, I) and D. It therefore
//! learns `I(x, I; stop | D) = E_D H(stop | D)`. This module computes that value exactly, over all
//! databases of M distinct rows, all x outside the database, and all sets I of one size.
//!
//! Clients of ifonly always run every phase and the record fetch.

use rayon::prelude::*;

use crate::LabError;
use crate::plot::{AxisScale, Curve, Plot};
use crate::report::{ReportItem, cells};

const LIMIT: f64 = 1e10;

/// Bits about (x, I) that a server learns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LeakedBits {
    /// If the client skips the second phase when at most one row matches.
    pub no_second_phase: f64,
    /// If the client skips the record fetch when no row matches.
    pub no_record: f64,
    /// If the client does both.
    pub both: f64,
}

/// The exact values for one size of I.
pub fn leaked_bits(r: u32, d: u32, m: u32, immutable: u32) -> Result<LeakedBits, LabError> {
    let points: Vec<Vec<u32>> =
        (0..(r + 1).pow(d)).map(|i| (0..d).map(|k| i / (r + 1).pow(k) % (r + 1)).collect()).collect();
    let sets: Vec<u32> = (0..1u32 << d).filter(|set| set.count_ones() == immutable).collect();
    let databases: f64 = (0..m).map(|j| (points.len() as f64 - f64::from(j)) / f64::from(j + 1)).product();
    let steps = databases * points.len() as f64 * sets.len() as f64;
    if steps > LIMIT {
        return Err(LabError::TooLarge { what: "the enumeration of all databases", steps, limit: LIMIT });
    }
    // matches[x][i] is the set of features, as bits, in which points x and i are equal.
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

/// Calls `f` with every ascending list of m indices that starts with `rows`.
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
    // How many pairs (x, I) have no, one, or several matching rows.
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

/// The report item: leaked bits by the size of I.
pub fn run(r: u32, d: u32, m: u32) -> Result<ReportItem, LabError> {
    let leaked: Vec<LeakedBits> = (0..=d).map(|immutable| leaked_bits(r, d, m, immutable)).collect::<Result<_, _>>()?;
    let row = |(immutable, leaked): (usize, &LeakedBits)| {
        let bits = [leaked.no_second_phase, leaked.no_record, leaked.both].map(|bits| format!("{bits:.6}"));
        [immutable.to_string()].into_iter().chain(bits).collect()
    };
    let curve = |name: &str, bits: fn(&LeakedBits) -> f64| Curve {
        name: name.into(),
        points: leaked.iter().enumerate().map(|(immutable, leaked)| (immutable as f64, bits(leaked))).collect(),
        errors: Vec::new(),
    };
    Ok(ReportItem {
        name: "stopping",
        title: format!("What a client that stops early reveals to each server, R={r}, d={d}, M={m}"),
        text: "Bits about the secrets (x, I) of the user per search, exact. If a client skips the second phase when at \
             most one row matches, or skips the record fetch when no row matches, every server sees it. Clients of ifonly \
             never skip a step, so they reveal 0 bits."
            .into(),
        columns: cells(["immutable features", "no second phase", "no record", "both"]),
        rows: leaked.iter().enumerate().map(row).collect(),
        figure: Some(Plot {
            title: format!("Bits revealed to each server by stopping early (R={r}, d={d}, M={m})"),
            x: "number of immutable features".into(),
            y: "bits about (x, I) per search".into(),
            x_scale: AxisScale::Linear,
            y_range: None,
            curves: vec![
                curve("skips the second phase", |leaked| leaked.no_second_phase),
                curve("skips the record", |leaked| leaked.no_record),
                curve("skips both", |leaked| leaked.both),
            ],
        }.into()),
    })
}
