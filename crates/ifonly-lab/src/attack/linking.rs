//! The linking attack: recognising shuffled rows by arithmetic.
//!
//! A shuffle hides which value of the next session belongs to which row, not the values themselves.
//! From a row's norm N (the session at the origin) and a guess of the features in a set P, the
//! attacker predicts the row's distance to `R·Σ_{k∈P} e_k`, `N − 2R·Σ_{k∈P} y_k + R²|P|`, and looks
//! whether that value came at all. Sessions at the corners (|P| = 1) give candidates for each
//! feature; sessions at sums of corners test combinations; the norm tests the whole row. A wrong
//! guess passes a test with probability about M over the spread of distances, so every further
//! session helps, and it helps most when M is small.

use rayon::prelude::*;

use super::RecoveredFraction;
use super::sessions::{ModelOracle, SearchOracle, UniformDatabase};
use crate::LabError;
use crate::leakage::{Decoded, RowOrder};
use crate::plot::{AxisScale, Curve, Plot};
use crate::progress::ProgressSink;
use crate::report::{ReportItem, percent};

/// Guesses per row before the attacker gives up.
const PATIENCE: usize = 100_000;
/// Rows of a database that are attacked; the share is taken among them.
const VICTIMS: usize = 150;

/// Sets of corners to ask at: the corners themselves, then sums that end in each feature.
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

/// The number of sessions of a plan.
pub fn sessions_used(d: usize, families: usize) -> usize {
    1 + supports(d, families).len()
}

/// One session after the first: where it asked, and the sorted values that came.
struct Test {
    support: Vec<usize>,
    values: Vec<i64>,
}

/// The share of rows that the attack recovers.
pub fn attack(
    world: &UniformDatabase,
    d_min: u32,
    families: usize,
    sessions: &mut dyn SearchOracle,
) -> Result<RecoveredFraction, LabError> {
    let d = world.d();
    let free = vec![false; d];
    let first = sessions.ask(&vec![0; d], &free)?.values;
    let mut tests: Vec<Vec<Test>> = (0..d).map(|_| Vec::new()).collect();
    for support in supports(d, families) {
        let mut x = vec![0; d];
        support.iter().for_each(|&k| x[k] = world.r);
        let mut values = sessions.ask(&x, &free)?.values;
        values.sort_unstable();
        // A test can be made once its last feature is guessed; no support is empty.
        let last = support[support.len() - 1];
        tests[last].push(Test { support, values });
    }
    let victims = &first[..first.len().min(VICTIMS)];
    let recovered: usize = victims
        .par_iter()
        .filter(|&&norm| {
            let mut guess = Guess {
                r: i64::from(world.r),
                slack: i64::from(d_min) - 1,
                norm,
                tests: &tests,
                values: Vec::new(),
                found: Vec::new(),
                patience: PATIENCE,
            };
            guess.extend(norm + i64::from(d_min));
            let certain = guess.patience > 0 && guess.found.len() == 1;
            certain && world.rows.iter().any(|row| row.iter().map(|&v| i64::from(v)).eq(guess.found[0].iter().copied()))
        })
        .count();
    let share = recovered as f64 / victims.len().max(1) as f64;
    Ok(RecoveredFraction { rows: share, values: share })
}

struct Guess<'a> {
    r: i64,
    /// Masks make two sessions' values differ by up to this much.
    slack: i64,
    norm: i64,
    tests: &'a [Vec<Test>],
    values: Vec<i64>,
    found: Vec<Vec<i64>>,
    patience: usize,
}

impl Guess<'_> {
    /// Guesses the next feature; `left` bounds the squares that remain.
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
            if self.patience == 0 || self.found.len() > 1 || value * value > left {
                return;
            }
            self.values.push(value);
            if self.tests[feature].iter().all(|test| self.passes(test)) {
                self.patience -= 1;
                self.extend(left - value * value);
            }
            self.values.pop();
        }
    }

    fn passes(&self, test: &Test) -> bool {
        let sum: i64 = test.support.iter().map(|&k| self.values[k]).sum();
        let expected = self.norm - 2 * self.r * sum + self.r * self.r * test.support.len() as i64;
        let from = test.values.partition_point(|&value| value < expected - self.slack);
        test.values.get(from).is_some_and(|&value| value <= expected + self.slack)
    }
}

/// The attack over the number of rows.
pub fn run(r: u32, d: usize, sizes: &[usize], seed: u64, progress: &dyn ProgressSink) -> Result<ReportItem, LabError> {
    let plans = [(1, 1), (1, 2), (1, 3), (1, 4), (2, 2), (2, 4)];
    let name = |(d_min, families): (u32, usize)| {
        let scheme = if d_min == 1 { "Baseline".into() } else { format!("Mask {d_min}") };
        format!("{scheme}, {} sessions", sessions_used(d, families))
    };
    progress.start("linking shuffled rows", (sizes.len() * plans.len()) as u64);
    let mut shares = Vec::new();
    for &m in sizes {
        let world = UniformDatabase::uniform(r, d, m, seed);
        let row = plans
            .iter()
            .map(|&(d_min, families)| {
                let decoded = if d_min == 1 { Decoded::Values } else { Decoded::Masked };
                let mut sessions = ModelOracle::new(&world, decoded, d_min, RowOrder::Shuffled, seed);
                let share = attack(&world, d_min, families, &mut sessions)?.rows;
                progress.advance(1);
                Ok(share)
            })
            .collect::<Result<Vec<f64>, LabError>>()?;
        shares.push(row);
    }
    progress.finish();
    let table = sizes
        .iter()
        .zip(&shares)
        .map(|(m, row)| [m.to_string()].into_iter().chain(row.iter().map(|&share| percent(share))).collect());
    let curve = |(column, &plan): (usize, &(u32, usize))| Curve {
        name: name(plan),
        points: sizes.iter().zip(&shares).map(|(&m, row)| (m as f64, 100.0 * row[column])).collect(),
        errors: Vec::new(),
    };
    Ok(ReportItem {
        name: "linking",
        title: format!("Linking shuffled rows, R={r}, d={d}"),
        text: format!(
            "Rows are shuffled anew in every session, and one user tries to recognise them by arithmetic. In a small \
             database distances are sparse and most wrong guesses are found out; each further session tests the \
             guesses again. Shuffling therefore multiplies the sessions that a reconstruction takes, the more so the \
             larger the database, but it is no substitute for a limit on the sessions per user. (At most {VICTIMS} \
             rows of each database are attacked, with {PATIENCE} guesses each. Diff is as Baseline: the record of \
             each session anchors its differences. Every session also hands over one record, as it should.)"
        ),
        columns: ["rows M".to_string()].into_iter().chain(plans.iter().map(|&plan| name(plan))).collect(),
        rows: table.collect(),
        plot: Some(Plot {
            title: format!("Rows recognised despite the shuffle (R={r}, d={d})"),
            x: "rows in the database".into(),
            y: "rows recovered (%)".into(),
            x_scale: AxisScale::Logarithmic,
            y_range: Some((0.0, 105.0)),
            curves: plans.iter().enumerate().map(curve).collect(),
        }),
    })
}
