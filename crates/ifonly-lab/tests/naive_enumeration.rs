//! Leakage by classes against leakage by the definition: every x, every tuple of rows, every mask,
//! every order of the rows, and for gated schemes every ρ and σ of a tiny field, with the mutual
//! information taken from the joint distribution.

use std::collections::HashMap;

use ifonly_lab::leakage::{Decoded, LeakageModel, LeakageScheme, Population, RowOrder, SamplingRule, exact};

/// The symbols that a gated scheme's user decodes live in this field; it exceeds every distance
/// below.
const Q: i64 = 7;

type Seen = Vec<i64>;

fn points(r: u32, d: u32) -> Vec<Vec<i64>> {
    (0..(r + 1).pow(d)).map(|i| (0..d).map(|k| i64::from(i / (r + 1).pow(k) % (r + 1))).collect()).collect()
}

fn tuples(rows: &[Vec<i64>], m: u32, drawing: SamplingRule) -> Vec<Vec<Vec<i64>>> {
    let mut found = vec![Vec::new()];
    for _ in 0..m {
        let mut longer = Vec::new();
        for tuple in &found {
            for row in rows {
                if drawing == SamplingRule::WithReplacement || !tuple.contains(row) {
                    let mut next: Vec<Vec<i64>> = tuple.clone();
                    next.push(row.clone());
                    longer.push(next);
                }
            }
        }
        found = longer;
    }
    found
}

fn permutations(m: usize) -> Vec<Vec<usize>> {
    let mut found = vec![Vec::new()];
    for _ in 0..m {
        found = found
            .iter()
            .flat_map(|order: &Vec<usize>| {
                (0..m).filter(|i| !order.contains(i)).map(|i| order.iter().copied().chain([i]).collect())
            })
            .collect();
    }
    found
}

/// Everything that row y can show the user, each equally likely.
fn shown(setting: &LeakageModel, x: &[i64], y: &[i64]) -> Vec<Seen> {
    let immutable = setting.immutable as usize;
    let square = |range: std::ops::Range<usize>| range.map(|k| (x[k] - y[k]).pow(2)).sum::<i64>();
    let (fixed, free) = (square(0..immutable), square(immutable..x.len()));
    match setting.scheme.decoded {
        // Phase 1 shows ρ·E; phase 2 the distance of the rows with E = 0, and ‖x‖² for all others.
        _ if setting.scheme.name == "two-phase" => {
            let second = if fixed == 0 { free } else { x.iter().map(|v| v * v).sum::<i64>() };
            (1..Q).map(|rho| vec![rho * fixed % Q, second]).collect()
        }
        Decoded::Values | Decoded::Differences => vec![vec![fixed + free]],
        Decoded::Masked => (0..i64::from(setting.d_min)).map(|mask| vec![fixed + free + mask]).collect(),
        Decoded::Partials => vec![vec![1000 * fixed + free]],
        Decoded::Gated => (1..Q)
            .flat_map(|rho| (0..Q).map(move |sigma| vec![rho * fixed % Q, (fixed + free + sigma * fixed) % Q]))
            .collect(),
        // No row shows anything by itself.
        Decoded::Nearest => vec![vec![]],
    }
}

/// All that the user can see of a database, with multiplicity.
fn views(setting: &LeakageModel, x: &[i64], rows: &[Vec<i64>]) -> Vec<Seen> {
    if setting.scheme.decoded == Decoded::Nearest {
        let fits = |y: &&Vec<i64>| (0..setting.immutable as usize).all(|k| x[k] == y[k]);
        let distance = |y: &&Vec<i64>| x.iter().zip(*y).map(|(a, b)| (a - b).pow(2)).sum::<i64>();
        return vec![rows.iter().filter(fits).min_by_key(distance).cloned().unwrap_or_default()];
    }
    let mut views: Vec<Vec<Seen>> = vec![Vec::new()];
    for y in rows {
        let options = shown(setting, x, y);
        views = views
            .iter()
            .flat_map(|view| options.iter().map(move |option| view.iter().cloned().chain([option.clone()]).collect()))
            .collect();
    }
    let orders = match setting.order {
        RowOrder::Fixed => vec![(0..rows.len()).collect()],
        RowOrder::Shuffled => permutations(rows.len()),
    };
    let mut seen = Vec::new();
    for view in &views {
        for order in &orders {
            let mut values: Seen = order.iter().flat_map(|&i| view[i].clone()).collect();
            if setting.scheme.decoded == Decoded::Differences {
                values = values.windows(2).map(|pair| pair[0] - pair[1]).collect();
            }
            seen.push(values);
        }
    }
    seen
}

fn entropy(counts: &HashMap<Seen, f64>) -> f64 {
    let total: f64 = counts.values().sum();
    counts.values().map(|count| -(count / total) * (count / total).log2()).sum()
}

fn by_definition(setting: &LeakageModel) -> f64 {
    let points = points(setting.r, setting.d);
    let mut bits = 0.0;
    for x in &points {
        let others: Vec<Vec<i64>> = points.iter().filter(|y| *y != x).cloned().collect();
        let databases = tuples(&others, setting.m, setting.drawing);
        let mut all: HashMap<Seen, f64> = HashMap::new();
        let mut given_rows = 0.0;
        for rows in &databases {
            let mut one: HashMap<Seen, f64> = HashMap::new();
            for view in views(setting, x, rows) {
                *one.entry(view.clone()).or_default() += 1.0;
                *all.entry(view).or_default() += 1.0;
            }
            given_rows += entropy(&one) / databases.len() as f64;
        }
        bits += (entropy(&all) - given_rows) / points.len() as f64;
    }
    bits
}

#[test]
fn classes_give_what_the_definition_gives() {
    let mut compared = 0;
    for (name, r, d, m, d_min, immutable) in [
        ("baseline", 2, 2, 3, 1, 0),
        ("baseline", 3, 1, 3, 1, 0),
        ("diff", 2, 2, 3, 1, 0),
        ("diff", 4, 1, 4, 1, 0),
        ("mask", 2, 2, 3, 2, 0),
        ("mask", 2, 2, 2, 3, 0),
        ("mask", 3, 1, 3, 4, 0),
        ("single-phase", 2, 2, 2, 1, 1),
        ("single-phase", 1, 3, 3, 1, 2),
        ("gated", 1, 2, 2, 1, 1),
        ("gated", 1, 3, 2, 1, 2),
        ("two-phase", 1, 2, 2, 1, 0),
        ("two-phase", 1, 3, 2, 1, 1),
        ("two-phase", 1, 3, 2, 1, 2),
        ("sealed", 2, 2, 3, 1, 0),
        ("sealed", 2, 2, 3, 1, 1),
        ("sealed", 1, 3, 2, 1, 2),
    ] {
        for order in [RowOrder::Fixed, RowOrder::Shuffled] {
            for drawing in [SamplingRule::WithoutReplacement, SamplingRule::WithReplacement] {
                let scheme = LeakageScheme::named(name).unwrap();
                let setting = LeakageModel { d_min, immutable, order, drawing, ..LeakageModel::new(scheme, r, d, m) };
                let (ours, definition) = (exact(&setting, Population::Grid).unwrap(), by_definition(&setting));
                assert!(
                    (ours - definition).abs() < 1e-9,
                    "{name} R={r} d={d} M={m} {order:?} {drawing:?}: {ours} instead of {definition}"
                );
                compared += 1;
            }
        }
    }
    assert_eq!(compared, 68);
}

/// By the definition, from the symbols themselves: not because one table says that both decode the
/// same.
#[test]
fn gated_shows_as_much_as_two_phase_for_every_immutable_set() {
    for immutable in 0..=3 {
        let of = |name| {
            let setting = LeakageModel { immutable, ..LeakageModel::new(LeakageScheme::named(name).unwrap(), 1, 3, 2) };
            by_definition(&setting)
        };
        let (gated, two_phase) = (of("gated"), of("two-phase"));
        assert!((gated - two_phase).abs() < 1e-9, "|I|={immutable}: {gated} and {two_phase}");
    }
}
