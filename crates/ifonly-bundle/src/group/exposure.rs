//! How recognisable the original rows are, and what grouping costs: for the institution only, never
//! published.

use super::table::GroupTable;
use super::{GroupRequest, group};
use crate::build::group_report::{Exposure, GroupPrice};
use crate::error::BuildError;
use rayon::prelude::*;

/// Maximum number of accepted rows among which nearest rows are searched.
const SAMPLED_ROWS: usize = 10_000;
/// Maximum number of rejected rows that ask.
const QUESTIONS: usize = 400;
/// Maximum number of rows times combinations of three columns.
const COMBINED_ROWS: usize = 4_000_000;
/// The sizes of groups whose price is computed.
const SIZES: [usize; 3] = [5, 10, 20];
/// A price is acceptable if the median distance grows by at most this factor.
const ACCEPTABLE: f64 = 1.5;

impl Exposure {
    pub(crate) fn of(table: &GroupTable) -> Result<Exposure, BuildError> {
        let columns = table.columns().len();
        let all: Vec<usize> = (0..columns).collect();
        let mut triples: Vec<[usize; 3]> = vec![];
        for a in 0..columns {
            for b in a + 1..columns {
                triples.extend((b + 1..columns).map(|c| [a, b, c]));
            }
        }
        let limit = (COMBINED_ROWS / table.accepted().max(1)).max(1);
        let chosen: Vec<[usize; 3]> = spread(triples.len(), limit).map(|index| triples[index]).collect();
        let counts: Vec<u64> = chosen.par_iter().map(|triple| unique(table, triple)).collect();
        let worst = counts.iter().zip(&chosen).rev().max_by_key(|(count, _)| **count);
        let names = |triple: &[usize; 3]| triple.map(|column| table.columns()[column].name.clone());
        let mut exposure = Exposure {
            rows: table.accepted() as u64,
            unique: unique(table, &all),
            combinations: counts.len() as u64,
            unique_in_three: counts.iter().sum::<u64>() as f64 / counts.len().max(1) as f64,
            worst_three: worst.map(|(count, triple)| (names(triple), *count)),
            questions: 0,
            searched: 0,
            ungrouped: None,
            grouped: vec![],
            recommended: None,
        };
        exposure.add_prices(table)?;
        Ok(exposure)
    }

    fn add_prices(&mut self, table: &GroupTable) -> Result<(), BuildError> {
        let accepted: Vec<usize> = spread(table.accepted(), SAMPLED_ROWS).collect();
        let rejected = table.rows() - table.accepted();
        let asking: Vec<usize> = spread(rejected, QUESTIONS).map(|index| table.accepted() + index).collect();
        if asking.is_empty() {
            return Ok(());
        }
        let sample = table.sample(&accepted, &asking);
        let rows: Vec<Vec<Option<u16>>> =
            (0..sample.accepted()).map(|row| sample.row(row).iter().map(|&code| Some(code)).collect()).collect();
        let ungrouped = distances(&sample, &rows);
        (self.questions, self.searched) = (asking.len() as u64, accepted.len() as u64);
        for k in SIZES.into_iter().filter(|k| 2 * k <= sample.accepted()) {
            let grouping = group(&sample, &GroupRequest { k, ..GroupRequest::default() }, None)?;
            let codes: Vec<Vec<Option<u16>>> = grouping.representatives.into_iter().map(|one| one.codes).collect();
            let distance = distances(&sample, &codes);
            let ratio = [0, 1].map(|at| (ungrouped[at] > 0.0).then(|| distance[at] / ungrouped[at]));
            self.grouped.push(GroupPrice { k: k as u32, distance, ratio });
        }
        self.ungrouped = Some(ungrouped);
        let acceptable = |price: &&GroupPrice| price.ratio[0].is_some_and(|ratio| ratio <= ACCEPTABLE);
        self.recommended = self.grouped.iter().rfind(acceptable).map(|price| price.k);
        Ok(())
    }
}

/// Median and 90th percentile of the distances from the rejected rows of a table to the nearest of
/// these rows.
fn distances(table: &GroupTable, rows: &[Vec<Option<u16>>]) -> [f64; 2] {
    let nearest = |asking: usize| {
        let asking = table.row(asking);
        rows.iter().map(|row| table.distance(asking, row)).fold(f64::INFINITY, f64::min).sqrt()
    };
    let mut distances: Vec<f64> = (table.accepted()..table.rows()).into_par_iter().map(nearest).collect();
    distances.sort_by(f64::total_cmp);
    [distances.len() / 2, distances.len() * 9 / 10].map(|at| distances.get(at).copied().unwrap_or(0.0))
}

/// The number of accepted rows that no other one equals in these columns.
fn unique(table: &GroupTable, columns: &[usize]) -> u64 {
    let hasher = ahash::RandomState::with_seeds(1, 2, 3, 4);
    let key = |row: usize| match columns {
        // Three codes fit into one integer.
        [a, b, c] => [*a, *b, *c].iter().fold(0, |key, &column| key << 16 | u64::from(table.code(row, column))),
        columns => hasher.hash_one(columns.iter().map(|&column| table.code(row, column)).collect::<Vec<u16>>()),
    };
    let mut keys: Vec<u64> = (0..table.accepted()).map(key).collect();
    keys.sort_unstable();
    keys.chunk_by(|a, b| a == b).filter(|equal| equal.len() == 1).count() as u64
}

/// At most `limit` of `count` indices, evenly spread.
fn spread(count: usize, limit: usize) -> impl Iterator<Item = usize> {
    let taken = count.min(limit);
    (0..taken).map(move |index| (index as u128 * count as u128 / taken as u128) as usize)
}
