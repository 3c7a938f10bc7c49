//! White wine as the paper used it: 3788 distinct accepted rows (quality ≥ 5) and all 183 rejected
//! rows. Each feature is scaled to [0, 1] and quantised to n levels.

use std::collections::HashSet;
use std::path::Path;

use super::first_bin;
use super::table::Table;
use crate::LabError;
use crate::random::Stream;

const FEATURES: [&str; 11] = [
    "fixed_acidity",
    "volatile_acidity",
    "citric_acid",
    "residual_sugar",
    "chlorides",
    "free_sulfur_dioxide",
    "total_sulfur_dioxide",
    "density",
    "pH",
    "sulphates",
    "alcohol",
];

/// The rows, scaled to [0, 1].
#[derive(Debug, Clone)]
pub struct Wine {
    /// Distinct rows of quality ≥ 5.
    pub accepted: Vec<Vec<f64>>,
    /// Rows of quality < 5, duplicates included.
    pub rejected: Vec<Vec<f64>>,
}

/// The database and the queries of one round of the experiment.
#[derive(Debug, Clone)]
pub struct WineDatabase {
    /// The rows of the database, as indices into the accepted rows.
    pub rows: Vec<usize>,
    /// The queries, as indices into the rejected rows.
    pub queries: Vec<usize>,
}

/// A map from [0, 1] to levels `0..=R`, where R = n − 1 for n levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnitQuantiser {
    /// `⌊v·R⌋` as the paper computed it: a search in floating point that gives some values the top
    /// bin by mistake.
    PaperBins,
    /// `⌊v·R⌋`.
    Floor,
    /// `⌊v·R + ½⌋`, the default of ifonly.
    Round,
}

impl UnitQuantiser {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            UnitQuantiser::PaperBins => "the paper's floor bins",
            UnitQuantiser::Floor => "exact floor bins",
            UnitQuantiser::Round => "rounding",
        }
    }

    /// The level of a scaled value.
    pub fn level(self, value: f64, levels: u32) -> u32 {
        let r = levels.saturating_sub(1).max(1);
        let top = f64::from(r);
        match self {
            UnitQuantiser::PaperBins => first_bin(value, r),
            UnitQuantiser::Floor => (value * top).floor().clamp(0.0, top) as u32,
            UnitQuantiser::Round => (value * top + 0.5).floor().clamp(0.0, top) as u32,
        }
    }

    /// The levels of a scaled row.
    pub fn row(self, values: &[f64], levels: u32) -> Vec<u32> {
        values.iter().map(|&value| self.level(value, levels)).collect()
    }
}

/// Reads and scales the file.
pub fn wine(path: &Path) -> Result<Wine, LabError> {
    let table = Table::read(path)?;
    let quality = table.numbers("quality")?;
    let mut columns: Vec<Vec<f64>> = FEATURES.iter().map(|name| table.numbers(name)).collect::<Result<_, _>>()?;
    for column in &mut columns {
        let low = column.iter().copied().fold(f64::INFINITY, f64::min);
        let range = column.iter().copied().fold(f64::NEG_INFINITY, f64::max) - low;
        column.iter_mut().for_each(|value| *value = if range > 0.0 { (*value - low) / range } else { 0.0 });
    }
    let (mut accepted, mut rejected, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
    for (row, quality) in quality.iter().enumerate() {
        let values: Vec<f64> = columns.iter().map(|column| column[row]).collect();
        if *quality < 5.0 {
            rejected.push(values);
        } else if seen.insert(values.iter().map(|value| value.to_bits()).collect::<Vec<u64>>()) {
            accepted.push(values);
        }
    }
    Ok(Wine { accepted, rejected })
}

impl Wine {
    /// The database and the queries of one round.
    pub fn round(&self, m: usize, queries: usize, seed: u64, round: u64) -> WineDatabase {
        let mut stream = Stream::new(seed, round);
        WineDatabase {
            rows: stream.choose(self.accepted.len(), m),
            queries: stream.choose(self.rejected.len(), queries),
        }
    }
}
