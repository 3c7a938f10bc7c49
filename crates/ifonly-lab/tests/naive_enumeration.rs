//! The leakage computed from classes equals the leakage by its definition.
//!
//! The definition is evaluated by enumeration: every x, every tuple of rows, every mask, every row
//! order, and for gated schemes every ρ and σ of a tiny field. The mutual information is computed
//! from the joint distribution.

use std::collections::HashMap;

use ifonly_lab::leakage::{
    Decoded, LeakageModel, LeakageScheme, Population, RowOrder, SamplingRule, exact, with_record,
};

/// The order of the field of gated schemes. It exceeds every distance below.
const Q: i64 = 7;

/// What the user observes.
type View = Vec<i64>;

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

/// The values that row y can reveal to the user, all equally likely.
fn row_views(model: &LeakageModel, x: &[i64], y: &[i64]) -> Vec<View> {
    let immutable = model.immutable as usize;
    let square = |range: std::ops::Range<usize>| range.map(|k| (x[k] - y[k]).pow(2)).sum::<i64>();
    let (fixed, free) = (square(0..immutable), square(immutable..x.len()));
    match model.scheme.decoded {
        // Phase 0 reveals ρ·E. Phase 1 reveals the distance of the rows with E = 0, and ‖x‖² for
        // all others.
        _ if model.scheme.name == "two-phase" => {
            let second = if fixed == 0 { free } else { x.iter().map(|v| v * v).sum::<i64>() };
            (1..Q).map(|rho| vec![rho * fixed % Q, second]).collect()
        }
        Decoded::Values | Decoded::Differences => vec![vec![fixed + free]],
        Decoded::Masked => (0..i64::from(model.d_min)).map(|mask| vec![fixed + free + mask]).collect(),
        Decoded::Partials => vec![vec![1000 * fixed + free]],
        Decoded::Gated => (1..Q)
            .flat_map(|rho| (0..Q).map(move |sigma| vec![rho * fixed % Q, (fixed + free + sigma * fixed) % Q]))
            .collect(),
        // A single row reveals nothing.
        Decoded::Nearest => vec![vec![]],
    }
}

/// All views of a database, with multiplicity.
fn views(model: &LeakageModel, x: &[i64], rows: &[Vec<i64>], record: bool) -> Vec<View> {
    if model.scheme.decoded == Decoded::Nearest {
        let matches = |y: &&Vec<i64>| (0..model.immutable as usize).all(|k| x[k] == y[k]);
        let distance = |y: &&Vec<i64>| x.iter().zip(*y).map(|(a, b)| (a - b).pow(2)).sum::<i64>();
        let Some(nearest) = rows.iter().filter(matches).min_by_key(distance) else { return vec![vec![]] };
        return vec![if record { nearest.clone() } else { vec![distance(&nearest)] }];
    }
    let mut views: Vec<Vec<View>> = vec![Vec::new()];
    for y in rows {
        let options = row_views(model, x, y);
        views = views
            .iter()
            .flat_map(|view| options.iter().map(move |option| view.iter().cloned().chain([option.clone()]).collect()))
            .collect();
    }
    let orders = match model.order {
        RowOrder::Fixed => vec![(0..rows.len()).collect()],
        RowOrder::Shuffled => permutations(rows.len()),
    };
    let mut ordered = Vec::new();
    for view in &views {
        for order in &orders {
            let mut values: View = order.iter().flat_map(|&i| view[i].clone()).collect();
            // The record of the first row with the smallest decoded value.
            let nearest = order.iter().min_by_key(|&&i| view[i][0]);
            if model.scheme.decoded == Decoded::Differences {
                values = values.windows(2).map(|pair| pair[0] - pair[1]).collect();
            }
            if let Some(&nearest) = nearest.filter(|_| record) {
                values.extend(&rows[nearest]);
            }
            ordered.push(values);
        }
    }
    ordered
}

fn entropy(counts: &HashMap<View, f64>) -> f64 {
    let total: f64 = counts.values().sum();
    counts.values().map(|count| -(count / total) * (count / total).log2()).sum()
}

fn by_definition(model: &LeakageModel, record: bool) -> f64 {
    let points = points(model.r, model.d);
    let mut bits = 0.0;
    for x in &points {
        let others: Vec<Vec<i64>> = points.iter().filter(|y| *y != x).cloned().collect();
        let databases = tuples(&others, model.m, model.drawing);
        let mut all: HashMap<View, f64> = HashMap::new();
        let mut given_rows = 0.0;
        for rows in &databases {
            let mut one: HashMap<View, f64> = HashMap::new();
            for view in views(model, x, rows, record) {
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
fn leakage_from_classes_equals_leakage_by_definition() {
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
                let model = LeakageModel { d_min, immutable, order, drawing, ..LeakageModel::new(scheme, r, d, m) };
                let (ours, definition) = (exact(&model, Population::Grid).unwrap(), by_definition(&model, false));
                assert!(
                    (ours - definition).abs() < 1e-9,
                    "{name} R={r} d={d} M={m} {order:?} {drawing:?}: {ours} instead of {definition}"
                );
                compared += 1;
                if !["baseline", "diff", "mask", "sealed"].contains(&name) {
                    continue;
                }
                let (ours, definition) = (with_record(&model, Population::Grid).unwrap(), by_definition(&model, true));
                let near = (ours.bits - definition).abs() < 1e-9 || ours.is_bound && ours.bits > definition;
                assert!(near, "{name} R={r} d={d} M={m} {order:?} {drawing:?}, record: {ours:?}, not {definition}");
            }
        }
    }
    assert_eq!(compared, 68);
}

/// Computed by definition from the decoded field elements. It does not rely on [`Decoded::Gated`],
/// which both schemes have.
#[test]
fn gated_reveals_as_much_as_two_phase_for_every_immutable_set() {
    for immutable in 0..=3 {
        let of = |name| {
            let model = LeakageModel { immutable, ..LeakageModel::new(LeakageScheme::named(name).unwrap(), 1, 3, 2) };
            by_definition(&model, false)
        };
        let (gated, two_phase) = (of("gated"), of("two-phase"));
        assert!((gated - two_phase).abs() < 1e-9, "|I|={immutable}: {gated} and {two_phase}");
    }
}
