//! The linking attack: recognising shuffled rows by their distances.
//!
//! A shuffle hides which row has which value in the next search, but not the values themselves. The
//! attacker knows the norm N of a row from the search at the origin. With a guess of the features
//! in a set P it predicts the distance of the row to the point `R·Σ_{k∈P} e_k`:
//!
//! `N − 2R·Σ_{k∈P} y_k + R²|P|`
//!
//! It then tests whether the search at that point returned this value. Searches at the corners
//! (|P| = 1) give candidates for each feature. Searches at sums of corners test combinations. The
//! norm tests the whole row. A wrong guess is consistent with a search with probability about M
//! divided by the range of distances. So every further search helps, most of all if M is small.

use rayon::prelude::*;

use super::RecoveredFraction;
use super::oracle::{ModelOracle, SearchOracle, UniformDatabase};
use crate::LabError;
use crate::leakage::{Decoded, RowOrder};
use crate::plot::{AxisScale, Curve, Plot};
use crate::progress::ProgressSink;
use crate::report::{ReportItem, percent};

/// The largest number of guesses per row.
const GUESS_LIMIT: usize = 100_000;
/// The largest number of rows of a database that are attacked.
const ATTACKED_ROWS: usize = 150;

/// The sets P of all searches after the first: single features, then `families − 1` families of
/// sets whose last feature runs over the features.
fn supports(d: usize, families: usize) -> Vec<Vec<usize>> {
    let mut all: Vec<Vec<usize>> = (0..d).map(|k| vec![k]).collect();
    if families > 1 {
        all.extend((1..d).map(|k| (0..=k).collect()));
    }
    for gap in 1..families.saturating_sub(1) {
        all.extend((gap.max(2)..d).map(|k| vec![k - gap, k]));
    }
    all
}

/// The number of searches with this number of families.
pub fn searches_used(d: usize, families: usize) -> usize {
    1 + supports(d, families).len()
}

/// A search after the first: its set P, and the returned values, sorted.
struct ObservedSearch {
    support: Vec<usize>,
    values: Vec<i64>,
}

/// The fraction of rows that the attack recovers.
pub fn attack(
    database: &UniformDatabase,
    d_min: u32,
    families: usize,
    oracle: &mut dyn SearchOracle,
) -> Result<RecoveredFraction, LabError> {
    let d = database.d();
    let free = vec![false; d];
    let first = oracle.search(&vec![0; d], &free)?.values;
    let mut tests: Vec<Vec<ObservedSearch>> = (0..d).map(|_| Vec::new()).collect();
    for support in supports(d, families) {
        let mut x = vec![0; d];
        support.iter().for_each(|&k| x[k] = database.r);
        let mut values = oracle.search(&x, &free)?.values;
        values.sort_unstable();
        // A guess can be tested once the last feature of P is guessed. No set P is empty.
        let last = support[support.len() - 1];
        tests[last].push(ObservedSearch { support, values });
    }
    let attacked = &first[..first.len().min(ATTACKED_ROWS)];
    let recovered: usize = attacked
        .par_iter()
        .filter(|&&norm| {
            let mut guess = Guess {
                r: i64::from(database.r),
                slack: i64::from(d_min) - 1,
                norm,
                tests: &tests,
                values: Vec::new(),
                found: Vec::new(),
                guesses_left: GUESS_LIMIT,
            };
            guess.extend(norm + i64::from(d_min));
            let certain = guess.guesses_left > 0 && guess.found.len() == 1;
            certain
                && database.rows.iter().any(|row| row.iter().map(|&v| i64::from(v)).eq(guess.found[0].iter().copied()))
        })
        .count();
    let fraction = recovered as f64 / attacked.len().max(1) as f64;
    Ok(RecoveredFraction { rows: fraction, values: fraction })
}

struct Guess<'a> {
    r: i64,
    /// The largest difference that masks can make between the values of two searches.
    slack: i64,
    norm: i64,
    tests: &'a [Vec<ObservedSearch>],
    values: Vec<i64>,
    found: Vec<Vec<i64>>,
    guesses_left: usize,
}

impl Guess<'_> {
    /// Guesses the next feature. `left` is an upper bound of the sum of the remaining squares.
    fn extend(&mut self, left: i64) {
        let feature = self.values.len();
        if feature == self.tests.len() {
            let rest = self.norm - self.values.iter().map(|value| value * value).sum::<i64>();
            if (0..=self.slack).contains(&rest) {
                self.found.push(self.values.clone());
            }
            return;
        }
        for value in 0..=self.r {
            if self.guesses_left == 0 || self.found.len() > 1 || value * value > left {
                return;
            }
            self.values.push(value);
            if self.tests[feature].iter().all(|search| self.is_consistent(search)) {
                self.guesses_left -= 1;
                self.extend(left - value * value);
            }
            self.values.pop();
        }
    }

    /// Whether the search returned the value that the guess predicts.
    fn is_consistent(&self, search: &ObservedSearch) -> bool {
        let sum: i64 = search.support.iter().map(|&k| self.values[k]).sum();
        let expected = self.norm - 2 * self.r * sum + self.r * self.r * search.support.len() as i64;
        let from = search.values.partition_point(|&value| value < expected - self.slack);
        search.values.get(from).is_some_and(|&value| value <= expected + self.slack)
    }
}

/// The report item: recovered rows by the number of rows.
pub fn run(r: u32, d: usize, sizes: &[usize], seed: u64, progress: &dyn ProgressSink) -> Result<ReportItem, LabError> {
    let plans = [(1, 1), (1, 2), (1, 3), (1, 4), (2, 2), (2, 4)];
    let name = |(d_min, families): (u32, usize)| {
        let scheme = if d_min == 1 { "Baseline".into() } else { format!("Mask {d_min}") };
        format!("{scheme}, {} searches", searches_used(d, families))
    };
    progress.start("linking shuffled rows", (sizes.len() * plans.len()) as u64);
    let mut fractions = Vec::new();
    for &m in sizes {
        let database = UniformDatabase::uniform(r, d, m, seed);
        let row = plans
            .iter()
            .map(|&(d_min, families)| {
                let decoded = if d_min == 1 { Decoded::Values } else { Decoded::Masked };
                let mut oracle = ModelOracle::new(&database, decoded, d_min, RowOrder::Shuffled, seed);
                let fraction = attack(&database, d_min, families, &mut oracle)?.rows;
                progress.advance(1);
                Ok(fraction)
            })
            .collect::<Result<Vec<f64>, LabError>>()?;
        fractions.push(row);
    }
    progress.finish();
    let table = sizes
        .iter()
        .zip(&fractions)
        .map(|(m, row)| [m.to_string()].into_iter().chain(row.iter().map(|&fraction| percent(fraction))).collect());
    let curve = |(column, &plan): (usize, &(u32, usize))| Curve {
        name: name(plan),
        points: sizes.iter().zip(&fractions).map(|(&m, row)| (m as f64, 100.0 * row[column])).collect(),
        errors: Vec::new(),
    };
    Ok(ReportItem {
        name: "linking",
        title: format!("Linking shuffled rows, R={r}, d={d}"),
        text: format!(
            "Every search has a fresh row order, and one user tries to recognise the rows by their distances. In a \
             small database the distances are sparse, so most wrong guesses are detected. Each further search tests the \
             guesses again. Shuffling therefore multiplies the number of searches that an attacker needs, and more so in \
             larger databases. It does not replace a limit on the searches per user. At most {ATTACKED_ROWS} rows of \
             each database are attacked, with at most {GUESS_LIMIT} guesses each. Diff gives the same result as \
             Baseline, because the record of each search turns its differences into distances. The records that the \
             searches return are not counted."
        ),
        columns: ["rows M".to_string()].into_iter().chain(plans.iter().map(|&plan| name(plan))).collect(),
        rows: table.collect(),
        figure: Some(
            Plot {
                title: format!("Rows recognised despite the shuffle (R={r}, d={d})"),
                x: "rows in the database".into(),
                y: "rows recovered (%)".into(),
                x_scale: AxisScale::Logarithmic,
                y_range: Some((0.0, 105.0)),
                curves: plans.iter().enumerate().map(curve).collect(),
            }
            .into(),
        ),
    })
}
